"""The leader's service to a replica that fetches a snapshot (P24, P25, P40)."""

from __future__ import annotations

from raftnode.core.effects import ServeSnapshot
from raftnode.core.messages import ErrorCode, FetchSnapshotRequest, FetchSnapshotResponse
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import Leader
from raftnode.core.types import ReplicaKey


def handle_fetch_snapshot(
    replica: Replica,
    role: Leader,
    request_id: int,
    source: ReplicaKey,
    request: FetchSnapshotRequest,
) -> None:
    """Serve a piece. The request is a sign of life, and acknowledges nothing (S10)."""
    error = leadership.judge_epoch(replica, request.epoch)
    if error == ErrorCode.NONE and not leadership.may_say(replica, role, source, request):
        error = ErrorCode.INVALID_REQUEST
    if error != ErrorCode.NONE:
        replica.respond(request_id, _response(replica, role, error, request))
        leadership.follow_higher_epoch(replica, role, source, request.epoch)
        return
    progress = leadership.progress_of(replica, role, source)
    if progress.fenced:
        replica.respond(request_id, _response(replica, role, ErrorCode.FENCED_REPLICA, request))
        return
    progress.last_fetch_ms = replica.now_ms
    progress.begin_done = True
    progress.endpoint = request.endpoint or progress.endpoint
    progress.round_token = max(progress.round_token, request.round_token)
    replica.emit(
        ServeSnapshot(
            request_id,
            _response(replica, role, ErrorCode.NONE, request),
            min(request.max_bytes, replica.config.fetch_max_bytes),
        )
    )


def _response(
    replica: Replica, role: Leader, error: ErrorCode, request: FetchSnapshotRequest
) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        error,
        replica.epoch,
        replica.key,
        leader_endpoint=replica.endpoint,
        snapshot=request.snapshot,
        position=request.position,
        round_token=role.round_token,
    )
