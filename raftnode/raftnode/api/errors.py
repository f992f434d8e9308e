"""The stable names of the API's errors: one table for the server, the node and the docs.

What lives here: name, HTTP status, what it says about a write. What must not: the
conditions that lead to an error; whoever meets one raises `refusal(...)`.

Two rules hold for the whole table and clients may build on them. A status of 421, 429
or 503 with outcome `not_done` means "ask again, perhaps elsewhere"; any other status
with `not_done` means that the same request will be refused again. An outcome of
`unknown` is never to be retried blindly: the write may have been done or still may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from raftnode.core.types import Endpoint, ReplicaKey
from raftnode.errors import RequestError

Outcome = Literal["not_done", "unknown"]

RETRIABLE_STATUSES = frozenset({421, 429, 503})
"""With outcome `not_done`: the same request may succeed later or at another node."""


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One row of the table."""

    status: int
    meaning: str
    outcome: Outcome = "not_done"

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later or elsewhere."""
        return self.outcome == "not_done" and self.status in RETRIABLE_STATUSES


ERRORS: dict[str, ErrorKind] = {
    # What is wrong with the request itself.
    "INVALID_REQUEST": ErrorKind(
        400, "The request is malformed; the message names the field and what is allowed."
    ),
    "NOT_FOUND": ErrorKind(404, "There is no such path."),
    "KEY_NOT_FOUND": ErrorKind(404, "The key has no value at the offset that was read."),
    "METHOD_NOT_ALLOWED": ErrorKind(405, "The path exists but not with this method."),
    "BODY_TIMEOUT": ErrorKind(408, "The body did not arrive in time; nothing was done."),
    "UNSUPPORTED_MEDIA_TYPE": ErrorKind(415, "The body's Content-Type is not one of those named."),
    "BODY_TOO_LARGE": ErrorKind(413, "The body is larger than the node accepts."),
    "RECORD_TOO_LARGE": ErrorKind(413, "A record is larger than `record_max_bytes`."),
    "BATCH_TOO_LARGE": ErrorKind(
        413, "The records together are larger than `max_batch_bytes`; send fewer at a time."
    ),
    "OFFSET_OUT_OF_RANGE": ErrorKind(
        416, "The offset is below the log start: those records are only in a snapshot."
    ),
    # Who is asked, and when.
    "NOT_LEADER": ErrorKind(
        421, "This node does not lead; `leader` and `leader_api` say who does, if known."
    ),
    "NODE_BLANK": ErrorKind(
        421, "This node has no cluster id yet and waits for form or join; another may serve."
    ),
    "HANDING_OVER": ErrorKind(
        503, "The leader takes no more writes: another one leads in a moment, which takes them."
    ),
    "FORMATION_INCOMPLETE": ErrorKind(
        503, "Not all voters hold the first voter records yet; client writes wait for that."
    ),
    "QUEUE_FULL": ErrorKind(429, "The leader's append queue is full (`append_queue_bytes`)."),
    "TOO_MUCH_UNCOMMITTED": ErrorKind(
        429,
        "So much is appended and not yet committed (`max_uncommitted_bytes`) that the leader takes "
        "no more until the voters have caught up.",
    ),
    "STORAGE_FULL": ErrorKind(
        507, "The leader's disk is full and no other voter could take over (S30)."
    ),
    "SHUTTING_DOWN": ErrorKind(503, "The node is stopping and took nothing on."),
    "NOT_COMMITTED": ErrorKind(
        503, "The write was given up or truncated before its commit: it is certainly not done."
    ),
    "NOT_CONFIRMED": ErrorKind(
        503, "No majority answered in time, so this may be a stale leader; nothing was read."
    ),
    "NOT_ALIVE": ErrorKind(
        503, "The node's disk or event loop makes no progress; it ends unless that passes."
    ),
    "NOT_READY": ErrorKind(503, "The node is alive but not attached to a leader and caught up."),
    # Voter changes (P28 to P31, S11).
    "STALE_VOTER_RECORD": ErrorKind(
        409, "The voter set is not that of `expected` any more; read it again and decide again."
    ),
    "VOTER_ALREADY_ADDED": ErrorKind(409, "The replica is in the committed voter set."),
    "VOTER_ALREADY_REMOVED": ErrorKind(409, "The replica is not in the committed voter set."),
    "NOT_AN_OBSERVER": ErrorKind(409, "The replica to add does not fetch from the leader."),
    "LAST_VOTER": ErrorKind(409, "Removing it would leave no voter."),
    "TOO_MANY_CHANGES": ErrorKind(429, "Too many voter changes wait already."),
    "WAITING": ErrorKind(
        503,
        "The deadline passed while the change waited for a guard (the message names it); its "
        "record was not appended and never will be.",
    ),
    # Reassignment (P33 to P35, S15).
    "REASSIGNMENT_PENDING": ErrorKind(
        409, "The leader is reassigning the voters; replace that target or take it back first."
    ),
    "AMBIGUOUS_VOTER": ErrorKind(
        409, "A target's id is that of two replicas, or stands in the target twice."
    ),
    # raft.version (P54, P56).
    "UNSUPPORTED_VERSION": ErrorKind(
        409,
        "The quorum's raft.version does not allow it, or a version is asked for that this program "
        "does not know.",
    ),
    "VERSION_NOT_LOWERED": ErrorKind(409, "The quorum is at a higher raft.version for good."),
    "NOT_CONFIGURED": ErrorKind(
        409, "At raft.version 1: the id is not among those that the quorum was formed with."
    ),
    "LAST_OF_ITS_ID": ErrorKind(
        409, "At raft.version 1: the replica is the only voter of its id, which must keep one."
    ),
    # Formation (S18, S19, S5).
    "ALREADY_FORMED": ErrorKind(
        409, "The node has a cluster id or a latch that is not the one that was sent."
    ),
    "NOT_LISTED": ErrorKind(409, "The voters to form with do not list this replica."),
    "CLUSTER_ID_MISMATCH": ErrorKind(409, "The node belongs to another cluster id."),
    # What cannot be known.
    "TIMED_OUT": ErrorKind(
        504, "The deadline passed after the write was appended; it may still commit.", "unknown"
    ),
    "LEADERSHIP_LOST": ErrorKind(
        504, "Leadership was lost after the write was appended; it may still commit.", "unknown"
    ),
    "INTERNAL": ErrorKind(500, "A fault of the node; its log has the details.", "unknown"),
}


def refusal(
    error: str,
    message: str,
    *,
    leader: ReplicaKey | None = None,
    leader_api: Endpoint | None = None,
) -> RequestError:
    """Make the error of a name in the table, with the table's status and outcome.

    Raises:
        KeyError: the name is not in the table; a fault of the caller.
    """
    kind = ERRORS[error]
    return RequestError(
        error,
        message,
        status=kind.status,
        leader=leader,
        leader_api=leader_api,
        outcome=kind.outcome,
    )


def not_leader(leader: ReplicaKey | None, leader_api: Endpoint | None) -> RequestError:
    """Make the refusal of a node that does not lead, with whom to ask instead."""
    whom = f"; the leader is {leader}" if leader else "; it knows of no leader now"
    where = f" at {leader_api}" if leader_api else ""
    return refusal(
        "NOT_LEADER",
        f"this node does not lead{whom}{where}",
        leader=leader,
        leader_api=leader_api,
    )
