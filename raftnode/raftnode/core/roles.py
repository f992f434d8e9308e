"""The roles of a replica, each with the state that lasts only as long as the role (P39).

    blank ──latch, join, AddVoter──▶ unattached ──Begin, Fetch──▶ follower
    unattached, follower, resigned ──timeout──▶ prospective ──majority would──▶ candidate
    unattached ──leader's own wish (End)──▶ candidate ──majority──▶ leader ──▶ resigned
    any ──higher epoch──▶ unattached

An observer is an unattached replica or a follower that is not in its voter set.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raftnode.core.membership.pending_change import PendingChange, PendingTarget
from raftnode.core.membership.pending_wait import PendingUpgrade
from raftnode.core.messages import FetchRequest, FetchSnapshotRequest
from raftnode.core.reasons.waits import Wait
from raftnode.core.replication.progress import Progress
from raftnode.core.replication.uncommitted_batches import Uncommitted
from raftnode.core.types import FIRST_OFFSET, NO_OFFSET, Endpoint, Epoch, Offset, ReplicaKey


@dataclass(slots=True)
class Fetching:
    """The requests to the leader that are not answered yet, and when to send the next."""

    in_flight: FetchRequest | FetchSnapshotRequest | None = None
    """The newest request on its way."""
    before: list[FetchRequest] = field(default_factory=list[FetchRequest])
    """Fetches on their way that were sent before `in_flight`, oldest first."""
    unflushed: list[Offset] = field(default_factory=list[Offset])
    """Where the log ended after each answer that is appended and not durable yet."""
    sent_at_ms: int = 0
    """When `in_flight` was sent."""
    next_at_ms: int = 0
    failures: int = 0

    def answered(self, request: FetchRequest | FetchSnapshotRequest) -> bool:
        """Whether this request was on its way; it and all that were sent before no longer are."""
        if self.in_flight == request:
            self.in_flight = None
            self.before.clear()
            return True
        if request not in self.before:
            return False
        del self.before[: self.before.index(request) + 1]
        return True

    def forget(self) -> None:
        """Take no further answer to the requests that were sent."""
        self.in_flight = None
        self.before.clear()


@dataclass(slots=True)
class Blank:
    """An empty disk without a cluster id: it neither votes nor takes records (S18).

    It may announce itself by Fetches, which bring it nothing but the leader's name (S5).
    """

    leader_hint: ReplicaKey | None = None
    announcements: int = 0
    """How many Fetches it has sent to the leader of the hint since it last asked a server."""
    fetching: Fetching = field(default_factory=Fetching)


@dataclass(slots=True)
class Unattached:
    """Knows an epoch but no leader: asks the other replicas, and starts an election in time."""

    election_at_ms: int
    transfer: bool = False
    """The last leader asked this replica to start an election: it needs no pre-vote, as there is no
    leader to disturb."""
    fetching: Fetching = field(default_factory=Fetching)


@dataclass(slots=True)
class Prospective:
    """Asks whether it would be elected before it raises the epoch (KIP-996)."""

    gives_up_at_ms: int
    retries: int
    granted: set[ReplicaKey] = field(default_factory=set[ReplicaKey])
    denied: set[ReplicaKey] = field(default_factory=set[ReplicaKey])
    retry_at_ms: int | None = None
    leader_hint: ReplicaKey | None = None
    """The fresh leader that a denying voter named: it gets a Fetch, but is not followed yet."""
    fetching: Fetching = field(default_factory=Fetching)


@dataclass(slots=True)
class Candidate:
    """Has raised the epoch, voted for itself (if it is a voter) and asks for votes (P7)."""

    gives_up_at_ms: int
    retries: int
    granted: set[ReplicaKey] = field(default_factory=set[ReplicaKey])
    denied: set[ReplicaKey] = field(default_factory=set[ReplicaKey])


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of its epoch."""

    leader: ReplicaKey
    election_at_ms: int
    heard_at_ms: int | None = None
    """When the leader itself last showed that it leads: votes are withheld for a while after (S9).

    None: only other replicas have named this leader, which must not prevent an election.
    """
    leader_endpoint: Endpoint | None = None
    round_token: int = 0
    """The newest of the leader's round tokens, echoed in the next Fetch (S11)."""
    caught_up_at_ms: int | None = None
    """When this log last reached the leader's high watermark; None: not yet."""
    awaited: Offset = NO_OFFSET
    """A client waits for the commit of the record at this offset."""
    fetching: Fetching = field(default_factory=Fetching)


@dataclass(slots=True)
class ParkedFetch:
    """A Fetch that waits for records, a new high watermark or a round.

    `until_ms` is when it is answered at the latest. A high watermark that its fetcher does not know
    yet brings that forward, once.
    """

    request_id: int
    request: FetchRequest
    until_ms: int
    has_news: bool = False
    """There is a high watermark that its fetcher does not know yet."""


@dataclass(slots=True)
class Confirmation:
    """A request that waits for a majority to echo `token` (S11)."""

    request_id: int
    token: int
    for_read: bool


@dataclass(slots=True)
class ConfirmationRound:
    """A round in which the reachable replicas answer, before the voters are changed (S34)."""

    token: int
    began_ms: int


@dataclass(slots=True)
class LeadershipTransfer:
    """A leadership transfer under way: no more writes, until the successor has all of them."""

    successor: ReplicaKey
    until_ms: int
    """Then the leader resigns, whatever the successor has."""
    request_ids: set[int] = field(default_factory=set[int])


@dataclass(slots=True)
class Leader:
    """Appends, and counts what the voters acknowledge."""

    epoch: Epoch
    since_ms: int
    epoch_start: Offset = FIRST_OFFSET
    """Where this epoch's LeaderChange stands: nothing is committed before it is (P42)."""
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict[ReplicaKey, Progress])
    parked: dict[ReplicaKey, ParkedFetch] = field(default_factory=dict[ReplicaKey, ParkedFetch])
    round_token: int = 0
    rounds: dict[int, int] = field(default_factory=dict[int, int])
    """When each of the last round tokens was given out, oldest first, where reads go by leases
    (S33)."""
    confirmations: list[Confirmation] = field(default_factory=list[Confirmation])
    uncommitted: Uncommitted = field(default_factory=Uncommitted)
    changes: list[PendingChange] = field(default_factory=list[PendingChange])
    confirmation_rounds: dict[tuple[str, ReplicaKey], ConfirmationRound] = field(
        default_factory=dict[tuple[str, ReplicaKey], ConfirmationRound]
    )
    """By kind and key of the change that has no other obstacle."""
    upgrade: PendingUpgrade | None = None
    target: PendingTarget | None = None
    step_waits_for: Wait | None = None
    """Why the next step of a reassignment is not made yet; shown by DescribeQuorum."""
    transfer: LeadershipTransfer | None = None
    transfer_at_ms: int = 0
    """The leader does not transfer leadership for want of disk space before this (S30): a leader
    that was elected without space is likely the best there is, and transfers in a circle would
    fill all disks."""


@dataclass(slots=True)
class Resigned:
    """Led this epoch, leads no longer, and never leads in it again."""

    election_at_ms: int
    fetching: Fetching = field(default_factory=Fetching)


Role = Blank | Unattached | Prospective | Candidate | Follower | Leader | Resigned


def role_name(role: Role) -> str:
    """The role's name in metrics, logs and the API, in lower case."""
    return type(role).__name__.lower()
