"""Where Spark writes: a batch that comes file by file, and places that it cannot open.

Hadoop's `viewfs` here lies over a directory of the disk, and is none of the file systems of which
the code knows that they rename in one step; so what an object store may leave can be laid there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftquorum_pipeline.errors import OptionError, UnreachableError
from kraftquorum_pipeline.jobs.export import export
from kraftquorum_pipeline.jobs.storage import WHOLE, Store, Target
from kraftquorum_pipeline.report.gather import read_export
from kraftquorum_pipeline.testing import quorum_history, write_quorum

LIMIT = {"maxOffsetsPerTrigger": "700", "partitionBytes": "65536"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_quorum(tmp_path_factory.mktemp("written"), quorum_history(200))[0].parent


@pytest.fixture
def hadoop(spark):
    return spark.sparkContext._jsc.hadoopConfiguration()


def offsets(spark, target):
    return sorted(row["offset"] for row in read_export(spark, target).select("offset").collect())


def test_a_batch_whose_move_was_killed_on_an_object_store_is_written_anew(
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
    written = tmp_path / "_unfinished" / "c" / "batch=000000000"
    written.mkdir(parents=True)
    for name in (WHOLE, "part-0.parquet", "part-1.parquet"):
        written.joinpath(name).touch()
    final = target.batch(0)
    with pytest.raises(KeyboardInterrupt):
        target.move(target.unfinished(0), final)
    moved = tmp_path / "cluster_id=c" / "batch=000000000"
    assert [one.name for one in moved.iterdir()] == ["part-0.parquet"]
    assert not target.is_whole(final)
    # The next run writes it anew, and nothing of what came before is left beside that.
    (tmp_path / "_checkpoint" / "c" / "offsets").mkdir(parents=True)
    target.prepare()
    written.mkdir(parents=True)
    written.joinpath("part-9.parquet").touch()
    target._store = Store(spark)
    target.move(target.unfinished(0), final)
    assert sorted(one.name for one in moved.glob("[!.]*")) == [WHOLE, "part-9.parquet"]
    assert target.is_whole(final)


def test_on_a_disk_a_batch_is_whole_by_its_name_alone(spark, tmp_path):
    target = Target(spark, str(tmp_path), "c")
    written, final = Path(target.unfinished(0)), Path(target.batch(0))
    written.mkdir(parents=True)
    assert not target.is_whole(str(final))
    target.move(str(written), str(final))
    assert target.is_whole(str(final))
    assert list(final.iterdir()) == []


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
    with pytest.raises(OptionError, match="nothing is not there; it should be an exported log"):
        read_export(spark, str(tmp_path / "nothing"))
