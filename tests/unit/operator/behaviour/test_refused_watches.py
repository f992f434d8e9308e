"""kopf on an API server that refuses watches: the operator restarts its watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import kopf
import pytest
from aiohttp import web

from kraftquorum_operator import handlers, names
from kraftquorum_operator.handlers import run_kopf
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.schedule.wake_ups import Wakeups
from kraftquorum_operator.settings import load_settings

REFUSED = 6
"""Often enough that a hang that needs one order of tasks out of a few is met."""

KINDS = ((names.GROUP, names.VERSION, names.PLURAL), ("", "v1", "namespaces"))

NAMESPACES = "a,b,c,d"
"""kopf has a watch in each of them."""


class ApiServer:
    """Lists nothing, and answers each watch as `watch` says."""

    def __init__(self, watch: Callable[[str], int | None]) -> None:
        self.watches: list[str] = []
        self._watch = watch

    async def answer(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        if parts[-1] in {plural for _, _, plural in KINDS}:
            return await self._objects(request, parts[-2])
        return web.json_response(self._discovery(parts))

    async def _objects(self, request: web.Request, namespace: str) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        self.watches.append(namespace)
        if (status := self._watch(namespace)) is not None:
            failure = {"kind": "Status", "code": status, "message": "refused"}
            return web.json_response(failure, status=status)
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    @staticmethod
    def _discovery(parts: list[str]) -> dict[str, Any]:
        if parts == ["api"]:
            return {"versions": ["v1"]}
        if parts == ["apis"]:
            return {
                "groups": [
                    {
                        "name": group,
                        "preferredVersion": {"version": version},
                        "versions": [{"version": version}],
                    }
                    for group, version in sorted({(g, v) for g, v, _ in KINDS if g})
                ]
            }
        group = parts[1] if parts[0] == "apis" else ""
        return {
            "resources": [
                {
                    "name": plural,
                    "singularName": plural,
                    "kind": plural,
                    "namespaced": True,
                    "verbs": ["list", "watch", "patch"],
                }
                for its_group, _, plural in KINDS
                if its_group == group
            ]
        }


@asynccontextmanager
async def served(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setattr(kopf, "login_via_client", lambda **_: kopf.ConnectionInfo(server=url))
    try:
        yield
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("others", [None, 500])
async def test_watches_start_again_after_each_refusal_of_one_of_them(
    others: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kopf waited for ever for its other watches: nothing was reconciled until a restart."""
    monkeypatch.setattr(handlers, "RESTART_PAUSE_S", 0.01)
    refused = 0
    well = asyncio.Event()

    def watch(namespace: str) -> int | None:
        nonlocal refused
        if namespace != "b":
            return others if refused < REFUSED else None
        if refused < REFUSED:
            refused += 1
            return 410
        well.set()
        return None

    stop = asyncio.Event()
    async with served(ApiServer(watch), monkeypatch):
        settings = load_settings(liveness_port=0, namespace=NAMESPACES)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(run_kopf(cast("Reconciler", None), Wakeups(), settings, stop))
            await well.wait()
            stop.set()
    assert refused == REFUSED
