"""Which connection gives way; breaking any rule of `ConnectionLimits` makes one of these fail."""

from __future__ import annotations

from raftnode.limits.connections import ConnectionLimits
from raftnode.limits.model import Limit


class Connection:
    def __init__(self, name: str) -> None:
        self.name = name
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True

    def __repr__(self) -> str:
        return self.name


class Listener:
    def __init__(self, most: int, most_each: int, reserved: int = 2) -> None:
        self.refused: list[tuple[Limit, str]] = []
        self.limits = ConnectionLimits(
            most, most_each, lambda limit, address: self.refused.append((limit, address)), reserved
        )
        self.admitted: dict[str, bool] = {}

    def enter(self, address: str, count: int = 1, *, busy: bool = False) -> list[Connection]:
        made = [Connection(f"{address}-{number}") for number in range(count)]
        for connection in made:
            self.admitted[connection.name] = self.limits.enter(connection, address)
            if busy:
                self.limits.busy(connection)
        return made


def test_an_address_with_too_many_loses_its_own_oldest_idle_one() -> None:
    listener = Listener(10, 3)
    [other] = listener.enter("b")
    first, second, third = listener.enter("a", 3)
    listener.limits.busy(first)
    listener.enter("a")
    assert (first.is_cut, second.is_cut, third.is_cut, other.is_cut) == (False, True, False, False)
    assert listener.refused == [(Limit.ADDRESS_CONNECTIONS, "a")]
    assert listener.limits.total == 4


def test_with_too_many_in_total_the_address_with_most_loses_an_idle_one() -> None:
    listener = Listener(4, 4)
    few, many = listener.enter("b"), listener.enter("a", 3)
    listener.enter("c")
    assert [one.is_cut for one in (*few, *many)] == [False, True, False, False]
    assert listener.refused == [(Limit.CONNECTIONS, "c")]


def test_an_answered_connection_is_idle_again_and_the_newest() -> None:
    listener = Listener(10, 2)
    first, second = listener.enter("a", 2)
    listener.limits.busy(first)
    listener.limits.idle(first)
    listener.enter("a")
    assert (first.is_cut, second.is_cut) == (False, True)


def test_an_address_with_few_takes_a_busy_one_from_the_address_with_most() -> None:
    listener = Listener(4, 4)
    first, *rest = listener.enter("a", 4, busy=True)
    listener.enter("b")
    assert first.is_cut
    assert not any(one.is_cut for one in rest)
    assert listener.admitted["b-0"]


def test_where_all_are_busy_the_reserve_takes_the_next_ones_and_cuts_an_idle_one() -> None:
    listener = Listener(2, 2)
    busy = listener.enter("a", 2, busy=True)
    first, second = listener.enter("a", 2)
    assert listener.limits.reserved == 2
    listener.limits.busy(first)
    listener.enter("a")
    assert not any(one.is_cut for one in busy)
    assert (first.is_cut, second.is_cut) == (False, True)
    assert (listener.limits.reserved, listener.limits.total) == (2, 2)
    listener.limits.leave(first)
    assert listener.limits.reserved == 1


def test_a_connection_that_left_frees_its_place() -> None:
    listener = Listener(1, 1)
    [first] = listener.enter("a")
    listener.limits.leave(first)
    listener.limits.leave(first)
    listener.limits.busy(first)
    listener.limits.idle(first)
    listener.enter("b")
    assert listener.refused == []
    assert not first.is_cut
