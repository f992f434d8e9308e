"""The only entry point of the core: an event in, its effects out.

Duties of the caller, besides those in `effects`:

- `now_ms` never goes back;
- requests carry the source that the connection proved;
- the core is owned by one task and never entered while it runs.
"""

from __future__ import annotations

import random
from typing import assert_never

from raftnode.core import conclusions
from raftnode.core.config import CoreConfig
from raftnode.core.describe import QuorumDescription, describe
from raftnode.core.effects import (
    Done,
    Effect,
    PersistClusterId,
    PersistLatch,
)
from raftnode.core.elections import election, epoch_rules, leadership_transfer
from raftnode.core.events import (
    AddVoterRequested,
    AppendRequested,
    ClusterJoined,
    CommitAwaited,
    ConfirmRequested,
    DiskSpaceChanged,
    EndpointBound,
    Event,
    LatchReceived,
    LogFlushed,
    ReassignmentRequested,
    RemoveVoterRequested,
    RequestAbandoned,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    ShutdownRequested,
    SnapshotLost,
    SnapshotPieceStored,
    SnapshotRefused,
    SnapshotTaken,
    SnapshotVerified,
    TimePassed,
    UpgradeRequested,
)
from raftnode.core.membership import discovery, raft_version, reassignment, voter_changes
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.reasons.refusals import (
    CannotTakeOver,
    NotListed,
    NotTheLeader,
    OtherCluster,
)
from raftnode.core.replica import Replica
from raftnode.core.replication import fetcher, leadership
from raftnode.core.roles import Blank, Follower, Leader, Resigned, Unattached
from raftnode.core.snapshots import snapshot_fetch, snapshot_service
from raftnode.core.start_state import StartState
from raftnode.core.types import FIRST_OFFSET, Endpoint, Epoch, ReplicaKey

EPOCH_JUMP_MAX = 1 << 24
"""An epoch further ahead than this is damage: at one election a second it would have taken half a
year. A replica that took such an epoch over would soon leave no epoch to go on to (the wire and
the files have 32 bits), and the quorum would never elect a leader again."""


class RaftCore:
    """One replica's Raft.

    Args:
        start: what its storage holds.
        rng: source of every random choice.
        now_ms: a clock that never goes back.
        config: None: the defaults.
        endpoint: where its listener is bound, if it is.
    """

    def __init__(
        self,
        start: StartState,
        *,
        rng: random.Random,
        now_ms: int,
        config: CoreConfig | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        # What a snapshot covers was committed when the snapshot was made.
        log, committed_end = start.log, start.committed_end
        covered = max(log.snapshot.end_offset if log.snapshot else FIRST_OFFSET, committed_end)
        self.replica = Replica(
            start.key,
            config or CoreConfig(),
            rng,
            log,
            start.state,
            start.cluster_id,
            incarnation=start.incarnation,
            fetch_sequence=start.fetch_sequence,
            endpoint=endpoint,
            high_watermark=covered,
            applicable=covered,
            promised_until_ms=now_ms + start.quiet_ms if start.quiet_ms else 0,
            now_ms=now_ms,
        )
        if start.cluster_id is not None:
            self._attach()

    def _attach(self) -> None:
        """Choose the first role (P39): a replica that led before the restart is resigned."""
        replica = self.replica
        leader = replica.state.leader
        if leader == replica.key:
            replica.become_resigned()
        elif leader is not None:
            replica.become_follower(replica.epoch, leader)
        else:
            replica.become_unattached(
                replica.epoch, election_at_ms=replica.first_election_deadline()
            )

    # -- the interface ----------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event; return what must be done, in order. After a Halt: nothing more."""
        replica = self.replica
        if replica.halted:
            return []
        replica.now_ms = max(replica.now_ms, now_ms)
        replica.note_durable()
        self._dispatch(event)
        if not replica.halted:
            self._settle()
        effects, replica.effects = replica.effects, []
        return effects

    def next_deadline_ms(self) -> int | None:
        """When `TimePassed` is wanted at the latest; None: only other events matter."""
        replica = self.replica
        role = replica.role
        if isinstance(role, Leader):
            deadlines = conclusions.deadlines(replica, role)  # it neither stands nor fetches
        else:
            deadlines = [election.election_deadline(replica), fetcher.fetch_deadline(replica)]
        return min([at for at in deadlines if at is not None], default=None)

    def describe(self) -> QuorumDescription | None:
        """The leader's view of the quorum; None on any other replica."""
        return describe(self.replica)

    # -- inside -------------------------------------------------------------------------

    def _dispatch(self, event: Event) -> None:
        replica = self.replica
        match event:
            case TimePassed():
                pass
            case EndpointBound(endpoint):
                self.replica.endpoint = endpoint
            case RequestReceived():
                self._request(event)
            case ResponseReceived():
                self._response(event)
            case RequestFailed():
                self._failure(event)
            case LogFlushed():
                if event.truncations == replica.log.truncations:
                    replica.log.durable_end = max(replica.log.durable_end, event.end_offset)
                    replica.note_durable()
                    replica.raise_high_watermark(replica.high_watermark)
            case SnapshotTaken():
                snapshot_fetch.taken(replica, event)
            case SnapshotLost():
                snapshot_fetch.lost(replica, event)
            case SnapshotPieceStored():
                fetcher.handle_piece_stored(replica, event)
            case SnapshotVerified():
                snapshot_fetch.verified(replica, event)
            case SnapshotRefused():
                fetcher.handle_snapshot_refused(replica, event)
            case AppendRequested():
                leadership.handle_append(replica, event)
            case AddVoterRequested():
                voter_changes.handle_add(replica, event)
            case RemoveVoterRequested():
                voter_changes.handle_remove(replica, event)
            case UpgradeRequested():
                raft_version.handle_upgrade(replica, event)
            case ReassignmentRequested():
                reassignment.handle_reassignment(replica, event)
            case ConfirmRequested():
                leadership.handle_confirm(replica, event)
            case ResignRequested():
                self._resign(event)
            case RequestAbandoned():
                voter_changes.abandon(replica, event.request_id)
                raft_version.abandon(replica, event.request_id)
                reassignment.abandon(replica, event.request_id)
                if isinstance(replica.role, Leader):
                    leadership_transfer.abandon(replica.role, event.request_id)
            case CommitAwaited():
                fetcher.handle_commit_awaited(replica, event)
            case LatchReceived() | ClusterJoined():
                self._join(event)
            case DiskSpaceChanged():
                replica.disk_low, replica.disk_full = event.low, event.full
            case ShutdownRequested():
                replica.stopping = True
                if isinstance(replica.role, Leader):
                    leadership.resign(replica, replica.role)
                else:
                    election.withdraw(replica)
            case _:
                assert_never(event)

    def _request(self, event: RequestReceived) -> None:
        replica, request_id, source = self.replica, event.request_id, event.source
        if self._is_absurd(event.request.epoch, source):
            return
        match event.request:
            case VoteRequest() as request:
                election.handle_vote(replica, request_id, source, request)
            case BeginQuorumEpochRequest() as request:
                fetcher.handle_begin(replica, request_id, source, request)
            case EndQuorumEpochRequest() as request:
                fetcher.handle_end(replica, request_id, source, request)
            case FetchRequest() as request:
                if isinstance(replica.role, Leader) and request.blank:
                    discovery.handle_announcement(
                        replica, replica.role, request_id, source, request
                    )
                elif isinstance(replica.role, Leader):
                    leadership.handle_fetch(replica, replica.role, request_id, source, request)
                else:
                    fetcher.refuse_fetch(replica, request_id, request)
            case FetchSnapshotRequest() as request:
                role = replica.role
                if isinstance(role, Leader):
                    snapshot_service.handle_fetch_snapshot(
                        replica, role, request_id, source, request
                    )
                else:
                    fetcher.refuse_fetch(replica, request_id, request)

    def _is_absurd(self, epoch: Epoch, source: ReplicaKey) -> bool:
        if epoch <= self.replica.epoch + EPOCH_JUMP_MAX:
            return False
        self.replica.fact("epoch_rejected", claimed=epoch, source=str(source))
        return True

    def _response(self, event: ResponseReceived) -> None:
        replica, source = self.replica, event.source
        if self._is_absurd(event.response.epoch, source):
            self._failure(RequestFailed(source, event.request))
            return
        match event.request, event.response:
            case VoteRequest() as request, VoteResponse() as response:
                election.handle_vote_response(replica, source, request, response)
            case BeginQuorumEpochRequest(), BeginQuorumEpochResponse() as response:
                leadership.handle_begin_response(replica, source, response)
            case FetchRequest() as request, FetchResponse() as response:
                self._fetched(source, request, response)
            case FetchSnapshotRequest() as request, FetchSnapshotResponse() as response:
                fetcher.handle_fetch_snapshot_response(replica, source, request, response)
            case EndQuorumEpochRequest(), EndQuorumEpochResponse() as response:
                # P19: a higher epoch in the answer is followed, unless shutting down.
                higher = epoch_rules.believed(replica, source, response.epoch, response.leader)
                if higher and not replica.stopping:
                    replica.become_unattached(response.epoch)
            case _:
                replica.fact("response_mismatched", source=str(source))

    def _fetched(self, source: ReplicaKey, request: FetchRequest, response: FetchResponse) -> None:
        replica, role = self.replica, self.replica.role
        if not isinstance(role, Blank):
            fetcher.handle_fetch_response(replica, source, request, response)
        elif role.fetching.answered(request):
            discovery.take_answer(replica, role, source, response)

    def _failure(self, event: RequestFailed) -> None:
        match event.request:
            case FetchRequest() | FetchSnapshotRequest() as request:
                fetcher.handle_fetch_failure(self.replica, request)
            case BeginQuorumEpochRequest() as request:
                if event.target is not None and request.epoch == self.replica.epoch:
                    leadership.handle_begin_response(self.replica, event.target, None)
            case VoteRequest() | EndQuorumEpochRequest():
                pass  # the election's own deadline retries; an End is sent once (S17)

    def _resign(self, event: ResignRequested) -> None:
        replica, role = self.replica, self.replica.role
        if not isinstance(role, Leader):
            replica.refuse(event.request_id, NotTheLeader())
            return
        able = voter_changes.caught_up_voters(replica, role, replica.log.voters)
        wanted = event.preferred
        if not able or (wanted is not None and wanted not in able):
            replica.refuse(event.request_id, CannotTakeOver(wanted, tuple(able)))
            return
        leadership_transfer.begin(replica, role, able, wanted, event.request_id)

    def _join(self, event: LatchReceived | ClusterJoined) -> None:
        """Leave the role Blank, once (S18): as a voter of the latch, or as an observer (S5)."""
        replica = self.replica
        is_latch = isinstance(event, LatchReceived)
        cluster_id = event.latch.cluster_id if is_latch else event.cluster_id
        if not isinstance(replica.role, Blank):
            same = replica.cluster_id == cluster_id
            same_latch = not is_latch or (
                (replica.log.base_voters, replica.log.base_raft_version)
                == (event.latch.voters, event.latch.raft_version)
            )
            if same and same_latch:
                replica.emit(Done(event.request_id))
            else:
                replica.refuse(event.request_id, OtherCluster(replica.cluster_id))
            return
        if is_latch and replica.key not in event.latch.voters:
            replica.refuse(event.request_id, NotListed(replica.key, event.latch.voters))
            return
        replica.cluster_id = cluster_id
        if is_latch:
            replica.log.set_base(event.latch.voters, event.latch.raft_version)
            replica.emit(PersistLatch(event.latch))
        else:
            replica.emit(PersistClusterId(cluster_id))
        replica.emit(Done(event.request_id))
        first = replica.first_election_deadline()
        replica.become_unattached(Epoch(replica.epoch), election_at_ms=first)

    def _settle(self) -> None:
        """Do all that is due now, whatever the event was."""
        replica = self.replica
        fetcher.give_up_late_fetch(replica)
        due = election.election_deadline(replica)
        if due is not None and due <= replica.now_ms:
            election.on_election_time(replica)
        role = replica.role
        if isinstance(role, Leader):
            conclusions.draw(replica, role)
        fetcher.fetch_if_due(replica)
        assert not isinstance(replica.role, Resigned | Unattached | Follower) or (  # noqa: S101
            replica.cluster_id is not None
        )
