"""What the stream reader answers to Spark, without Spark: ends of batches, checks of a checkpoint."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StringType, StructType

from kraftquorum_pipeline.datasource import KraftQuorumDataSource, LogStreamReader
from kraftquorum_pipeline.errors import (
    ClusterIdError,
    CorruptError,
    DivergedError,
    OptionError,
    TrimmedError,
)
from kraftquorum_pipeline.source.files import FileLog
from kraftquorum_pipeline.source.options import parse_options


def reader(path, **options) -> LogStreamReader:
    return LogStreamReader(parse_options({"path": str(path), **options}))


def offsets(stream, start, end):
    parts = stream.partitions(start, end)
    carried = pickle.loads(pickle.dumps(list(parts)))
    return [
        offset
        for part in carried
        for batch in stream.read(part)
        for offset in batch.column("offset").to_pylist()
    ]


def test_batches_follow_each_other_up_to_the_limit_and_to_the_end(recorded):
    stream = reader(recorded.root, maxOffsetsPerTrigger="700")
    limit = stream.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert limit.max_rows == 700
    found, start = [], stream.initialOffset()
    while (end := stream.latestOffset(start, limit)) != start:
        assert end["offset"] - start["offset"] <= 700
        found += offsets(stream, start, end)
        start = end
    assert found == list(range(len(found)))
    assert len(found) == FileLog(parse_options({"path": str(recorded.root)})).look().end
    # A driver that starts again plans the same batch from what was journaled.
    again = reader(recorded.root)
    begin, end = {**start, "offset": 100, "epoch": 1}, {**start, "offset": 900}
    assert offsets(again, begin, end) == list(range(100, 900))


def test_available_now_gives_out_nothing_that_came_later(recorded):
    stream = reader(recorded.root)
    stream.prepareForTriggerAvailableNow()
    stream._target = replace(stream._target, end=500)
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadAllAvailable())["offset"] == 500


def test_a_checkpoint_of_another_cluster_or_another_log_is_refused(recorded):
    stream = reader(recorded.root)
    start = stream.latestOffset(stream.initialOffset(), ReadMaxRows(1000))
    assert start["cluster"] == "TestTestTestTestTestTe"
    with pytest.raises(ClusterIdError, match=r"at offset 1000: .*checkpoint is of Other"):
        reader(recorded.root).latestOffset({**start, "cluster": "Other"}, ReadAllAvailable())
    with pytest.raises(
        DivergedError,
        match=r"at offset 999: the log has epoch \d+ there, but the checkpoint has 77",
    ):
        reader(recorded.root).latestOffset({**start, "epoch": 77}, ReadAllAvailable())


def test_a_checkpoint_below_a_trimmed_log_is_refused_with_its_offset(recorded, tmp_path):
    copy = shutil.copytree(recorded.root, tmp_path / "copy")
    for node in copy.glob("node-?"):
        min((node / "__cluster_metadata-0").glob("*.log")).unlink()
    stream = reader(copy, upTo="end")
    start = {"cluster": "TestTestTestTestTestTe", "offset": 3, "epoch": -1}
    with pytest.raises(TrimmedError, match=r"at offset 3: the log begins at \d+: .*are gone"):
        stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(TrimmedError, match=r"at offset 3: the log begins at \d+; startingOffset"):
        reader(copy, upTo="end", startingOffset="3").initialOffset()


def test_a_planned_batch_whose_records_are_gone_is_an_error_only_when_it_is_read(
    recorded, tmp_path
):
    copy = shutil.copytree(recorded.root, tmp_path / "copy")
    for node in copy.glob("node-?"):
        min((node / "__cluster_metadata-0").glob("*.log")).unlink()
    stream = reader(copy, upTo="end")
    start = {"cluster": "TestTestTestTestTestTe", "offset": 3, "epoch": -1}
    [part] = pickle.loads(pickle.dumps(list(stream.partitions(start, {**start, "offset": 5}))))
    with pytest.raises(TrimmedError, match=r"at offset 3: the log begins at \d+: .*are gone"):
        list(stream.read(part))


def test_a_segment_that_went_missing_is_named(recorded, tmp_path):
    copy = shutil.copytree(recorded.root, tmp_path / "copy")
    for node in copy.glob("node-?"):
        sorted((node / "__cluster_metadata-0").glob("*.log"))[1].unlink()
    stream = reader(copy)
    start = stream.initialOffset()
    with pytest.raises(CorruptError, match=r"copy/node-\d.* at offset \d+: "):
        offsets(stream, start, stream.latestOffset(start, ReadAllAvailable()))


def test_a_schema_that_is_not_the_sources_is_refused(recorded):
    source = KraftQuorumDataSource({"path": str(recorded.root), "valueFormat": "utf8"})
    assert source.schema()["value"].dataType == StringType()
    assert source.schema()["key"].dataType.typeName() == "binary"
    source.reader(source.schema())
    with pytest.raises(OptionError, match=r"the schema is .*leave it out"):
        source.reader(StructType().add("value", "string"))
    with pytest.raises(OptionError, match="endingOffset is for batches"):
        KraftQuorumDataSource({"path": str(recorded.root), "endingOffset": "5"}).streamReader(
            source.schema() and KraftQuorumDataSource({"path": "x"}).schema()
        )
