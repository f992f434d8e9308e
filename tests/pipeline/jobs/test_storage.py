"""Where Spark writes: a batch that comes file by file, and places that it cannot open.

Hadoop's `viewfs` here lies over a directory of the disk, and is none of the file systems of which
the code knows that they rename in one step; so what an object store may leave can be laid there.
"""

from __future__ import annotations

import errno
import os
import shutil
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from kraftquorum_pipeline.commands.common import raised
from kraftquorum_pipeline.errors import (
    CorruptError,
    IncompleteError,
    OptionError,
    PipelineExitCode,
    UnreachableError,
)
from kraftquorum_pipeline.jobs import claim
from kraftquorum_pipeline.jobs import export as exporting
from kraftquorum_pipeline.jobs.export import _count, export
from kraftquorum_pipeline.jobs.sink import Sink
from kraftquorum_pipeline.jobs.storage import WHOLE, Store, Target
from kraftquorum_pipeline.report.figures import clusters, read_export
from proofkit.replicadirs import CLUSTER_ID, quorum_history, segments, write_quorum

LIMIT = {"maxOffsetsPerTrigger": "700", "partitionBytes": "65536"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_quorum(tmp_path_factory.mktemp("written"), quorum_history(200))[0].parent


@pytest.fixture
def hadoop(spark):
    return spark.sparkContext._jsc.hadoopConfiguration()


def offsets(spark, target):
    return sorted(row["offset"] for row in read_export(spark, target).select("offset").collect())


def test_a_batch_whose_move_was_killed_on_an_object_store_is_written_again(
    spark, source, tmp_path, hadoop
):
    root = tmp_path / "store"
    root.mkdir()
    hadoop.set("fs.viewfs.mounttable.moves.link./log", root.as_uri())
    target, options = "viewfs://moves/log", {"path": str(source), **LIMIT}
    end = export(spark, options, target).log_end
    assert offsets(spark, target) == list(range(end))
    [table] = root.glob("cluster_id=*")
    batches = sorted(table.glob("batch=*"))
    assert len(batches) > 1
    assert all((batch / WHOLE).exists() for batch in batches)
    # Killed in the middle of the last move: its last file is not there, nor what comes after all.
    last = batches[-1]
    files = sorted(last.glob("*.parquet"))
    assert len(files) > 1
    for file in (files[-1], last / WHOLE):
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink()
    [commits] = root.glob("_checkpoint/*/commits")
    for file in commits.glob(f"*{len(batches) - 1}*"):
        file.unlink()
    seen = []
    again = export(
        spark, options, target, on_batch=lambda done, _summary: seen.append((done.again, done.end))
    )
    assert seen == [(False, again.log_end)]
    assert offsets(spark, target) == list(range(end))
    assert (last / WHOLE).exists()
    assert not set(files) & set(last.glob("*.parquet")), "nothing of the killed move is left"


class _Dying(Store):
    """Moves file by file, as an object store does, and is killed before the last."""

    def rename(self, path, final):
        _, *_, place = path.rpartition("//dies/log/")
        written, there = self.root / place, self.root / final.rpartition("//dies/log/")[2]
        there.mkdir(parents=True)
        for file in sorted(written.iterdir())[:-1]:
            file.rename(there / file.name)
        raise KeyboardInterrupt


def test_the_mark_of_a_whole_batch_comes_last(spark, tmp_path, hadoop):
    hadoop.set("fs.viewfs.mounttable.dies.link./log", tmp_path.as_uri())
    target = Target(spark, "viewfs://dies/log", "c")
    store = target._store = _Dying(spark)
    store.root = tmp_path
    written = tmp_path / "_unfinished" / "c" / target._run / "batch=000000000"
    written.mkdir(parents=True)
    for name in (WHOLE, "part-0.parquet", "part-1.parquet"):
        written.joinpath(name).touch()
    final = target.batch(0)
    with pytest.raises(KeyboardInterrupt):
        target.move(target.unfinished(0), final)
    moved = tmp_path / "cluster_id=c" / "batch=000000000"
    assert [one.name for one in moved.iterdir()] == ["part-0.parquet"]
    assert not target.is_whole(final)
    # The next run writes it again, and nothing of what came before is left beside that.
    (tmp_path / "_checkpoint" / "c" / "offsets").mkdir(parents=True)
    target.prepare()
    written.mkdir(parents=True)
    written.joinpath("part-9.parquet").touch()
    target._store = Store(spark)
    target.move(target.unfinished(0), final)
    assert sorted(one.name for one in moved.glob("[!.]*")) == [WHOLE, "part-9.parquet"]
    assert target.is_whole(final)


class _Stubborn(Store):
    """Says by its answer alone that it has not removed anything."""

    def _open(self, path):
        place, system = super()._open(path)
        return place, SimpleNamespace(delete=lambda *_: False, exists=system.exists)


def test_sparks_own_mark_is_not_taken_for_removed_when_it_is_still_there(spark, tmp_path):
    mark = tmp_path / WHOLE
    _Stubborn(spark).remove(str(mark))
    mark.touch()
    with pytest.raises(UnreachableError, match=f"{mark}: it cannot be removed"):
        _Stubborn(spark).remove(str(mark))


def test_on_a_disk_a_batch_is_whole_by_its_name_alone(spark, tmp_path):
    target = Target(spark, str(tmp_path), "c")
    written, final = Path(target.unfinished(0)), Path(target.batch(0))
    written.mkdir(parents=True)
    assert not target.is_whole(str(final))
    target.move(str(written), str(final))
    assert target.is_whole(str(final))
    assert list(final.iterdir()) == []


def forget(root, *batches):
    """As if Spark had been killed before it noted that these were done."""
    [commits] = root.glob("_checkpoint/*/commits")
    for number in batches:
        commits.joinpath(str(number)).unlink()
        commits.joinpath(f".{number}.crc").unlink()


def trim(source):
    """Each node trims its log, up to its snapshot."""
    for node in source.glob("node-?"):
        [covered] = [int(one.name[:20]) for one in node.rglob("*.checkpoint")]
        for segment, following in pairwise(segments(node)):
            if int(following.stem) <= covered:
                segment.unlink()
    return covered


def test_a_first_batch_that_was_being_moved_is_planned_again_though_the_log_was_trimmed(
    spark, source, tmp_path, hadoop
):
    source, root = shutil.copytree(source, tmp_path / "source"), tmp_path / "store"
    root.mkdir()
    hadoop.set("fs.viewfs.mounttable.first.link./log", root.as_uri())
    target, options = "viewfs://first/log", {"path": str(source), **LIMIT}
    end = export(spark, options, target).log_end
    # Killed in the first move: a file is there, and nothing noted.
    [table] = root.glob("cluster_id=*")
    shutil.rmtree(table / "batch=000000001")
    for file in (WHOLE, f".{WHOLE}.crc"):
        (table / "batch=000000000" / file).unlink()
    forget(root, 0, 1)
    covered = trim(source)
    assert covered > int(LIMIT["maxOffsetsPerTrigger"])
    summary = export(spark, options, target)
    assert (summary.start, summary.end, summary.log_end) == (0, end, end)
    assert summary.rows["state"]
    rows = read_export(spark, target).where("kind != 'state'").select("offset").collect()
    assert sorted(row["offset"] for row in rows) == list(range(covered, end))


@pytest.mark.parametrize("scheme", ["viewfs://half/log", ""])
def test_a_checkpoint_is_kept_only_with_a_batch_that_is_whole_or_done(
    spark, tmp_path, hadoop, scheme
):
    hadoop.set("fs.viewfs.mounttable.half.link./log", tmp_path.as_uri())
    target = Target(spark, scheme or str(tmp_path), "c")
    table, checkpoint = tmp_path / "cluster_id=c", tmp_path / "_checkpoint" / "c"
    offsets = checkpoint / "offsets"
    offsets.mkdir(parents=True)
    # On a disk the table's directory comes before the batch, on a store some of the batch.
    (table / "batch=000000000" if scheme else table).mkdir(parents=True)
    target.prepare()
    assert not checkpoint.exists()
    offsets.mkdir(parents=True)
    (table / "batch=000000000").mkdir(exist_ok=True)
    (table / "batch=000000000" / WHOLE).touch()
    target.prepare()
    assert offsets.exists()


def test_an_export_whose_batches_are_gone_is_not_taken_for_all_of_it(spark, source, tmp_path):
    root, options = tmp_path / "log", {"path": str(source), **LIMIT}
    end = export(spark, options, str(root)).log_end
    # What was removed on purpose, and long ago, does not matter.
    [table] = root.glob("cluster_id=*")
    shutil.rmtree(table / "batch=000000000")
    assert export(spark, options, str(root)).batches == 0
    shutil.rmtree(table)
    said = (
        rf"{root}/_checkpoint/{CLUSTER_ID} says that batch 1 .* is missing: restore it, .* remove"
    )
    with pytest.raises(OptionError, match=said):
        export(spark, options, str(root))
    # As the message says.
    shutil.rmtree(root / "_checkpoint")
    assert export(spark, options, str(root)).end == end
    assert offsets(spark, str(root)) == list(range(end))


def test_who_reads_an_export_on_a_store_reads_whole_batches_only(spark, source, tmp_path, hadoop):
    root = tmp_path / "store"
    root.mkdir()
    hadoop.set("fs.viewfs.mounttable.read.link./log", root.as_uri())
    target = "viewfs://read/log"
    export(spark, {"path": str(source), **LIMIT}, target)
    [table] = root.glob("cluster_id=*")
    # One that is being moved, of this cluster and of one that has nothing else.
    (table / "batch=000000001" / WHOLE).unlink()
    shutil.copytree(table / "batch=000000001", root / "cluster_id=other" / "batch=000000000")
    found = read_export(spark, target)
    assert clusters(found) == [CLUSTER_ID]
    assert offsets(spark, target) == list(range(700))
    (table / "batch=000000000" / WHOLE).unlink()
    with pytest.raises(OptionError, match="holds no exported log: no batch in it has _SUCCESS"):
        read_export(spark, target)


def test_a_batch_that_is_not_what_spark_planned_is_not_moved(spark, source, tmp_path):
    root = tmp_path / "log"
    export(spark, {"path": str(source), **LIMIT}, str(root))
    [batch] = root.glob("cluster_id=*/batch=000000001")
    [commit] = root.glob("_checkpoint/*/offsets/1")
    end = int(commit.read_text().rpartition('"offset": ')[2].partition(",")[0])
    reader = spark.read.schema(spark.read.parquet(str(batch)).schema)
    assert sum(_count(reader, str(batch), 700, end)[0].values()) == end - 700
    # One too few at either end, one too many, none at all; the last one gone, another there twice.
    empty, twice = tmp_path / "empty", tmp_path / "twice"
    empty.mkdir()
    frame = spark.read.parquet(str(batch)).where(f"offset < {end - 1}")
    frame.union(frame.where("offset = 702")).write.parquet(str(twice))
    for path, start, until in (
        (twice, 700, end),
        (batch, 699, end),
        (batch, 700, end + 1),
        (batch, 701, end),
        (batch, 700, end - 1),
        (empty, 700, end),
    ):
        with pytest.raises(CorruptError, match=rf"the batch is of {start} to {until - 1}"):
            _count(reader, str(path), start, until)


def test_the_log_begins_where_the_state_before_it_ends(spark, source, tmp_path):
    source, root = shutil.copytree(source, tmp_path / "source"), tmp_path / "log"
    covered = trim(source)
    summary = export(spark, {"path": str(source)}, str(root))
    [batch] = root.glob("cluster_id=*/batch=*")
    frame = spark.read.parquet(str(batch))
    reader = spark.read.schema(frame.schema)
    rows, _ = _count(reader, str(batch), 0, summary.log_end)
    assert rows == summary.rows
    less = str(tmp_path / "less")
    frame.where(f"offset != {covered}").write.parquet(less)
    with pytest.raises(CorruptError, match=rf"of offsets {covered + 1} to {summary.log_end - 1}"):
        _count(reader, less, 0, summary.log_end)
    # The state alone, as of a batch that ended with it.
    frame.where(f"offset < {covered}").write.mode("overwrite").parquet(less)
    assert _count(reader, less, 0, covered) == ({"state": rows["state"]}, 0)
    with pytest.raises(CorruptError, match=rf"the batch is of 0 to {covered}$"):
        _count(reader, less, 0, covered + 1)


def test_a_run_that_ends_before_its_end_says_so(spark, source, tmp_path):
    options = {"path": str(source), **LIMIT}
    with pytest.raises(IncompleteError, match=r"at offset 0: the run ended here, but \d+ rec"):
        export(spark, options, str(tmp_path), on_start=lambda query, _summary: query.stop())


@pytest.fixture
def quick_beats(monkeypatch):
    monkeypatch.setattr(claim, "BEAT_S", 0.1)


@pytest.mark.usefixtures("quick_beats")
@pytest.mark.parametrize("scheme", ["viewfs://two/log", ""])
def test_two_runs_at_once_do_not_clear_away_each_others_batches(
    spark, source, tmp_path, hadoop, scheme
):
    hadoop.set("fs.viewfs.mounttable.two.link./log", tmp_path.as_uri())
    where = scheme or str(tmp_path)
    assert Store(spark).local(f"{where}/x") == (None if scheme else tmp_path / "x")
    unfinished = tmp_path / "_unfinished" / CLUSTER_ID / "run" / "batch=000000000"
    with Target(spark, where, CLUSTER_ID).claimed():
        unfinished.mkdir(parents=True)
        with pytest.raises(
            OptionError, match="another run is exporting this cluster to this target"
        ):
            export(spark, {"path": str(source)}, where)
        assert unfinished.exists()
        # Another cluster has nothing to do with it.
        with Target(spark, where, "other").claimed():
            pass
    assert export(spark, {"path": str(source)}, where).batches == 1


def test_a_run_that_was_taken_for_dead_moves_nothing_any_more(spark, tmp_path, hadoop):
    hadoop.set("fs.viewfs.mounttable.slept.link./log", tmp_path.as_uri())
    target = Target(spark, "viewfs://slept/log", "c")
    written = tmp_path / "_unfinished" / "c" / target._run / "batch=000000000"
    with target.claimed():
        written.mkdir(parents=True)
        target._store.write_text(f"{target.checkpoint}.running", "another's")
        with pytest.raises(OptionError, match="another run is exporting"):
            target.move(target.unfinished(0), target.batch(0))
    assert not (tmp_path / "cluster_id=c").exists()


@pytest.mark.parametrize("table", [True, False])
def test_a_run_that_was_taken_for_dead_clears_nothing_away(spark, tmp_path, hadoop, table):
    name = f"late-{table}"
    hadoop.set(f"fs.viewfs.mounttable.{name}.link./log", tmp_path.as_uri())
    target = Target(spark, f"viewfs://{name}/log", "c")
    offsets = tmp_path / "_checkpoint" / "c" / "offsets"
    unfinished = tmp_path / "_unfinished" / "c" / "another"
    with target.claimed():
        for place in (offsets, unfinished):
            place.mkdir(parents=True)
        target._store.write_text(f"{target.checkpoint}.running", "another's")
        with pytest.raises(OptionError, match="another run is exporting"):
            target.prepare_table(there=False) if table else target.prepare()
    assert offsets.exists()
    assert unfinished.exists()


def test_a_run_that_was_taken_for_dead_between_two_clearings_stops_there(spark, tmp_path, hadoop):
    hadoop.set("fs.viewfs.mounttable.soon.link./log", tmp_path.as_uri())
    target = Target(spark, "viewfs://soon/log", "c")

    class Losing(Store):
        def remove(self, path):
            super().remove(path)
            self.write_text(f"{target.checkpoint}.running", "another's")

    offsets = tmp_path / "_checkpoint" / "c" / "offsets"
    with target.claimed():
        offsets.mkdir(parents=True)
        target._store = Losing(spark)
        with pytest.raises(OptionError, match="another run is exporting"):
            target.prepare()
    assert offsets.exists()


@pytest.fixture
def quick_looks(monkeypatch):
    monkeypatch.setattr(exporting, "_CLAIM_LOOK_S", 1)


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.parametrize("name", ["parquet", "json"])
def test_a_run_that_was_taken_for_dead_ends_though_nothing_is_new(
    spark, source, tmp_path, hadoop, name
):
    sink = Sink(name)
    hadoop.set(f"fs.viewfs.mounttable.dead{name}.link./log", tmp_path.as_uri())
    where, options = f"viewfs://dead{name}/log", {"path": str(source)}
    export(spark, options, where, sink=sink)

    def taken(query, _summary):
        running = f"{Target(spark, sink.root(where), CLUSTER_ID).checkpoint}.running"
        Store(spark).write_text(running, "another's")

    with pytest.raises(OptionError, match="another run is exporting"):
        export(spark, options, where, sink=sink, interval_s=0.5, on_start=taken)
    assert not spark.streams.active


def test_a_batch_that_another_run_has_put_in_the_newest_ones_place_is_noticed(
    spark, source, tmp_path
):
    root, options = tmp_path / "log", {"path": str(source), **LIMIT}
    end = export(spark, options, str(root)).log_end
    [table] = root.glob("cluster_id=*")
    newest = table / "batch=000000001"
    kept = newest.rename(tmp_path / "kept")
    frame = spark.read.parquet(str(kept))
    frame.where(f"offset < {end - 1}").write.parquet(str(newest))
    said = rf"batch=000000001 at offset 700: .* the batch is of 700 to {end - 1}"
    with pytest.raises(CorruptError, match=said):
        export(spark, options, str(root))
    # The first one may begin anywhere, as it was asked for.
    only = tmp_path / "only"
    export(spark, {"path": str(source), "startingOffset": "900"}, str(only))
    assert export(spark, options, str(only)).batches == 0
    [batch] = only.glob("cluster_id=*/batch=*")
    shutil.rmtree(batch)
    frame.where(f"offset between 900 and {end - 2}").write.parquet(str(batch))
    with pytest.raises(CorruptError, match=rf"the batch is of 900 to {end - 1}"):
        export(spark, options, str(only))


def test_a_batch_in_its_place_that_spark_plans_otherwise_is_named_with_what_to_do(
    spark, source, tmp_path
):
    root, options = tmp_path / "log", {"path": str(source), **LIMIT}
    end = export(spark, options, str(root)).log_end
    forget(root, 1)
    [batch] = root.glob("cluster_id=*/batch=000000001")
    kept = batch.rename(tmp_path / "kept")
    spark.read.parquet(str(kept)).where(f"offset < {end - 1}").write.parquet(str(batch))
    said = rf"{batch} at offset 700: .*Spark has not recorded it as done: remove this directory"
    with pytest.raises(Exception, match=said):
        export(spark, options, str(root))
    # As the message says.
    shutil.rmtree(batch)
    export(spark, options, str(root))
    assert offsets(spark, str(root)) == list(range(end))


@pytest.fixture
def not_noted(spark, source, tmp_path):
    """An export of two batches of which Spark has noted the first, and its log, trimmed since."""
    source, root = shutil.copytree(source, tmp_path / "source"), tmp_path / "log"
    options = {"path": str(source), **LIMIT}
    end = export(spark, options, str(root)).log_end
    forget(root, 1)
    assert 700 < trim(source) < end
    return options, root, end


def test_a_whole_batch_that_spark_has_not_noted_is_done_though_its_records_are_gone(
    spark, not_noted
):
    options, root, end = not_noted
    summary = export(spark, options, str(root))
    assert (summary.start, summary.end, summary.batches) == (700, end, 1)
    assert offsets(spark, str(root)) == list(range(end))


def test_a_batch_that_is_not_whole_and_whose_records_are_gone_is_an_error(spark, not_noted):
    options, root, _ = not_noted
    [batch] = root.glob("cluster_id=*/batch=000000001")
    shutil.rmtree(batch)
    with pytest.raises(Exception, match="at offset 700: the log begins at") as caught:
        export(spark, options, str(root))
    message, code = raised(caught.value)
    assert code is PipelineExitCode.TRIMMED
    assert message.startswith(f"{options['path']}/node-")
    assert message.endswith("(startingOffset=earliest, and a new checkpoint)")


def test_files_that_prove_less_than_was_exported_are_not_taken_for_nothing_new(
    spark, source, tmp_path
):
    target = str(tmp_path / "log")
    end = export(spark, {"path": str(source)}, target).log_end
    older = write_quorum(tmp_path / "older", quorum_history(20))[0].parent
    said = rf"the files prove \d+ records committed, but {end} are exported: "
    with pytest.raises(IncompleteError, match=said):
        export(spark, {"path": str(older)}, target)
    assert export(spark, {"path": str(source)}, target).batches == 0


def test_on_a_disk_a_batch_and_its_plan_are_synced_before_it_has_its_name_and_that_after(
    spark, tmp_path, monkeypatch
):
    target = Target(spark, str(tmp_path / "new"), "c")
    written, final = Path(target.unfinished(0)), Path(target.batch(0))
    plan = Path(target.checkpoint) / "offsets" / "0"
    for place in (written, plan.parent):
        place.mkdir(parents=True)
    for file in (written / "part-0.parquet", plan):
        file.touch()
    synced, sync = [], os.fsync

    def noting(fd):
        synced.append((Path(f"/proc/self/fd/{fd}").readlink(), final.exists()))
        sync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    target.move(str(written), str(final))
    for path in (written / "part-0.parquet", written, plan, plan.parent, *plan.parents[1:4]):
        assert (path, False) in synced, path
    for path in (final.parent, final.parent.parent, tmp_path):
        assert (path, True) in synced, path
    synced.clear()
    target.sync_checkpoint()
    assert (plan, True) in synced


def test_a_disk_that_refuses_a_sync_ends_the_run_before_the_batch_has_its_name(
    spark, tmp_path, monkeypatch
):
    target = Target(spark, str(tmp_path), "c")
    written, final = Path(target.unfinished(0)), Path(target.batch(0))
    written.mkdir(parents=True)

    def failing(_fd):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(UnreachableError, match="cannot fsync: input/output error"):
        target.move(str(written), str(final))
    assert not final.exists()


def test_a_target_is_named_and_the_root_is_one(spark):
    for nothing in ("", "  "):
        with pytest.raises(OptionError, match="name of the directory is empty"):
            Target(spark, nothing, "c")
        with pytest.raises(OptionError, match="name of the directory is empty"):
            read_export(spark, nothing)
    target = Target(spark, "/", "c")
    assert target.batch(3) == "/cluster_id=c/batch=000000003"
    assert target.unfinished(3).startswith("/_unfinished/c/")
    assert target.checkpoint == "/_checkpoint/c"


def test_a_store_for_which_spark_has_no_jars_is_named_with_what_it_needs(spark, source):
    said = r"^s3://b/x: Spark cannot open it: .*s3a:// .*org.apache.hadoop:hadoop-aws:\d+\.\d+"
    with pytest.raises(OptionError, match=said):
        Store(spark).exists("s3://b/x")
    with pytest.raises(OptionError, match=said):
        export(spark, {"path": str(source)}, "s3://b/x")
    with pytest.raises(OptionError, match=said):
        read_export(spark, "s3://b/x")


def test_a_store_that_does_not_answer_is_named(spark, hadoop):
    hadoop.set("ipc.client.connect.max.retries", "0")
    with pytest.raises(UnreachableError, match=r"^hdfs://127.0.0.1:9/x: .*[Cc]onnection refused"):
        Store(spark).exists("hdfs://127.0.0.1:9/x")


def test_an_export_that_is_not_there_is_named(spark, tmp_path):
    with pytest.raises(OptionError, match="nothing does not exist; give an exported log"):
        read_export(spark, str(tmp_path / "nothing"))
