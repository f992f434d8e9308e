"""Leadership transfer: the log first, then the leadership (P17, P34; Ongaro's 3.10).

EndQuorumEpoch alone leaves the outcome to chance under load: a successor that lacks the last
records gets no vote from a voter that has them, and the clients that wrote these records never get
an answer. So a leader that is asked to resign takes no more writes. It resigns once its successor
holds its whole log durably and all of that is committed. It waits for an election timeout at
most, and for no more than a second. Then it resigns all the same: the other voters rank behind by
what they hold, as ever (S17).

A leader that loses leadership otherwise, shuts down or has removed itself resigns at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import Leader, LeadershipTransfer
from raftnode.core.types import ReplicaKey

PATIENCE_MAX_MS = 1000
"""The leader refuses writes meanwhile, and the client that asked for the transfer waits."""


def best(role: Leader, able: Iterable[ReplicaKey]) -> ReplicaKey:
    """The caught-up voter that holds the most of the log."""
    return max(able, key=lambda key: (role.progress[key].acknowledged, key))


def begin(
    replica: Replica,
    role: Leader,
    able: Iterable[ReplicaKey],
    wanted: ReplicaKey | None = None,
    request_id: int | None = None,
) -> ReplicaKey:
    """Take no more writes, to transfer leadership to the wanted voter or else to the best able one.

    A voter wanted by a later call becomes the successor, within the same deadline.
    """
    if role.transfer is None:
        until_ms = replica.now_ms + min(replica.config.election_timeout_ms, PATIENCE_MAX_MS)
        role.transfer = LeadershipTransfer(wanted or best(role, able), until_ms)
    role.transfer.successor = wanted or role.transfer.successor
    if request_id is not None:
        role.transfer.request_ids.add(request_id)
    return role.transfer.successor


def advance(replica: Replica, role: Leader) -> None:
    """Resign, if it is time to."""
    under_way = role.transfer
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
    """Forget a request that no client waits for; the leadership transfer goes on all the same."""
    if role.transfer is not None:
        role.transfer.request_ids.discard(request_id)
