"""The state of a demo at a moment: written by the script, read by the views."""

from dataclasses import dataclass, field

from raftnode.api.model import QuorumInfo

from .history import History, ReplicaId, living_observers
from .record import Outcome, Record, Stall
from .resource import Resource


@dataclass(slots=True)
class DemoState:
    """The state of the demo, in parts that each have one writer."""

    record: Record = field(default_factory=Record)
    history: History = field(default_factory=History)
    quorum: QuorumInfo | None = None
    resource: Resource = field(default_factory=Resource)
    steps_total: int = 0

    def voters(self) -> list[int]:
        """Node ids of the voters, as the last leader that answered said; [] before the first.

        That none answers just now says nothing of who votes.
        """
        return sorted({replica_id.node_id for replica_id in self.history.voting()})


@dataclass(frozen=True, slots=True)
class Row:
    """One replica in the table: what the leader knows of it."""

    replica_id: ReplicaId
    role: str
    lag: int
    note: str


@dataclass(frozen=True, slots=True)
class Figures:
    """The writes at a moment."""

    acknowledged: int
    unknown: int
    refused: int
    stalled_s: float
    longest: Stall

    @classmethod
    def of(cls, record: Record, now_s: float) -> "Figures":
        """Take them from the account."""
        return cls(
            acknowledged=record.count(Outcome.ACKNOWLEDGED),
            unknown=record.count(Outcome.UNKNOWN),
            refused=record.count(Outcome.REFUSED),
            stalled_s=record.stalled_s(now_s),
            longest=record.longest_stall(now_s),
        )


def rows(quorum: QuorumInfo | None) -> list[Row]:
    """The table of replicas, voters first."""
    if quorum is None:
        return []
    leader = ReplicaId.of(quorum.leader)
    committed = {ReplicaId.of(voter) for voter in quorum.committed_voters}
    table: list[Row] = []
    for voter in quorum.voters:
        replica_id = ReplicaId.of(voter)
        role = "leader" if replica_id == leader else "voter"
        notes = [] if replica_id in committed else ["not committed yet"]
        if replica_id != leader and not voter.caught_up:
            notes.append("not caught up")
        table.append(Row(replica_id, role, voter.lag, ", ".join(notes)))
    for observer in living_observers(quorum):
        note = "caught up" if observer.caught_up else "catching up"
        table.append(Row(ReplicaId.of(observer), "observer", observer.lag, note))
    return sorted(table, key=lambda row: (row.role == "observer", row.replica_id))
