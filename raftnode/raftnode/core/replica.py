"""The state of one replica and its changes of role.

This module has everything that the other modules of the core read and change, and `become_…`, the
only ways from role to role. It handles no message.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from raftnode.core.config import CoreConfig
from raftnode.core.effects import (
    AppendBatches,
    Done,
    Effect,
    Fact,
    Halt,
    HighWatermarkAdvanced,
    LeadershipLost,
    PersistQuorumState,
    Refused,
    SendRequest,
    SendResponse,
    TruncateLog,
)
from raftnode.core.log_index import LogIndex
from raftnode.core.messages import ErrorCode, FetchResponse, Request, Response
from raftnode.core.reasons.halts import (
    HaltReason,
    TruncationBelowHighWatermark,
    UnknownRaftVersion,
    UnlistedVoterIds,
)
from raftnode.core.reasons.refusals import LeadershipEnded, Reason
from raftnode.core.records import RAFT_VERSION, Batch, ControlRecord
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Blank, Follower, Leader, Resigned, Role, Unattached, role_name
from raftnode.core.snapshots.download import Download
from raftnode.core.state import QuorumState
from raftnode.core.types import FIRST_OFFSET, Endpoint, Epoch, NodeId, Offset, ReplicaKey


@dataclass(slots=True)
class Replica:
    """One replica, in memory.

    Invariants: `state` is durable before anything that depends on it is sent;
    `high_watermark` never falls.
    """

    key: ReplicaKey
    config: CoreConfig
    rng: random.Random
    log: LogIndex
    state: QuorumState
    cluster_id: str | None
    incarnation: int = 1
    fetch_sequence: int = 0
    """Rises with each Fetch; begins above any earlier start's (the caller's duty)."""
    endpoint: Endpoint | None = None
    own: Progress = field(default_factory=Progress)
    """How far its own disk has made the log durable, kept like a follower's progress (S36)."""
    role: Role = field(default_factory=Blank)
    high_watermark: Offset = FIRST_OFFSET
    applicable: Offset = FIRST_OFFSET
    download: Download | None = None
    """The snapshot that the replica is fetching; kept over a change of leader."""
    disk_low: bool = False
    disk_full: bool = False
    stopping: bool = False
    promised_until_ms: int = 0
    """Until then the replica does not vote, not for itself either (S33)."""
    called_until_ms: int = 0
    """Until then the replica may start an election though it is no voter: a candidate could not
    win without it (S31)."""
    removed_below: Offset = FIRST_OFFSET
    """The leader said that this replica's removal is committed and stands below here (P36)."""
    transferred_at_ms: int | None = None
    """When it last transferred leadership because a reassignment removes it (P34)."""
    halted: bool = False
    now_ms: int = 0
    effects: list[Effect] = field(default_factory=list[Effect])

    # -- what it is --------------------------------------------------------------

    @property
    def epoch(self) -> Epoch:
        """The largest epoch known."""
        return self.state.epoch

    @property
    def leader(self) -> ReplicaKey | None:
        """The leader of the epoch, itself included; None: unknown or resigned."""
        match self.role:
            case Follower(leader=leader):
                return leader
            case Leader():
                return self.key
            case _:
                return None

    @property
    def is_voter(self) -> bool:
        """Whether the replica is in the voter set in force in its own log."""
        return self.key in self.log.voters

    @property
    def may_stand(self) -> bool:
        """Whether the replica may become candidate by itself, once it misses a leader.

        In KIP-856 only a voter may. S7: so may a voter whose removal is not known to be
        committed, for its log may be the only one that can win. Other replicas start an
        election only when they are called (S31).
        """
        if self.stopping or not self.log.voters or self.log.end < self.removed_below:
            return False
        return self.may_be_voter(self.key)

    @property
    def is_called(self) -> bool:
        """Whether it may become candidate without being a voter, because others need it (S31)."""
        return self.now_ms < self.called_until_ms and not self.stopping

    @property
    def has_caught_up_disk(self) -> bool:
        """Whether its own log becomes durable as soon as a follower's has to (S13, S36)."""
        config, log = self.config, self.log
        return log.durable_end >= log.end or self.own.is_caught_up(
            self.now_ms, config.fetch_timeout_ms, config.election_timeout_ms
        )

    @property
    def has_stalled_disk(self) -> bool:
        """Whether records wait to become durable and none has for `leader_timeout_ms` (S35)."""
        at = self.disk_stalls_at_ms
        return at is not None and self.now_ms >= at

    @property
    def disk_stalls_at_ms(self) -> int | None:
        """When the disk counts as stalled unless records become durable; None: all are."""
        if self.log.durable_end >= self.log.end:
            return None
        return (self.own.last_fetch_ms or 0) + self.config.leader_timeout_ms

    def may_be_voter(self, key: ReplicaKey) -> bool:
        """Whether a replica is a voter, or was and its removal is not known to be committed."""
        if key in self.log.voters:
            return True
        return any(key in at.voters for at in self.log.voter_sets_since(self.high_watermark))

    @property
    def knows_no_other_voter(self) -> bool:
        """Whether the replica knows of no voter except perhaps itself."""
        return all(key == self.key for key in self.log.voters)

    @property
    def round_token(self) -> int:
        """The leader's token, to echo in the next Fetch; 0: this replica follows no leader."""
        match self.role:
            case Follower(round_token=token):
                return token
            case _:
                return 0

    # -- output ----------------------------------------------------------------------

    def emit(self, *effects: Effect) -> None:
        """Add effects to those that the event returns."""
        self.effects.extend(effects)

    def fact(self, name: str, **fields: str | int | None) -> None:
        """Emit a fact worth a log line."""
        self.emit(Fact(name, (("epoch", self.epoch), *fields.items())))

    def send(self, target: ReplicaKey | None, request: Request) -> None:
        """Ask another replica."""
        self.emit(SendRequest(target, request))

    def respond(self, request_id: int, response: Response) -> None:
        """Answer another replica."""
        self.emit(SendResponse(request_id, response))

    def refuse(self, request_id: int, reason: Reason) -> None:
        """Refuse a request that has left no trace."""
        self.emit(Refused(request_id, reason))

    def halt(self, reason: HaltReason) -> None:
        """Stop for good."""
        self.halted = True
        self.emit(Halt(reason))

    # -- times ---------------------------------------------------------------------

    def election_deadline(self) -> int:
        """When to start an election if no leader is heard: after 1 to 1.5 fetch timeouts.

        A replica without disk space waits longer, so that another is elected first (S30).
        """
        base = self.config.fetch_timeout_ms * (2 if self.disk_low else 1)
        return self.now_ms + base + self.rng.randrange(self.config.fetch_timeout_ms // 2 + 1)

    def first_election_deadline(self) -> int:
        """When to start an election if no leader is known at all: there is none to wait for."""
        wait = self.config.election_timeout_ms * (3 if self.disk_low else 1)
        return self.now_ms + wait // 2 + self.rng.randrange(wait // 2 + 1)

    def sooner(self, epoch: Epoch, deadline_ms: int) -> int:
        """A deadline that does not put off the present role's own within one epoch."""
        match self.role:
            case (
                Unattached(election_at_ms=at)
                | Follower(election_at_ms=at)
                | Resigned(election_at_ms=at)
            ) if epoch == self.epoch:
                return min(at, deadline_ms)
            case _:
                return deadline_ms

    def backoff(self, retries: int) -> int:
        """A random wait that doubles with each lost election, bounded (P40)."""
        bound = min(
            self.config.election_backoff_max_ms,
            self.config.retry_backoff_ms << min(retries + 1, 16),
        )
        return self.rng.randrange(1, max(bound, 1) + 1)

    # -- the log -------------------------------------------------------------------

    def append(self, batches: tuple[Batch, ...]) -> None:
        """Append batches that follow the log's end."""
        unlisted: set[NodeId] = set()
        for batch in batches:
            before = self.log.voter_record
            self.log.append(batch)
            if self.log.voter_record != before:
                self.fact("voters_changed", voters=str(self.log.voters), offset=batch.base_offset)
                ids = {key.node_id for key in self.log.history[-2].voters}
                if self.log.raft_version == 1 and ids:
                    unlisted |= {key.node_id for key in self.log.voters} - ids
        if unlisted:
            # The record is not stored: the next start goes on before it, and halts at it again.
            self.halt(UnlistedVoterIds("log", frozenset(unlisted)))
            return
        self.emit(AppendBatches(batches))
        if self.log.raft_version > RAFT_VERSION:
            self.halt(UnknownRaftVersion("log", self.log.raft_version, known=RAFT_VERSION))

    def append_control(self, *records: ControlRecord) -> Batch:
        """Append control records of this leader's epoch as one batch: all of them or none."""
        base = self.log.end
        batch = Batch(base, Offset(base + len(records) - 1), self.epoch, b"", records)
        self.append((batch,))
        return batch

    def truncate(self, end: Offset) -> bool:
        """Drop the log from `end` on; halts instead if that would drop committed records."""
        if end < self.high_watermark:
            self.halt(TruncationBelowHighWatermark(end, self.high_watermark))
            return False
        before = self.log.voter_record
        self.log.truncate(end)
        if self.log.voter_record != before:
            self.fact("voters_reverted", voters=str(self.log.voters), offset=end)
        self.emit(TruncateLog(end))
        return True

    def note_durable(self) -> None:
        """Note how far the own log is durable: at each event, and once a flush is reported."""
        log = self.log
        if log.durable_end < self.own.acknowledged or log.end < self.own.round_target:
            self.own = Progress()  # truncated since
        if log.durable_end >= log.end or log.durable_end > self.own.acknowledged:
            self.own.last_fetch_ms = self.now_ms
            self.own.fetched(log.durable_end, log.end, self.now_ms)

    def raise_high_watermark(self, offset: Offset) -> None:
        """Advance what is known to be committed, and what of it may be applied (S10)."""
        before = (self.high_watermark, self.applicable)
        self.high_watermark = max(self.high_watermark, offset)
        self.applicable = max(self.applicable, min(self.high_watermark, self.log.durable_end))
        if (self.high_watermark, self.applicable) != before:
            self.emit(HighWatermarkAdvanced(self.high_watermark, self.applicable))

    def promise(self) -> None:
        """Promise not to vote for a while after an answer of the leader, if leases need it (S33).

        An earlier promise still holds, perhaps a longer one by a start with other settings.
        """
        if self.config.promise_ms:
            until_ms = self.now_ms + self.config.promise_ms
            self.promised_until_ms = max(self.promised_until_ms, until_ms)

    # -- changes of role -------------------------------------------------------------

    def persist(self, state: QuorumState) -> None:
        """Change epoch, leader or vote, durably before anything that follows."""
        assert state.epoch >= self.epoch  # noqa: S101
        if state != self.state:
            self.state = state
            self.emit(PersistQuorumState(state))

    def _leave(self) -> None:
        if isinstance(self.role, Leader):
            for fetch in self.role.parked.values():
                gone = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.epoch, None)
                self.respond(fetch.request_id, gone)
            self._answer_all_waiting(self.role)
            self.emit(LeadershipLost(self.role.epoch))

    def _answer_all_waiting(self, role: Leader) -> None:
        if role.transfer is not None:
            for request_id in sorted(role.transfer.request_ids):
                self.emit(Done(request_id))  # it leads no more, which is what was asked
        for confirmation in role.confirmations:
            self.refuse(confirmation.request_id, LeadershipEnded())
        for wait in (*role.changes, role.upgrade, role.target):
            if wait is not None:
                self.emit(*wait.leadership_lost())

    def become(self, role: Role) -> None:
        """Change the role in memory; callers persist first."""
        before = (role_name(self.role), self.leader)
        self._leave()
        self.role = role
        if (role_name(role), self.leader) != before:
            leader = str(self.leader) if self.leader else None
            self.fact("role_changed", role=role_name(role), leader=leader)

    def become_unattached(self, epoch: Epoch, *, election_at_ms: int | None = None) -> None:
        """Enter an epoch without a leader; a higher epoch drops the vote and leader of the old."""
        if epoch > self.epoch:
            self.persist(QuorumState(epoch))
        deadline = self.election_deadline() if election_at_ms is None else election_at_ms
        self.become(Unattached(deadline))

    def become_follower(
        self,
        epoch: Epoch,
        leader: ReplicaKey,
        endpoint: Endpoint | None = None,
        *,
        heard: bool = False,
    ) -> None:
        """Follow the leader of an epoch; `heard`: the leader itself said that it leads.

        A foreign UUID under the own id is no leader: the address leads back here (S1).
        """
        if leader.node_id == self.key.node_id:
            if epoch > self.epoch or isinstance(self.role, Follower):
                self.become_unattached(epoch)
            return
        deadline = self.election_deadline()
        if not heard:
            deadline = self.sooner(epoch, deadline)
        voted = self.state.voted if epoch == self.epoch else None
        self.persist(QuorumState(epoch, leader, voted))
        self.become(Follower(leader, deadline, self.now_ms if heard else None, endpoint))

    def become_resigned(self) -> None:
        """Stop leading without leaving the epoch."""
        self.become(Resigned(self.now_ms + self.config.fetch_timeout_ms // 2 + self.backoff(3)))
