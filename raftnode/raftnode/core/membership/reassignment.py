"""Reassignment: from the present voters to the requested voters (P33-P37, S15; KIP-642).

The target is a record of the log, so a new leader goes on where the last one stopped. The way
is a series of single changes. Each has all the guards of `voter_changes` and is committed before
the next: an addition while as many voters are to come as are to go, else a removal, and the
leader itself last. When only the leader is left to be removed, it transfers leadership to a voter
of the target instead, which then removes it.
"""

from __future__ import annotations

from typing import Literal

from raftnode.core.effects import Done, Refusal, Refused
from raftnode.core.elections import leadership_transfer
from raftnode.core.events import ReassignmentRequested, Target
from raftnode.core.membership import voter_changes
from raftnode.core.membership.pending_change import PendingChange, PendingTarget
from raftnode.core.records import TargetVoters
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import Leader
from raftnode.core.types import ReplicaKey, Voter, VoterSet

NEEDS_RAFT_VERSION = 2
"""Below this version the voters' ids are fixed, so there is no other set to go to (P54)."""


# -- the target (P33, P35) ---------------------------------------------------------------


def handle_reassignment(replica: Replica, event: ReassignmentRequested) -> None:
    """Accept a target, or refuse it."""
    role = replica.role
    if not isinstance(role, Leader):
        replica.refuse(event.request_id, Refusal.NOT_LEADER, "this replica is not the leader")
        return
    if replica.log.raft_version < NEEDS_RAFT_VERSION:
        message = f"the quorum is at raft.version {replica.log.raft_version}; upgrade it to 2 first"
        replica.refuse(event.request_id, Refusal.UNSUPPORTED_VERSION, message)
        return
    target = _pinned(replica, role, event.targets)
    if isinstance(target, Refused):
        replica.refuse(event.request_id, target.refusal, target.message)
        return
    refusal = _take_in(replica, role, event, target)
    if refusal is not None:
        replica.refuse(event.request_id, *refusal)
        return
    advance(replica, role)


def _take_in(
    replica: Replica, role: Leader, event: ReassignmentRequested, target: VoterSet
) -> tuple[Refusal, str] | None:
    log, pending = replica.log, role.target
    if pending is not None:
        if set(pending.target) != set(target):
            return Refusal.TOO_MANY_CHANGES, f"another target is waiting already: {pending.target}"
        pending.join(event.request_id, event.deadline_ms)
        return None
    pending = PendingTarget(
        target, event.expected, deadline_ms=event.deadline_ms, request_ids={event.request_id}
    )
    if set(log.target_voters) == set(target):
        # It is the target already (or there is none to take back): done once committed.
        pending.appended = log.target_record.offset
    elif not log.target_voters and set(log.voters) == set(target):
        pending.appended = log.assignment_record.offset
    elif (stale := _stale(replica, pending)) is not None:
        return stale
    role.target = pending
    role.soundings.clear()  # the steps towards it ask again who is there (S34)
    return None


def _pinned(replica: Replica, role: Leader, targets: tuple[Target, ...]) -> VoterSet | Refused:
    """Pin each target to its UUID for good: a later disk of its id is another replica (S15)."""
    voters: list[Voter] = []
    for target in targets:
        known = [*replica.log.voters]
        # A blank replica is meant only by its directory id, as by AddVoter (S5).
        within_ms = replica.config.fetch_timeout_ms if target.directory_id else -1
        known += [
            key
            for key, progress in role.progress.items()
            if progress.has_asked or progress.is_announced(replica.now_ms, within_ms)
        ]
        keys = {
            key
            for key in known
            if key.node_id == target.node_id
            and target.directory_id in {None, key.directory_id}
            and (key == replica.key or key not in role.progress or not role.progress[key].fenced)
        }
        if len(keys) > 1:
            candidates = ", ".join(sorted(map(str, keys)))
            message = f"{target.node_id} is one of {candidates}: give its directory id"
            return Refused(0, Refusal.AMBIGUOUS_VOTER, message)
        if not keys:
            message = (
                f"{target.node_id}: no voter has this id, and no replica of this id "
                "fetches from the leader"
            )
            return Refused(0, Refusal.NOT_AN_OBSERVER, message)
        voters.append(_voter(replica, role, keys.pop(), target))
    if len({voter.key.node_id for voter in voters}) < len(voters):
        return Refused(0, Refusal.AMBIGUOUS_VOTER, "a node id is in the target twice; list it once")
    return VoterSet.of(voters)


def _voter(replica: Replica, role: Leader, key: ReplicaKey, target: Target) -> Voter:
    known = replica.log.voters.endpoint_of(key)
    progress = role.progress.get(key)
    return Voter(key, target.endpoint or known or (progress.endpoint if progress else None))


def _stale(replica: Replica, pending: PendingTarget) -> tuple[Refusal, str] | None:
    now = replica.log.assignment_record
    taken_back = pending.expected is None and not pending.target
    if taken_back or pending.expected == now:
        return None
    message = (
        "the voters or their target changed since they were read: the newest record is at "
        f"offset {now.offset} of epoch {now.epoch}; describe the quorum and decide again"
    )
    return Refusal.STALE_VOTER_RECORD, message


def abandon(replica: Replica, request_id: int) -> None:
    """Forget a request that no client waits for; give up a target not in the log (S24)."""
    role = replica.role
    if isinstance(role, Leader) and role.target is not None and role.target.leave(request_id):
        role.target = None


# -- going on ----------------------------------------------------------------------------


def advance(replica: Replica, role: Leader) -> None:
    """Append or finish the requested target, and make the next step towards it."""
    if role.target is not None:
        _advance_target(replica, role, role.target)
    if replica.log.target_voters:
        role.step_waits_for = _step(replica, role) or ""


def _advance_target(replica: Replica, role: Leader, pending: PendingTarget) -> None:
    if pending.appended is not None and pending.appended < replica.high_watermark:
        replica.emit(*pending.completed(Done))
        role.target = None
    elif pending.appended is None and (stale := _stale(replica, pending)) is not None:
        replica.emit(*pending.refused(*stale))
        role.target = None
    elif replica.now_ms >= pending.deadline_ms:
        replica.emit(*pending.timed_out())
        role.target = None
    elif pending.appended is None:
        pending.waiting_for = _not_settled(replica, role) or ""
        if not pending.waiting_for:
            record = TargetVoters(pending.target.voters)
            pending.appended = replica.append_control(record).base_offset
            pending.waiting_for = "a majority of the voters to commit it"
            replica.fact("target_appended", target=str(pending.target), offset=pending.appended)


def _not_settled(replica: Replica, role: Leader) -> str | None:
    """What must be committed before a voter record or a target record is appended."""
    log = replica.log
    newest = max(log.assignment_record.offset, log.raft_version_record)
    if newest >= replica.high_watermark:
        return "the last change of the voters, their target or the version to be committed"
    if not leadership.epoch_committed(replica, role):
        return "an entry of the leader's own epoch to be committed"  # P34: KIP-642 lacks it
    return None


def _step(replica: Replica, role: Leader) -> str | None:
    """Make the next step, or say what it waits for."""
    log = replica.log
    if role.changes:
        return "the voter change in progress to be committed"
    if (reason := _not_settled(replica, role)) is not None:
        return reason
    if not replica.is_voter:
        return "a leader that is a voter"  # it is about to resign
    coming, going = differences(log.voters, log.target_voters)
    if not coming and not going:
        replica.fact("reassignment_completed", voters=str(log.voters))
        replica.append_control(TargetVoters(()))
        return None
    if len(coming) >= len(going):
        return _first_that_may(replica, role, [_change(replica, "add", v) for v in coming])
    others = [voter for voter in going if voter.key != replica.key]
    if not others:
        return _hand_over(replica, role)
    # First the voters that are down anyway: the sets on the way keep more caught-up voters.
    able = voter_changes.caught_up_voters(replica, role, log.voters)
    others.sort(key=lambda voter: (voter.key in able, voter.key))
    return _first_that_may(replica, role, [_change(replica, "remove", v) for v in others])


def differences(voters: VoterSet, target: VoterSet) -> tuple[tuple[Voter, ...], tuple[Voter, ...]]:
    """The voters to add and the voters to remove, in the order of their keys."""
    coming = tuple(voter for voter in target.voters if voter.key not in voters)
    going = tuple(voter for voter in voters.voters if voter.key not in target)
    return coming, going


def _change(replica: Replica, kind: Literal["add", "remove"], voter: Voter) -> PendingChange:
    # No client waits for this change, so no deadline ends it.
    return PendingChange(kind, voter, replica.log.voter_record, deadline_ms=replica.now_ms)


def _first_that_may(replica: Replica, role: Leader, changes: list[PendingChange]) -> str | None:
    """Append the first change without an obstacle; else return the obstacle of each change."""
    reasons: list[str] = []
    for change in changes:
        reason = voter_changes.what_holds_back(replica, role, change)
        if reason is None:
            role.changes.append(change)
            voter_changes.append(replica, role, change)
            return change.waiting_for
        reasons.append(f"{change.kind} {change.key}: {reason}")
    return "; ".join(reasons)


def _hand_over(replica: Replica, role: Leader) -> str | None:
    """P34: transfer leadership, as only the leader is left to remove; its successor removes it."""
    if role.hand_over is not None:
        return f"{role.hand_over.successor} to have the whole log, before it takes leadership"
    stay = voter_changes.caught_up_voters(replica, role, replica.log.target_voters)
    if not stay:
        return "a caught-up voter of the target, to transfer leadership to"
    last, again = replica.handed_over_at_ms, 2 * replica.config.fetch_timeout_ms
    if last is not None and replica.now_ms - last < again:
        # Each attempt writes a record.
        return "the pause before the next attempt to transfer leadership"
    replica.handed_over_at_ms = replica.now_ms
    successor = leadership_transfer.begin(replica, role, stay)
    replica.fact("leadership_transfer_started", preferred=str(successor))
    return f"{successor} to take leadership"
