"""Leadership handed over on purpose: the log first, then the lead (P17, P34; Ongaro's 3.10).

EndQuorumEpoch alone leaves it to chance under load: a successor that lacks the last records gets
no vote of whoever has them, and whoever wrote them never hears what became of them. So a leader
that is asked to go takes no more writes, and goes once its successor holds its whole log durably
and all of that is committed. It waits for an election time-out at most, and for no more than a
second; then it goes all the same: the others rank behind by what they hold, as ever (S17).

Whoever loses leadership otherwise, shuts down or has removed itself goes at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import HandOver, Leader
from raftnode.core.types import ReplicaKey

PATIENCE_MAX_MS = 1000
"""Writes are refused meanwhile, and whoever asked waits."""


def best(role: Leader, able: Iterable[ReplicaKey]) -> ReplicaKey:
    """Of voters that are caught up, the one that holds the most."""
    return max(able, key=lambda key: (role.progress[key].acknowledged, key))


def begin(
    replica: Replica,
    role: Leader,
    able: Iterable[ReplicaKey],
    wanted: ReplicaKey | None = None,
    request_id: int | None = None,
) -> ReplicaKey:
    """Take no more writes, for the sake of the one that is wanted, or the best that is able.

    Whoever is wanted later takes the place of the successor, within the time that this one had.
    """
    if role.hand_over is None:
        until_ms = replica.now_ms + min(replica.config.election_timeout_ms, PATIENCE_MAX_MS)
        role.hand_over = HandOver(wanted or best(role, able), until_ms)
    role.hand_over.successor = wanted or role.hand_over.successor
    if request_id is not None:
        role.hand_over.request_ids.add(request_id)
    return role.hand_over.successor


def advance(replica: Replica, role: Leader) -> None:
    """Go, if it is time to."""
    under_way = role.hand_over
    if under_way is None:
        return
    if replica.now_ms >= under_way.until_ms or _has_all(replica, role, under_way.successor):
        leadership.resign(replica, role, under_way.successor)


def _has_all(replica: Replica, role: Leader, successor: ReplicaKey) -> bool:
    progress, end = role.progress.get(successor), replica.log.end
    if progress is None or progress.fenced:
        return False
    return progress.acknowledged >= end and replica.high_watermark >= end


def abandon(role: Leader, request_id: int) -> None:
    """Nobody waits for this request any more; leadership is handed over all the same."""
    if role.hand_over is not None:
        role.hand_over.request_ids.discard(request_id)
