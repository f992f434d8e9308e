"""What the demo remembers of its course: who voted and led when, steps, faults.

Pure bookkeeping; times are seconds since the demo began and come as arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raftnode.api.model import QuorumInfo, Replica, ReplicaProgress

_OBSERVER_GONE_MS = 2000


class ReplicaId(NamedTuple):
    """A replica: a node id with the UUID of its storage. A new disk makes another replica."""

    node_id: int
    directory_id: str

    @classmethod
    def of(cls, replica: Replica) -> "ReplicaId":
        """The ids of a replica as the API names it."""
        return cls(replica.node_id, replica.directory_id)

    def __str__(self) -> str:
        return f"{self.node_id} ({self.directory_id[:8]}…)"


@dataclass(slots=True)
class Span:
    """A stretch of time; open while `until_s` is None."""

    from_s: float
    until_s: float | None = None


@dataclass(slots=True)
class Leadership:
    """One leader in one epoch."""

    replica_id: ReplicaId
    epoch: int
    span: Span


@dataclass(slots=True)
class StepSpan:
    """One step of the script as it went."""

    title: str
    span: Span


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that the demo did to the quorum, or asked of it: a line in the picture.

    Attributes:
        lost: The replica whose disk was destroyed; None: no disk was destroyed.
    """

    at_s: float
    title: str
    violent: bool
    lost: ReplicaId | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """How the leader's disk hung.

    Attributes:
        replica_id: The leader.
        from_s, until_s: When, in seconds since the demo began.
        caught_up_s: How long after that it had caught up, and the operator had nothing left to do.
        same_process: Whether its process lived through it.
    """

    replica_id: ReplicaId
    from_s: float
    until_s: float
    caught_up_s: float
    same_process: bool


@dataclass(slots=True)
class History:
    """All of it."""

    voters: dict[ReplicaId, list[Span]] = field(default_factory=dict[ReplicaId, list[Span]])
    """In order of first appearance."""
    observers: dict[ReplicaId, list[Span]] = field(default_factory=dict[ReplicaId, list[Span]])
    leaderships: list[Leadership] = field(default_factory=list[Leadership])
    steps: list[StepSpan] = field(default_factory=list[StepSpan])
    faults: list[Fault] = field(default_factory=list[Fault])

    def observe(self, quorum: QuorumInfo | None, now_s: float) -> list[str]:
        """Take in what the leader says; returns what changed, in words.

        Args:
            quorum: None if no leader answers.
            now_s: When the leader said it; without a leader, since when none has answered.
        """
        if quorum is None:
            return self._without_leader(now_s)
        voters = [ReplicaId.of(voter) for voter in quorum.voters]
        said = self._led_by(quorum, now_s)
        came, went = _note_replicas(self.voters, voters, now_s)
        _note_replicas(
            self.observers, [ReplicaId.of(observer) for observer in living_observers(quorum)], now_s
        )
        said += [f"{replica_id} is a voter" for replica_id in came]
        return said + [f"{replica_id} is a voter no longer" for replica_id in went]

    def voting(self) -> list[ReplicaId]:
        """Who votes, as far as known: a leader that does not answer changes nothing in it."""
        return [
            replica_id for replica_id, spans in self.voters.items() if spans[-1].until_s is None
        ]

    def _without_leader(self, since_s: float) -> list[str]:
        if not self.leaderships or self.leaderships[-1].span.until_s is not None:
            return []
        self.leaderships[-1].span.until_s = since_s
        return [f"no leader answers; the last was {self.leaderships[-1].replica_id}"]

    def _led_by(self, quorum: QuorumInfo, now_s: float) -> list[str]:
        replica_id = ReplicaId.of(quorum.leader)
        last = self.leaderships[-1] if self.leaderships else None
        if last is not None and (last.replica_id, last.epoch) == (replica_id, quorum.epoch):
            resumed = last.span.until_s is not None
            last.span.until_s = None
            return [f"{replica_id} leads again"] if resumed else []
        if last is not None and last.span.until_s is None:
            last.span.until_s = now_s
        self.leaderships.append(Leadership(replica_id, quorum.epoch, Span(now_s)))
        return [f"{replica_id} leads in epoch {quorum.epoch}"]

    def close(self, now_s: float) -> None:
        """End what is still open."""
        seated = [*self.voters.values(), *self.observers.values()]
        spans = [span for spans_of_seat in seated for span in spans_of_seat]
        spans += [leadership.span for leadership in self.leaderships]
        spans += [step.span for step in self.steps]
        for span in spans:
            if span.until_s is None:
                span.until_s = now_s


def living_observers(quorum: QuorumInfo) -> list[ReplicaProgress]:
    """Observers that fetch; the leader also remembers those that are gone."""
    voters = {ReplicaId.of(voter) for voter in quorum.voters}
    return [
        observer
        for observer in quorum.observers
        if ReplicaId.of(observer) not in voters
        and observer.last_fetch_age_ms is not None
        and observer.last_fetch_age_ms < _OBSERVER_GONE_MS
    ]


def _note_replicas(
    known: dict[ReplicaId, list[Span]], replica_ids: Sequence[ReplicaId], now_s: float
) -> tuple[list[ReplicaId], list[ReplicaId]]:
    """Open and close spans; returns who came and who went."""
    came: list[ReplicaId] = []
    for replica_id in replica_ids:
        spans = known.setdefault(replica_id, [])
        if not spans or spans[-1].until_s is not None:
            spans.append(Span(now_s))
            came.append(replica_id)
    went = [s for s, spans in known.items() if s not in replica_ids and spans[-1].until_s is None]
    for replica_id in went:
        known[replica_id][-1].until_s = now_s
    return came, went
