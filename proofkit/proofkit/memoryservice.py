"""A node in memory: one leader, no peers, no disk; for tests of a node's clients.

Offsets, epochs, the control records of a formation, compare-and-set of voter changes,
long polls and the key-value state are real. Three methods fake something: `observe_replica`
declares an observer that acknowledges everything at once, `follow` makes the node refuse as a
follower does, and `fail_next` makes the next operation raise.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from raftnode.api.errors import not_leader, refusal
from raftnode.api.model import (
    AddVoterRequest,
    Appended,
    CancelReassignmentRequest,
    FormRequest,
    JoinRequest,
    NodeInfo,
    QuorumInfo,
    RaftVersionInfo,
    ReassignmentAccepted,
    ReassignRequest,
    RemoveVoterRequest,
    Replica,
    ReplicaProgress,
    ResignRequest,
    Role,
    UpgradeRequest,
    VoterChanged,
    VoterRecord,
)
from raftnode.api.service import (
    CommittedRecord,
    CommittedRecords,
    CommittedRun,
    Health,
    NewRecord,
    ReadDone,
    Waiting,
    WriteDone,
)
from raftnode.api.turns import Turns
from raftnode.core.records import (
    RAFT_VERSION,
    AddVoter,
    ControlRecord,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
    RemoveVoter,
)
from raftnode.core.types import (
    BASE_VOTER_RECORD,
    Endpoint,
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
    VoterSet,
    format_directory_id,
)
from raftnode.errors import RequestError
from raftnode.logformat import FinishedBatch, iter_records
from raftnode.statemachine.kv import KeyValueStore

_FIRST_EPOCH = Epoch(1)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request whose outcome comes in the next turn, or never."""

    outcome: str
    forgotten: bool = False

    def too_late(self, timeout_ms: int) -> RequestError:
        """See `Waiting`."""
        self.forgotten = True
        return refusal(self.outcome, f"no answer within {timeout_ms} ms")

    def forget(self) -> None:
        """See `Waiting`."""
        self.forgotten = True


class MemoryService:
    """A `NodeService` without a quorum.

    Args:
        node_id: of this node.
        directory_id: of its storage; None: a random one.
        cluster_id: None: blank, waiting for `form` or `join`.
        api_endpoint: what it says of where it is.
    """

    def __init__(
        self,
        node_id: int = 1,
        *,
        directory_id: uuid.UUID | None = None,
        cluster_id: str | None = "memory",
        api_endpoint: Endpoint | None = None,
    ) -> None:
        self.key = ReplicaKey(NodeId(node_id), directory_id or uuid.uuid4())
        self.kv = KeyValueStore()
        self.turns = Turns()
        self.api_endpoint = api_endpoint or Endpoint("127.0.0.1", 9080)
        self.peer_endpoint = Endpoint("127.0.0.1", 9093)
        self.appends = 0
        """How many appends were carried out: what a test of duplicates counts."""
        self._cluster_id: str | None = None
        self._latch: VoterSet | None = None
        self._epoch = Epoch(0)
        self._log: list[CommittedRecord] = []
        self._voters = VoterSet()
        self._voter_record = BASE_VOTER_RECORD
        self._observers: dict[ReplicaKey, Endpoint | None] = {}
        self._grown = asyncio.Event()
        self._leading = False
        self._leader: tuple[ReplicaKey, Endpoint] | None = None
        self._failure: RequestError | None = None
        self.held: list[Callable[[], None]] | None = None
        """While a list, submitted requests wait here for `release`."""
        if cluster_id is not None:
            self._form(cluster_id, VoterSet.of([Voter(self.key, self.peer_endpoint)]))

    # What tests declare.

    def observe_replica(self, key: ReplicaKey, endpoint: Endpoint | None = None) -> None:
        """Declare an observer that is caught up and acknowledges at once."""
        self._observers[key] = endpoint

    def follow(self, leader: ReplicaKey | None, api: Endpoint | None = None) -> None:
        """Stop leading; refuse with this leader, if any."""
        self._leading = False
        self._leader = (leader, api) if leader is not None and api is not None else None

    def lead(self) -> None:
        """Lead again, in a new epoch."""
        self._become_leader()

    def fail_next(self, error: RequestError) -> None:
        """Make the next operation raise."""
        self._failure = error

    def hold(self) -> None:
        """Let submitted writes and reads wait for `release`."""
        self.held = []

    def release(self) -> None:
        """Answer what was held, and hold nothing more."""
        held, self.held = self.held or [], None
        for answer in held:
            answer()

    # NodeService.

    @property
    def node_id(self) -> int:
        """See `NodeService`."""
        return self.key.node_id

    @property
    def cluster_id(self) -> str | None:
        """See `NodeService`."""
        return self._cluster_id

    def state(self) -> str:
        """That of the node's description."""
        return str(hash(self.describe_node()))

    def describe_node(self) -> NodeInfo:
        """See `NodeService`."""
        leader = self._known_leader()
        end = len(self._log)
        return NodeInfo(
            node_id=self.key.node_id,
            directory_id=format_directory_id(self.key.directory_id),
            incarnation=1,
            cluster_id=self._cluster_id,
            role=self._role(),
            epoch=self._epoch,
            leader=Replica.of(leader[0]) if leader else None,
            leader_api=str(leader[1]) if leader else None,
            peer_endpoint=str(self.peer_endpoint),
            api_endpoint=str(self.api_endpoint),
            log_start_offset=0,
            log_end_offset=end,
            durable_end_offset=end,
            high_watermark=end,
            voters=tuple(Replica.of(key) for key in self._voters),
            caught_up=leader is not None,
            version="memory",
        )

    def stall(self) -> str | None:
        """See `NodeService`; memory does not hang."""
        return None

    def health(self) -> Health:
        """See `NodeService`."""
        if self._cluster_id is None:
            return Health(ready=False, reason="blank: waiting for form or join")
        if self._known_leader() is None:
            return Health(ready=False, reason="no leader known")
        return Health(ready=True, reason="attached to a leader and caught up")

    async def describe_quorum(self, *, confirmed: bool, timeout_ms: int) -> QuorumInfo:
        """See `NodeService`; a single node is its own majority."""
        del timeout_ms
        cluster_id = self._check_leading()
        end = len(self._log)
        return QuorumInfo(
            cluster_id=cluster_id,
            leader=Replica.of(self.key),
            epoch=self._epoch,
            high_watermark=end,
            log_end_offset=end,
            voters=tuple(
                self._progress(key, self._voters.endpoint_of(key)) for key in self._voters
            ),
            committed_voters=tuple(Replica.of(key) for key in self._voters),
            voter_record=self._voter_record_out(),
            voter_record_committed=True,
            observers=tuple(
                self._progress(key, endpoint)
                for key, endpoint in sorted(self._observers.items(), key=lambda item: item[0])
                if key not in self._voters
            ),
            pending_change=None,
            assignment_record=self._voter_record_out(),
            formation_completed=True,
            epoch_committed=True,
            confirmed=confirmed,
        )

    async def append(self, records: Sequence[NewRecord], *, timeout_ms: int) -> Appended:
        """See `NodeService`."""
        del timeout_ms
        self._check_leading()
        base = len(self._log)
        for record in records:
            self._write(key=record.key, value=record.value)
        self.appends += 1
        return Appended(base_offset=base, last_offset=len(self._log) - 1, epoch=self._epoch)

    def submit(self, records: Sequence[NewRecord], done: WriteDone) -> Waiting:
        """See `NodeService`; appended at once, answered in the next turn, or on `release`."""
        self._check_leading()
        base = Offset(len(self._log))
        for record in records:
            self._write(key=record.key, value=record.value)
        self.appends += 1
        run = CommittedRun(base, Offset(len(self._log) - 1), self._epoch)
        return self._later(lambda: done(run), "TIMED_OUT")

    def submit_batch(self, batch: FinishedBatch, done: WriteDone) -> Waiting:
        """See `NodeService`."""
        return self.submit(
            [NewRecord(None, record.value) for record in iter_records(batch.data)], done
        )

    def submit_read(self, done: ReadDone) -> Waiting:
        """See `NodeService`."""
        self._check_leading()
        return self._later(lambda: done(self.kv.next_offset), "NOT_CONFIRMED")

    def _later(self, answer: Callable[[], None], outcome: str) -> Waiting:
        waiting = _Waiting(outcome)

        def run() -> None:
            if not waiting.forgotten:
                answer()

        if self.held is None:
            asyncio.get_running_loop().call_soon(run)
        else:
            self.held.append(run)
        return waiting

    async def wait_readable(self, offset: Offset, *, max_wait_ms: int) -> None:
        """See `NodeService`."""
        self._check_formed()
        try:
            async with asyncio.timeout(max_wait_ms / 1000):
                while len(self._log) <= offset:
                    await self._grown.wait()
        except TimeoutError:
            pass

    async def read(self, offset: Offset, *, max_bytes: int, max_wait_ms: int) -> CommittedRecords:
        """See `NodeService`."""
        await self.wait_readable(offset, max_wait_ms=max_wait_ms)
        records: list[CommittedRecord] = []
        size_bytes = 0
        for record in self._log[offset:]:
            size_bytes += len(record.key or b"") + len(record.value or b"")
            if records and size_bytes > max_bytes:
                break
            records.append(record)
        return CommittedRecords(
            records=tuple(records),
            next_offset=Offset(offset + len(records)),
            high_watermark=Offset(len(self._log)),
            log_start_offset=Offset(0),
        )

    async def read_barrier(self, *, timeout_ms: int) -> Offset:
        """See `NodeService`."""
        del timeout_ms
        self._check_leading()
        return self.kv.next_offset

    async def add_voter(self, request: AddVoterRequest) -> VoterChanged:
        """See `NodeService`; commits at once, as the declared observer acknowledges at once."""
        self._check_leading()
        voter = request.voter.voter
        if voter.key in self._voters:
            raise refusal("VOTER_ALREADY_ADDED", f"{voter.key} is a voter")
        self._check_expected(request.expected)
        if voter.key not in self._observers:
            raise refusal("NOT_AN_OBSERVER", f"{voter.key} does not fetch from this leader")
        self._change_voters(AddVoter(voter))
        if request.replaces is not None and request.replaces.key in self._voters:
            self._change_voters(RemoveVoter(request.replaces.key))
        return self._voter_changed()

    async def remove_voter(self, request: RemoveVoterRequest) -> VoterChanged:
        """See `NodeService`."""
        self._check_leading()
        key = request.voter.key
        if key not in self._voters:
            raise refusal("VOTER_ALREADY_REMOVED", f"{key} is not a voter")
        self._check_expected(request.expected)
        if len(self._voters) == 1:
            raise refusal("LAST_VOTER", f"{key} is the last voter")
        self._change_voters(RemoveVoter(key))
        self._observers.setdefault(key, None)
        return self._voter_changed()

    async def reassign(
        self, request: ReassignRequest | CancelReassignmentRequest
    ) -> ReassignmentAccepted:
        """See `NodeService`; no operator takes the steps, so nothing is ever reassigned."""
        self._check_leading()
        if isinstance(request, CancelReassignmentRequest):
            return ReassignmentAccepted(target_voters=())
        self._check_expected(request.expected)
        for spec in request.targets:
            if all(key.node_id != spec.node_id for key in (*self._voters, *self._observers)):
                raise refusal("NOT_AN_OBSERVER", f"{spec.node_id} does not fetch from here")
        return ReassignmentAccepted(target_voters=tuple(Replica.of(key) for key in self._voters))

    async def upgrade(self, request: UpgradeRequest) -> RaftVersionInfo:
        """See `NodeService`; it is at the newest version always."""
        self._check_leading()
        if request.raft_version < RAFT_VERSION:
            raise refusal("VERSION_NOT_LOWERED", f"the quorum is at {RAFT_VERSION}")
        return RaftVersionInfo(raft_version=RAFT_VERSION)

    async def resign(self, request: ResignRequest) -> None:
        """See `NodeService`; being alone, it is elected again at once."""
        del request
        self._check_leading()
        self._become_leader()

    async def form(self, request: FormRequest) -> None:
        """See `NodeService`; the other voters of the latch are taken to acknowledge at once."""
        self._raise_failure()
        voters = VoterSet.of(spec.voter for spec in request.voters)
        if self._cluster_id is not None:
            if self._cluster_id == request.cluster_id and self._latch == voters:
                return
            raise refusal("ALREADY_FORMED", f"this node belongs to {self._cluster_id!r}")
        if self.key not in voters:
            raise refusal("NOT_LISTED", f"{self.key} is not in {voters}")
        self._form(request.cluster_id, voters)

    async def join(self, request: JoinRequest) -> None:
        """See `NodeService`."""
        self._raise_failure()
        if self._cluster_id not in {None, request.cluster_id}:
            raise refusal("INCONSISTENT_CLUSTER_ID", f"this node belongs to {self._cluster_id!r}")
        self._cluster_id = request.cluster_id

    # Inside.

    def _form(self, cluster_id: str, voters: VoterSet) -> None:
        self._cluster_id = cluster_id
        self._latch = voters
        self._become_leader()
        self._write(RaftVersion(RAFT_VERSION))
        for voter in voters.voters:
            self._change_voters(AddVoter(voter))
        self._write(FormationCompleted())

    def _become_leader(self) -> None:
        self._leading = True
        self._leader = None
        self._epoch = Epoch(self._epoch + 1)
        voters = tuple(self._voters)
        self._write(LeaderChange(self.key, voters, voters))

    def _change_voters(self, control: AddVoter | RemoveVoter) -> None:
        if isinstance(control, AddVoter):
            self._voters = self._voters.with_added(control.voter)
        else:
            self._voters = self._voters.without(control.key)
        self._voter_record = VoterRecordId(Offset(len(self._log)), self._epoch)
        self._write(control)

    def _write(
        self,
        control: ControlRecord | None = None,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
    ) -> None:
        offset = Offset(len(self._log))
        now_ms = time.time_ns() // 1_000_000
        self._log.append(CommittedRecord(offset, self._epoch, now_ms, key, value, control))
        self.kv.apply(offset, key, value, epoch=self._epoch)
        self._grown.set()
        self._grown = asyncio.Event()

    def _check_formed(self) -> str:
        self._raise_failure()
        if self._cluster_id is None:
            raise refusal("NODE_BLANK", "this node waits for form or join")
        return self._cluster_id

    def _check_leading(self) -> str:
        cluster_id = self._check_formed()
        if not self._leading:
            raise not_leader(*(self._leader or (None, None)))
        return cluster_id

    def _check_expected(self, expected: VoterRecord) -> None:
        if expected != self._voter_record_out():
            raise refusal(
                "STALE_VOTER_RECORD",
                f"the voters come from offset {self._voter_record.offset} of epoch "
                f"{self._voter_record.epoch}, not {expected.offset} of {expected.epoch}",
            )

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _known_leader(self) -> tuple[ReplicaKey, Endpoint] | None:
        return (self.key, self.api_endpoint) if self._leading else self._leader

    def _role(self) -> Role:
        if self._cluster_id is None:
            return "blank"
        if self._leading:
            return "leader"
        return "follower" if self.key in self._voters else "observer"

    def _progress(self, key: ReplicaKey, endpoint: Endpoint | None) -> ReplicaProgress:
        return ReplicaProgress(
            node_id=key.node_id,
            directory_id=format_directory_id(key.directory_id),
            endpoint=str(endpoint) if endpoint else None,
            acknowledged_offset=len(self._log),
            lag=0,
            last_fetch_age_ms=0,
            last_caught_up_age_ms=0,
            caught_up=True,
            fenced=False,
            incarnation=1,
            could_be_voter=key in self._observers and key not in self._voters,
        )

    def _voter_record_out(self) -> VoterRecord:
        return VoterRecord(offset=self._voter_record.offset, epoch=self._voter_record.epoch)

    def _voter_changed(self) -> VoterChanged:
        return VoterChanged(
            voter_record=self._voter_record_out(),
            voters=tuple(Replica.of(key) for key in self._voters),
        )
