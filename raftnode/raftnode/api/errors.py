"""The stable names of the API's errors: one table for the server, the node and the docs.

The table has the name, the HTTP status and the outcome of a write. The code that finds an error
raises `refusal(...)`.

Clients may rely on two rules, which hold for the whole table. With outcome `not_done`, a status
of 421, 429 or 503 means that the client should ask again, perhaps another node; with any other
status the node would refuse the same request again. With outcome `unknown`, a client must not
retry blindly: the write may have been done or still may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from raftnode.core.types import Endpoint, ReplicaKey
from raftnode.errors import RequestError

Outcome = Literal["not_done", "unknown"]

DOCUMENT_NAMES: dict[str, str] = {
    "NOT_LEADER": "NOT_LEADER_FOR_PARTITION",
    "INCONSISTENT_CLUSTER_ID": "INVALID_CLUSTER_ID",
    "OFFSET_OUT_OF_RANGE": "OFFSET_OUT_OF_RANGE",
    "INVALID_REQUEST": "INVALID_REQUEST",
    "NOT_AN_OBSERVER": "INVALID_REQUEST",
    "NOT_CONFIGURED": "INVALID_REQUEST",
    "LAST_OF_ITS_ID": "INVALID_REQUEST",
    "VOTER_ALREADY_ADDED": "VOTER_ALREADY_ADDED",
    "VOTER_ALREADY_REMOVED": "VOTER_ALREADY_REMOVED",
}
"""The error of the KIPs for the same refusal (P3): ours name the cause where they have one name."""

RETRIABLE_STATUSES = frozenset({421, 429, 503})
"""With outcome `not_done`, the same request may succeed later or at another node."""


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """A row of the table."""

    status: int
    meaning: str
    outcome: Outcome = "not_done"

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later or elsewhere."""
        return self.outcome == "not_done" and self.status in RETRIABLE_STATUSES


ERRORS: dict[str, ErrorKind] = {
    # Faults of the request.
    "INVALID_REQUEST": ErrorKind(
        400, "The request is malformed. The message names the field and what is allowed."
    ),
    "AUTHENTICATION_FAILED": ErrorKind(
        401,
        "The node knows no subject by the token or certificate of the request, or the request has "
        "none and needs one (`access_file`).",
    ),
    "AUTHORIZATION_FAILED": ErrorKind(
        403, "The subject of the request may not do this. The message names what is missing."
    ),
    "NOT_FOUND": ErrorKind(404, "The path does not exist."),
    "KEY_NOT_FOUND": ErrorKind(404, "The key has no value at the offset that was read."),
    "WRONG_LISTENER": ErrorKind(
        403,
        "Another listener of the node serves this path; the message names its address and setting "
        "(`api_listen`, `admin_listen`, `metrics_listen`).",
    ),
    "METHOD_NOT_ALLOWED": ErrorKind(405, "The path exists, but does not accept this method."),
    "BODY_TIMEOUT": ErrorKind(408, "The body did not arrive in time; the node did nothing."),
    "UNSUPPORTED_MEDIA_TYPE": ErrorKind(
        415,
        "The body has a Content-Type that the path does not accept. The message lists the "
        "accepted ones.",
    ),
    "BODY_TOO_LARGE": ErrorKind(413, "The body is larger than the node accepts."),
    "RECORD_TOO_LARGE": ErrorKind(413, "A record is larger than `record_max_bytes`."),
    "BATCH_TOO_LARGE": ErrorKind(
        413, "The records together are larger than `max_batch_bytes`; send fewer at a time."
    ),
    "OFFSET_OUT_OF_RANGE": ErrorKind(
        416, "The offset is below the log start. Only a snapshot holds those records."
    ),
    "HEAD_TOO_LARGE": ErrorKind(
        431, "A line of the request's head is too long, or the head has too many headers."
    ),
    # The wrong node, or the wrong time.
    "NOT_LEADER": ErrorKind(
        421,
        "This node is not the leader; `leader` and `leader_api` name the leader, if it is known.",
    ),
    "NODE_BLANK": ErrorKind(
        421, "This node has no cluster id yet and waits for form or join; ask another node."
    ),
    "LEADERSHIP_TRANSFER_PENDING": ErrorKind(
        503,
        "The leader is transferring leadership and accepts no more writes; ask again, "
        "the new leader accepts them.",
    ),
    "FORMATION_INCOMPLETE": ErrorKind(
        503,
        "Not all voters have the first voter records yet; the leader accepts writes once they do.",
    ),
    "QUEUE_FULL": ErrorKind(429, "The leader's append queue is full (`append_queue_bytes`)."),
    "TOO_MANY_SESSIONS": ErrorKind(
        503,
        "The node has as many sessions as it accepts, in total or of this client "
        "(`api_sessions_max`, `api_holder_sessions_max`); use HTTP, or ask again once others have "
        "closed theirs.",
    ),
    "TOO_MANY_CONNECTIONS": ErrorKind(
        503,
        "The node has as many connections as it accepts, in total or of this address "
        "(`api_connections_max`, `api_address_connections_max`). This connection may only ask for "
        "administration, health and metrics.",
    ),
    "TOO_MANY_REQUESTS": ErrorKind(
        429,
        "Too many requests are in flight, in total or of this client (`api_requests_max`, "
        "`api_holder_requests_max`), or their bodies are too large together "
        "(`api_bodies_max_bytes`); the node did nothing.",
    ),
    "TOO_MUCH_UNCOMMITTED": ErrorKind(
        429,
        "Too many bytes are appended and not yet committed (`max_uncommitted_bytes`). "
        "The leader accepts more once the voters have caught up.",
    ),
    "STORAGE_FULL": ErrorKind(
        507, "The leader's disk is full and no other voter can take leadership."
    ),
    "SHUTTING_DOWN": ErrorKind(503, "The node is stopping; it did not start the request."),
    "NOT_COMMITTED": ErrorKind(
        503,
        "The leader gave up the write, or a new leader truncated it, before its commit. "
        "It is certainly not done.",
    ),
    "NOT_CONFIRMED": ErrorKind(
        503, "No majority answered in time, so this node may be a stale leader. It read nothing."
    ),
    "NOT_ALIVE": ErrorKind(
        503,
        "A call to the node's disk, or its event loop, makes no progress. The node exits "
        "unless it recovers.",
    ),
    "NOT_READY": ErrorKind(
        503, "The node is alive, but it is not attached to a leader and caught up."
    ),
    # Voter changes (P28 to P31, S11).
    "STALE_VOTER_RECORD": ErrorKind(
        409, "The voter set is no longer the one in `expected`. Read it again, then decide again."
    ),
    "VOTER_ALREADY_ADDED": ErrorKind(409, "The replica is in the committed voter set already."),
    "VOTER_ALREADY_REMOVED": ErrorKind(409, "The replica is not in the committed voter set."),
    "NOT_AN_OBSERVER": ErrorKind(
        409, "The replica to add is not an observer: it does not fetch from the leader."
    ),
    "LAST_VOTER": ErrorKind(409, "The replica is the last voter; a quorum keeps at least one."),
    "TOO_MANY_CHANGES": ErrorKind(429, "Too many voter changes are waiting; ask again later."),
    "WAITING": ErrorKind(
        503,
        "The deadline passed while the change waited for a guard, which the message "
        "names. The leader did not append its record and never will.",
    ),
    # Reassignment (P33 to P35, S15).
    "REASSIGNMENT_PENDING": ErrorKind(
        409,
        "The leader is reassigning the voters. Replace the target or cancel the "
        "reassignment first.",
    ),
    "AMBIGUOUS_VOTER": ErrorKind(
        409, "A node id in the target belongs to two replicas, or the target lists it twice."
    ),
    # raft.version (P54, P56).
    "UNSUPPORTED_VERSION": ErrorKind(
        409,
        "The quorum's raft.version does not allow the change, or this program does not "
        "know the raft.version asked for.",
    ),
    "VERSION_NOT_LOWERED": ErrorKind(
        409, "The quorum is at a higher raft.version, which is never lowered."
    ),
    "NOT_CONFIGURED": ErrorKind(
        409, "At raft.version 1, the node id is not one of those that the quorum was formed with."
    ),
    "LAST_OF_ITS_ID": ErrorKind(
        409,
        "At raft.version 1, the replica is the only voter with its node id, and each "
        "node id keeps one.",
    ),
    # Formation (S18, S19, S5).
    "ALREADY_FORMED": ErrorKind(
        409, "The node has another cluster id or another latch than the request."
    ),
    "NOT_LISTED": ErrorKind(409, "The voters in the request do not list this replica."),
    "INCONSISTENT_CLUSTER_ID": ErrorKind(
        409,
        "The header `X-Kraftquorum-Cluster-Id`, or `cluster_id` in the body, names another cluster "
        "than the node's; nothing was done.",
    ),
    # Audit.
    "AUDIT_LOG_FULL": ErrorKind(
        503,
        "The file of the audit log (`audit_log`) takes no lines and the queue before it is full. "
        "The node makes no change that would leave no line.",
    ),
    # Unknown outcomes and faults of the node.
    "TIMED_OUT": ErrorKind(
        504,
        "The deadline passed after the leader appended the write; it may still commit.",
        "unknown",
    ),
    "LEADERSHIP_LOST": ErrorKind(
        504,
        "The leader lost leadership after it appended the write; the write may still commit.",
        "unknown",
    ),
    "INTERNAL": ErrorKind(
        500, "The node failed on the request; its log has the details.", "unknown"
    ),
}


def refusal(
    error: str,
    message: str,
    *,
    leader: ReplicaKey | None = None,
    leader_api: Endpoint | None = None,
) -> RequestError:
    """Make the error with a name of the table, and the table's status and outcome.

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
    """Make the refusal of a node that is not the leader; it names the leader, if known."""
    whom = f"; the leader is {leader}" if leader else "; it knows of no leader now"
    where = f" at {leader_api}" if leader_api else ""
    return refusal(
        "NOT_LEADER",
        f"this node is not the leader{whom}{where}",
        leader=leader,
        leader_api=leader_api,
    )
