"""What the operator asked the API server and how it was answered, by value."""

from __future__ import annotations

import contextlib
from functools import partial

from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from kraftquorum_operator.clients.kube import KubeClient
from kraftquorum_operator.errors import KubeError
from kraftquorum_operator.metrics import Metrics

ANSWERS = (200, 200, 404, 409, 429, 429, 403, 500, 503)


async def test_requests_are_counted_by_verb_and_answer() -> None:
    statuses = iter(ANSWERS)

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"reason": "Because"}, status=next(statuses))

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    metrics = Metrics()
    client = KubeClient(Configuration(host=url), timeout_s=5)
    client.on_request = partial(metrics.request, "kubernetes")

    async def ask() -> None:
        with contextlib.suppress(KubeError):
            await client.get("Pod", "default", "demo-0")

    try:
        for _ in ANSWERS:
            await ask()
    finally:
        await runner.cleanup()
    await ask()
    await client.close()

    def count(result: str) -> float | None:
        labels = {"server": "kubernetes", "request": "GET", "result": result}
        return metrics.registry.get_sample_value("kraftquorum_api_requests_total", labels)

    results = ("2xx", "404", "409", "429", "4xx", "5xx", "unreachable", "410")
    assert {one: count(one) for one in results} == {
        "2xx": 2,
        "404": 1,
        "409": 1,
        "429": 2,
        "4xx": 1,
        "5xx": 2,
        "unreachable": 1,
        "410": None,
    }
    labels = {"server": "kubernetes", "request": "GET"}
    seconds = "kraftquorum_api_request_seconds_count"
    assert metrics.registry.get_sample_value(seconds, labels) == len(ANSWERS) + 1
