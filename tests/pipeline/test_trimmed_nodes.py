"""A log that the nodes have trimmed: the state stands for what is gone, and no gap goes unseen."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kraftquorum_pipeline.datasource import LogReader, LogStreamReader
from kraftquorum_pipeline.errors import TrimmedError
from kraftquorum_pipeline.source.options import parse_options
from raftnode.testing.clientrecord import ClientRecord
from raftnode.testing.localquorum import eventually

PROGRAM = Path(sys.executable).with_name("kraftquorum-pipeline")


def options_of(quorum, **options):
    servers = ",".join(str(node.api) for node in quorum.nodes)
    return {
        "bootstrapServers": servers,
        "partitionOffsets": "64",
        "timeoutMs": "60000",
        **options,
    }


async def write_past(quorum, record, offset):
    """Write until no node has a record at an offset any more, and nothing is trimmed later."""

    async def look():
        infos = [await quorum.info(node) for node in quorum.nodes]
        if all(info.log_start_offset > offset for info in infos):
            return infos
        first = len(record.acknowledged) + len(record.unknown)
        await record.write(quorum, first, 100)
        return None

    await eventually(look, within_s=90, what=f"the logs to be trimmed past offset {offset}")
    seen = None

    async def settled():
        nonlocal seen
        before, seen = seen, [(await quorum.info(node)).log_start_offset for node in quorum.nodes]
        await asyncio.sleep(0.5)
        return True if before == seen else None

    await eventually(settled, within_s=30, what="an end of the trimming")
    return max(seen)


def rows_of(parts):
    return pa.Table.from_batches([batch for part in parts for batch in part.read()]).to_pylist()


def check_whole(rows, record, log_start, end):
    """The state before the log, each record of the log once, and so each acknowledged value."""
    assert any(row["kind"] == "state" for row in rows)
    log = sorted(row["offset"] for row in rows if row["kind"] != "state")
    assert log == list(range(log_start, end))
    assert all(row["offset"] < log_start for row in rows if row["kind"] == "state")
    values = {
        bytes(row["key"]).decode(): (row["offset"], bytes(row["value"]))
        for row in sorted(rows, key=lambda row: row["offset"])
        if row["kind"] in {"state", "data"} and row["key"] is not None
    }
    assert {key: values.get(key) for key in record.acknowledged} == record.acknowledged


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
            assert [row["offset"] for row in later] == list(range(log_start + 5, end))
            with pytest.raises(TrimmedError, match=rf"{quorum.nodes[0].api}.* at offset 7: "):
                await asyncio.to_thread(lambda: batch(startingOffset="7"))

            rows, reached, sizes = await asyncio.to_thread(read_stream, quorum, 7)
            check_whole(rows, record, log_start, end)
            assert reached["offset"] == end
            # The state comes whole with the first of the log, and the limit is the log's.
            states = sum(row["kind"] == "state" for row in rows)
            whole, rest = divmod(end - log_start, 7)
            assert [sizes[0] - states, *sizes[1:]] == [*[7] * whole, *([rest] if rest else [])]

            # A checkpoint that the log was trimmed past: named, and nothing is left out.
            await write_past(quorum, record, end)
            stream = LogStreamReader(parse_options(options_of(quorum)))
            with pytest.raises(TrimmedError, match="records from here to there are gone") as told:
                await asyncio.to_thread(stream.latestOffset, reached, ReadAllAvailable())
            assert told.value.offset == end
            assert str(quorum.nodes[0].api) in told.value.source

    run_async(work)
