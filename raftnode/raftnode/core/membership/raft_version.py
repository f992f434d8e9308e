"""raft.version: the rules that a quorum keeps, and the upgrade of a running quorum (P54, P56).

0. The voters are those of the latch, for ever: no record names them and they never change.
1. The log names the voters with their UUIDs. Replicas come and go, the ids stay (KIP-856).
2. Any replicas may be voters (KIP-642's sets under KIP-856's rules). New quorums begin here.

The version is a record of the log: in force when appended like a voter set, final when
committed, never lowered. From 0 it comes in one batch with all the voters, so that they
are all there or not at all (P52), and client writes wait until every voter has that batch.
"""

from __future__ import annotations

from raftnode.core.effects import Done
from raftnode.core.events import UpgradeRequested
from raftnode.core.membership import voter_changes
from raftnode.core.membership.pending_wait import PendingUpgrade
from raftnode.core.reasons.refusals import (
    AnotherUpgradeWaits,
    NeverLowered,
    NotTheLeader,
    UnknownVersion,
)
from raftnode.core.reasons.waits import Awaited, CatchUpOfAll, NewerPrograms, Wait
from raftnode.core.records import RAFT_VERSION, AddVoter, ControlRecord, RaftVersion
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import Leader


def handle_upgrade(replica: Replica, event: UpgradeRequested) -> None:
    """Accept a request for a higher version, or refuse it."""
    role, log = replica.role, replica.log
    if not isinstance(role, Leader):
        replica.refuse(event.request_id, NotTheLeader())
        return
    if not 0 <= event.version <= RAFT_VERSION:
        replica.refuse(event.request_id, UnknownVersion(event.version, known=RAFT_VERSION))
        return
    if event.version < log.raft_version:
        replica.refuse(event.request_id, NeverLowered(log.raft_version))
        return
    pending = role.upgrade
    if pending is not None and pending.version != event.version:
        replica.refuse(event.request_id, AnotherUpgradeWaits(pending.version))
        return
    if pending is None:
        pending = role.upgrade = PendingUpgrade(event.version, deadline_ms=event.deadline_ms)
    pending.join(event.request_id, event.deadline_ms)
    advance(replica, role)


def abandon(replica: Replica, request_id: int) -> None:
    """Forget a request that no client waits for; give up an upgrade not in the log (S24)."""
    role = replica.role
    if isinstance(role, Leader) and role.upgrade is not None and role.upgrade.leave(request_id):
        role.upgrade = None


def advance(replica: Replica, role: Leader) -> None:
    """Finish a committed upgrade, append an upgrade without an obstacle, give up a late one."""
    pending, log = role.upgrade, replica.log
    if pending is None:
        return
    if log.raft_version == pending.version and log.raft_version_record < replica.high_watermark:
        replica.emit(*pending.completed(Done))
        role.upgrade = None
        return
    if replica.now_ms >= pending.deadline_ms:
        replica.emit(*pending.timed_out())
        role.upgrade = None
        return
    if pending.appended is not None:
        return
    waiting_for = obstacle(replica, role, pending.version)
    if waiting_for is None:
        _append(replica, pending)
    else:
        pending.waiting_for = waiting_for


def obstacle(replica: Replica, role: Leader, version: int) -> Wait | None:
    """What an upgrade waits for before it may be appended; None: nothing (P56)."""
    log = replica.log
    if log.voter_record.offset >= replica.high_watermark:
        return Awaited.VOTER_CHANGE_COMMIT
    if log.raft_version_record >= replica.high_watermark:
        return Awaited.UPGRADE_COMMIT
    if not leadership.epoch_committed(replica, role):
        return Awaited.OWN_EPOCH_COMMIT
    others = [key for key in log.voters if key != replica.key]
    present = voter_changes.caught_up_voters(replica, role, log.voters)
    missing = tuple(key for key in others if key not in present)
    if missing:
        return CatchUpOfAll(missing)
    fetching = [
        key
        for key, progress in role.progress.items()
        if key in others or progress.is_fresh(replica.now_ms, replica.config.fetch_timeout_ms)
    ]
    old = frozenset(key for key in fetching if role.progress[key].raft_version_max < version)
    if old:
        return NewerPrograms(version, old)
    return None


def _append(replica: Replica, pending: PendingUpgrade) -> None:
    records: list[ControlRecord] = [RaftVersion(pending.version)]
    if not replica.log.raft_version:
        records.extend(AddVoter(voter) for voter in replica.log.voters.voters)
    pending.appended = replica.append_control(*records).base_offset
    pending.waiting_for = Awaited.MAJORITY
    replica.fact("raft_version_appended", raft_version=pending.version, offset=pending.appended)
