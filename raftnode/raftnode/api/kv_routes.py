"""`/v1/kv`: the key-value store; bodies are raw bytes, keys are UTF-8 and may contain slashes."""

from __future__ import annotations

import base64

from aiohttp import web

from raftnode.api.checks import check_key, check_sizes
from raftnode.api.errors import refusal
from raftnode.api.http import ApiLimits, Route, json_response, read_body, read_query
from raftnode.api.log_routes import WRITE_ERRORS, appended_response
from raftnode.api.media import BINARY, HEADER_EPOCH, HEADER_NEXT_OFFSET, HEADER_OFFSET
from raftnode.api.model import Appended, KeyList, KeyValue
from raftnode.api.needs import READ_KEY, READ_PREFIX, WRITE_KEY, raw_key
from raftnode.api.queries import ListKeysQuery, ReadKeyQuery, TimeoutQuery
from raftnode.api.service import NewRecord, NodeService
from raftnode.limits.answers import LARGE_BYTES
from raftnode.statemachine.kv import KeyValueReader

_PAGE_MAX_BYTES = 1 << 20
"""A page of a listing ends before its values exceed this; it has at least one entry."""

_READ_ERRORS = ("NOT_LEADER", "NOT_CONFIRMED", "NODE_BLANK", "SHUTTING_DOWN")


def kv_routes(service: NodeService, limits: ApiLimits) -> tuple[Route, ...]:
    """Make the operations on keys."""

    async def settle(query: ReadKeyQuery) -> None:
        if query.consistency == "linearizable":
            await service.read_barrier(timeout_ms=query.timeout_ms)

    async def get(request: web.Request) -> web.StreamResponse:
        key = read_key(request)
        await settle(read_query(request, ReadKeyQuery))
        entry = service.kv.get(key)
        if entry is not None and len(entry.value) >= LARGE_BYTES:
            entry = None  # a copy, which a thousand waiting requests must not hold
            await service.turns.memory()
            entry = service.kv.get(key)
        if entry is None:
            raise refusal(
                "KEY_NOT_FOUND",
                f"key: {key.decode()!r} has no value before offset {service.kv.next_offset}",
            )
        headers = {
            HEADER_OFFSET: str(entry.offset),
            HEADER_EPOCH: str(entry.epoch),
            HEADER_NEXT_OFFSET: str(service.kv.next_offset),
        }
        return web.Response(body=entry.value, headers=headers, content_type=BINARY)

    async def put(request: web.Request) -> web.StreamResponse:
        key = read_key(request)
        timeout_ms = read_query(request, TimeoutQuery).timeout_ms
        value = await read_body(
            request, max_bytes=limits.record_max_bytes, error="RECORD_TOO_LARGE"
        )
        records = [NewRecord(key, value)]
        check_sizes(records, limits)
        return appended_response(await service.append(records, timeout_ms=timeout_ms))

    async def delete(request: web.Request) -> web.StreamResponse:
        key = read_key(request)
        timeout_ms = read_query(request, TimeoutQuery).timeout_ms
        records = [NewRecord(key, None)]
        return appended_response(await service.append(records, timeout_ms=timeout_ms))

    async def list_keys(request: web.Request) -> web.StreamResponse:
        query = read_query(request, ListKeysQuery)
        await settle(query)
        async with service.turns.turn():
            headers = {HEADER_NEXT_OFFSET: str(service.kv.next_offset)}
            return json_response(list_page(service.kv, query), headers=headers)

    write_headers = (HEADER_OFFSET, HEADER_EPOCH)
    return (
        Route(
            "GET",
            "/v1/kv",
            list_keys,
            "listKeys",
            "List entries in byte order of their keys, one page at a time.",
            READ_PREFIX,
            query=ListKeysQuery,
            response=KeyList,
            errors=_READ_ERRORS,
            headers=(HEADER_NEXT_OFFSET,),
        ),
        Route(
            "GET",
            "/v1/kv/{key}",
            get,
            "getKey",
            "Read the newest value of a key.",
            READ_KEY,
            query=ReadKeyQuery,
            response=BINARY,
            errors=("KEY_NOT_FOUND", *_READ_ERRORS),
            headers=(HEADER_OFFSET, HEADER_EPOCH, HEADER_NEXT_OFFSET),
        ),
        Route(
            "PUT",
            "/v1/kv/{key}",
            put,
            "putKey",
            "Write a value and wait until it is committed. The write is a record with "
            "this key and value.",
            WRITE_KEY,
            query=TimeoutQuery,
            binary_body="The value; it may be empty. Any Content-Type.",
            response=Appended,
            errors=WRITE_ERRORS,
            headers=write_headers,
        ),
        Route(
            "DELETE",
            "/v1/kv/{key}",
            delete,
            "deleteKey",
            "Delete a key: a record with this key and a null value, even if the key does "
            "not exist.",
            WRITE_KEY,
            query=TimeoutQuery,
            response=Appended,
            errors=WRITE_ERRORS,
            headers=write_headers,
        ),
    )


def read_key(request: web.Request) -> bytes:
    """Take the key from the path.

    Raises:
        RequestError: INVALID_REQUEST when it is empty, too long or not UTF-8.
    """
    key = raw_key(request)
    check_key(key)
    return key


def list_page(kv: KeyValueReader, query: ListKeysQuery) -> KeyList:
    """Return one page of the store, limited by count and by bytes."""
    entries: list[KeyValue] = []
    size_bytes = 0
    after = query.after.encode() if query.after is not None else None
    for key in kv.scan(prefix=query.prefix.encode(), after=after):
        entry = kv.get(key)
        assert entry is not None, "scan yields only keys that are there"  # noqa: S101
        size_bytes += len(entry.value)
        if entries and (len(entries) == query.limit or size_bytes > _PAGE_MAX_BYTES):
            return KeyList(entries=tuple(entries), next=entries[-1].key)
        entries.append(
            KeyValue(
                key=key.decode(),
                value=base64.b64encode(entry.value).decode(),
                offset=entry.offset,
            )
        )
    return KeyList(entries=tuple(entries), next=None)
