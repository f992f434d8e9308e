"""A leader: it serves Fetches, counts acknowledgements, and keeps or loses its majority."""

from __future__ import annotations

from collections.abc import Iterator

from raftnode.core.effects import AppendAccepted, Confirmed, ServeFetch
from raftnode.core.elections import epoch_rules, read_lease
from raftnode.core.events import AppendRequested, ConfirmRequested
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
)
from raftnode.core.reasons.refusals import (
    DiskFull,
    FormationIncomplete,
    NotTheLeader,
    TooMuchUncommitted,
    TransferUnderWay,
)
from raftnode.core.records import (
    AddVoter,
    Batch,
    ControlRecord,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
)
from raftnode.core.replica import Replica
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Confirmation, Leader, ParkedFetch
from raftnode.core.snapshots import snapshot_fetch
from raftnode.core.state import QuorumState
from raftnode.core.types import FIRST_OFFSET, Epoch, LogPosition, Offset, ReplicaKey


def become_leader(replica: Replica, granted: frozenset[ReplicaKey]) -> None:
    """Persist leadership, append the epoch's first batch, tell the voters (P11).

    The first leader of a quorum writes the latched voters in that same batch, so
    that they are all there or not at all (P52, S19); at raft.version 0 no leader does (P54).
    """
    state = replica.state
    replica.persist(QuorumState(state.epoch, replica.key, state.voted))
    role = Leader(replica.epoch, replica.now_ms, epoch_start=replica.log.end)
    if replica.disk_low:
        role.transfer_at_ms = replica.now_ms + replica.config.transfer_again_ms
    replica.become(role)
    snapshot_fetch.give_up(replica)
    log = replica.log
    records: list[ControlRecord] = [
        LeaderChange(replica.key, tuple(log.voters), tuple(sorted(granted)))
    ]
    if not log.has_voter_record and log.base_raft_version:
        records.append(RaftVersion(log.base_raft_version))
        records.extend(AddVoter(voter) for voter in log.voters.voters)
    replica.append_control(*records)
    for voter in log.voters:
        if voter != replica.key:
            role.progress[voter] = Progress()


# -- telling the voters (P12, P14) -----------------------------------------------


def tell_voters(replica: Replica, role: Leader) -> None:
    """Send BeginQuorumEpoch to each voter that has neither acknowledged nor fetched."""
    for voter in replica.log.voters:
        progress = role.progress.get(voter)
        if progress is None or progress.begin_done or progress.begin_in_flight:
            continue
        if progress.begin_at_ms <= replica.now_ms:
            progress.begin_in_flight = True
            replica.send(
                voter,
                BeginQuorumEpochRequest(role.epoch, replica.key, voter, replica.endpoint),
            )


def handle_begin_response(
    replica: Replica, source: ReplicaKey, response: BeginQuorumEpochResponse | None
) -> None:
    """Note an acknowledgement, and send again after any other answer; None: no answer came."""
    role = replica.role
    if response is not None and epoch_rules.believed(
        replica, source, response.epoch, response.leader
    ):
        if response.leader is not None and response.leader != replica.key:
            replica.become_follower(response.epoch, response.leader)
        else:
            replica.become_unattached(response.epoch)
        return
    if not isinstance(role, Leader) or source not in role.progress:
        return
    progress = role.progress[source]
    progress.begin_in_flight = False
    if response is not None and response.error == ErrorCode.NONE:
        progress.begin_done = True
    else:
        progress.begin_at_ms = replica.now_ms + replica.config.retry_backoff_max_ms // 4


# -- serving Fetches (P20, P21) ----------------------------------------------------


def handle_fetch(
    replica: Replica, role: Leader, request_id: int, source: ReplicaKey, request: FetchRequest
) -> None:
    """Note what the fetcher has, then answer, now or once there is something to send."""
    if (code := judge_epoch(replica, request.epoch)) != ErrorCode.NONE:
        replica.respond(request_id, _response(replica, role, code))
        follow_higher_epoch(replica, role, source, request.epoch)
        return
    if not may_say(replica, role, source, request):
        replica.respond(request_id, _response(replica, role, ErrorCode.INVALID_REQUEST))
        return
    progress = progress_of(replica, role, source)
    if request.incarnation <= progress.incarnation and request.sequence <= progress.sequence:
        # Overtaken by a later one, or a duplicate: it says nothing about what the replica
        # has now. No good answer either: the logs are not compared, so a high watermark
        # in it would commit a diverged tail (KAFKA-14704).
        replica.respond(request_id, _response(replica, role, ErrorCode.INVALID_REQUEST))
        return
    if _is_fenced(replica, progress, request, source):
        replica.respond(request_id, _response(replica, role, ErrorCode.FENCED_REPLICA))
        return
    progress.last_fetch_ms, progress.announced_ms = replica.now_ms, None
    progress.begin_done = True
    progress.higher_epoch = None
    progress.incarnation, progress.sequence = request.incarnation, request.sequence
    progress.endpoint = request.endpoint or progress.endpoint
    progress.raft_version_max = request.raft_version_max
    progress.round_token = max(progress.round_token, request.round_token)
    read_lease.note_promise(replica, role, progress, request)
    position = LogPosition(request.last_fetched_epoch, request.fetch_offset)
    if _begins_with_snapshot(replica, position):
        snapshot = replica.log.snapshot
        replica.respond(request_id, _response(replica, role, ErrorCode.NONE, snapshot=snapshot))
        return
    diverging = replica.log.diverges_at(position)
    if diverging is not None:
        replica.respond(request_id, _response(replica, role, ErrorCode.NONE, diverging=diverging))
        return
    # S10: only what is durable there counts, and only where the logs agree.
    acknowledged = Offset(min(request.acknowledged_offset, request.fetch_offset))
    progress.fetched(acknowledged, replica.log.end, replica.now_ms)
    _park(replica, role, ParkedFetch(request_id, request, replica.now_ms + request.max_wait_ms))


def judge_epoch(replica: Replica, epoch: Epoch) -> ErrorCode:
    """What is wrong with the epoch of a fetcher's request (P2)."""
    if epoch == replica.epoch:
        return ErrorCode.NONE
    lower = epoch < replica.epoch
    return ErrorCode.FENCED_LEADER_EPOCH if lower else ErrorCode.UNKNOWN_LEADER_EPOCH


def may_say(
    replica: Replica, role: Leader, source: ReplicaKey, request: FetchRequest | FetchSnapshotRequest
) -> bool:
    """Whether a request names its sender, and a round that was begun (S11).

    A token that was never given out is damage. If the leader noted it, the token would confirm
    each later read without a round, even after another leader was elected.
    """
    own = request.replica == source and source != replica.key
    return own and request.round_token <= role.round_token


def follow_higher_epoch(replica: Replica, role: Leader, source: ReplicaKey, epoch: Epoch) -> None:
    """Go over to a fetcher's higher epoch, or note that the fetcher has one (S9).

    The fetcher has stored that epoch with a vote and can never again follow a lower one. The leader
    goes over only for a voter, or for a replica that it was asked to make a voter.
    """
    if epoch_rules.believed(replica, source, epoch, None):
        replica.become_unattached(epoch, election_at_ms=replica.first_election_deadline())
    elif epoch > replica.epoch:
        progress_of(replica, role, source).higher_epoch = epoch


def progress_of(replica: Replica, role: Leader, source: ReplicaKey) -> Progress:
    """What is known of a replica that fetches, known or new."""
    if source not in role.progress:
        _forget_silent_observers(replica, role)
        role.progress[source] = Progress()
    return role.progress[source]


def has_room_to_list(replica: Replica, role: Leader, source: ReplicaKey) -> bool:
    """Whether a blank replica can be listed without forgetting an observer that fetches."""
    silent = None if source in role.progress else _longest_silent(replica, role)
    within_ms = replica.config.fetch_timeout_ms
    return silent is None or not role.progress[silent].is_fresh(replica.now_ms, within_ms)


def _forget_silent_observers(replica: Replica, role: Leader) -> None:
    silent = _longest_silent(replica, role)
    if silent is not None:
        del role.progress[silent]
        role.parked.pop(silent, None)


def _longest_silent(replica: Replica, role: Leader) -> ReplicaKey | None:
    """The observer to forget before another is tracked; None: there is room.

    Never a replica that the leader was asked to make a voter: its catch-up would begin again.
    """
    observers = [
        key
        for key, progress in role.progress.items()
        if not (progress.fenced or epoch_rules.counts(replica, key))
    ]
    if not observers or len(observers) < replica.config.observers_max:
        return None
    return min(observers, key=lambda key: role.progress[key].last_fetch_ms or 0)


def _is_fenced(
    replica: Replica, progress: Progress, request: FetchRequest, source: ReplicaKey
) -> bool:
    """S3: a replica with less than it had acknowledged has lost records that were counted on."""
    gone_back = request.incarnation < progress.incarnation
    if not progress.fenced and (gone_back or request.acknowledged_offset < progress.acknowledged):
        progress.fenced = True
        replica.fact(
            "replica_fenced",
            replica=str(source),
            acknowledged=progress.acknowledged,
            has=request.acknowledged_offset,
        )
    return progress.fenced


def _begins_with_snapshot(replica: Replica, fetch: LogPosition) -> bool:
    # S32: a snapshot has the newest value of each key and no other record. As disks are
    # replaced, the other records would be lost from one log after the other.
    whole = replica.log.start == FIRST_OFFSET
    if whole and replica.config.keeps_every_record:
        return False
    return replica.log.needs_snapshot(fetch)


def _park(replica: Replica, role: Leader, fetch: ParkedFetch) -> None:
    older = role.parked.pop(fetch.request.replica, None)
    if older is not None:
        replica.respond(older.request_id, _response(replica, role, ErrorCode.NONE))
    role.parked[fetch.request.replica] = fetch


def answer_parked(replica: Replica, role: Leader) -> None:
    """Answer every waiting Fetch for which there are records, a round, or no more time.

    A new high watermark alone waits a little for the next records, which bring it along: without
    it a follower shows less, but all that depends on durability stays as it is.
    """
    for key, fetch in list(role.parked.items()):
        request = fetch.request
        if _brings_more(replica, role, request) or _hears_now(replica, fetch):
            del role.parked[key]
            replica.emit(
                ServeFetch(
                    fetch.request_id,
                    _response(replica, role, _membership(replica, key, request)),
                    request.fetch_offset,
                    min(request.max_bytes, replica.config.fetch_max_bytes),
                    key,
                )
            )


def _brings_more(replica: Replica, role: Leader, request: FetchRequest) -> bool:
    return replica.log.end > request.fetch_offset or role.round_token > request.round_token


def _hears_now(replica: Replica, fetch: ParkedFetch) -> bool:
    """Whether a Fetch without records or a round is answered all the same."""
    request, wait_ms = fetch.request, replica.config.high_watermark_wait_ms
    if replica.high_watermark > request.high_watermark and not fetch.has_news:
        fetch.has_news = True
        patient = wait_ms and not request.wants_high_watermark
        fetch.until_ms = (
            min(fetch.until_ms, replica.now_ms + wait_ms) if patient else replica.now_ms
        )
    return fetch.until_ms <= replica.now_ms


def _membership(replica: Replica, key: ReplicaKey, request: FetchRequest) -> ErrorCode:
    """Tell a removed voter of its removal, until that is in the voter's own log (P36, S17).

    The error comes with the records: without them the removal would never get into that log.
    """
    if key in replica.log.voters:
        return ErrorCode.NONE
    removal = replica.log.removal_of(key)
    must_learn_removal = request.fetch_offset <= removal < replica.high_watermark
    return ErrorCode.NOT_FOLLOWER if must_learn_removal else ErrorCode.NONE


def _response(
    replica: Replica,
    role: Leader,
    error: ErrorCode,
    *,
    diverging: LogPosition | None = None,
    snapshot: LogPosition | None = None,
) -> FetchResponse:
    return FetchResponse(
        error,
        replica.epoch,
        replica.key,
        leader_endpoint=replica.endpoint,
        high_watermark=replica.high_watermark,
        log_start_offset=replica.log.start,
        diverging=diverging,
        snapshot=snapshot,
        round_token=role.round_token,
    )


# -- counting (P42, S8, S10) ---------------------------------------------------------


def _acknowledged(replica: Replica, role: Leader) -> Iterator[Offset]:
    for voter in replica.log.voters:
        if voter == replica.key:
            yield replica.log.durable_end  # S10: its own durable end, never its log end
        else:
            progress = role.progress.get(voter)
            usable = progress is not None and not progress.fenced
            yield progress.acknowledged if progress and usable else Offset(-1)


def majority_offset(replica: Replica, role: Leader) -> Offset:
    """The largest offset that a majority of the set in force holds durably."""
    offsets = sorted(_acknowledged(replica, role), reverse=True)
    return offsets[replica.log.voters.majority - 1]


def after_progress(replica: Replica, role: Leader) -> None:
    """Advance the high watermark, and all that depends on it, after an acknowledgement."""
    offset = majority_offset(replica, role)
    if offset > role.epoch_start and offset > replica.high_watermark:
        replica.raise_high_watermark(offset)
        role.uncommitted.committed(offset)
    elif replica.high_watermark > replica.applicable:
        replica.raise_high_watermark(replica.high_watermark)
    _complete_formation(replica, role)
    answer_confirmations(replica, role)


def epoch_committed(replica: Replica, role: Leader) -> bool:
    """Whether this epoch's LeaderChange is committed (P28, P42)."""
    return replica.high_watermark > role.epoch_start


def _complete_formation(replica: Replica, role: Leader) -> None:
    """Once all voters of the set have the formation batch, write that into the log (P52, S19)."""
    log = replica.log
    if log.formation_completed or not log.raft_version or not epoch_committed(replica, role):
        return
    if all(offset > log.voter_record.offset for offset in _acknowledged(replica, role)):
        replica.append_control(FormationCompleted())


# -- clients -----------------------------------------------------------------------


def handle_append(replica: Replica, event: AppendRequested) -> None:
    """Append a client's batch, or refuse it with the reason."""
    role = replica.role
    if not isinstance(role, Leader):
        replica.refuse(event.request_id, NotTheLeader())
        return
    if replica.log.raft_version and not replica.log.formation_completed:
        replica.refuse(event.request_id, FormationIncomplete())
        return
    if replica.disk_low:
        replica.refuse(event.request_id, DiskFull())
        return
    if role.transfer is not None:
        replica.refuse(event.request_id, TransferUnderWay(role.transfer.successor))
        return
    size = len(event.data)
    if not role.uncommitted.has_room(size, replica.config.max_uncommitted_bytes):
        replica.refuse(event.request_id, TooMuchUncommitted(role.uncommitted.size))
        return
    base = replica.log.end
    last = Offset(base + event.record_count - 1)
    replica.append((Batch(base, last, role.epoch, event.data),))
    role.uncommitted.appended(replica.log.end, size)
    replica.emit(AppendAccepted(event.request_id, base, last, role.epoch))


def handle_confirm(replica: Replica, event: ConfirmRequested) -> None:
    """Begin a round: only Fetches that echo a token issued from now on count (S11).

    A read within a lease needs none (S33).
    """
    role = replica.role
    if not isinstance(role, Leader):
        replica.refuse(event.request_id, NotTheLeader())
        return
    if event.for_read and epoch_committed(replica, role) and read_lease.covers_reads(replica, role):
        replica.emit(Confirmed(event.request_id, replica.high_watermark))
        if read_lease.wants_round(replica, role):
            read_lease.begin_round(replica, role)
        return
    read_lease.begin_round(replica, role)
    role.confirmations.append(Confirmation(event.request_id, role.round_token, event.for_read))


def answer_confirmations(replica: Replica, role: Leader) -> None:
    """Answer the rounds that a majority has echoed; the leader counts if it is a voter (S8)."""
    if not role.confirmations:
        return
    tokens = sorted(
        (
            role.round_token if voter == replica.key else role.progress[voter].round_token
            for voter in replica.log.voters
            if voter == replica.key or voter in role.progress
        ),
        reverse=True,
    )
    majority = replica.log.voters.majority
    echoed = tokens[majority - 1] if len(tokens) >= majority else 0
    waiting: list[Confirmation] = []
    for confirmation in role.confirmations:
        settled = epoch_committed(replica, role) or not confirmation.for_read
        if confirmation.token <= echoed and settled:
            replica.emit(Confirmed(confirmation.request_id, replica.high_watermark))
        else:
            waiting.append(confirmation)
    role.confirmations = waiting


# -- keeping the majority (P41) --------------------------------------------------------


def majority_lost_at(replica: Replica, role: Leader) -> int | None:
    """When this leader must resign unless more voters fetch; None: it is the whole majority."""
    needed = replica.log.voters.majority - (1 if replica.is_voter else 0)
    if needed <= 0:
        return None
    heard = sorted(_heard_ms(replica, role), reverse=True)
    return heard[needed - 1] + replica.config.leader_timeout_ms


def _heard_ms(replica: Replica, role: Leader) -> list[int]:
    """When each other voter last fetched; for a voter that has not, when the leadership began."""
    heard: list[int] = []
    for voter in replica.log.voters:
        if voter != replica.key:
            progress = role.progress.get(voter)
            fetched_ms = progress.last_fetch_ms if progress else None
            since_ms = role.since_ms
            heard.append(since_ms if fetched_ms is None else max(since_ms, fetched_ms))
    return heard


def others_can_lead_instead(replica: Replica, role: Leader) -> bool:
    """Whether the own disk has stalled, and a majority of the set commits without it (S35).

    As long as their Fetches are answered, the others keep a leader that can commit nothing by
    itself and serves no read. If they are no majority alone, another leader does not help: no
    record can be committed, and no vote granted, before this disk goes on.
    """
    if not replica.has_stalled_disk or replica.high_watermark <= replica.log.durable_end:
        return False
    fetch_timeout_ms, now_ms = replica.config.fetch_timeout_ms, replica.now_ms
    well = sum(
        progress.is_fresh(now_ms, fetch_timeout_ms) and not progress.fenced
        for key, progress in role.progress.items()
        if key in replica.log.voters
    )
    return well >= replica.log.voters.majority


# -- giving it up (P16, P17, S17) --------------------------------------------------------


def resign(replica: Replica, role: Leader, preferred: ReplicaKey | None = None) -> None:
    """Tell every voter once, best successor first, and lead no more in this epoch.

    The Fetches that wait are answered first: a follower then knows what is committed, also that
    the leader removed itself.
    """
    for fetch in role.parked.values():
        if replica.high_watermark > fetch.request.high_watermark:
            fetch.until_ms = replica.now_ms
    answer_parked(replica, role)
    voters = [key for key in replica.log.voters if key != replica.key]
    ranked = sorted(voters, key=lambda key: (key != preferred, -_known_offset(role, key), key))
    for voter in voters:
        replica.send(voter, EndQuorumEpochRequest(role.epoch, replica.key, voter, tuple(ranked)))
    replica.become_resigned()


def _known_offset(role: Leader, key: ReplicaKey) -> Offset:
    progress = role.progress.get(key)
    return progress.acknowledged if progress and not progress.fenced else Offset(-1)
