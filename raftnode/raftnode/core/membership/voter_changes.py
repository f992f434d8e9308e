"""Voter changes, as the leader carries them out (P28-P31, S11, S13, S14, S23, S24, S34).

A change waits until every guard lets it pass. Then the leader appends it, and it is done when a
majority of the new set has committed it. Waiting changes do not block each other: the leader
appends the first that may pass, and compare-and-set refuses the others.
"""

from __future__ import annotations

from raftnode.core.effects import ProveDisk, VoterChangeCompleted
from raftnode.core.elections import read_lease
from raftnode.core.events import AddVoterRequested, RemoveVoterRequested
from raftnode.core.membership.pending_change import PendingChange
from raftnode.core.membership.version_rules import why_not
from raftnode.core.reasons.refusals import (
    AlreadyVoter,
    Fenced,
    LastVoter,
    NeverFetched,
    NotAVoter,
    NotTheLeader,
    Reason,
    ReassignmentPending,
    TooManyChanges,
    VotersChanged,
)
from raftnode.core.reasons.waits import (
    AnsweringMajority,
    Awaited,
    CatchUp,
    CaughtUpMajority,
    Wait,
)
from raftnode.core.records import AddVoter, RemoveVoter
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import ConfirmationRound, Leader
from raftnode.core.types import ReplicaKey, Voter, VoterSet


def handle_add(replica: Replica, event: AddVoterRequested) -> None:
    """Accept an AddVoter request, or refuse it (P29)."""
    change = PendingChange(
        "add",
        event.voter,
        event.expected,
        event.replaces,
        deadline_ms=event.deadline_ms,
        request_ids={event.request_id},
    )
    _take_in(replica, event.request_id, change)


def handle_remove(replica: Replica, event: RemoveVoterRequested) -> None:
    """Accept a RemoveVoter request, or refuse it (P30)."""
    change = PendingChange(
        "remove",
        Voter(event.key),
        event.expected,
        deadline_ms=event.deadline_ms,
        request_ids={event.request_id},
    )
    _take_in(replica, event.request_id, change)


def _take_in(replica: Replica, request_id: int, change: PendingChange) -> None:
    role = replica.role
    if not isinstance(role, Leader):
        replica.refuse(request_id, NotTheLeader())
        return
    for pending in role.changes:
        if pending.same_as(change):
            pending.join(request_id, change.deadline_ms)
            pending.replaces = pending.replaces or change.replaces
            return
    refusal = _refusal(replica, role, change)
    if refusal is not None:
        replica.refuse(request_id, refusal)
        return
    role.changes.append(change)
    advance(replica, role)


def _refusal(replica: Replica, role: Leader, change: PendingChange) -> Reason | None:
    log = replica.log
    ruled_out = _ruled_out(replica, change)
    if ruled_out is not None:
        return ruled_out
    if change.expected != log.voter_record:
        return VotersChanged(change.expected, log.voter_record)
    if change.kind == "add" and change.key not in role.progress:
        return NeverFetched(change.key)
    if change.kind == "add" and role.progress[change.key].fenced:
        return Fenced(change.key)
    if change.kind == "remove" and len(log.voters) == 1:
        return LastVoter(change.key)
    if len(role.changes) >= replica.config.pending_changes_max:
        return TooManyChanges(len(role.changes))
    return None


def could_add(replica: Replica, role: Leader, key: ReplicaKey) -> bool:
    """Whether this leader would take an AddVoter of an observer now (P59, P60: CouldBeVoters).

    A fenced replica, and an id that raft.version rules out, would be refused. A replica that no
    longer fetches is gone; one in a higher epoch fetches nothing until it is to be added (S9).
    """
    progress = role.progress.get(key)
    if progress is None or progress.fenced or key in replica.log.voters:
        return False
    record = replica.log.voter_record
    change = PendingChange("add", Voter(key), record, deadline_ms=replica.now_ms)
    if why_not(replica.log, change) is not None:
        return False
    within_ms = replica.config.fetch_timeout_ms
    fresh = progress.is_fresh(replica.now_ms, within_ms)
    announced = progress.is_announced(replica.now_ms, within_ms)
    return fresh or announced or progress.higher_epoch is not None


def _ruled_out(replica: Replica, change: PendingChange) -> Reason | None:
    return (
        _without_effect(replica, change)
        or why_not(replica.log, change)
        or _crosses_target(replica, change)
    )


def _crosses_target(replica: Replica, change: PendingChange) -> Reason | None:
    """Refuse a change during a reassignment: then only the leader changes the voters (P34)."""
    target = replica.log.target_voters
    if not target or not (change.request_ids or change.key in target):
        return None
    return ReassignmentPending(target)


def _without_effect(replica: Replica, change: PendingChange) -> Reason | None:
    """Refuse a change without effect on a committed set: another may yet be reverted (S11)."""
    log = replica.log
    if log.voter_record.offset >= replica.high_watermark:
        return None
    present = change.key in log.voters
    if change.kind == "add" and present:
        return AlreadyVoter(change.key)
    if change.kind == "remove" and not present:
        return NotAVoter(change.key, log.voters)
    return None


def abandon(replica: Replica, request_id: int) -> None:
    """Forget a request that no client waits for: give the change up if it left no trace (S24)."""
    role = replica.role
    if not isinstance(role, Leader):
        return
    role.confirmations = [c for c in role.confirmations if c.request_id != request_id]
    for change in list(role.changes):
        if change.leave(request_id):
            _forget(role, change)


def _forget(role: Leader, change: PendingChange) -> None:
    """Drop a change: a later request for it begins another confirmation round (S34)."""
    role.changes.remove(change)
    role.confirmation_rounds.pop((change.kind, change.key), None)


def advance(replica: Replica, role: Leader) -> None:
    """Finish committed changes, append a change without an obstacle, refuse late ones."""
    _finish_committed(replica, role)
    if replica.role is not role:
        return  # it removed itself
    for change in list(role.changes):
        if change.appended is not None:
            continue
        if change.expected != replica.log.voter_record:
            _forget(role, change)
            reason = VotersChanged(change.expected, replica.log.voter_record)
            replica.emit(*change.refused(reason))
        elif (ruled_out := _ruled_out(replica, change)) is not None:
            # The record that it was compared with was not committed then: the same change.
            _forget(role, change)
            replica.emit(*change.refused(ruled_out))
        elif replica.now_ms >= change.deadline_ms:
            _forget(role, change)
            replica.emit(*change.timed_out())
        else:
            waiting_for = what_holds_back(replica, role, change)
            if waiting_for is None:
                append(replica, role, change)
            else:
                change.waiting_for = waiting_for
    _time_out_appended(replica, role)


def what_holds_back(replica: Replica, role: Leader, change: PendingChange) -> Wait | None:
    """What a change waits for before it may be appended; None: nothing."""
    reason = obstacle(replica, role, change)
    if reason is not None:
        role.confirmation_rounds.pop((change.kind, change.key), None)
        return reason
    return _confirm_majority(replica, role, change)


def obstacle(replica: Replica, role: Leader, change: PendingChange) -> Wait | None:
    """The obstacle to a change that is known by now; None: nothing."""
    if replica.log.voter_record.offset >= replica.high_watermark:
        return Awaited.VOTER_CHANGE_COMMIT  # P31: one at a time
    if replica.log.raft_version_record >= replica.high_watermark:
        return Awaited.VERSION_COMMIT
    if not leadership.epoch_committed(replica, role):
        return Awaited.OWN_EPOCH_COMMIT  # P28, Ongaro's guard
    if change.kind == "add" and not _caught_up(replica, role, change.key):
        return CatchUp(change.key)
    after = change.applied_to(replica.log.voters)
    able = len(_able(replica, role, after))
    if able < after.majority:
        return CaughtUpMajority(able, of=len(after), needed=after.majority)
    return None


def _confirm_majority(replica: Replica, role: Leader, change: PendingChange) -> Wait | None:
    """Begin a round, and wait until a majority of the set after the change has answered (S34).

    A replica that fetched a moment ago may be down now, and the smaller set would wait for it for
    ever. An answer takes up to two rounds of Fetches, each of up to an election timeout (S13).
    """
    name, lasts_ms = (change.kind, change.key), 2 * replica.config.election_timeout_ms
    confirmation = role.confirmation_rounds.get(name)
    if confirmation is None or replica.now_ms - confirmation.began_ms >= lasts_ms:
        read_lease.begin_round(replica, role)
        confirmation = ConfirmationRound(role.round_token, replica.now_ms)
        role.confirmation_rounds[name] = confirmation
    after = change.applied_to(replica.log.voters)
    there = sum(
        key == replica.key or role.progress[key].round_token >= confirmation.token
        for key in _able(replica, role, after)
    )
    if there < after.majority:
        return AnsweringMajority(there, of=len(after), needed=after.majority)
    return None


def _able(replica: Replica, role: Leader, voters: VoterSet) -> list[ReplicaKey]:
    return [key for key in voters if _caught_up(replica, role, key)]


def _caught_up(replica: Replica, role: Leader, key: ReplicaKey) -> bool:
    if key == replica.key:
        return replica.has_caught_up_disk  # S36: it counts for no more than any other voter
    progress = role.progress.get(key)
    config = replica.config
    return progress is not None and progress.is_caught_up(
        replica.now_ms, config.fetch_timeout_ms, config.election_timeout_ms
    )


def caught_up_voters(replica: Replica, role: Leader, voters: VoterSet) -> list[ReplicaKey]:
    """The voters of a set, other than this leader, that could take over at once."""
    return [key for key in _able(replica, role, voters) if key != replica.key]


def append(replica: Replica, role: Leader, change: PendingChange) -> None:
    """Append the record of a change without an obstacle; the change is in force now.

    The leader proves its own disk last (S36): on a disk that hangs, the record never leaves here.
    """
    replica.emit(ProveDisk())
    record = AddVoter(change.voter) if change.kind == "add" else RemoveVoter(change.key)
    change.appended = replica.append_control(record).base_offset
    change.waiting_for = Awaited.NEW_MAJORITY
    role.confirmation_rounds.clear()
    if change.kind == "add":
        role.progress[change.key].begin_done = False


def _finish_committed(replica: Replica, role: Leader) -> None:
    record, voters = replica.log.voter_record, replica.log.voters
    for change in list(role.changes):
        if change.appended is None or change.appended >= replica.high_watermark:
            continue
        role.changes.remove(change)
        replica.emit(*change.completed(lambda r: VoterChangeCompleted(r, record, voters)))
        _remove_replaced(replica, role, change)
    settled = replica.log.voter_record.offset < replica.high_watermark
    if not replica.is_voter and settled and leadership.epoch_committed(replica, role):
        # P30: a leader that removed itself leads until that is committed, and one that was
        # called (S31) until a majority of the voters has its log and can do without it.
        leadership.resign(replica, role)


def _remove_replaced(replica: Replica, role: Leader, change: PendingChange) -> None:
    """S23: keep the window of four voters short by removing the replaced one at once."""
    old = change.replaces
    if old is None or old == change.key or old not in replica.log.voters:
        return
    deadline = replica.now_ms + replica.config.fetch_timeout_ms * 5
    record = replica.log.voter_record
    role.changes.append(PendingChange("remove", Voter(old), record, deadline_ms=deadline))


def _time_out_appended(replica: Replica, role: Leader) -> None:
    """End the wait for an appended change; its record stands and may yet be committed."""
    for change in role.changes:
        if change.appended is None or replica.now_ms < change.deadline_ms:
            continue
        replica.emit(*change.timed_out())
        change.request_ids.clear()
