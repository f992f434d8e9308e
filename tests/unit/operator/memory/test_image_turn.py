"""Whose turn it is to change to another default image."""

from __future__ import annotations

from kraftquorum_operator.memory.image_turn import ImageTurn
from kraftquorum_operator.model.objects import Owner

A, B = Owner("north", "demo", "a"), Owner("south", "demo", "b")


def test_one_quorum_at_a_time_and_the_next_once_all_is_well_with_it() -> None:
    turn = ImageTurn()
    assert turn.rests(A, wants=True)
    assert not turn.rests(B, wants=True)
    turn.rolls(A)
    turn.rolls(B)
    assert turn.holder == A, "it rolls; nothing is known of its end"
    assert not turn.rests(A, wants=False)
    assert turn.rests(B, wants=True)


def test_a_quorum_that_is_gone_holds_no_other_up() -> None:
    turn = ImageTurn()
    assert turn.rests(A, wants=True)
    turn.give_up("b")
    assert not turn.rests(B, wants=True)
    turn.give_up("a")
    assert turn.rests(B, wants=True)


def test_a_new_operator_gives_the_turn_to_a_quorum_that_rolls() -> None:
    turn = ImageTurn()
    turn.rolls(A)
    assert not turn.rests(B, wants=True)


def test_a_quorum_that_waits_says_for_which() -> None:
    turn = ImageTurn()
    assert not turn.wait_of(B, "node:2")
    assert turn.rests(A, wants=True)
    assert "node:2 waits for quorum demo in namespace north" in turn.wait_of(B, "node:2")
    assert not turn.wait_of(B, None), "it has the image"
    assert not turn.wait_of(A, "node:2"), "its turn"
    turn.give_up("a")
    assert not turn.wait_of(B, "node:2")
