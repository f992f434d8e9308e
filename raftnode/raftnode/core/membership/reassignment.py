"""Reassignment: from the present voters to the requested voters (P33-P37, S15; KIP-642).

The target is a record of the log, so a new leader goes on where the last one stopped. The way
is a series of single changes. Each has all the guards of `voter_changes` and is committed before
the next: an addition while as many voters are to come as are to go, else a removal, and the
leader itself last. When only the leader is left to be removed, it transfers leadership to a voter
of the target instead, which then removes it.
"""

from __future__ import annotations

from typing import Literal

from raftnode.core.effects import Done
from raftnode.core.elections import leadership_transfer
from raftnode.core.events import ReassignmentRequested, Target
from raftnode.core.membership import voter_changes
from raftnode.core.membership.pending_change import PendingChange, PendingTarget
from raftnode.core.reasons.refusals import (
    AmbiguousId,
    AnotherTargetWaits,
    AssignmentChanged,
    IdListedTwice,
    NotTheLeader,
    Reason,
    TargetNeedsVersion,
    UnknownId,
)
from raftnode.core.reasons.waits import (
    Awaited,
    BlockedStep,
    BlockedSteps,
    SuccessorLeadership,
    SuccessorLog,
    Wait,
)
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
        replica.refuse(event.request_id, NotTheLeader())
        return
    if replica.log.raft_version < NEEDS_RAFT_VERSION:
        reason = TargetNeedsVersion(replica.log.raft_version, needed=NEEDS_RAFT_VERSION)
        replica.refuse(event.request_id, reason)
        return
    target = _pinned(replica, role, event.targets)
    if not isinstance(target, VoterSet):
        replica.refuse(event.request_id, target)
        return
    refusal = _take_in(replica, role, event, target)
    if refusal is not None:
        replica.refuse(event.request_id, refusal)
        return
    advance(replica, role)


def _take_in(
    replica: Replica, role: Leader, event: ReassignmentRequested, target: VoterSet
) -> Reason | None:
    log, pending = replica.log, role.target
    if pending is not None:
        if set(pending.target) != set(target):
            return AnotherTargetWaits(pending.target)
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
    role.confirmation_rounds.clear()  # the steps towards it ask again who is there (S34)
    return None


def _pinned(replica: Replica, role: Leader, targets: tuple[Target, ...]) -> VoterSet | Reason:
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
            return AmbiguousId(target.node_id, frozenset(keys))
        if not keys:
            return UnknownId(target.node_id)
        voters.append(_voter(replica, role, keys.pop(), target))
    if len({voter.key.node_id for voter in voters}) < len(voters):
        return IdListedTwice()
    return VoterSet.of(voters)


def _voter(replica: Replica, role: Leader, key: ReplicaKey, target: Target) -> Voter:
    known = replica.log.voters.endpoint_of(key)
    progress = role.progress.get(key)
    return Voter(key, target.endpoint or known or (progress.endpoint if progress else None))


def _stale(replica: Replica, pending: PendingTarget) -> Reason | None:
    now = replica.log.assignment_record
    taken_back = pending.expected is None and not pending.target
    if taken_back or pending.expected == now:
        return None
    return AssignmentChanged(now)


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
        role.step_waits_for = _step(replica, role)


def _advance_target(replica: Replica, role: Leader, pending: PendingTarget) -> None:
    if pending.appended is not None and pending.appended < replica.high_watermark:
        replica.emit(*pending.completed(Done))
        role.target = None
    elif pending.appended is None and (stale := _stale(replica, pending)) is not None:
        replica.emit(*pending.refused(stale))
        role.target = None
    elif replica.now_ms >= pending.deadline_ms:
        replica.emit(*pending.timed_out())
        role.target = None
    elif pending.appended is None:
        waiting_for = _not_settled(replica, role)
        if waiting_for is None:
            _append(replica, pending)
        else:
            pending.waiting_for = waiting_for


def _append(replica: Replica, pending: PendingTarget) -> None:
    record = TargetVoters(pending.target.voters)
    pending.appended = replica.append_control(record).base_offset
    pending.waiting_for = Awaited.MAJORITY
    replica.fact("target_appended", target=str(pending.target), offset=pending.appended)


def _not_settled(replica: Replica, role: Leader) -> Wait | None:
    """What must be committed before a voter record or a target record is appended."""
    log = replica.log
    newest = max(log.assignment_record.offset, log.raft_version_record)
    if newest >= replica.high_watermark:
        return Awaited.ASSIGNMENT_COMMIT
    if not leadership.epoch_committed(replica, role):
        return Awaited.OWN_EPOCH_COMMIT  # P34: KIP-642 lacks it
    return None


def _step(replica: Replica, role: Leader) -> Wait | None:
    """Make the next step, or say what it waits for."""
    log = replica.log
    if role.changes:
        return Awaited.STEP_COMMIT
    if (reason := _not_settled(replica, role)) is not None:
        return reason
    if not replica.is_voter:
        return Awaited.VOTING_LEADER  # it is about to resign
    coming, going = differences(log.voters, log.target_voters)
    if not coming and not going:
        replica.fact("reassignment_completed", voters=str(log.voters))
        replica.append_control(TargetVoters(()))
        return None
    if len(coming) >= len(going):
        return _first_that_may(replica, role, [_change(replica, "add", v) for v in coming])
    others = [voter for voter in going if voter.key != replica.key]
    if not others:
        return _transfer_leadership(replica, role)
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


def _first_that_may(replica: Replica, role: Leader, changes: list[PendingChange]) -> Wait:
    """Append the first change without an obstacle; else return the obstacle of each change."""
    blocked: list[BlockedStep] = []
    for change in changes:
        waiting_for = voter_changes.what_holds_back(replica, role, change)
        if waiting_for is None:
            role.changes.append(change)
            voter_changes.append(replica, role, change)
            return change.waiting_for
        blocked.append(BlockedStep(change.kind, change.key, waiting_for))
    return BlockedSteps(tuple(blocked))


def _transfer_leadership(replica: Replica, role: Leader) -> Wait:
    """P34: transfer leadership, as only the leader is left to remove; its successor removes it."""
    if role.transfer is not None:
        return SuccessorLog(role.transfer.successor)
    stay = voter_changes.caught_up_voters(replica, role, replica.log.target_voters)
    if not stay:
        return Awaited.SUCCESSOR
    last, again = replica.transferred_at_ms, 2 * replica.config.fetch_timeout_ms
    if last is not None and replica.now_ms - last < again:
        return Awaited.TRANSFER_PAUSE  # each attempt writes a record
    replica.transferred_at_ms = replica.now_ms
    successor = leadership_transfer.begin(replica, role, stay)
    replica.fact("leadership_transfer_started", preferred=str(successor))
    return SuccessorLeadership(successor)
