"""Checks whether a history of puts, deletes and gets is possible with a single atomic map.

A history is *linearizable* if each operation can be given a moment between its call and its
return, so that all of them, done one after the other in that order, return what they did
return (Herlihy and Wing 1990). Keys are independent, so each is judged alone.

Where no two writes of a key wrote the same, each get says which write it saw. Then the times
between which each value must have been there decide it in a moment (Gibbons and Korach 1997).
Else orders are searched for, as Wing and Gong (1993) do with Lowe's memory of what was tried
(2017): take any operation that no other one ended before, see whether its answer fits, go on,
go back. That takes long where many writes of a key overlap: let tests write each value once.

An operation whose outcome is unknown may have happened at any later time, or never. Times
are any numbers that grow; two operations with a return and a call at the same time overlap.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Operation(Generic[V]):
    """One operation on one key.

    Attributes:
        key: which.
        is_write: a put, or with the value None a delete; else a get.
        value: what was written, or what was read; None: nothing is there.
        called_at: before anything of it was done.
        returned_at: when it was answered; infinite: never, it may or may not be done.
        client: who asked, for the reader of a violation.
    """

    key: bytes
    is_write: bool
    value: V | None
    called_at: float
    returned_at: float
    client: str = ""

    def __str__(self) -> str:
        what = f"put {self.value!r}" if self.is_write else f"get gives {self.value!r}"
        end = "open" if math.isinf(self.returned_at) else f"{self.returned_at:g}"
        return f"{self.called_at:g} to {end} {self.client} {self.key!r}: {what}"


@dataclass(frozen=True, slots=True)
class Violation(Generic[V]):
    """A key whose operations fit no order.

    Attributes:
        key: which.
        value: what it holds after the longest order that fits, or must have held.
        explained: how many operations are not in question.
        stuck: the operations that no order fits together, or none of which fits next.
    """

    key: bytes
    value: V | None
    explained: int
    stuck: tuple[Operation[V], ...]

    def __str__(self) -> str:
        waiting = "; ".join(str(operation) for operation in self.stuck)
        return f"{self.key!r} holds {self.value!r}; {self.explained} fit, but not: {waiting}"


@dataclass(slots=True)
class History(Generic[V]):
    """Collects what clients did, in the order in which it became known."""

    operations: list[Operation[V]] = field(default_factory=list[Operation[V]])
    _open: dict[int, Operation[V]] = field(default_factory=dict[int, Operation[V]])
    _calls: int = 0

    def called(
        self, key: bytes, at: float, *, is_write: bool, value: V | None = None, client: str = ""
    ) -> int:
        """Note that an operation begins; return its number."""
        self._calls += 1
        self._open[self._calls] = Operation(key, is_write, value, at, math.inf, client)
        return self._calls

    def returned(self, call: int, at: float, *, value: V | None = None) -> None:
        """Note an answer; `value` is the result of a get."""
        operation = self._open.pop(call)
        result = operation.value if operation.is_write else value
        self.operations.append(replace(operation, value=result, returned_at=at))

    def failed(self, call: int) -> None:
        """Note that an operation certainly did not happen."""
        del self._open[call]

    def all(self) -> list[Operation[V]]:
        """Return all operations; without an answer, a write is open and a get is left out."""
        return [
            *self.operations,
            *(operation for operation in self._open.values() if operation.is_write),
        ]


def check(operations: Iterable[Operation[V]]) -> Violation[V] | None:
    """Judge a history; None: it is linearizable."""
    by_key: defaultdict[bytes, list[Operation[V]]] = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    for key in sorted(by_key):
        violation = _check_key(key, by_key[key])
        if violation is not None:
            return violation
    return None


def _relevant(operations: list[Operation[V]]) -> list[Operation[V]]:
    """Without open writes of a value that no get saw: an order that has one fits without it."""
    values_read = {operation.value for operation in operations if not operation.is_write}
    return [
        operation
        for operation in operations
        if not math.isinf(operation.returned_at) or operation.value in values_read
    ]


def _check_key(key: bytes, operations: list[Operation[V]]) -> Violation[V] | None:
    relevant = _relevant(operations)
    written = [operation.value for operation in relevant if operation.is_write]
    if None not in written and len(set(written)) == len(written):
        return _check_zones(key, relevant)
    return _search(key, relevant)


# -- values that are written once ----------------------------------------------------


@dataclass(slots=True)
class _Cluster(Generic[V]):
    """A write and the gets that saw its value; the value that is there at first has no write."""

    value: V | None
    write: Operation[V] | None = None
    gets: list[Operation[V]] = field(default_factory=list[Operation[V]])

    @property
    def all(self) -> list[Operation[V]]:
        """Its operations."""
        return self.gets if self.write is None else [self.write, *self.gets]

    @property
    def first_end(self) -> float:
        """The value must be there at this time, or ..."""
        ends = (operation.returned_at for operation in self.all)
        return min(ends) if self.write is not None or self.value is not None else -math.inf

    @property
    def last_call(self) -> float:
        """... from the first end until this time, if it comes later; else anywhere between."""
        return max((operation.called_at for operation in self.all), default=-math.inf)


def _check_zones(key: bytes, operations: list[Operation[V]]) -> Violation[V] | None:
    clusters: dict[V | None, _Cluster[V]] = {None: _Cluster(None)}
    for operation in operations:
        cluster = clusters.setdefault(operation.value, _Cluster(operation.value))
        if operation.is_write:
            cluster.write = operation
        else:
            cluster.gets.append(operation)
    for cluster in clusters.values():
        early = [
            get
            for get in cluster.gets
            if cluster.value is not None
            and (cluster.write is None or get.returned_at < cluster.write.called_at)
        ]
        if early:
            return Violation(key, None, len(operations) - len(early), tuple(early))
    kept = sorted(clusters.values(), key=lambda cluster: (cluster.first_end, cluster.last_call))
    forward = [cluster for cluster in kept if cluster.first_end < cluster.last_call]
    for before, after in pairwise(forward):
        if after.first_end < before.last_call:
            return _clash(key, operations, before, after)
    for within in kept:
        if within.first_end < within.last_call or not within.all:
            continue
        place = bisect_left(forward, within.last_call, key=lambda cluster: cluster.first_end) - 1
        if place >= 0 and within.first_end < forward[place].last_call:
            return _clash(key, operations, forward[place], within)
    return None


def _clash(
    key: bytes, operations: list[Operation[V]], held: _Cluster[V], other: _Cluster[V]
) -> Violation[V]:
    """Two values that must both have been there at one time."""
    stuck = tuple(sorted([*held.all, *other.all], key=lambda operation: operation.called_at))
    return Violation(key, held.value, len(operations) - len(stuck), stuck)


# -- any values ------------------------------------------------------------------------


def _search(key: bytes, operations: list[Operation[V]]) -> Violation[V] | None:
    ordered = sorted(operations, key=lambda operation: operation.called_at)
    wanted = sum(
        1 << at for at, operation in enumerate(ordered) if not math.isinf(operation.returned_at)
    )
    stack: list[tuple[int, V | None]] = [(0, None)]
    tried = set(stack)
    furthest = stack[0]
    while stack:
        done, value = stack.pop()
        if done & wanted == wanted:
            return None
        if done.bit_count() > furthest[0].bit_count():
            furthest = (done, value)
        for at in _next(ordered, done, value):
            operation = ordered[at]
            following = (done | 1 << at, operation.value if operation.is_write else value)
            if following not in tried:
                tried.add(following)
                stack.append(following)
    done, value = furthest
    stuck = tuple(ordered[at] for at in _possible(ordered, done))
    return Violation(key, value, done.bit_count(), stuck)


def _possible(ordered: list[Operation[V]], done: int) -> list[int]:
    """What may come next: no operation that is not done ended before it was called."""
    indices: list[int] = []
    first_end = math.inf
    for at in range((~done & done + 1).bit_length() - 1, len(ordered)):
        if done >> at & 1:
            continue
        operation = ordered[at]
        if operation.called_at > first_end:
            break
        indices.append(at)
        first_end = min(first_end, operation.returned_at)
    return indices


def _next(ordered: list[Operation[V]], done: int, value: V | None) -> list[int]:
    """Which of them to try: a get that fits changes nothing, so no other need be tried."""
    possible = _possible(ordered, done)
    for at in possible:
        if not ordered[at].is_write and ordered[at].value == value:
            return [at]
    return [at for at in possible if ordered[at].is_write]
