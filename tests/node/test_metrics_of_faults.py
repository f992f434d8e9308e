"""What alerts ask for, by value: a fault is made, and the metric counts it."""

from __future__ import annotations

import asyncio
import signal

import aiohttp
import pytest

from proofkit.localquorum import LocalQuorum

from .scrapes import Scrape, scrape, scraped_until

pytestmark = pytest.mark.timeout(300)

STOOD_S = 1.5


async def test_an_event_loop_that_stood_still_was_late_by_as_much(quorum: LocalQuorum) -> None:
    await quorum.form(1)
    [node] = quorum.nodes[:1]
    before = await scraped_until(
        node, lambda scraped: scraped.value("loop_lag_seconds_count") > 0, "the first timer"
    )
    node.signal(signal.SIGSTOP)
    await asyncio.sleep(STOOD_S)
    node.signal(signal.SIGCONT)

    def late_timers(scraped: Scrape) -> float:
        on_time = scraped.value("loop_lag_seconds_bucket", le="0.5")
        return scraped.value("loop_lag_seconds_count") - on_time

    # The timer is due every half second, so it was late by the rest at least.
    after = await scraped_until(
        node, lambda scraped: late_timers(scraped) > late_timers(before), "the late timer"
    )
    late_s = after.value("loop_lag_seconds_sum") - before.value("loop_lag_seconds_sum")
    assert late_s >= STOOD_S - 0.5


async def test_requests_to_a_dead_peer_are_counted_by_peer_and_reason(quorum: LocalQuorum) -> None:
    await quorum.form(3)
    leader = await quorum.leader()
    dead, other = [node for node in quorum.nodes[:3] if node is not leader]
    failures = "peer_request_failures_total"
    dead.kill()
    leader.kill()
    shown = await scraped_until(
        other,
        lambda scraped: (
            f"raftnode_{failures}" in scraped.samples
            and scraped.value(failures, peer_id=str(dead.node_id), reason="unreachable") >= 2
        ),
        "requests for votes without an answer",
    )
    assert shown.value(failures, peer_id=str(leader.node_id)) >= 2
    assert shown.value(failures, peer_id=str(other.node_id)) == 0
    reasons = {labels["reason"] for labels, _ in shown.samples[f"raftnode_{failures}"]}
    # `refused`: a connection from before the formation, on which the replica has to say hello again.
    assert reasons <= {"unreachable", "disconnected", "timed_out", "refused"}


async def test_answers_of_the_api_are_counted_by_route_and_status(quorum: LocalQuorum) -> None:
    await quorum.form(3)
    leader = await quorum.leader()
    follower = next(node for node in quorum.nodes[:3] if node is not leader)
    count = "http_request_seconds_count"
    async with aiohttp.ClientSession() as session:

        async def ask(method: str, node, path: str, times: int, status: int) -> None:
            for _ in range(times):
                url = f"http://{node.host}:9080{path}"
                async with session.request(method, url, data=b"value") as answer:
                    assert answer.status == status, await answer.text()

        before = await scrape(follower)
        await ask("PUT", follower, "/v1/kv/key", 3, 421)
        await ask("GET", follower, "/no/such/route", 2, 404)
        await ask("GET", follower, "/nor/this", 2, 404)
        after = await scrape(follower)
        misdirected = {"method": "PUT", "path": "/v1/kv/{key}", "status": "421"}
        assert after.value(count, **misdirected) - before.value(count, **misdirected) == 3
        lost = {"method": "other", "path": "other", "status": "404"}
        assert after.value(count, **lost) - before.value(count, **lost) == 4
        paths = {labels["path"] for labels, _ in after.samples[f"raftnode_{count}"]}
        assert not any("nor" in path or "no/such" in path for path in paths)
