"""`/v1/log`: append raw records, read the committed log."""

from __future__ import annotations

from aiohttp import web

from raftnode.api.checks import check_sizes
from raftnode.api.encode import read_result
from raftnode.api.http import (
    ApiLimits,
    Route,
    json_response,
    read_body,
    read_json,
    read_query,
    require_content_type,
)
from raftnode.api.media import BINARY, HEADER_EPOCH, HEADER_OFFSET, JSON
from raftnode.api.model import Appended, AppendRequest, ReadResult
from raftnode.api.needs import READ_LOG, WRITE_LOG
from raftnode.api.queries import ReadLogQuery, TimeoutQuery
from raftnode.api.service import NewRecord, NodeService
from raftnode.core.types import Offset

WRITE_ERRORS = (
    "NOT_LEADER",
    "NODE_BLANK",
    "LEADERSHIP_TRANSFER_PENDING",
    "FORMATION_INCOMPLETE",
    "RECORD_TOO_LARGE",
    "BODY_TOO_LARGE",
    "QUEUE_FULL",
    "TOO_MUCH_UNCOMMITTED",
    "STORAGE_FULL",
    "NOT_COMMITTED",
    "SHUTTING_DOWN",
    "TIMED_OUT",
    "LEADERSHIP_LOST",
)
"""The errors of any client write."""


def log_routes(service: NodeService, limits: ApiLimits) -> tuple[Route, ...]:
    """Make the operations on the log."""

    async def append(request: web.Request) -> web.StreamResponse:
        timeout_ms = read_query(request, TimeoutQuery).timeout_ms
        require_content_type(request, JSON, BINARY)
        if request.content_type == BINARY:
            value = await read_body(
                request, max_bytes=limits.record_max_bytes, error="RECORD_TOO_LARGE"
            )
            records = [NewRecord(None, value)]
        else:
            body = await read_json(request, AppendRequest, max_bytes=limits.json_body_max_bytes)
            records = [NewRecord(None, record.data) for record in body.records]
        check_sizes(records, limits)
        return appended_response(await service.append(records, timeout_ms=timeout_ms))

    async def read(request: web.Request) -> web.StreamResponse:
        query = read_query(request, ReadLogQuery)
        records = await service.read(
            Offset(query.offset), max_bytes=query.max_bytes, max_wait_ms=query.max_wait_ms
        )
        async with service.turns.turn():
            return json_response(read_result(records))

    return (
        Route(
            "POST",
            "/v1/log",
            append,
            "appendRecords",
            "Append records and wait until they are committed: fsynced on a majority.",
            WRITE_LOG,
            query=TimeoutQuery,
            json_body=AppendRequest,
            binary_body="The value of one record.",
            response=Appended,
            errors=(*WRITE_ERRORS, "BATCH_TOO_LARGE"),
            headers=(HEADER_OFFSET, HEADER_EPOCH),
        ),
        Route(
            "GET",
            "/v1/log",
            read,
            "readLog",
            "Read committed records in order, from any node; wait for new ones on request.",
            READ_LOG,
            query=ReadLogQuery,
            response=ReadResult,
            errors=("OFFSET_OUT_OF_RANGE", "NODE_BLANK"),
        ),
    )


def appended_response(appended: Appended) -> web.Response:
    """Answer a committed write."""
    headers = {HEADER_OFFSET: str(appended.last_offset), HEADER_EPOCH: str(appended.epoch)}
    return json_response(appended, headers=headers)
