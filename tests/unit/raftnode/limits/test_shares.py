"""Counts with a limit; a holder of little gets a part whichever others have much."""

from __future__ import annotations

import pytest

from raftnode.limits.fair_queue import FairQueue
from raftnode.limits.shares import FreeShares, Shares


def test_a_holder_and_all_holders_have_their_limit() -> None:
    shares = Shares(3, 2)
    assert [shares.take("a") for _ in range(3)] == [None, None, "holder"]
    assert [shares.take("b"), shares.take("b"), shares.take("c")] == [None, "total", "total"]
    shares.give_back("a")
    assert shares.take("c") is None
    assert (shares.of("a"), shares.of("b"), shares.of("c"), shares.total) == (1, 1, 1, 3)


def test_more_than_was_taken_cannot_be_given_back() -> None:
    shares = Shares(3, 2)
    assert shares.take("a") is None
    with pytest.raises(ValueError, match="gives back 2 and has 1"):
        shares.give_back("a", 2)


@pytest.mark.parametrize("holders", [1, 2, 4, 20])
def test_holders_that_take_all_they_can_leave_room_for_one_that_has_little(holders: int) -> None:
    most = 10_000
    shares = FreeShares(most)
    for _ in range(most):
        for holder in range(holders):
            shares.take(f"{holder}", 10)
    left = most - shares.total
    assert left >= most // (holders + 2)
    assert shares.take("other", left // 2)
    shares.give_back("other", left // 2)
    assert shares.of("other") == 0


def test_a_queue_serves_its_holders_in_turn() -> None:
    queue = FairQueue[str]()
    for holder, item in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")):
        queue.put(holder, item)
    served: list[str] = []
    while queue:
        served.append(queue.pop())
    assert served == ["a1", "b1", "c1", "a2", "a3"]
