"""An export in other formats than Parquet, by sinks that Spark itself has; and those it has not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kraftquorum_pipeline.errors import OptionError, UnreachableError
from kraftquorum_pipeline.jobs.export import export
from kraftquorum_pipeline.jobs.sink import Sink
from kraftquorum_pipeline.jobs.storage import Target
from proofkit.replicadirs import CLUSTER_ID, quorum_history, write_quorum


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
    with pytest.raises(OptionError, match=rf"{checkpoint} says .* but its table is missing"):
        export(spark, options, str(tmp_path), sink=sink)
    table.mkdir()
    shutil.rmtree(checkpoint)
    with pytest.raises(OptionError, match=rf"the table exists, but {checkpoint}, .* is missing"):
        export(spark, options, str(tmp_path), sink=sink)


TWO_RUNS = """
import json, sys
from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.jobs.export import export
from kraftquorum_pipeline.jobs.sink import Sink
from kraftquorum_pipeline.session import spark_session

options, settings, target = json.loads(sys.argv[1])
told = []
for run in range(2):
    spark = spark_session("tests", master="local[2]", settings=settings)
    if not run:
        spark.sql("CREATE DATABASE kq")
        spark.sql("CREATE TABLE kq.other (offset BIGINT) USING json")
    done = export(spark, options, target, sink=Sink("json", "kq.log"))
    told.append([done.batches, done.end])
    for table, place in (("kq.other", target), ("kq.log", target + "/elsewhere")):
        try:
            export(spark, options, place, sink=Sink("json", table))
            told.append("it went on")
        except OptionError as error:
            told.append(str(error))
    rows = spark.read.table("kq.log").select("offset").collect()
    told.append(sorted(row["offset"] for row in rows))
    spark.stop()
print(json.dumps(told))
"""


def test_a_table_of_a_catalog_that_lasts_goes_on_and_has_a_checkpoint_of_its_own(
    options, tmp_path, quick_conf
):
    settings = dict(one.removeprefix("--conf=").split("=", 1) for one in quick_conf)
    database = f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true"
    settings |= {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": database,
    }
    given = json.dumps([options, settings, str(tmp_path / "out")])
    # In a process of its own: Spark has one catalog for as long as it runs.
    done = subprocess.run(
        [sys.executable, "-c", TWO_RUNS, given],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, other, elsewhere, rows, second, *again = json.loads(done.stdout)
    assert first[0] == 2
    assert second == [0, None]
    assert again == [other, elsewhere, rows]
    assert rows == list(range(first[1]))
    # What the log reached in one table says nothing of another.
    assert f"the table exists, but {tmp_path}/out/json/kq.other/_checkpoint/" in other
    assert "the table exists, but" in elsewhere


@pytest.mark.parametrize("table", ["kq.log", "log", "`kq`.log", "spark_catalog.kq.log"])
def test_a_table_that_spark_would_forget_is_refused_before_anything_is_made(
    spark, options, tmp_path, table
):
    said = rf"--table {table}: .* in memory .*spark.sql.catalogImplementation=hive"
    with pytest.raises(OptionError, match=said):
        export(spark, options, str(tmp_path), sink=Sink("json", table))
    assert not list(tmp_path.iterdir())


def test_a_catalog_that_was_set_is_asked_for_its_table(spark):
    spark.conf.set("spark.sql.catalog.lake", "org.example.Lake")
    try:
        Sink("json", "lake.kq.log").check_catalog(spark)
        spark.conf.set("spark.sql.defaultCatalog", "lake")
        Sink("json", "kq.log").check_catalog(spark)
        with pytest.raises(OptionError, match="in memory"):
            Sink("json", "spark_catalog.kq.log").check_catalog(spark)
    finally:
        spark.conf.unset("spark.sql.defaultCatalog")
        spark.conf.unset("spark.sql.catalog.lake")


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_format_that_spark_has_no_sink_for_is_named_with_what_it_needs(
    spark, options, tmp_path, name
):
    said = rf"--format {name}: Spark cannot write it: .* jars made for this Spark, .*jars.packages="
    with pytest.raises(OptionError, match=said):
        export(spark, options, str(tmp_path), sink=Sink(name))
    assert not list(tmp_path.rglob("*.json"))


def test_a_format_that_no_stream_is_written_in_is_not_said_to_want_jars(spark, options, tmp_path):
    with pytest.raises(
        OptionError, match="--format jdbc: Spark cannot write it this way: "
    ) as caught:
        export(spark, options, str(tmp_path), sink=Sink("jdbc"))
    assert "jars" not in str(caught.value)


def test_what_spark_cannot_begin_for_another_reason_is_not_a_wrong_option(spark, tmp_path):
    place = Target(spark, str(tmp_path), CLUSTER_ID)
    writer = Sink("orc").writer(spark.readStream.format("rate").load(), place)
    # Where Spark is to note how far it is, stands a file.
    (tmp_path / "file").touch()
    writer.option("checkpointLocation", str(tmp_path / "file" / "in"))
    with pytest.raises(UnreachableError, match=rf"^{place.table}: Spark could not start to write"):
        Sink("orc").starter(writer, place)()


@pytest.mark.parametrize("name", ["Parquet", "PARQUET"])
def test_parquet_is_parquet_in_any_case_of_letters(name):
    assert not Sink(name).by_spark
    assert Sink(name).root("/x") == "/x"
    with pytest.raises(OptionError, match="--table is for other formats"):
        Sink(name, "db.log").check()
    assert Sink("ORC").root("/x") == "/x/orc"


def test_what_cannot_be_meant_is_refused():
    for table in ("", "..", "db.", ".log"):
        with pytest.raises(OptionError, match=r"--table '.*': expected CATALOG.DATABASE.NAME"):
            Sink("orc", table).check()
    with pytest.raises(OptionError, match="--table is for other formats"):
        Sink(table="db.log").check()
    with pytest.raises(OptionError, match=r"--format '\.\./x': expected the name"):
        Sink("../x").check()
    Sink("org.example.Some_Format-2").check()
    with pytest.raises(OptionError, match="name of the directory is empty"):
        Sink("orc").root("")
    assert Sink("orc").root("/") == "/orc"
    assert Sink("orc", "a/b.c").root("/x") == "/x/orc/a%2Fb.c"


@pytest.mark.parametrize(("there", "refused"), [("builtin", True), ("org.x.SessionCatalog", False)])
def test_a_catalog_in_the_place_of_sparks_own_may_last(there: str, refused: bool):
    """Only Spark's own is known to forget."""
    told = {"spark.sql.catalog.spark_catalog": there}
    session: Any = SimpleNamespace(conf=told)
    try:
        Sink("orc", "db.log").check_catalog(session)
    except OptionError:
        assert refused
    else:
        assert not refused
