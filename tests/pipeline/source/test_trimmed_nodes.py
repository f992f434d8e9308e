"""A log that the nodes have trimmed: the state stands for what is gone, and no gap goes unseen."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kraftquorum_pipeline.datasource import LogReader, LogStreamReader
from kraftquorum_pipeline.errors import PipelineExitCode, TrimmedError
from kraftquorum_pipeline.jobs.export import export
from kraftquorum_pipeline.jobs.restore import look as look_at_store
from kraftquorum_pipeline.source.nodes import _Reader
from kraftquorum_pipeline.source.options import parse_options
from proofkit.clientrecord import ClientRecord
from proofkit.localquorum import eventually
from proofkit.replicadirs import quorum_history, write_quorum
from raftnode.api.model import Replica

PROGRAM = Path(sys.executable).with_name("kraftquorum-pipeline")


def options_of(quorum, **options):
    servers = ",".join(str(node.api) for node in quorum.nodes)
    return {
        "bootstrapServers": servers,
        "partitionOffsets": "64",
        "timeoutMs": "60000",
        **options,
    }


async def starts(nodes, quorum):
    """Where the log of each node begins."""
    return [(await quorum.info(node)).log_start_offset for node in nodes]


async def write_past(quorum, record, offset, nodes=None):
    """Write until none of the nodes has a record at an offset any more, and none trims on.

    A node looks once a second whether a snapshot is due, and trims after it.
    """
    nodes = quorum.nodes if nodes is None else nodes

    async def look():
        if min(await starts(nodes, quorum)) > offset:
            return True
        first = len(record.acknowledged) + len(record.unknown)
        await record.write(quorum, first, 100)
        return None

    await eventually(look, within_s=240, what=f"the logs to be trimmed past offset {offset}")

    async def settled():
        before = await starts(quorum.nodes, quorum)
        for _ in range(6):
            await asyncio.sleep(0.5)
            if await starts(quorum.nodes, quorum) != before:
                return None
        return before

    return min(await eventually(settled, within_s=120, what="an end of the trimming"))


def rows_of(parts):
    return pa.Table.from_batches([batch for part in parts for batch in part.read()]).to_pylist()


def check_whole(rows, record, log_start, end):
    """The state before the log, each record of the log once, and so each acknowledged value.

    Returns where it ends: an election since `end` was seen is a record, too.
    """
    assert any(row["kind"] == "state" and row["key"] is not None for row in rows)
    [voters] = [row for row in rows if row["control"] == "VoterSet"]
    assert voters["offset"] == log_start - 1
    assert [one["node_id"] for one in json.loads(voters["fields"])["voters"]] == [0, 1, 2]
    log = sorted(row["offset"] for row in rows if row["kind"] != "state")
    assert log[-1] + 1 >= end
    assert log == list(range(log_start, log[-1] + 1))
    assert all(row["offset"] < log_start for row in rows if row["kind"] == "state")
    values = {
        bytes(row["key"]).decode(): (row["offset"], bytes(row["value"]))
        for row in sorted(rows, key=lambda row: row["offset"])
        if row["kind"] in {"state", "data"} and row["key"] is not None
    }
    assert {key: values.get(key) for key in record.acknowledged} == record.acknowledged
    return log[-1] + 1


def read_stream(quorum, limit, start=None):
    """All batches as Spark asks for them, up to what is committed; rows, and the last offset."""
    stream = LogStreamReader(parse_options(options_of(quorum)))
    rows, sizes = [], []
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset() if start is None else start
    while (end := stream.latestOffset(start, ReadMaxRows(limit))) != start:
        found = rows_of([one.part for one in stream.partitions(start, end)])
        sizes.append(len(found))
        rows += found
        start = end
    return rows, start, sizes


def test_a_trimmed_log_is_read_from_its_state_on_and_a_gap_is_an_error(trimming_quorum, run_async):
    record = ClientRecord()

    async def work() -> None:
        async with trimming_quorum as quorum:
            await quorum.form(3)
            log_start = await write_past(quorum, record, 300)
            end = (await quorum.describe()).high_watermark

            def batch(**options):
                reader = LogReader(parse_options(options_of(quorum, **options)))
                return rows_of([one.part for one in reader.partitions()])

            check_whole(await asyncio.to_thread(batch), record, log_start, end)
            later = await asyncio.to_thread(lambda: batch(startingOffset=str(log_start + 5)))
            assert [row["offset"] for row in later] == list(
                range(log_start + 5, max(end, later[-1]["offset"] + 1))
            )
            with pytest.raises(TrimmedError, match=rf"{quorum.nodes[0].api}.* at offset 7: "):
                await asyncio.to_thread(lambda: batch(startingOffset="7"))

            rows, reached, sizes = await asyncio.to_thread(read_stream, quorum, 7)
            end = check_whole(rows, record, log_start, end)
            assert reached["offset"] == end
            # The state comes whole with the first of the log, and the limit is the log's.
            states = sum(row["kind"] == "state" for row in rows)
            whole, rest = divmod(end - log_start, 7)
            assert [sizes[0] - states, *sizes[1:]] == [*[7] * whole, *([rest] if rest else [])]

            # A checkpoint that the log was trimmed past: named, and nothing is left out.
            await write_past(quorum, record, end)
            stream = LogStreamReader(parse_options(options_of(quorum)))
            with pytest.raises(TrimmedError, match="the records before it are gone") as told:
                await asyncio.to_thread(stream.latestOffset, reached, ReadAllAvailable())
            assert told.value.offset == end
            assert str(quorum.nodes[0].api) in told.value.source

    run_async(work)


def test_a_record_that_one_node_still_has_is_not_gone(trimming_quorum, run_async):
    """Each node trims by itself; a new disk's log begins where a snapshot ended."""
    record = ClientRecord()
    keeper, *others = trimming_quorum.nodes
    keeper.environment["RAFTNODE_LOG_RETENTION_BYTES"] = str(1 << 30)

    async def work() -> None:
        async with trimming_quorum as quorum:
            await quorum.form(3)
            info = await quorum.info(keeper)
            replica = Replica(node_id=info.node_id, directory_id=info.directory_id)

            async def leads():
                if await quorum.leader() is keeper:
                    return True
                await quorum.client.resign(preferred=replica)
                return None

            await eventually(leads, within_s=60, what="the node that keeps all to lead")
            await record.write(quorum, 0, 200)
            options = parse_options(options_of(quorum))
            reading = _Reader(options.client, info.cluster_id, page_bytes=1).records(0, 100)
            found = [await anext(reading)]
            # The followers, which it reads from, trim what it has not read yet.
            await write_past(quorum, record, 300, others)
            assert await starts([keeper], quorum) == [0]
            found += [row async for row in reading]
            assert [row.offset for row in found] == list(range(100))
            # A checkpoint that the others were trimmed past, and all that comes after it.
            start = {"cluster": info.cluster_id, "offset": 7, "epoch": -1}
            end = (await quorum.describe()).high_watermark
            rows, reached, _ = await asyncio.to_thread(read_stream, quorum, 1000, start)
            assert reached["offset"] >= end
            assert sorted(row["offset"] for row in rows) == list(range(7, reached["offset"]))
            # restore-check reads them from that node, too, whichever node it asks first.
            written = [row["offset"] for row in rows if row["kind"] == "data"]
            nodes = [node.api for node in quorum.nodes]
            for _ in range(4):
                living = await look_at_store(nodes, None, 7, {info.cluster_id})
                assert [one.offset for one in living.records] == sorted(written)
            # While that node is down, each reader waits for it.
            keeper.stop()
            await quorum.leader()
            reading = _Reader(options.client, info.cluster_id).records(7, 9)
            waiting = [
                asyncio.to_thread(read_stream, quorum, 1000, start),
                anext(reading),
                look_at_store(nodes, None, 7, {info.cluster_id}, patience_s=120),
            ]
            gathered = asyncio.gather(*waiting)
            await asyncio.sleep(4)
            assert not gathered.done()
            keeper.start()
            (again, _, _), first, living = await gathered
            await reading.aclose()
            assert sorted(row["offset"] for row in again)[: len(rows)] == sorted(
                row["offset"] for row in rows
            )
            assert first.offset == 7
            assert {one.offset for one in living.records} >= set(written)
            # Without that node they are gone, and the error says who was not heard.
            keeper.stop()
            await quorum.leader()
            options = parse_options(options_of(quorum, timeoutMs="3000"))
            stream = LogStreamReader(options)
            began = time.monotonic()
            silent = rf"on the nodes that answered \({keeper.api} did not\): the records before"
            with pytest.raises(TrimmedError, match=silent):
                await asyncio.to_thread(stream.latestOffset, start, ReadAllAvailable())
            reading = _Reader(options.client, info.cluster_id).records(7, 9)
            with pytest.raises(TrimmedError, match=rf"at offset 7: .*{silent}"):
                await anext(reading)
            assert time.monotonic() - began >= 2 * 1.5
            silent = rf"\({keeper.api} did not\): writes before that are unknown"
            with pytest.raises(TrimmedError, match=silent):
                await look_at_store(nodes, None, 7, {info.cluster_id}, patience_s=1)

    run_async(work)


def pipeline(*arguments):
    return subprocess.run(
        [str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.mark.nightly
def test_the_commands_read_a_trimmed_log_and_say_by_code_5_what_is_gone(
    spark, tmp_path, trimming_quorum, run_async, quick_conf
):
    record, target = ClientRecord(), tmp_path / "target"

    async def work() -> None:
        async with trimming_quorum as quorum:
            await quorum.form(3)
            await record.write(quorum, 0, 50)
            for node in quorum.nodes:
                node.stop()
            old = shutil.copytree(tmp_path / "quorum", tmp_path / "old")
            for node in quorum.nodes:
                node.start()
            await quorum.wait_running(quorum.nodes)
            await quorum.leader()
            log_start = await write_past(quorum, record, 300)
            end = (await quorum.describe()).high_watermark
            servers = ",".join(str(node.api) for node in quorum.nodes)
            arguments = (
                *["export", "--master=local[2]", f"--output={target}", *quick_conf],
                f"--bootstrap-server={servers}",
            )
            done = await asyncio.to_thread(pipeline, *arguments)
            assert done.returncode == 0, done.stderr
            table = ds.dataset(str(target), format="parquet", partitioning="hive").to_table()
            end = check_whole(table.to_pylist(), record, log_start, end)

            await write_past(quorum, record, end)
            again = await asyncio.to_thread(pipeline, *arguments)
            assert again.returncode == PipelineExitCode.TRIMMED, again.stderr
            assert f"{servers} at offset {end}: the log begins at " in again.stderr
            kept = ds.dataset(str(target), format="parquet", partitioning="hive").to_table()
            assert kept.num_rows == table.num_rows

            # As a driver leaves it that was killed in its first batch: that is planned again.
            killed = tmp_path / "killed"
            checkpoint = shutil.copytree(target / "_checkpoint", killed / "_checkpoint")
            for note in checkpoint.glob("*/commits/*"):
                note.unlink()
            options = {"bootstrapServers": servers}
            summary = await asyncio.to_thread(export, spark, options, str(killed))
            table = ds.dataset(str(killed), format="parquet", partitioning="hive").to_table()
            check_whole(table.to_pylist(), record, summary.log_start, summary.log_end)

            # Files from before the log's start: what was written since cannot be told any more.
            check = "restore-check", old, f"--bootstrap-server={servers}"
            refused = await asyncio.to_thread(pipeline, *check)
            assert refused.returncode == PipelineExitCode.TRIMMED, refused.stderr
            assert re.search(
                rf"{servers} at offset \d+: the log was trimmed since, and begins at \d+: .* newer files",
                refused.stderr,
            )
            # Another cluster is told first: no newer files of these would help.
            cluster_id = "AnotherAnotherAnotherA"
            other = write_quorum(tmp_path / "other", quorum_history(), cluster_id=cluster_id)
            refused = await asyncio.to_thread(pipeline, check[0], *other, check[2])
            assert refused.returncode == PipelineExitCode.CLUSTER_ID, refused.stderr

    run_async(work)
