"""Whose turn it is to change to another default image."""

from __future__ import annotations

from kraftquorum_operator.memory.image_turn import ImageTurn


def test_one_quorum_at_a_time_and_the_next_once_all_is_well_with_it() -> None:
    turn = ImageTurn()
    assert turn.rests("a", wants=True)
    assert not turn.rests("b", wants=True)
    turn.rolls("a")
    turn.rolls("b")
    assert turn.holder == "a", "it rolls; nothing is known of its end"
    assert not turn.rests("a", wants=False)
    assert turn.rests("b", wants=True)


def test_a_quorum_that_is_gone_holds_no_other_up() -> None:
    turn = ImageTurn()
    assert turn.rests("a", wants=True)
    turn.give_up("b")
    assert not turn.rests("b", wants=True)
    turn.give_up("a")
    assert turn.rests("b", wants=True)


def test_a_new_operator_gives_the_turn_to_a_quorum_that_rolls() -> None:
    turn = ImageTurn()
    turn.rolls("a")
    assert not turn.rests("b", wants=True)
