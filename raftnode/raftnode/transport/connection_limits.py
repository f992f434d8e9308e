"""Limits on connections: with too many, those of strangers are closed first, of voters last.

A connection waits in the `Lobby` from when it is accepted until its hello was judged, for a
limited time. Then it takes one of the `Seats`. Both always have room for one more connection, and
make it by cutting off another: of the connections of the lowest rank, the oldest from the address
that holds most. So an address with many connections displaces its own, and a voter gets in however
many there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from aiohttp.base_protocol import BaseProtocol

from raftnode.core.types import ReplicaKey

C = TypeVar("C", bound=Hashable)


class Rank(IntEnum):
    """The rank of a connection's replica; a connection of the lowest rank is closed first."""

    STRANGER = 0
    """An unknown replica, including one with a new disk that has asked for nothing yet."""
    OBSERVER = 1
    """A replica that fetches from this one."""
    VOTER = 2


def who_goes(held: Iterable[tuple[C, Rank, str]]) -> tuple[C, Rank] | None:
    """Choose the connection that gives way; None if there is none.

    Args:
        held: connections from the oldest to the newest, with rank and address.
    """
    everyone = list(held)
    if not everyone:
        return None
    lowest = min(rank for _, rank, _ in everyone)
    candidates = [(connection, address) for connection, rank, address in everyone if rank is lowest]
    held_by = Counter(address for _, address in candidates)
    most = max(held_by.values())
    return next(
        (connection, lowest) for connection, address in candidates if held_by[address] == most
    )


class Lobby:
    """Connections whose replica is not known yet.

    Args:
        places: how many may wait at once.
        wait_s: how long each may wait, from when it is accepted to its hello.
    """

    def __init__(self, places: int, wait_s: float) -> None:
        self._places = places
        self._wait_s = wait_s
        self._waiting: dict[BaseProtocol, asyncio.TimerHandle] = {}

    def enter(self, connection: BaseProtocol) -> None:
        """Add a connection that was just made; nothing happens if it was added before."""
        if connection in self._waiting or connection.transport is None:
            return
        if len(self._waiting) >= self._places:
            for gone in [waiting for waiting in self._waiting if waiting.transport is None]:
                self.leave(gone)
        while len(self._waiting) >= self._places:
            chosen = who_goes(
                (waiting, Rank.STRANGER, address_of(waiting)) for waiting in self._waiting
            )
            assert chosen is not None, "a lobby needs at least one place"  # noqa: S101
            self._send_away(chosen[0])
        loop = asyncio.get_running_loop()
        self._waiting[connection] = loop.call_later(self._wait_s, self._send_away, connection)

    def leave(self, connection: BaseProtocol) -> None:
        """Remove a connection that sent its hello, or ended."""
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _send_away(self, connection: BaseProtocol) -> None:
        self.leave(connection)
        if connection.transport is not None:
            connection.transport.abort()


@dataclass(frozen=True, slots=True)
class _Seat(Generic[C]):
    key: ReplicaKey
    connection: BaseProtocol
    owner: C


class Seats(Generic[C]):
    """Connections of replicas whose hello was accepted.

    Args:
        places: how many may be taken at once.
        rank: the present rank of a replica.
    """

    def __init__(self, places: int, rank: Callable[[ReplicaKey], Rank]) -> None:
        self._places = places
        self._rank = rank
        self._taken: dict[C, _Seat[C]] = {}

    @property
    def connections(self) -> Counter[ReplicaKey]:
        """How many connections each replica has."""
        return Counter(seat.key for seat in self._taken.values())

    def of(self, key: ReplicaKey) -> list[C]:
        """A replica's connections, the oldest first."""
        return [owner for owner, seat in self._taken.items() if seat.key == key]

    def take(self, owner: C, key: ReplicaKey, connection: BaseProtocol) -> bool:
        """Take a seat, if need be from one that ranks no higher; False: all others rank higher."""
        while len(self._taken) >= self._places:
            chosen = who_goes(
                (seat, self._rank(seat.key), address_of(seat.connection))
                for seat in self._taken.values()
            )
            if chosen is None or chosen[1] > self._rank(key):
                return False
            seat, _ = chosen
            self.leave(seat.owner)
            if seat.connection.transport is not None:
                seat.connection.transport.abort()
        self._taken[owner] = _Seat(key, connection, owner)
        return True

    def leave(self, owner: C) -> None:
        """Give a seat back; nothing happens if it has none."""
        self._taken.pop(owner, None)


def address_of(connection: BaseProtocol) -> str:
    """The address that a connection came from, without its port."""
    transport = connection.transport
    peer_name = transport.get_extra_info("peername") if transport is not None else None
    return str(peer_name[0]) if peer_name else ""
