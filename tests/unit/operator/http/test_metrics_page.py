"""`/metrics` as it is served: bounded like the page, and never in the way of a look."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import aiohttp
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from kraftquorum_operator.http.listener import CONNECTIONS_MAX, listening
from kraftquorum_operator.http.metrics_page import RESTS, metrics_application
from kraftquorum_operator.metrics import Metrics

HOST = "127.0.0.1"


async def test_the_metrics_are_what_prometheus_reads() -> None:
    metrics = Metrics("1.2.3")
    application = metrics_application(metrics.registry)
    async with listening(application, HOST, 0, "metrics") as port, aiohttp.ClientSession() as one:
        url = f"http://{HOST}:{port}/metrics"
        async with one.get(url, headers={"Accept": "text/plain;version=0.0.4"}) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = {family.name for family in text_string_to_metric_families(await answer.text())}
        assert {"kraftquorum_operator_info", "kraftquorum_reconciles"} <= found
        async with one.get(url, headers={"Accept": "application/openmetrics-text"}) as answer:
            assert answer.content_type == "application/openmetrics-text"
            assert (await answer.text()).endswith("# EOF\n")
        async with one.get(
            url, headers={"Accept-Encoding": "gzip"}, auto_decompress=False
        ) as answer:
            assert b"kraftquorum_operator_info" in gzip.decompress(await answer.read())
        for method in ("POST", "DELETE", "OPTIONS"):
            async with one.request(method, url) as answer:
                assert answer.status == 405


async def test_many_who_hold_connections_cost_neither_threads_nor_descriptors() -> None:
    before = threading.active_count()
    async with listening(metrics_application(Metrics().registry), HOST, 0, "metrics") as port:
        held = [await asyncio.open_connection(HOST, port) for _ in range(CONNECTIONS_MAX)]
        for _, writer in held:
            writer.write(b"GET /metrics HTTP/1.1\r\n")
        reader, writer = await asyncio.open_connection(HOST, port)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        assert threading.active_count() <= before
        for _, other in [*held, (reader, writer)]:
            other.close()


class Slow(Collector):
    """Takes half a second, and notes from when to when."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    def collect(self) -> Iterator[Metric]:
        begun = time.monotonic()
        time.sleep(0.5)
        self.spans.append((begun, time.monotonic()))
        yield GaugeMetricFamily("slow", "Slow.", value=1)


class Held(Collector):
    """Takes until it is let go, which must be while it is at it."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def collect(self) -> Iterator[Metric]:
        self.begun.set()
        assert self.go.wait(60), "the loop stood still"
        yield GaugeMetricFamily("held", "Held.", value=1)


@asynccontextmanager
async def shown(collector: Collector) -> AsyncGenerator[Callable[[], Awaitable[str]]]:
    """The metrics of a collector, and how to ask for them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    async with (
        listening(metrics_application(registry), HOST, 0, "metrics") as port,
        aiohttp.ClientSession() as session,
    ):

        async def ask() -> str:
            async with session.get(f"http://{HOST}:{port}/metrics") as answer:
                return await answer.text()

        yield ask


async def test_a_long_exposition_does_not_hold_the_operator_up() -> None:
    held = Held()
    async with shown(held) as ask:
        asked = asyncio.ensure_future(ask())  # noqa: TID251
        await asyncio.to_thread(held.begun.wait, 60)
        assert not asked.done()
        held.go.set()
        assert "held 1.0" in await asked


async def test_who_asks_all_the_time_takes_no_more_than_a_quarter_of_a_core() -> None:
    slow = Slow()
    async with shown(slow) as ask:
        await asyncio.gather(ask(), ask())
    (_, ended), (begun, _) = slow.spans
    assert begun - ended >= RESTS * 0.5
