"""Lists, watches and refusals of the API server, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from kraftquorum_operator import names
from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import GoneError, KubeUnavailableError, RefusedError
from kubeserver import client_of

POD = {"metadata": {"namespace": "ns", "name": "q-0", "uid": "u", "resourceVersion": "12"}}


@dataclass
class ApiServer:
    """Answers a list, a watch with lines, or a refusal."""

    lines: list[str] = field(default_factory=list[str])
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    requests: list[web.Request] = field(default_factory=list[web.Request])

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.status >= 400:
            body = {"kind": "Status", "reason": "No", "message": "refused"}
            return web.json_response(body, status=self.status, headers=self.headers)
        if "watch" not in request.query:
            version = {"resourceVersion": "11"}
            return web.json_response({"apiVersion": "v1", "metadata": version, "items": [POD]})
        response = web.StreamResponse()
        await response.prepare(request)
        for line in self.lines:
            await response.write(line.encode() + b"\n")
        return response


@pytest.fixture
async def served() -> AsyncIterator[tuple[ApiServer, KubeClient]]:
    server = ApiServer()
    async with client_of(server.answer) as kube:
        yield server, kube


def event(kind: str, body: dict[str, Any]) -> str:
    return json.dumps({"type": kind, "object": body})


async def test_a_list_has_kinds_and_the_version_to_watch_from(
    served: tuple[ApiServer, KubeClient],
) -> None:
    server, kube = served
    bodies, version = await kube.list_all("Pod", None, f"{names.LABEL_APP}={names.APP}")
    assert (bodies, version) == ([POD | {"apiVersion": "v1", "kind": "Pod"}], "11")
    assert server.requests[0].path == "/api/v1/pods"
    assert server.requests[0].query["labelSelector"] == "app.kubernetes.io/name=kraftquorum"
    await kube.list_all("Pod", "ns", "")
    assert server.requests[1].path == "/api/v1/namespaces/ns/pods"


async def test_a_watch_goes_on_from_a_version_until_the_server_ends_it(
    served: tuple[ApiServer, KubeClient],
) -> None:
    server, kube = served
    server.lines = [event("ADDED", POD), event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})]
    events = [(kind, body["metadata"]) async for kind, body in kube.watch("Pod", "ns", "", "11")]
    assert events == [("ADDED", POD["metadata"]), ("BOOKMARK", {"resourceVersion": "20"})]
    query = server.requests[0].query
    assert (query["resourceVersion"], query["allowWatchBookmarks"]) == ("11", "true")


@pytest.mark.parametrize(
    ("lines", "status", "error"),
    [
        ([event("ERROR", {"code": 410, "reason": "Expired"})], 200, GoneError),
        ([event("ERROR", {"code": 500})], 200, KubeUnavailableError),
        (['{"type": "ADD'], 200, KubeUnavailableError),
        ([], 410, GoneError),
        ([], 403, RefusedError),
        ([], 503, KubeUnavailableError),
    ],
)
async def test_a_watch_that_fails_says_how(
    served: tuple[ApiServer, KubeClient], lines: list[str], status: int, error: type[Exception]
) -> None:
    served[0].lines, served[0].status = lines, status
    with pytest.raises(error):
        async for _ in served[1].watch("Pod", "ns", "", "11"):
            pass


async def test_an_object_may_be_large(served: tuple[ApiServer, KubeClient]) -> None:
    """aiohttp's reader of lines refuses what is longer than 128 KiB."""
    server, kube = served
    large = POD | {"data": {"text": "x" * 1_000_000}}
    server.lines = [event("ADDED", large), event("DELETED", POD)]
    events = [(kind, body) async for kind, body in kube.watch("Pod", "ns", "", "11")]
    assert events == [("ADDED", large), ("DELETED", POD)]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("7", 7.0), (None, 0.0), ("Fri, 27 Nov 2026 16:00:00 GMT", 0.0), ("-1", 0.0)],
)
async def test_a_refusal_says_how_long_to_wait(
    served: tuple[ApiServer, KubeClient], given: str | None, seconds: float
) -> None:
    served[0].status = 429
    served[0].headers = {} if given is None else {"Retry-After": given}
    with pytest.raises(KubeUnavailableError) as raised:
        await served[1].get("Pod", "ns", "q-0")
    assert raised.value.retry_after_s == seconds
