"""Which connection gives way when clients hold too many.

There is always room for one more: an idle connection is closed for it, of the address itself if
that has too many, otherwise of the address that has most. A connection is idle until the head of
a request has arrived whole, so one that trickles counts as idle. If all have a request in flight,
the address that has most gives way to one that has fewer. The last resort is the reserve, for
connections that may only ask for administration, health and metrics.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from raftnode.limits.model import Limit, OnRefused
from raftnode.transport.connection_limits import Rank, who_goes


class Held(Hashable, Protocol):
    """A connection."""

    def cut(self) -> None:
        """Close it at once."""
        ...


class _Address:
    """The connections of one address, each part from the oldest to the newest."""

    __slots__ = ("busy", "idle")

    def __init__(self) -> None:
        self.idle: dict[Held, None] = {}
        self.busy: dict[Held, None] = {}

    def __len__(self) -> int:
        return len(self.idle) + len(self.busy)


class ConnectionLimits:
    """The connections of a listener.

    Invariant: `total` is the number of connections in `_addresses`; an address without a
    connection is not in the table.

    Args:
        most: in total.
        most_each: of one address.
        on_refused: is called for each connection that had to give way or is restricted.
        reserved: how many may be in the reserve; each is closed after one answer.
    """

    def __init__(self, most: int, most_each: int, on_refused: OnRefused, reserved: int) -> None:
        self._most = most
        self._most_each = most_each
        self._on_refused = on_refused
        self._reserved_max = reserved
        self._addresses: dict[str, _Address] = {}
        self._reserve: dict[Held, tuple[Rank, str]] = {}
        self._of: dict[Held, str] = {}
        self.total = 0

    @property
    def reserved(self) -> int:
        """How many connections are in the reserve."""
        return len(self._reserve)

    def enter(self, connection: Held, address: str) -> bool:
        """Add a connection, idle at first; False: it is in the reserve, and so restricted."""
        own = self._addresses.get(address)
        held = len(own) if own is not None else 0
        if own is not None and held >= self._most_each:
            limit, donor = Limit.ADDRESS_CONNECTIONS, own
        elif self.total >= self._most:
            limit, donor = Limit.CONNECTIONS, max(self._addresses.values(), key=len)
        else:
            self._add(connection, address)
            return True
        gives_way = next(iter(donor.idle), None)
        if gives_way is None and len(donor) > held + 1:
            gives_way = next(iter(donor.busy))
        self._on_refused(limit, address)
        if gives_way is None:
            self._add_to_reserve(connection, address)
            return False
        self.leave(gives_way)
        gives_way.cut()
        self._add(connection, address)
        return True

    def busy(self, connection: Held) -> None:
        """Note that a request of the connection is in flight."""
        if connection in self._reserve:
            self._reserve[connection] = Rank.VOTER, self._reserve[connection][1]
        elif (address := self._of.get(connection)) is not None:
            of = self._addresses[address]
            of.idle.pop(connection, None)
            of.busy[connection] = None

    def idle(self, connection: Held) -> None:
        """Note that the connection's request was answered."""
        if connection in self._reserve:
            self._reserve[connection] = Rank.STRANGER, self._reserve[connection][1]
        elif (address := self._of.get(connection)) is not None:
            of = self._addresses[address]
            of.busy.pop(connection, None)
            of.idle[connection] = None

    def leave(self, connection: Held) -> None:
        """Remove a connection; nothing happens if it was removed before."""
        self._reserve.pop(connection, None)
        address = self._of.pop(connection, None)
        if address is None:
            return
        of = self._addresses[address]
        of.idle.pop(connection, None)
        of.busy.pop(connection, None)
        self.total -= 1
        if not of:
            del self._addresses[address]

    def _add(self, connection: Held, address: str) -> None:
        self._addresses.setdefault(address, _Address()).idle[connection] = None
        self._of[connection] = address
        self.total += 1

    def _add_to_reserve(self, connection: Held, address: str) -> None:
        while len(self._reserve) >= self._reserved_max:
            chosen = who_goes((held, rank, of) for held, (rank, of) in self._reserve.items())
            assert chosen is not None, "a reserve needs at least one place"  # noqa: S101
            del self._reserve[chosen[0]]
            chosen[0].cut()
        self._reserve[connection] = Rank.STRANGER, address
