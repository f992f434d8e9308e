"""Garbage in a request is answered with an ApiError and changes nothing."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from yarl import URL

from proofkit.memoryservice import MemoryService
from raftnode.api.errors import ERRORS
from raftnode.api.model import ApiError
from raftnode.api.server import make_app

NAMES = [
    "records",
    "value",
    "voter",
    "voters",
    "node_id",
    "directory_id",
    "endpoint",
    "expected",
    "offset",
    "epoch",
    "cluster_id",
    "preferred",
    "timeout_ms",
    "x",
]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=12,
)
BODIES = st.binary(max_size=60) | JSON_VALUES.map(lambda value: json.dumps(value).encode())
POSTS = [
    "/v1/log",
    "/v1/form",
    "/v1/join",
    "/v1/quorum/resign",
    "/v1/quorum/voters",
    "/v1/quorum/voters/remove",
]
ESCAPED = st.binary(max_size=20).map(lambda raw: "".join(f"%{byte:02X}" for byte in raw))
PARAMETERS = st.sampled_from(
    [
        "offset",
        "max_bytes",
        "max_wait_ms",
        "limit",
        "prefix",
        "after",
        "consistency",
        "confirmed",
        "timeout_ms",
        "other",
    ]
)


async def answers(requests: list[tuple[str, str, bytes | None]]) -> list[tuple[int, Any]]:
    service = MemoryService(cluster_id=None)
    app: web.Application = make_app(service, registry=CollectorRegistry(), version="1")
    found: list[tuple[int, Any]] = []
    async with TestClient(TestServer(app)) as client:
        for method, path, body in requests:
            url = URL(path, encoded=True)
            headers = {"Content-Type": "application/json"}
            async with client.request(method, url, data=body, headers=headers) as answer:
                found.append((answer.status, await answer.read()))
    assert service.appends == 0
    return found


def check(found: list[tuple[int, Any]]) -> None:
    for status, raw in found:
        if status != 200:
            error = ApiError.model_validate_json(raw)
            assert error.error != "INTERNAL", error
            assert ERRORS[error.error].status == status


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(POSTS), BODIES), min_size=1, max_size=20))
async def test_any_body_gets_an_answer(bodies: list[tuple[str, bytes]]):
    check(await answers([("POST", path, body) for path, body in bodies]))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["/v1/log", "/v1/kv", "/v1/quorum", "/v1/kv/a"]), PARAMETERS, ESCAPED
        ),
        min_size=1,
        max_size=20,
    )
)
async def test_any_query_gets_an_answer(queries: list[tuple[str, str, str]]):
    check(await answers([("GET", f"{path}?{name}={v}", None) for path, name, v in queries]))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["GET", "PUT", "DELETE"]), ESCAPED), max_size=20))
async def test_any_key_gets_an_answer(keys: list[tuple[str, str]]):
    check(await answers([(method, f"/v1/kv/{key}", None) for method, key in keys]))
