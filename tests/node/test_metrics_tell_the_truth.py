"""What `/metrics` says, held against the API and against what was done to a running quorum."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.api.model import VoterSpec
from raftnode.cli import make_app
from raftnode.client.errors import NotDoneError, OutcomeUnknownError

pytestmark = [pytest.mark.timeout(300), pytest.mark.rule("P58", "P59", "P60")]

CLI = make_app("metadata-quorum")
Value = Callable[..., float | None]
LEADERS_ONLY = ("fault_tolerance", "peer_caught_up", "peer_lag_records", "peer_fetch_age_seconds")


async def scrape(node: LocalNode) -> Value:
    """All samples of a node; each is asked for by its name and labels."""

    def get() -> str:
        with urllib.request.urlopen(f"http://{node.host}:9080/metrics", timeout=10) as answer:
            return answer.read().decode()

    text = await asyncio.to_thread(get)
    samples = [one for f in text_string_to_metric_families(text) for one in f.samples]

    def value(name: str, **labels: str) -> float | None:
        found = [
            sample.value
            for sample in samples
            if sample.name == f"raftnode_{name}" and labels.items() <= sample.labels.items()
        ]
        assert len(found) <= 1 or labels == {}, name
        return found[0] if found else None

    return value


async def told(node: LocalNode, name: str, is_so: Callable[[float | None], bool], **labels: str):
    async def look() -> float | None:
        found = (await scrape(node))(name, **labels)
        assert is_so(found), found
        return 0.0 if found is None else found

    return await eventually(look, what=f"{name} {labels} of node {node.node_id}")


async def agree(quorum: LocalQuorum, nodes: list[LocalNode]) -> LocalNode:
    """Each node's metrics say what its API says; returns the leader."""

    async def look() -> LocalNode | None:
        leader = await quorum.leader()
        for node in nodes:
            info, value = await quorum.info(node), await scrape(node)
            assert (await quorum.info(node)).log_end_offset == info.log_end_offset
            for name in ("log_end_offset", "durable_end_offset", "high_watermark"):
                assert value(name) == getattr(info, name), (node.node_id, name)
            assert value("current_epoch") == info.epoch
            assert value("current_leader") == leader.node_id
            assert value("current_state", raftnode_current_state=info.role) == 1
            assert value("voters") == len(info.voters)
            leads = node is leader
            assert value("current_state", raftnode_current_state="leader") == leads
            for name in LEADERS_ONLY:
                assert (value(name) is not None) == leads, (node.node_id, name)
        return leader

    return await eventually(look, what="metrics that say what the API says")


async def at_rest(quorum: LocalQuorum, node: LocalNode) -> int | None:
    """The end of a node's log once all of it is on its disk and the leader has no more."""
    end = (await quorum.describe()).log_end_offset
    return end if (await quorum.info(node)).durable_end_offset == end else None


async def printed(node: LocalNode) -> dict[str, str]:
    """What the command prints of the quorum that a node leads."""
    words = ["metadata-quorum", "describe", "--status", "--bootstrap-server", str(node.api)]
    done = await asyncio.to_thread(CliRunner().invoke, CLI, words)
    assert done.exit_code == 0, done.output
    lines = [line.partition(":") for line in done.stdout.splitlines()]
    return {name: value.strip() for name, _, value in lines}


@pytest.mark.rule("P64")
@pytest.mark.quorum_settings(RAFTNODE_FETCH_TIMEOUT_MS="10000")  # one epoch's records are counted
async def test_role_epoch_log_and_counts_are_those_of_the_api(quorum: LocalQuorum) -> None:
    formed = await quorum.form(3)
    nodes = quorum.nodes[:3]
    before = formed.log_end_offset
    # In the first election, an answer to the role before is dropped, and its records come again.
    for node in nodes:
        await eventually(
            lambda node=node: at_rest(quorum, node), what=f"node {node.node_id} at rest"
        )
    fetched = {node.node_id: (await scrape(node))("fetched_records_total") or 0 for node in nodes}
    started_s = time.monotonic()
    for number in range(40):
        await quorum.client.put(f"key-{number}", b"value")
    took_s = time.monotonic() - started_s
    leader = await agree(quorum, nodes)
    value = await scrape(leader)
    assert value("high_watermark") == before + 40
    assert (value("appended_records_total") or 0) >= 40
    assert (value("commit_latency_seconds_count") or 0) >= 40
    assert 0 < (value("commit_latency_seconds_sum") or 0) < took_s + 1
    assert (value("fsync_seconds_count") or 0) >= 40
    assert value("appends_pending") == value("append_queue_bytes") == 0
    await told(leader, "fault_tolerance", lambda found: found == 1)
    elected = [await scrape(node) for node in nodes]
    assert sum(one("election_latency_seconds_count") or 0 for one in elected) >= 1
    for node in nodes:
        if node is not leader:
            at_start = fetched[node.node_id]
            await told(
                node, "fetched_records_total", lambda n, at=at_start: 40 <= (n or 0) - at <= 45
            )
            who = {"peer_id": str(node.node_id), "peer_role": "voter"}
            await told(leader, "peer_lag_records", lambda found: found == 0, **who)


# It leads on while one is dead and a machine stands still, and resigns 7.5 s after the other.
@pytest.mark.quorum_settings(RAFTNODE_FETCH_TIMEOUT_MS="5000")
async def test_a_dead_a_stopped_and_a_new_replica_are_told(quorum: LocalQuorum) -> None:
    await quorum.form(3)
    leader = await quorum.leader()
    away, other = [node for node in quorum.nodes[:3] if node is not leader]
    left = await eventually(lambda: at_rest(quorum, away), what=f"node {away.node_id} at rest")
    killed_s = time.monotonic()
    away.kill()
    who = {"peer_id": str(away.node_id), "peer_role": "voter"}
    age = await told(leader, "peer_fetch_age_seconds", lambda age: (age or 0) > 3, **who)
    assert age <= time.monotonic() - killed_s + 10  # its last Fetch was held for a while
    await told(leader, "fault_tolerance", lambda found: found == 0)
    await told(leader, "peer_caught_up", lambda found: found == 0, **who)
    for number in range(20):
        written = await quorum.client.put(f"key-{number}", b"value")
    value = await scrape(leader)
    assert value("peer_lag_records", **who) == 20
    status = await printed(leader)
    assert status["HighWatermark"] == str(written.last_offset + 1)
    assert status["MaxFollowerLag"] == str(written.last_offset + 1 - left) == "20"
    assert 3000 < int(status["MaxFollowerLagTimeMs"]) < 1000 * (time.monotonic() - killed_s + 10)
    assert status["LeaderId"] == str(leader.node_id)
    assert [voter["id"] for voter in json.loads(status["CurrentVoters"])] == [0, 1, 2]

    # No majority: what is written waits, and is told so, until the leader resigns.
    mark = (await quorum.info(leader)).high_watermark
    await told(leader, "high_watermark", lambda found: found == mark)
    other.signal(signal.SIGSTOP)

    async def write() -> None:
        with pytest.raises((NotDoneError, OutcomeUnknownError)):
            await quorum.client.put("waits", b"value", timeout_ms=30_000)

    writing = asyncio.get_running_loop().create_task(write())
    await told(leader, "appends_pending", lambda found: found == 1)
    await told(leader, "log_end_offset", lambda end: (end or 0) > mark)
    assert (await scrape(leader))("high_watermark") == mark
    await told(leader, "current_state", lambda found: found == 0, raftnode_current_state="leader")
    for name in LEADERS_ONLY:
        await told(leader, name, lambda found: found is None)
    await told(leader, "appends_pending", lambda found: found == 0)
    other.signal(signal.SIGCONT)
    await writing

    away.start()
    await quorum.wait_running([away])
    led = await agree(quorum, quorum.nodes[:3])
    await told(led, "fault_tolerance", lambda found: found == 1)

    # A fourth one observes, is counted as one that could vote, and votes.
    new = quorum.nodes[3]
    new.start()
    await quorum.observe(new)
    await told(led, "observers", lambda found: found == 1)
    await told(led, "possible_voters", lambda found: found == 1)
    await told(led, "peer_caught_up", lambda found: found == 1, peer_id="3", peer_role="observer")
    described = await quorum.describe()
    info = await quorum.info(new)
    spec = VoterSpec(
        node_id=info.node_id, directory_id=info.directory_id, endpoint=info.peer_endpoint
    )
    await quorum.client.add_voter(spec, expected=described.voter_record)
    led = await agree(quorum, quorum.nodes[:4])
    await told(led, "voters", lambda found: found == 4)
    for name in ("observers", "pending_add_voter", "uncommitted_voter_change"):
        await told(led, name, lambda found: found == 0)
    await told(led, "peer_caught_up", lambda one: one is None, peer_id="3", peer_role="observer")
    # Four tolerate what three do.
    await told(led, "fault_tolerance", lambda found: found == 1)
