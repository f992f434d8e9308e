"""The log from the nodes of a running quorum, without Spark."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from kraftquorum_pipeline.errors import ClusterIdError, UnreachableError
from kraftquorum_pipeline.source.nodes import NodeLog, _Reader
from kraftquorum_pipeline.source.options import parse_options
from raftnode.testing.clientrecord import ClientRecord
from raftnode.testing.localquorum import CLUSTER_ID


def log_of(nodes, **options) -> NodeLog:
    servers = ",".join(str(node.api) for node in nodes)
    return NodeLog(parse_options({"bootstrapServers": servers, "timeoutMs": "60000", **options}))


def read(log: NodeLog, start: int, end: int) -> pa.Table:
    parts = log.parts(start, end)
    return pa.Table.from_batches([batch for part in parts for batch in part.read()])


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
            leader = await quorum.leader()
            asked, fallback = await _Reader(log._client, CLUSTER_ID)._choice(0)
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
            await quorum.leader()
            info = await quorum.describe()
            await asyncio.sleep(1)
            after = await asyncio.to_thread(log.look)
            assert after.end >= info.high_watermark
            rows = await asyncio.to_thread(read, log, 0, after.end)
            record.check(
                (row["offset"], row["key"], row["value"])
                for row in rows.to_pylist()
                if row["kind"] == "data"
            )
            assert await asyncio.to_thread(log.epoch_of, after.end - 1) == info.epoch
            with pytest.raises(ClusterIdError, match=f"{CLUSTER_ID} and not of Another"):
                await asyncio.to_thread(log_of(quorum.nodes, clusterId="Another").look)
            for node in quorum.nodes:
                node.stop()
            gone = log_of(quorum.nodes, timeoutMs="800")
            with pytest.raises(UnreachableError, match=r"no node of the quorum answered in time"):
                await asyncio.to_thread(gone.look)

    run_async(work)
