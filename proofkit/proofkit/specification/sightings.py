"""What can be seen of a replica from outside its core, as plain data that goes through a file.

Sightings are in the words of the implementation (offsets, effects). `recorder` turns them into
steps of the specification.
"""

from __future__ import annotations

import zlib
from typing import Final, Literal

import msgspec

from raftnode.core.effects import (
    AppendBatches,
    Effect,
    Fact,
    HighWatermarkAdvanced,
    InstallSnapshot,
    PersistLatch,
    PersistQuorumState,
    SendRequest,
    TruncateLog,
)
from raftnode.core.events import Event, LogFlushed
from raftnode.core.messages import FetchRequest
from raftnode.core.records import AddVoter, Batch, LeaderChange, RemoveVoter
from raftnode.core.replica import Replica
from raftnode.core.roles import role_name
from raftnode.core.types import ReplicaKey, VoterSet

_CHECKSUM: Final = slice(17, 21)
"""Of a record batch in Kafka's format: it covers what a leader does not stamp."""


class Sighted(msgspec.Struct, frozen=True, tag=True):
    """Something that a replica did or said."""


class Started(Sighted, frozen=True, tag=True):
    """A process began on what its disk holds."""

    epoch: int
    leader: str | None
    voted: str | None
    end: int
    last_epoch: int
    high_watermark: int


class Formed(Sighted, frozen=True, tag=True):
    """It knows the voters that the quorum was formed with."""

    voters: list[str]


class Persisted(Sighted, frozen=True, tag=True):
    """It stored epoch, leader and vote."""

    epoch: int
    leader: str | None
    voted: str | None


class RoleChanged(Sighted, frozen=True, tag=True):
    """It took a role."""

    role: str


class Entry(msgspec.Struct, frozen=True):
    """A batch of its log.

    Attributes:
        kind: what it means for the quorum.
        of: the voter that is added or removed, or what tells the batch from others.
    """

    end: int
    epoch: int
    kind: Literal["leader", "add", "remove", "data"]
    of: str


class Appended(Sighted, frozen=True, tag=True):
    """It appended batches."""

    entries: list[Entry]


class Truncated(Sighted, frozen=True, tag=True):
    """It cut its log."""

    end: int


class Installed(Sighted, frozen=True, tag=True):
    """It put a snapshot in the place of its log."""

    end: int
    epoch: int


class Flushed(Sighted, frozen=True, tag=True):
    """It learned that its log is durable up to an offset."""

    end: int


class Committed(Sighted, frozen=True, tag=True):
    """It raised its high watermark."""

    high_watermark: int


class Fetched(Sighted, frozen=True, tag=True):
    """It sent a Fetch."""

    end: int
    acknowledged: int


class State(Sighted, frozen=True, tag=True):
    """What it is after an event."""

    role: str
    epoch: int
    leader: str | None
    voted: str | None
    end: int
    last_epoch: int
    durable_end: int
    high_watermark: int
    voters: list[str]


class Lost(Sighted, frozen=True, tag=True):
    """Its disk is gone."""


Sighting = (
    Started
    | Formed
    | Persisted
    | RoleChanged
    | Appended
    | Truncated
    | Installed
    | Flushed
    | Committed
    | Fetched
    | State
    | Lost
)


def _name(key: ReplicaKey | None) -> str | None:
    return None if key is None else str(key)


def of_start(replica: Replica) -> list[Sighting]:
    """A process whose core was just made."""
    state, log = replica.state, replica.log
    begun = Started(
        state.epoch,
        _name(state.leader),
        _name(state.voted),
        log.end,
        log.last_epoch,
        replica.high_watermark,
    )
    return [begun, *_formed(log.base_voters)]


def _formed(voters: VoterSet) -> list[Sighting]:
    names = [str(key) for key in voters]
    return [Formed(names)] if names else []


def of_event(replica: Replica, event: Event) -> Sighting | None:
    """What an event tells the replica about itself, before it is handled."""
    match event:
        case LogFlushed(end, truncations) if truncations == replica.log.truncations:
            # The word of an earlier flush may come late: it says nothing new.
            return Flushed(end) if end >= replica.log.durable_end else None
        case _:
            return None


def of_effect(effect: Effect) -> Sighting | None:
    """What the replica does; None: it does not matter here."""
    match effect:
        case PersistQuorumState(state):
            return Persisted(state.epoch, _name(state.leader), _name(state.voted))
        case PersistLatch(latch):
            return Formed([str(key) for key in latch.voters])
        case Fact("role_changed", fields):
            return RoleChanged(str(dict(fields)["role"]))
        case AppendBatches(batches):
            return Appended([_entry(batch) for batch in batches])
        case TruncateLog(end):
            return Truncated(end)
        case InstallSnapshot(head):
            return Installed(head.position.end_offset, head.position.epoch)
        case HighWatermarkAdvanced(high_watermark, _):
            return Committed(high_watermark)
        case SendRequest(_, FetchRequest() as request):
            return Fetched(request.fetch_offset, request.acknowledged_offset)
        case _:
            return None


def _entry(batch: Batch) -> Entry:
    kind, of = "data", ""
    for control in batch.control:
        match control:
            case LeaderChange():
                kind, of = "leader", ""
                break  # the voters of the first one are those that the quorum was formed with
            case AddVoter(voter):
                kind, of = "add", str(voter.key)
            case RemoveVoter(key):
                kind, of = "remove", str(key)
            case _:
                of = repr(control)
    if not batch.control:
        data = batch.data
        of = data[_CHECKSUM].hex() if len(data) > _CHECKSUM.stop else str(zlib.crc32(data))
    return Entry(batch.end_offset, batch.epoch, kind, of)


def of_state(replica: Replica) -> State:
    """What the replica is."""
    state, log = replica.state, replica.log
    return State(
        role_name(replica.role),
        state.epoch,
        _name(state.leader),
        _name(state.voted),
        log.end,
        log.last_epoch,
        log.durable_end,
        replica.high_watermark,
        [str(key) for key in log.voters],
    )
