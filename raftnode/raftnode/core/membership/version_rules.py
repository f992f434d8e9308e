"""What each raft.version allows of a voter change (P29, P30, P54, S12)."""

from __future__ import annotations

from raftnode.core.log_index import LogIndex
from raftnode.core.membership.pending_change import PendingChange
from raftnode.core.reasons.refusals import (
    FixedVoters,
    IdNotConfigured,
    LastOfItsId,
    Reason,
)


def why_not(log: LogIndex, change: PendingChange) -> Reason | None:
    """Why the version in force refuses a voter change; None: it allows the change (P29, P30)."""
    if not log.raft_version and not log.base_raft_version:
        return FixedVoters()
    if log.raft_version != 1:
        return None
    known = log.voters.with_id(change.key.node_id)
    if change.kind == "add" and not known:
        return IdNotConfigured(change.key.node_id, log.voters)
    if change.kind == "remove" and known == (change.key,):
        return LastOfItsId(change.key)
    return None
