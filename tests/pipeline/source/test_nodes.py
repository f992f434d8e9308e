"""The log from the nodes of a running quorum, without Spark."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from itertools import pairwise

import aiohttp
import pyarrow as pa
import pytest
from aiohttp import web

from kraftquorum_pipeline.datasource import LogReader, LogStreamReader
from kraftquorum_pipeline.errors import ClusterIdError, UnreachableError
from kraftquorum_pipeline.source.nodes import NodeLog, _Reader
from kraftquorum_pipeline.source.options import parse_options
from proofkit.clientrecord import ClientRecord
from proofkit.localquorum import CLUSTER_ID, PATIENCE_S, eventually


def log_of(nodes, **options) -> NodeLog:
    servers = ",".join(str(node.api) for node in nodes)
    return NodeLog(parse_options({"bootstrapServers": servers, "timeoutMs": "60000", **options}))


def read(log: NodeLog, start: int, end: int) -> pa.Table:
    parts = log.parts(start, end)
    return pa.Table.from_batches([batch for part in parts for batch in part.read()])


async def in_one_epoch(quorum, look):
    """What a look comes to during which no leader was elected, with what the leader said before it.

    A look that comes to None, or fails, is repeated, too.
    """

    async def again():
        before = await quorum.describe()
        found = await look(before)
        after = await quorum.describe()
        calm = before.epoch_committed and after.epoch == before.epoch
        return (before, found) if calm and found is not None else None

    return await eventually(again, within_s=2 * PATIENCE_S, what="a look without an election")


def test_a_live_quorum_gives_its_log_from_followers_also_while_leaders_die(live_quorum, run_async):
    record = ClientRecord()

    async def work() -> None:
        async with live_quorum as quorum:
            await quorum.form(3)
            await record.write(quorum, 0, 300)
            log = log_of(quorum.nodes, partitionOffsets="64", maxBytesPerRequest="3000")
            state = await asyncio.to_thread(log.look)
            assert state.cluster_id == CLUSTER_ID
            assert state.end >= 300

            async def choice(_):
                """Of all nodes: one that answers late is left out."""
                asked, fallback = await _Reader(log._client, CLUSTER_ID)._choice(0)
                return (asked, fallback) if len(fallback) == len(quorum.nodes) else None

            info, (asked, fallback) = await in_one_epoch(quorum, choice)
            leader = quorum.nodes[info.leader.node_id]
            assert sorted(asked) == sorted(node.api for node in quorum.nodes if node is not leader)
            assert leader.api in fallback
            # What is read while a leader dies and another is elected.
            reading = asyncio.ensure_future(  # noqa: TID251
                asyncio.to_thread(read, log, 0, state.end)
            )
            await asyncio.sleep(0.1)
            leader.kill()
            found = await reading
            assert found.column("offset").to_pylist() == list(range(state.end))
            await record.write(quorum, 300, 30)
            leader.start()
            await quorum.wait_running([leader])

            async def newest(told):
                """The end, once the nodes have heard of what the leader had committed."""
                seen = await asyncio.to_thread(log.look)
                if seen.end < told.high_watermark:
                    return None
                return seen, await asyncio.to_thread(log.epoch_of, seen.end - 1)

            info, (after, epoch) = await in_one_epoch(quorum, newest)
            assert epoch == info.epoch
            rows = await asyncio.to_thread(read, log, 0, after.end)
            record.check(
                (row["offset"], row["key"], row["value"])
                for row in rows.to_pylist()
                if row["kind"] == "data"
            )
            with pytest.raises(ClusterIdError, match=f"{CLUSTER_ID}, not of Another"):
                await asyncio.to_thread(log_of(quorum.nodes, clusterId="Another").look)
            for node in quorum.nodes:
                node.stop()
            gone = log_of(quorum.nodes, timeoutMs="800")
            with pytest.raises(UnreachableError, match=r"no node of the quorum answered in time"):
                await asyncio.to_thread(gone.look)

    run_async(work)


def test_a_node_that_follows_no_leader_does_not_tell_how_far_the_log_is_committed(
    live_quorum, run_async
):
    record = ClientRecord()

    async def work() -> None:
        async with live_quorum as quorum:
            await quorum.form(3)
            await record.write(quorum, 0, 100)
            end = (await quorum.describe()).high_watermark
            for node in quorum.nodes:
                node.stop()
            # One of three: there is no leader, and it has heard of nothing since its start.
            quorum.nodes[0].start()
            [info] = await quorum.wait_running(quorum.nodes[:1])
            assert info.high_watermark < end
            seen = await asyncio.to_thread(log_of(quorum.nodes, timeoutMs="1000").look)
            assert seen.end == info.high_watermark
            servers = ",".join(str(node.api) for node in quorum.nodes)

            def given(**more):
                return parse_options({"bootstrapServers": servers, "timeoutMs": "1000", **more})

            said = rf"it is unknown how far the log is committed: up to offset {info.high_watermark} or further"
            with pytest.raises(UnreachableError, match=said):
                await asyncio.to_thread(LogReader(given()).partitions)
            stream = LogStreamReader(given())
            with pytest.raises(UnreachableError, match=said):
                await asyncio.to_thread(stream.prepareForTriggerAvailableNow)
            named = LogReader(given(endingOffset=str(info.high_watermark)))
            assert sum(part.part.end for part in await asyncio.to_thread(named.partitions)) == (
                info.high_watermark
            )
            # With another there is one.
            waiting = asyncio.ensure_future(  # noqa: TID251
                asyncio.to_thread(log_of(quorum.nodes).look, surely=True)
            )
            quorum.nodes[1].start()
            assert (await waiting).end >= end

    run_async(work)


@asynccontextmanager
async def slow_way_to(node, delay_s, asked):
    """An address at which a node answers, and its log that much later; begin and end of each."""

    async def forward(request):
        began = time.monotonic()
        async with session.get(f"http://{node.api}{request.raw_path}") as answer:
            body, status, kind = await answer.read(), answer.status, answer.content_type
        if request.path == "/v1/log":
            await asyncio.sleep(delay_s)
            asked.append((began, time.monotonic()))
        return web.Response(body=body, status=status, content_type=kind)

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        async with aiohttp.ClientSession() as session:
            site = web.TCPSite(runner, node.api.host, 0)
            await site.start()
            [(host, port, *_)] = runner.addresses
            yield f"{host}:{port}"
    finally:
        await runner.cleanup()


def test_a_node_that_answers_slowly_is_left_alone_for_as_long_as_it_took(live_quorum, run_async):
    record = ClientRecord()

    async def pauses(node, delay_s):
        """Between the end of an answer and the next question."""
        asked = []
        async with slow_way_to(node, delay_s, asked) as address:
            given = {"bootstrapServers": address, "maxBytesPerRequest": "3000"}
            log = NodeLog(parse_options(given))
            found = await asyncio.to_thread(read, log, 0, 200)
        assert found.column("offset").to_pylist() == list(range(200))
        assert len(asked) > 3
        return [after[0] - before[1] for before, after in pairwise(asked)]

    async def work() -> None:
        async with live_quorum as quorum:
            await quorum.form(3)
            await record.write(quorum, 0, 200)
            leader = await quorum.leader()
            node = next(one for one in quorum.nodes if one is not leader)
            assert min(await pauses(node, 0.4)) >= 0.4
            assert min(await pauses(node, 0)) < 0.2

    run_async(work)
