"""An export in other formats than Parquet, by sinks that Spark itself has; and those it has not."""

from __future__ import annotations

import shutil

import pytest

from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.jobs.export import export
from kraftquorum_pipeline.jobs.sink import Sink
from kraftquorum_pipeline.testing import CLUSTER_ID, quorum_history, write_quorum


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    path = write_quorum(tmp_path_factory.mktemp("written"), quorum_history(200))[0].parent
    return {"path": str(path), "maxOffsetsPerTrigger": "700", "keyFormat": "utf8"}


def offsets(frame):
    return sorted(row["offset"] for row in frame.select("offset").collect())


def test_spark_writes_what_it_has_a_sink_for_each_record_once(spark, options, tmp_path):
    seen = []
    sink = Sink("orc")
    done = export(
        spark,
        options,
        str(tmp_path),
        sink=sink,
        on_start=lambda _query, told: seen.append(told.log_end),
    )
    assert (done.start, done.end, done.batches) == (0, done.log_end, 2)
    assert seen == [done.log_end]
    table = tmp_path / "orc" / f"cluster_id={CLUSTER_ID}"
    assert offsets(spark.read.orc(str(table))) == list(range(done.log_end))
    # As if killed before Spark noted the last batch: the sink has noted it, and leaves it alone.
    checkpoint = tmp_path / "orc" / "_checkpoint" / CLUSTER_ID
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink()
    again = export(spark, options, str(tmp_path), sink=sink)
    assert (again.start, again.end, again.batches) == (700, done.end, 1)
    assert offsets(spark.read.orc(str(table))) == list(range(done.log_end))
    nothing = export(spark, options, str(tmp_path), sink=sink)
    assert (nothing.start, nothing.end, nothing.batches) == (None, None, 0)
    # Parquet beside it has a checkpoint of its own.
    assert export(spark, options, str(tmp_path)).end == done.end

    shutil.rmtree(table)
    with pytest.raises(OptionError, match=rf"{checkpoint} says .* and its table is gone"):
        export(spark, options, str(tmp_path), sink=sink)
    table.mkdir()
    shutil.rmtree(checkpoint)
    with pytest.raises(OptionError, match=rf"the table is there, but {checkpoint}, .* is not"):
        export(spark, options, str(tmp_path), sink=sink)


def test_a_table_of_a_catalog_is_made_and_belongs_to_one_cluster(spark, options, tmp_path):
    spark.sql(f"CREATE DATABASE kq LOCATION '{tmp_path / 'tables'}'")
    try:
        sink = Sink("json", "kq.log")
        done = export(spark, options, str(tmp_path), sink=sink)
        assert offsets(spark.read.table("kq.log")) == list(range(done.end))
        assert export(spark, options, str(tmp_path), sink=sink).batches == 0
        with pytest.raises(OptionError, match="the table is there, but"):
            export(spark, options, str(tmp_path / "other"), sink=sink)
    finally:
        spark.sql("DROP DATABASE kq CASCADE")


@pytest.mark.parametrize("name", ["delta", "iceberg", "jdbc"])
def test_a_format_that_spark_has_no_sink_for_is_named_with_what_it_needs(
    spark, options, tmp_path, name
):
    said = rf"--format {name}: Spark cannot write it: .* jars made for this Spark, .*jars.packages="
    with pytest.raises(OptionError, match=said):
        export(spark, options, str(tmp_path), sink=Sink(name))
    assert not list(tmp_path.rglob("*.json"))


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(OptionError, match="--table is for other formats"):
        Sink(table="db.log").check()
    with pytest.raises(OptionError, match=r"--format '\.\./x': expected the name"):
        Sink("../x").check()
    Sink("org.example.Some_Format-2").check()
    with pytest.raises(OptionError, match="name of the directory is empty"):
        Sink("orc").root("")
    assert Sink("orc").root("/") == "/orc"
