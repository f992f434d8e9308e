"""A replica that does not lead: it finds the leader, fetches from it and obeys it."""

from __future__ import annotations

from raftnode.core.elections import epoch_rules
from raftnode.core.events import CommitAwaited, SnapshotPieceStored, SnapshotRefused
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from raftnode.core.reasons.halts import StorageFenced
from raftnode.core.records import RAFT_VERSION, Batch
from raftnode.core.replica import Replica
from raftnode.core.roles import Blank, Fetching, Follower, Prospective, Resigned, Unattached
from raftnode.core.snapshots import snapshot_fetch
from raftnode.core.types import Epoch, LogPosition, ReplicaKey

_NOT_TO_BE_HAD = frozenset({ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE})

# -- fetching (P20, P22, P23) --------------------------------------------------------


def fetching_of(replica: Replica) -> Fetching | None:
    """The state of the Fetch loop, in the roles that have one."""
    match replica.role:
        case Blank(fetching=fetching):
            return fetching if replica.config.announces_blank else None
        case (
            Unattached(fetching=fetching)
            | Prospective(fetching=fetching)
            | Follower(fetching=fetching)
            | Resigned(fetching=fetching)
        ):
            return fetching
        case _:
            return None


def fetch_if_due(replica: Replica) -> None:
    """Send the next Fetch unless it is not due yet, or enough are under way."""
    fetching = fetching_of(replica)
    if fetching is None:
        return
    log = replica.log
    fetching.unflushed = [end for end in fetching.unflushed if log.durable_end < end <= log.end]
    if replica.now_ms < fetching.next_at_ms:
        return
    if not (_is_idle(replica, fetching) or _may_send_ahead(replica, fetching)):
        return
    target = _fetch_target(replica)
    if isinstance(replica.role, Blank):
        replica.role.announcements = replica.role.announcements + 1 if target else 0
    request = snapshot_fetch.next_piece(replica) or _next_fetch(replica)
    if isinstance(fetching.in_flight, FetchRequest):
        fetching.before.append(fetching.in_flight)
    fetching.in_flight, fetching.sent_at_ms = request, replica.now_ms
    replica.send(target, request)


def _is_idle(replica: Replica, fetching: Fetching) -> bool:
    """Whether nothing is under way, to the leader or to the disk.

    The wait for the flush makes the requested offset and the acknowledged offset the same (S10).
    """
    return fetching.in_flight is None and replica.log.durable_end >= replica.log.end


def _may_send_ahead(replica: Replica, fetching: Fetching) -> bool:
    """Whether one more Fetch may leave beside what is under way, and says something new.

    What the Fetch acknowledges is durable all the same (S10). The replica sends none ahead of a
    snapshot's pieces, and to no replica but the leader.
    """
    log, newest = replica.log, fetching.in_flight
    to_disk = len(fetching.unflushed) or (log.durable_end < log.end)
    under_way = len(fetching.before) + (newest is not None) + to_disk
    if under_way >= replica.config.fetches_in_flight_max or replica.download is not None:
        return False
    if not isinstance(replica.role, Follower) or isinstance(newest, FetchSnapshotRequest):
        return False
    if newest is None or newest.fetch_offset != log.end:
        return True
    # A Fetch only to acknowledge may bring the same records twice: send it if it may commit some.
    return newest.acknowledged_offset < log.durable_end > replica.high_watermark


def _next_fetch(replica: Replica) -> FetchRequest:
    replica.fetch_sequence += 1
    return FetchRequest(
        epoch=replica.epoch,
        replica=replica.key,
        fetch_offset=replica.log.end,
        last_fetched_epoch=replica.log.last_epoch,
        acknowledged_offset=replica.log.durable_end,
        high_watermark=replica.high_watermark,
        round_token=replica.round_token,
        incarnation=replica.incarnation,
        max_bytes=replica.config.fetch_max_bytes,
        # A replica that looks for the leader wants the answer at once, not new records.
        max_wait_ms=replica.config.fetch_max_wait_ms if isinstance(replica.role, Follower) else 0,
        sequence=replica.fetch_sequence,
        endpoint=replica.endpoint,
        raft_version_max=RAFT_VERSION,
        promise_ms=replica.config.promise_ms,
        wants_high_watermark=_is_awaited(replica),
        blank=isinstance(replica.role, Blank),
    )


def _is_awaited(replica: Replica) -> bool:
    role = replica.role
    return isinstance(role, Follower) and role.awaited >= replica.high_watermark


def handle_commit_awaited(replica: Replica, event: CommitAwaited) -> None:
    """Note what a client waits for; the Fetches from now on say so until it is committed."""
    role = replica.role
    if isinstance(role, Follower):
        # No client may keep the leader from holding back for ever.
        role.awaited = max(role.awaited, min(event.offset, replica.log.end))


def _fetch_target(replica: Replica) -> ReplicaKey | None:
    """The leader; else any voter, else (None) any bootstrap server."""
    match replica.role:
        case Follower(leader=leader) | Prospective(leader_hint=ReplicaKey() as leader):
            return leader
        case Blank(leader_hint=leader, announcements=announcements):
            # Its servers may lead to another cluster too, which is perhaps the one that wants it.
            return leader if announcements < replica.config.announcements_max else None
        case _:
            others = [key for key in replica.log.voters if key.node_id != replica.key.node_id]
            # The recorded voters may all be gone: every third try asks a bootstrap server.
            if others and replica.rng.randrange(3):
                return replica.rng.choice(others)
            return None


def fetch_deadline(replica: Replica) -> int | None:
    """When the Fetch loop wants to act next."""
    fetching = fetching_of(replica)
    if fetching is None:
        return None
    sends = _is_idle(replica, fetching) or _may_send_ahead(replica, fetching)
    next_at_ms = fetching.next_at_ms if sends else None
    if fetching.in_flight is None:
        return next_at_ms
    late_ms = _late_at(replica, fetching)
    return late_ms if next_at_ms is None else min(late_ms, next_at_ms)


def _late_at(replica: Replica, fetching: Fetching) -> int:
    """When the newest request counts as failed."""
    limit_ms = replica.config.request_timeout_ms + replica.config.fetch_max_wait_ms
    return fetching.sent_at_ms + limit_ms


def give_up_late_fetch(replica: Replica) -> None:
    """Treat a Fetch that has had no answer for too long as failed."""
    fetching = fetching_of(replica)
    if fetching is None or fetching.in_flight is None:
        return
    if replica.now_ms >= _late_at(replica, fetching):
        handle_fetch_failure(replica, fetching.in_flight)


def handle_fetch_failure(replica: Replica, request: FetchRequest | FetchSnapshotRequest) -> None:
    """Try again after a Fetch without an answer, a little later each time."""
    fetching = fetching_of(replica)
    if fetching is None or not fetching.answered(request):
        return
    fetching.forget()  # who does not answer one is given time before it is asked again
    fetching.failures += 1
    config = replica.config
    wait = min(
        config.retry_backoff_ms << min(fetching.failures - 1, 10), config.retry_backoff_max_ms
    )
    if not isinstance(replica.role, Follower):
        wait = min(wait, config.fetch_timeout_ms // 10)  # each time another replica is asked
    fetching.next_at_ms = replica.now_ms + wait
    asked_server = isinstance(replica.role, Blank) and not replica.role.announcements
    if isinstance(replica.role, Prospective | Blank) and not asked_server:
        replica.role.leader_hint = None
    if isinstance(replica.role, Blank):
        fetching.next_at_ms = replica.now_ms + config.announce_interval_ms
    _lose_patience(replica)


def _lose_patience(replica: Replica) -> None:
    """P23: an observer has no election to wait for; it leaves a leader that does not answer."""
    role = replica.role
    if (
        isinstance(role, Follower)
        and not replica.may_stand
        and replica.now_ms >= role.election_at_ms
    ):
        replica.become_unattached(replica.epoch)


def handle_fetch_response(
    replica: Replica, source: ReplicaKey, request: FetchRequest, response: FetchResponse
) -> None:
    """Learn the leader, or take the records of the answer (P22)."""
    fetching = fetching_of(replica)
    if fetching is None or not fetching.answered(request):
        return
    _correct_token(replica, source, response)
    if response.error == ErrorCode.FENCED_REPLICA:
        replica.halt(StorageFenced(source))
        return
    if response.epoch < replica.epoch:
        _try_later(replica, fetching)
    elif response.error not in {ErrorCode.NONE, ErrorCode.NOT_FOLLOWER}:
        _learn_leader(replica, fetching, source, response)
    elif response.leader == source:
        _take(replica, request, response)
    else:
        _try_later(replica, fetching)


def _correct_token(
    replica: Replica, source: ReplicaKey, response: FetchResponse | FetchSnapshotResponse
) -> None:
    """S11: drop a damaged token: a leader refuses tokens that it has not given out.

    With that token, the leader would refuse each further Fetch until this replica starts an
    election.
    """
    role = replica.role
    if (
        isinstance(role, Follower)
        and role.leader == source
        and response.error == ErrorCode.INVALID_REQUEST
    ):
        role.round_token = min(role.round_token, response.round_token)
        replica.promise()  # it is about to echo what it has heard just now


def handle_fetch_snapshot_response(
    replica: Replica,
    source: ReplicaKey,
    request: FetchSnapshotRequest,
    response: FetchSnapshotResponse,
) -> None:
    """Take a piece of a snapshot, or learn that the leader does not have it (P25)."""
    fetching = fetching_of(replica)
    if fetching is None or not fetching.answered(request):
        return
    _correct_token(replica, source, response)
    if response.error == ErrorCode.FENCED_REPLICA:
        replica.halt(StorageFenced(source))
    elif response.epoch < replica.epoch:
        _try_later(replica, fetching)
    elif response.error in _NOT_TO_BE_HAD and response.leader == source:
        # The next Fetch names the snapshot that exists; it may be the same, so do not hurry.
        snapshot_fetch.give_up(replica)
        fetching.next_at_ms = replica.now_ms + replica.config.retry_backoff_max_ms // 4
    elif response.error != ErrorCode.NONE:
        _learn_leader(replica, fetching, source, response)
    elif response.leader == source:
        role = _hear(replica, response)
        if role is not None and not snapshot_fetch.take_piece(
            replica, role.fetching, request, response
        ):
            replica.fact("snapshot_piece_rejected", position=request.position)
            _try_later(replica, role.fetching)
    else:
        _try_later(replica, fetching)


def handle_piece_stored(replica: Replica, event: SnapshotPieceStored) -> None:
    """Ask for the next piece at once, as the storage has the last one."""
    fetching = fetching_of(replica)
    if snapshot_fetch.piece_stored(replica, event) and fetching is not None:
        fetching.next_at_ms = replica.now_ms


def handle_snapshot_refused(replica: Replica, event: SnapshotRefused) -> None:
    """Begin again, later each time, as the storage cannot use what was fetched."""
    fetching = fetching_of(replica)
    if snapshot_fetch.refused(replica, event) and fetching is not None:
        fetching.next_at_ms = replica.now_ms + replica.config.retry_backoff_max_ms


def _try_later(replica: Replica, fetching: Fetching) -> None:
    fetching.failures += 1
    fetching.next_at_ms = replica.now_ms + replica.config.retry_backoff_ms * min(
        fetching.failures, 5
    )
    _lose_patience(replica)


def _learn_leader(
    replica: Replica,
    fetching: Fetching,
    source: ReplicaKey,
    response: FetchResponse | FetchSnapshotResponse,
) -> None:
    leader = response.leader
    higher = epoch_rules.believed(replica, source, response.epoch, leader)
    other = response.epoch == replica.epoch and replica.leader != leader
    if leader is not None and (higher or other):
        if isinstance(replica.role, Prospective) and response.epoch == replica.epoch:
            own = leader.node_id == replica.key.node_id  # S1
            replica.role.leader_hint = None if own else leader
        else:
            endpoint = response.leader_endpoint
            replica.become_follower(response.epoch, leader, endpoint, heard=leader == source)
    elif higher or (leader is None and replica.leader == source):
        # A voter's epoch without a leader, or the leader itself says that it leads no more.
        epoch = response.epoch if higher else replica.epoch
        deadline = replica.sooner(epoch, replica.first_election_deadline())
        replica.become_unattached(epoch, election_at_ms=deadline)
    # Replicas may name each other in a circle: each turn without a good Fetch waits longer.
    current = fetching_of(replica)
    if current is not None:
        current.failures = fetching.failures
        _try_later(replica, current)
        if current.failures == 1:
            current.next_at_ms = replica.now_ms


def _hear(replica: Replica, response: FetchResponse | FetchSnapshotResponse) -> Follower | None:
    """Take a good answer as proof that the leader leads; None: this replica cannot follow it."""
    leader = response.leader
    assert leader is not None  # noqa: S101
    role = replica.role
    if not isinstance(role, Follower) or role.leader != leader or response.epoch > replica.epoch:
        replica.become_follower(response.epoch, leader, response.leader_endpoint, heard=True)
        role = replica.role
        if not isinstance(role, Follower):
            return None
    replica.promise()
    role.heard_at_ms = replica.now_ms
    role.election_at_ms = replica.election_deadline()
    role.leader_endpoint = response.leader_endpoint or role.leader_endpoint
    role.round_token = max(role.round_token, response.round_token)
    role.fetching.failures = 0
    role.fetching.next_at_ms = replica.now_ms
    return role


def _take(replica: Replica, request: FetchRequest, response: FetchResponse) -> None:
    """Take a good answer to a Fetch: records, or the snapshot or offset to go on from."""
    role = _hear(replica, response)
    if role is None:
        return
    if response.error == ErrorCode.NOT_FOLLOWER:
        # The voters of the new set refuse a replica with less than that (P8), so an election of
        # its own would not help it; S7 is about removals that are not committed.
        replica.removed_below = max(replica.removed_below, response.high_watermark)
        replica.fact("removal_learned", below=response.high_watermark)
    if LogPosition(request.last_fetched_epoch, request.fetch_offset) != replica.log.position:
        return  # the log has moved since it was asked for
    if response.snapshot is not None:
        role.fetching.forget()
        if not snapshot_fetch.offered(replica, role.fetching, response.snapshot):
            _try_later(replica, role.fetching)
        return
    snapshot_fetch.give_up(replica)  # this leader has the records
    if response.diverging is not None:
        replica.truncate(replica.log.truncation_point(response.diverging))
        return
    if response.batches and replica.disk_full:
        # As if the records had been lost on the way (S30); the space left is for votes and epochs.
        role.fetching.next_at_ms = replica.now_ms + replica.config.retry_backoff_max_ms
    elif batches := _fitting(replica, response.batches):
        replica.append(batches)
        role.fetching.unflushed.append(replica.log.end)
    elif response.batches:
        _try_later(replica, role.fetching)  # damaged: asking again at once would spin
    if replica.log.end >= response.high_watermark:
        role.caught_up_at_ms = replica.now_ms
    replica.raise_high_watermark(min(response.high_watermark, replica.log.end))


def _fitting(replica: Replica, batches: tuple[Batch, ...]) -> tuple[Batch, ...]:
    """The leading batches that continue the log; only damage brings others, no leader does."""
    end, epoch, fitting = replica.log.end, Epoch(max(replica.log.last_epoch, 0)), 0
    for batch in batches:
        if batch.base_offset != end or not epoch <= batch.epoch <= replica.epoch:
            replica.fact("batch_rejected", base_offset=batch.base_offset, log_end=end)
            break
        end, epoch, fitting = batch.end_offset, batch.epoch, fitting + 1
    return batches[:fitting]


# -- answering ---------------------------------------------------------------------------


def refuse_fetch(
    replica: Replica, request_id: int, request: FetchRequest | FetchSnapshotRequest
) -> None:
    """Answer a Fetch on a replica that does not lead: name the leader (P23)."""
    epoch, role = replica.epoch, replica.role
    if request.epoch > epoch:
        error = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif request.epoch < epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    else:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    endpoint = role.leader_endpoint if isinstance(role, Follower) else None
    if isinstance(request, FetchSnapshotRequest):
        refused = FetchSnapshotResponse(
            error, epoch, replica.leader, request.snapshot, request.position, endpoint
        )
        replica.respond(request_id, refused)
        return
    replica.respond(request_id, FetchResponse(error, epoch, replica.leader, endpoint))


def handle_begin(
    replica: Replica, request_id: int, source: ReplicaKey, request: BeginQuorumEpochRequest
) -> None:
    """Answer a leader that announces itself (P13, P15, S1, S16)."""
    error = _judge_begin(replica, source, request)
    if error == ErrorCode.NONE:
        higher = epoch_rules.believed(replica, source, request.epoch, request.leader)
        if higher or replica.leader != request.leader:
            replica.become_follower(request.epoch, request.leader, request.endpoint, heard=True)
        elif isinstance(replica.role, Follower):
            replica.role.heard_at_ms = replica.now_ms
    replica.respond(request_id, BeginQuorumEpochResponse(error, replica.epoch, replica.leader))


def _judge_begin(
    replica: Replica, source: ReplicaKey, request: BeginQuorumEpochRequest
) -> ErrorCode:
    if isinstance(replica.role, Blank):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.voter != replica.key:
        return ErrorCode.INVALID_VOTER_KEY
    if request.leader != source or request.leader.node_id == replica.key.node_id:
        return ErrorCode.INVALID_REQUEST
    if request.epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if not replica.is_voter:
        return ErrorCode.NOT_VOTER  # the leader retries until this log has the AddVoterRecord
    known = replica.state.leader
    if request.epoch == replica.epoch and known not in {None, request.leader}:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def handle_end(
    replica: Replica, request_id: int, source: ReplicaKey, request: EndQuorumEpochRequest
) -> None:
    """Start an election at once or in turn, as the leader gives up its epoch (P18, S17)."""
    error = _judge_end(replica, source, request)
    if error == ErrorCode.NONE:
        place = request.preferred_successors.index(replica.key)
        if request.leader is not None:
            replica.promised_until_ms = 0  # S33: the old leader answers no read any more
        wait = 0
        if replica.disk_low:
            wait = replica.first_election_deadline() - replica.now_ms  # S30: the next may
        elif place:
            config = replica.config
            wait = min(config.retry_backoff_max_ms, config.retry_backoff_ms << min(place - 1, 16))
        replica.become_unattached(request.epoch, election_at_ms=replica.now_ms + wait)
        if isinstance(replica.role, Unattached):
            # A candidate's wish does not replace the pre-vote: there may be a live leader (S9).
            wished = request.leader is not None and place == 0
            replica.role.transfer = wished and not replica.disk_low
    elif error == ErrorCode.INCONSISTENT_VOTER_SET:
        replica.become_unattached(request.epoch)
    replica.respond(request_id, EndQuorumEpochResponse(error, replica.epoch, replica.leader))


def _judge_end(replica: Replica, source: ReplicaKey, request: EndQuorumEpochRequest) -> ErrorCode:
    if isinstance(replica.role, Blank):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.voter != replica.key:
        return ErrorCode.INVALID_VOTER_KEY
    if request.leader not in {None, source}:
        return ErrorCode.INVALID_REQUEST
    if request.epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if source != replica.leader and not epoch_rules.counts(replica, source):
        return ErrorCode.INVALID_REQUEST  # S9, S16: a stranger calls for no election
    known = replica.state.leader if request.epoch == replica.epoch else None
    if known not in {None, request.leader}:
        return ErrorCode.INVALID_REQUEST  # a candidate's (leader None) too: another has won
    if replica.state.leader == replica.key and request.epoch == replica.epoch:
        return ErrorCode.INVALID_REQUEST
    if replica.key not in request.preferred_successors:
        return ErrorCode.INCONSISTENT_VOTER_SET
    return ErrorCode.NONE
