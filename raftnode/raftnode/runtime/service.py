"""The running node as the HTTP API sees it: `raftnode.api.service.NodeService`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from raftnode.api.errors import not_leader, refusal
from raftnode.api.model import (
    AddVoterRequest,
    Appended,
    CancelReassignmentRequest,
    FormRequest,
    JoinRequest,
    ListenerCertificate,
    NodeInfo,
    QuorumInfo,
    RaftVersionInfo,
    ReassignmentAccepted,
    ReassignRequest,
    RemoveVoterRequest,
    Replica,
    ResignRequest,
    UpgradeRequest,
    VoterChanged,
    VoterRecord,
)
from raftnode.api.service import (
    CommittedRecords,
    Health,
    NewRecord,
    ReadDone,
    Waiting,
    WriteDone,
)
from raftnode.api.turns import Turns
from raftnode.core.describe import describe
from raftnode.core.effects import VoterChangeCompleted
from raftnode.core.events import (
    AddVoterRequested,
    ClusterJoined,
    LatchReceived,
    ReassignmentRequested,
    RemoveVoterRequested,
    ResignRequested,
    UpgradeRequested,
)
from raftnode.core.raft import RaftCore
from raftnode.core.roles import Blank, Leader
from raftnode.core.state import Latch
from raftnode.core.types import Endpoint, Epoch, Offset, ReplicaKey, VoterRecordId, VoterSet
from raftnode.errors import RequestError
from raftnode.logformat.keyless import FinishedBatch
from raftnode.runtime import description
from raftnode.runtime.committed_reads import CommittedReads
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.inquiries import Answer, Inquiries
from raftnode.runtime.process import clock
from raftnode.runtime.process.watchdog import Stall
from raftnode.runtime.writes.appends import Appends
from raftnode.statemachine.kv import KeyValueReader

STORAGE_ANSWER_MS = 10_000
"""How long `form`, `join` and `resign` may take: an fsync, a turn of the core, a leadership
transfer."""


class Service:
    """One running node.

    Args:
        core: read for descriptions; never changed here.
        appends: clients' writes.
        inquiries: requests to the core.
        reads: the key-value store and the committed log.
        api_of: where another replica's API listens.
        version: of the program.
        disk: the known state of the disk.
        stall: the stall that the watchdog has seen.
    """

    def __init__(
        self,
        core: RaftCore,
        appends: Appends,
        inquiries: Inquiries,
        reads: CommittedReads,
        *,
        api_of: Callable[[ReplicaKey], Endpoint | None],
        version: str,
        disk: DiskState,
        stall: Callable[[], Stall | None],
    ) -> None:
        self._core = core
        self._disk = disk
        self._stall = stall
        self._appends = appends
        self._inquiries = inquiries
        self._reads = reads
        self.peer_endpoint: Endpoint | None = None
        self.api_endpoint: Endpoint | None = None
        self._certificates: Callable[[], tuple[ListenerCertificate, ...]] = tuple
        self._api_of = api_of
        self._version = version
        self.stopping = False

    def advertise(
        self,
        *,
        peer: Endpoint,
        api: Endpoint,
        certificates: Callable[[], tuple[ListenerCertificate, ...]] = tuple,
    ) -> None:
        """Set the endpoints for other replicas and clients, once the listeners are bound.

        Args:
            peer: for other replicas.
            api: for clients.
            certificates: what the listeners present and trust now.
        """
        self.peer_endpoint, self.api_endpoint = peer, api
        self._certificates = certificates

    # -- what it knows of itself ---------------------------------------------------------

    @property
    def turns(self) -> Turns:
        """The turns in which records are read."""
        return self._reads.turns

    @property
    def kv(self) -> KeyValueReader:
        """The key-value store as far as it is applied."""
        return self._reads.kv

    @property
    def node_id(self) -> int:
        """The node's id."""
        return self._core.replica.key.node_id

    @property
    def cluster_id(self) -> str | None:
        """The id of the node's cluster; None: it is blank."""
        return self._core.replica.cluster_id

    def leader(self) -> tuple[ReplicaKey | None, Endpoint | None]:
        """The known leader and its API."""
        leader = self._core.replica.leader
        if leader is None:
            return None, None
        own = leader == self._core.replica.key
        return leader, self.api_endpoint if own else self._api_of(leader)

    def describe_node(self) -> NodeInfo:
        """Describe this node from its own state."""
        assert self.peer_endpoint is not None  # noqa: S101 - no client can ask before
        assert self.api_endpoint is not None  # noqa: S101
        return description.describe_node(
            description.present(self._core.replica),
            peer=self.peer_endpoint,
            api=self.api_endpoint,
            leader_api=self.leader()[1],
            version=self._version,
            storage=self._disk.info(),
            certificates=self._certificates(),
        )

    def state(self) -> str:
        """Role, epoch, leader, readiness, disk and, on a leader, the caught-up voters."""
        replica = description.present(self._core.replica)
        disk, described = self._disk.info(), describe(replica)
        voters = described.voters if described is not None else ()
        parts = (
            "stopping" if self.stopping else description.role_of(replica),
            replica.epoch,
            replica.leader,
            description.is_caught_up(replica, replica.config),
            disk.low,
            len(disk.damage),
            *sorted(str(voter.key) for voter in voters if voter.caught_up),
        )
        return hashlib.sha256(repr([str(part) for part in parts]).encode()).hexdigest()[:16]

    def stall(self) -> str | None:
        """The stall because of which the watchdog is about to end the process."""
        stall = self._stall()
        return None if stall is None else str(stall)

    def health(self) -> Health:
        """Report whether the node has a leader and is caught up."""
        replica = description.present(self._core.replica)
        if self.stopping:
            return Health(ready=False, reason="the node is stopping")
        if isinstance(replica.role, Blank):
            return Health(ready=False, reason="blank: waiting for form or join")
        if description.is_caught_up(replica, replica.config):
            damage = "; ".join(("", *self._disk.info().damage))
            return Health(ready=True, reason=f"caught up with leader {replica.leader}{damage}")
        if replica.has_stalled_disk:
            durable, end = replica.log.durable_end, replica.log.end
            disk = (
                f"this node's disk has stalled: durable up to offset {durable}, written up to {end}"
            )
            return Health(ready=False, reason=disk)
        role = description.role_of(replica)
        whom = f"not caught up with leader {replica.leader}" if replica.leader else "no leader"
        return Health(ready=False, reason=f"{role}: {whom}")

    # -- the quorum ------------------------------------------------------------------------

    async def describe_quorum(self, *, confirmed: bool, timeout_ms: int) -> QuorumInfo:
        """Describe the quorum, `confirmed` by a majority that answers after this call (S11)."""
        self._refuse_blank()
        if confirmed:
            self._refuse_unless_leading()
            await self._inquiries.confirm(timeout_ms, for_read=False)
        replica = description.present(self._core.replica)
        described, cluster_id = describe(replica), replica.cluster_id
        if described is None or cluster_id is None:
            raise not_leader(*self.leader())
        return description.describe_quorum(described, cluster_id=cluster_id, confirmed=confirmed)

    async def add_voter(self, request: AddVoterRequest) -> VoterChanged:
        """AddVoter, until committed (P28)."""
        deadline = clock.now_ms() + request.timeout_ms
        voter, expected = request.voter.voter, _record_id(request.expected)
        replaces = request.replaces.key if request.replaces else None
        return await self._change(
            lambda request_id: AddVoterRequested(request_id, voter, expected, deadline, replaces),
            request.timeout_ms,
        )

    async def remove_voter(self, request: RemoveVoterRequest) -> VoterChanged:
        """RemoveVoter, until committed (P30)."""
        deadline = clock.now_ms() + request.timeout_ms
        key, expected = request.voter.key, _record_id(request.expected)
        return await self._change(
            lambda request_id: RemoveVoterRequested(request_id, key, expected, deadline),
            request.timeout_ms,
        )

    async def _change(
        self,
        make: Callable[[int], AddVoterRequested | RemoveVoterRequested],
        timeout_ms: int,
    ) -> VoterChanged:
        self._refuse_blank()
        # The core itself ends the wait at the deadline; only the core knows the answer then.
        answer = await self._ask(make, timeout_ms + 2000, "TIMED_OUT")
        assert isinstance(answer, VoterChangeCompleted)  # noqa: S101
        return VoterChanged(
            voter_record=description.voter_record(answer.voter_record),
            voters=tuple(Replica.of(key) for key in answer.voters),
        )

    async def reassign(
        self, request: ReassignRequest | CancelReassignmentRequest
    ) -> ReassignmentAccepted:
        """Set or take back a reassignment's target, until committed (P33, P35)."""
        self._refuse_blank()
        deadline = clock.now_ms() + request.timeout_ms
        specs = request.targets if isinstance(request, ReassignRequest) else ()
        targets = tuple(spec.target for spec in specs)
        expected = _record_id(request.expected) if request.expected else None
        await self._ask(
            lambda request_id: ReassignmentRequested(request_id, targets, expected, deadline),
            request.timeout_ms + 2000,
            "TIMED_OUT",
        )
        pinned = self._core.replica.log.target_voters
        return ReassignmentAccepted(target_voters=tuple(Replica.of(key) for key in pinned))

    async def upgrade(self, request: UpgradeRequest) -> RaftVersionInfo:
        """Finalise a raft.version, until committed (P56)."""
        self._refuse_blank()
        deadline = clock.now_ms() + request.timeout_ms
        await self._ask(
            lambda request_id: UpgradeRequested(request_id, request.raft_version, deadline),
            request.timeout_ms + 2000,
            "TIMED_OUT",
        )
        return RaftVersionInfo(raft_version=request.raft_version)

    async def resign(self, request: ResignRequest) -> None:
        """Transfer leadership."""
        preferred = request.preferred.key if request.preferred else None
        await self._ask(
            lambda request_id: ResignRequested(request_id, preferred),
            STORAGE_ANSWER_MS,
            "NOT_CONFIRMED",
        )

    async def form(self, request: FormRequest) -> None:
        """Accept the latch (S18)."""
        voters = VoterSet.of(spec.voter for spec in request.voters)
        latch = Latch(request.cluster_id, voters, request.raft_version)
        await self._ask(
            lambda request_id: LatchReceived(request_id, latch), STORAGE_ANSWER_MS, "INTERNAL"
        )

    async def join(self, request: JoinRequest) -> None:
        """Accept the cluster id (S5)."""
        try:
            await self._ask(
                lambda request_id: ClusterJoined(request_id, request.cluster_id),
                STORAGE_ANSWER_MS,
                "INTERNAL",
            )
        except RequestError as error:
            if error.error == "ALREADY_FORMED":
                raise refusal("INCONSISTENT_CLUSTER_ID", str(error)) from None
            raise

    # -- clients ---------------------------------------------------------------------------

    async def append(self, records: Sequence[NewRecord], *, timeout_ms: int) -> Appended:
        """Append and wait for the commit."""
        self._refuse_unless_leading()
        return await self._appends.append(records, timeout_ms)

    def submit(self, records: Sequence[NewRecord], done: WriteDone) -> Waiting:
        """Append without a task for each write."""
        self._refuse_unless_leading()
        return self._appends.submit(records, done)

    def submit_batch(self, batch: FinishedBatch, done: WriteDone) -> Waiting:
        """Append a client's batch without a task for each write."""
        self._refuse_unless_leading()
        return self._appends.submit_batch(batch, done)

    async def read(self, offset: Offset, *, max_bytes: int, max_wait_ms: int) -> CommittedRecords:
        """Read committed records."""
        self._refuse_blank()
        return await self._reads.read(offset, max_bytes=max_bytes, max_wait_ms=max_wait_ms)

    async def wait_readable(self, offset: Offset, *, max_wait_ms: int) -> None:
        """Wait until there is a committed record at the offset, or for so long."""
        self._refuse_blank()
        await self._reads.wait_readable(offset, max_wait_ms=max_wait_ms)

    async def read_barrier(self, *, timeout_ms: int) -> Offset:
        """Wait until the key-value store holds all that was acknowledged before this call."""
        self._refuse_unless_leading()
        return await self._reads.barrier.wait(timeout_ms)

    def submit_read(self, done: ReadDone) -> Waiting:
        """Wait as `read_barrier` does, without a task for each read."""
        self._refuse_unless_leading()
        return self._reads.barrier.submit(done)

    # -- inside ----------------------------------------------------------------------------

    async def _ask(
        self,
        make: Callable[
            [int],
            AddVoterRequested
            | RemoveVoterRequested
            | ResignRequested
            | UpgradeRequested
            | ReassignmentRequested
            | LatchReceived
            | ClusterJoined,
        ],
        timeout_ms: int,
        late_error: str,
    ) -> Answer:
        if self.stopping:
            raise refusal("SHUTTING_DOWN", "the node is stopping")
        return await self._inquiries.ask(make, timeout_ms=timeout_ms, late_error=late_error)

    def _refuse_unless_leading(self) -> None:
        """Refuse at once what the core would refuse: it may be waiting for a disk that hangs."""
        self._refuse_blank()
        if self.stopping:
            raise refusal("SHUTTING_DOWN", "the node is stopping")
        if not isinstance(self._core.replica.role, Leader):
            raise not_leader(*self.leader())

    def _refuse_blank(self) -> None:
        if isinstance(self._core.replica.role, Blank):
            raise refusal(
                "NODE_BLANK",
                "this node has no cluster id yet; form a quorum on it or join it to one first",
            )


def _record_id(record: VoterRecord) -> VoterRecordId:
    return VoterRecordId(Offset(record.offset), Epoch(record.epoch))
