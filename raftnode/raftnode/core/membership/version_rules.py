"""What each raft.version allows of a voter change (P29, P30, P54, S12)."""

from __future__ import annotations

from raftnode.core.effects import Refusal
from raftnode.core.log_index import LogIndex
from raftnode.core.membership.pending_change import PendingChange


def why_not(log: LogIndex, change: PendingChange) -> tuple[Refusal, str] | None:
    """Why the version in force refuses a voter change; None: it allows the change (P29, P30)."""
    if not log.raft_version and not log.base_raft_version:
        return (
            Refusal.UNSUPPORTED_VERSION,
            "the quorum is at raft.version 0, whose voters never change; upgrade it first",
        )
    if log.raft_version != 1:
        return None
    known = log.voters.with_id(change.key.node_id)
    if change.kind == "add" and not known:
        message = (
            f"the quorum is at raft.version 1, and {change.key.node_id} is not one of the ids "
            f"of its voters {log.voters}; upgrade it to 2 first"
        )
        return Refusal.NOT_CONFIGURED, message
    if change.kind == "remove" and known == (change.key,):
        message = (
            f"the quorum is at raft.version 1, and {change.key} is the only voter of its id; "
            "add its successor first, or upgrade to 2"
        )
        return Refusal.LAST_OF_ITS_ID, message
    return None
