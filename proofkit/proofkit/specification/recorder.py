"""Turns sightings of replicas into a trace: steps of `KRaftQuorum.tla`, in the order of a run.

What lives here: which action each sighting is, and the translation of offsets into places of a
log (a record of the specification is a batch). What must not: any judgement. Whether a step is
permitted, and whether it leads to the state that the replica says it has, is for TLC to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from proofkit.specification.sightings import (
    Appended,
    Committed,
    Entry,
    Fetched,
    Flushed,
    Formed,
    Installed,
    Lost,
    Persisted,
    RoleChanged,
    Sighting,
    Started,
    State,
    Truncated,
)

Replica = tuple[int, int]
Step = tuple[object, ...]
"""The name of an action, the replica, and what else `Trace.tla` wants for it."""

NONE: Final[tuple[int, ...]] = ()
DURABLE: Final = -1
"""For a restart: the log as the last flush left it, rather than a part of what was written."""

_FOLLOWING = {"follower": "follower", "candidate": "candidate", "leader": "leader"}


class NotRecordedError(Exception):
    """A run did something that no step of the specification stands for."""


def role_of(name: str) -> str:
    """The specification's name of a role: what neither follows, stands nor leads is unattached."""
    return _FOLLOWING.get(name, "unattached")


@dataclass(slots=True)
class Known:
    """What is known of a replica from its sightings: only to name its next steps."""

    epoch: int = 0
    leader: str | None = None
    voted: str | None = None
    role: str = "unattached"
    log: list[Entry | None] = field(default_factory=list[Entry | None])
    """None: the first batch of a leader's epoch, between the vote and the append."""
    durable: list[Entry | None] = field(default_factory=list[Entry | None])
    high_watermark: int = 0
    fetch: tuple[int, ...] = ()
    enters: int | None = None
    """An epoch that was stored without vote and leader: of a candidate outside the voters, or
    one that was heard of. The next sighting says which."""
    changed: bool = False
    promise: tuple[int, Known] | None = None
    """The newest step that a process killed at once may not have done, and what was before."""

    def place(self, end: int) -> int:
        """How many batches of its log end at or below an offset."""
        place = len(self.log)
        while place and ((entry := self.log[place - 1]) is None or entry.end > end):
            place -= 1
        return place


@dataclass(slots=True)
class Trace:
    """A recorded run.

    Attributes:
        formed: the voters that the quorum was formed with.
        steps: what happened, in order.
    """

    formed: list[Replica]
    steps: list[Step]

    @property
    def replicas(self) -> set[Replica]:
        """All that take part."""
        return {*self.formed, *(step[1] for step in self.steps)}  # type: ignore[misc]


class Recorder:
    """Takes sightings in the order of a run.

    A sighting of a real node is written before the node does it, so that what it sends is never
    sighted first. `kills`: a process may end between the two.
    """

    def __init__(self, *, kills: bool = False) -> None:
        self._kills = kills
        self._names: dict[str, Replica] = {}
        self._known: dict[str, Known] = {}
        self._steps: list[Step | None] = []
        self._formed: list[str] = []
        self._values: dict[tuple[int, int, str], tuple[int, int]] = {}
        self._committed: dict[int, int] = {}
        """Of each epoch that had a leader: how many batches it has committed."""
        self.stopped: str | None = None
        """Why nothing is recorded any more."""

    def stop(self, reason: str) -> None:
        """Record nothing more: what follows is outside the specification."""
        self.stopped = self.stopped or reason

    @property
    def trace(self) -> Trace:
        """What was recorded so far."""
        steps = [step for step in self._steps if step is not None]
        return Trace([self.name(key) for key in self._formed], steps)

    def name(self, key: str) -> Replica:
        """The specification's name of a replica: its id, and the how manieth disk of that node."""
        if key not in self._names:
            # A formed quorum's ids count from 1: <<0, n>> is what clients write.
            node = int(key.split("-", 1)[0]) + 1
            disks = sum(name[0] == node for name in self._names.values())
            self._names[key] = (node, disks + 1)
        return self._names[key]

    def take_all(self, key: str, sightings: Iterable[Sighting | None]) -> None:
        """Take what was seen of one replica at one time."""
        for sighting in sightings:
            if sighting is not None:
                self.take(key, sighting)

    def take(self, key: str, sighting: Sighting) -> None:
        """Note a sighting of a replica.

        Raises:
            NotRecordedError: no step stands for it.
        """
        if self.stopped is not None:
            return
        if key not in self._known:
            self._known[key] = Known()
            self.name(key)
        known = self._known[key]
        if known.enters is not None:
            candidate = isinstance(sighting, RoleChanged) and sighting.role == "candidate"
            self._enter(key, known, is_candidate=candidate)
            if candidate:
                return
        match sighting:
            case Started():
                self._start(key, known, sighting)
            case Formed(voters):
                self._formed = self._formed or voters
            case Persisted():
                self._persist(key, known, sighting)
            case RoleChanged(role):
                self._change_role(key, known, role)
            case Appended(entries):
                self._append(key, known, entries)
            case Truncated(end):
                del known.log[known.place(end) :]
                self._add(key, "Truncate", len(known.log))
            case Installed(end):
                self._install(key, known, end)
            case Committed(high_watermark):
                self._commit(key, known, high_watermark)
            case Flushed(end):
                place = known.place(end)
                known.durable = known.log[:place]
                self._add(key, "Flush", place)
            case Fetched(end, acknowledged):
                self._fetch(key, known, known.place(end), known.place(acknowledged))
            case State():
                self._compare(key, known, sighting)
            case Lost():
                self._known[key] = Known()
                self._add(key, "LoseDisk")

    # -- inside ---------------------------------------------------------------------------

    def _add(self, key: str, action: str, *rest: object) -> None:
        self._known[key].changed = True
        self._steps.append((action, self.name(key), *rest))

    def _replica(self, key: str | None) -> tuple[int, ...]:
        return NONE if key is None else self.name(key)

    def _start(self, key: str, known: Known, begun: Started) -> None:
        stored = (begun.epoch, begun.leader, begun.voted)
        if known.promise is not None and stored != (known.epoch, known.leader, known.voted):
            index, before = known.promise
            self._steps[index] = None  # the process was killed before it had stored that
            known = self._known[key] = before
        known.promise = None
        end, epoch = begun.end, begun.last_epoch
        place = known.place(end)
        last = known.log[place - 1] if place else None
        whole = end == 0 if last is None else (last.end, last.epoch) == (end, epoch)
        if whole:
            del known.log[place:]
        else:
            known.log = list(known.durable)
        known.durable = list(known.log)
        known.high_watermark = known.place(begun.high_watermark)
        followed = begun.leader is not None and begun.leader != key
        known.role = "follower" if followed else "unattached"
        self._add(key, "Restart", place if whole else DURABLE, known.high_watermark)

    def _fetch(self, key: str, known: Known, *fetch: int) -> None:
        if known.fetch == (known.epoch, *fetch):
            return  # the same once more says nothing new
        known.fetch = (known.epoch, *fetch)
        self._steps.append(("Fetch", self.name(key), *fetch))

    def _persist(self, key: str, known: Known, stored: Persisted) -> None:
        before = Known(
            known.epoch, known.leader, known.voted, known.role, known.log[:], known.durable
        )
        before.high_watermark = known.high_watermark
        known.promise = (len(self._steps), before) if self._kills else None
        known.epoch, known.leader, known.voted = stored.epoch, stored.leader, stored.voted
        epoch = stored.epoch
        if stored.leader == key:
            known.role = "leader"
            known.log.append(None)
            self._committed[epoch] = known.high_watermark
            self._add(key, "BecomeLeader", epoch)
        elif stored.leader is not None:
            known.role = "follower"
            self._add(key, "Follow", epoch, self.name(stored.leader))
        elif stored.voted == key:
            known.role = "candidate"
            self._add(key, "StartElection", epoch)
        elif stored.voted is not None:
            known.role = "unattached"
            self._add(key, "GrantVote", epoch, self.name(stored.voted))
        else:
            known.enters = epoch

    def _enter(self, key: str, known: Known, *, is_candidate: bool) -> None:
        epoch, known.enters = known.enters, None
        if known.promise is not None:
            known.promise = (len(self._steps), known.promise[1])
        known.role = "candidate" if is_candidate else "unattached"
        self._add(key, "StartElection" if is_candidate else "LearnEpoch", epoch)

    def _change_role(self, key: str, known: Known, name: str) -> None:
        role = role_of(name)
        if role == known.role:
            return
        known.role = role
        if role == "unattached":
            self._add(key, "Resign")
        elif role == "follower" and known.leader is not None:
            self._add(key, "Follow", known.epoch, self.name(known.leader))
        else:
            # It has stored no such thing; an epoch without a candidate is refused by TLC.
            self._add(key, "StartElection", known.epoch)

    def _append(self, key: str, known: Known, entries: list[Entry]) -> None:
        if known.role != "leader":
            known.log.extend(entries)
            values = tuple((entry.epoch, self._value(entry)) for entry in entries)
            self._add(key, "Replicate", len(known.log), values)
            return
        for entry in entries:
            if known.log and known.log[-1] is None:
                known.log[-1] = entry  # `BecomeLeader` has appended it
                continue
            known.log.append(entry)
            match entry.kind:
                case "add":
                    self._add(key, "AddVoter", self.name(entry.of))
                case "remove":
                    self._add(key, "RemoveVoter", self.name(entry.of))
                case "data":
                    self._add(key, "Write", self._value(entry))
                case "leader":
                    raise NotRecordedError(f"{key} appends a second LeaderChange: {entry}")

    def _value(self, entry: Entry) -> tuple[int, ...]:
        """What tells a client's batch from any other, as a value of the specification."""
        if entry.kind != "data":
            return NONE
        batch = (entry.end, entry.epoch, entry.of)
        return self._values.setdefault(batch, (0, len(self._values) + 1))

    def _install(self, key: str, known: Known, end: int) -> None:
        source = max(self._known.values(), key=lambda other: other.place(end))
        place = source.place(end)
        epoch = max(
            (at for at, count in self._committed.items() if at <= known.epoch and count >= place),
            default=0,
        )
        known.log = source.log[:place]
        known.durable = list(known.log)
        known.high_watermark = place
        self._add(key, "InstallSnapshot", epoch, place)

    def _commit(self, key: str, known: Known, high_watermark: int) -> None:
        place = known.place(high_watermark)
        if place <= known.high_watermark:
            return
        known.high_watermark = place
        if known.role == "leader":
            self._committed[known.epoch] = place
        self._add(key, "Commit" if known.role == "leader" else "LearnHighWatermark", place)

    def _compare(self, key: str, known: Known, state: State) -> None:
        if not known.changed:
            return
        known.promise = None
        self._add(
            key,
            "State",
            role_of(state.role),
            max(state.epoch, 0),
            self._replica(state.voted),
            self._replica(state.leader),
            known.place(state.end),
            max(state.last_epoch, 0),
            known.place(state.durable_end),
            known.place(state.high_watermark),
            frozenset(self.name(voter) for voter in state.voters),
        )
        known.changed = False
