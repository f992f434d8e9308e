"""The data source and the export in Spark: counted against the client's own record."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kraftquorum_pipeline.commands.common import raised
from kraftquorum_pipeline.errors import PipelineExitCode
from kraftquorum_pipeline.jobs.export import export
from proofkit.clientrecord import ClientRecord
from proofkit.localquorum import CLUSTER_ID, eventually
from raftnode.api.model import Replica, VoterSpec

PROGRAM = Path(sys.executable).with_name("kraftquorum-pipeline")


def exported(target: Path):
    """All rows under a target, read by a program that knows nothing of Spark."""
    table = ds.dataset(str(target), format="parquet", partitioning="hive").to_table()
    return sorted(table.to_pylist(), key=lambda row: row["offset"])


def check(target: Path, record: ClientRecord, end: int) -> None:
    rows = exported(target)
    assert [row["offset"] for row in rows] == list(range(end))
    assert {row["cluster_id"] for row in rows} == {"TestTestTestTestTestTe"}
    record.check((row["offset"], row["key"], row["value"]) for row in rows if row["kind"] == "data")


def run_export(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(PROGRAM), "export", "--master", "local[2]", *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGINT]
)
def test_a_continuous_export_ends_in_order_when_it_is_told_to(recorded, tmp_path, number):
    """Stopping the query in the signal's handler makes this fail: it may strike inside of Spark."""
    where = ("--path", str(recorded.root), "--output", str(tmp_path))
    running = run_export(*where, "--continuous", "--interval-s", "1")
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith("batch 0"):
            break
    running.send_signal(number)
    said = running.stdout.read()
    assert running.wait(60) == 0, said
    assert "Traceback" not in said
    assert list(tmp_path.rglob("*.parquet"))


def test_spark_reads_what_the_client_knows_in_parallel_parts(spark, recorded):
    frame = spark.read.format("kraftquorum").option("partitionBytes", "65536")
    rows = frame.load(str(recorded.root)).select("offset", "key", "value", "kind").collect()
    recorded.record.check((one.offset, one.key, one.value) for one in rows if one.kind == "data")
    assert sorted(one.offset for one in rows) == list(range(len(rows)))


def test_an_error_of_the_source_reaches_the_user_of_spark_with_its_exit_code(spark, recorded):
    frame = spark.read.format("kraftquorum").option("clusterId", "Another")
    with pytest.raises(Exception, match=", not of Another") as caught:
        frame.load(str(recorded.root)).count()
    message, code = raised(caught.value)
    assert code is PipelineExitCode.CLUSTER_ID
    assert message.startswith(str(recorded.root))


def exported_batches(target: Path) -> list[str]:
    return sorted(one.name for one in (target / f"cluster_id={CLUSTER_ID}").glob("batch=*"))


def unfinished_after(target: Path) -> list[str]:
    """The batches that are in their places, if one after the first is being written."""
    done = exported_batches(target)
    written = f"_unfinished/{CLUSTER_ID}/*/batch={len(done):09d}"
    return done if done and list(target.glob(written)) else []


def held(group: int) -> bool:
    """Stop all threads of a group; False if one goes on, as one does that waits for its child."""
    os.killpg(group, signal.SIGSTOP)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if set(states(group)) <= set("TtZX"):
            return True
        time.sleep(0.01)
    return False


def states(group: int) -> Iterator[str]:
    """The state of each thread of a group, as /proc has it."""
    for stat in Path("/proc").glob("[0-9]*/task/*/stat"):
        with suppress(OSError):
            state, _parent, of = stat.read_text().rpartition(") ")[2].split()[:3]
            if int(of) == group:
                yield state


def hold_amid_a_batch(process: subprocess.Popen[str], target: Path) -> list[str]:
    """Stop an export that writes a batch after its first and has not moved it yet.

    It may be in its place when the signal has come to every thread: then the next will do.

    Returns:
        The batches that are in their places; none if there was no such moment.
    """
    deadline = time.monotonic() + 500
    while process.poll() is None and time.monotonic() < deadline:
        if unfinished_after(target):
            if held(process.pid) and (done := unfinished_after(target)):
                return done
            os.killpg(process.pid, signal.SIGCONT)
        time.sleep(0.002)
    return []


def test_a_driver_killed_in_the_middle_of_a_batch_loses_and_repeats_nothing(
    spark, recorded, tmp_path, quick_conf
):
    source = shutil.copytree(recorded.root, tmp_path / "source")
    target = tmp_path / "target"
    limit = {"maxOffsetsPerTrigger": "500"}
    process = run_export(
        f"--path={source}", f"--output={target}", "-o", "maxOffsetsPerTrigger=500", *quick_conf
    )
    done = hold_amid_a_batch(process, target)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    said = process.communicate()[0]
    assert done, said
    assert unfinished_after(target) == done, said
    assert done == [f"batch={number:09d}" for number in range(len(done))], said
    # What is there are whole batches, for any reader.
    end = 500 * len(done)
    assert [row["offset"] for row in exported(target)] == list(range(end))
    summary = export(spark, {"path": str(source), **limit}, str(target))
    assert (summary.start, summary.end) == (end, summary.log_end)
    check(target, recorded.record, summary.log_end)
    # As if killed after the move, before Spark noted it: found in its place and left alone.
    commits = target / "_checkpoint" / "TestTestTestTestTestTe" / "commits"
    newest = max(
        (one for one in commits.iterdir() if one.name.isdigit()), key=lambda p: int(p.name)
    )
    newest.unlink()
    commits.joinpath(f".{newest.name}.crc").unlink(missing_ok=True)
    seen: list = []
    options = {"path": str(source), **limit}
    export(spark, options, str(target), on_batch=lambda done, _summary: seen.append(done))
    assert [(done.batch, done.again) for done in seen] == [(int(newest.name), True)]
    check(target, recorded.record, summary.log_end)
    nothing = export(spark, options, str(target))
    assert (nothing.batches, nothing.start) == (0, None)


def test_batches_without_their_checkpoint_are_not_added_to(spark, recorded, tmp_path):
    (tmp_path / "cluster_id=TestTestTestTestTestTe" / "batch=000000000").mkdir(parents=True)
    with pytest.raises(Exception, match=r"holds batches, but .*_checkpoint"):
        export(spark, {"path": str(recorded.root)}, str(tmp_path))


async def lose_a_disk(quorum) -> None:
    """The leader's disk goes while it runs; its next one is added, then the old one removed."""
    victim = await quorum.leader()
    info = await quorum.info(victim)
    old = Replica(node_id=info.node_id, directory_id=info.directory_id)
    victim.wipe()
    await asyncio.to_thread(victim.wait, 60)  # it notices (S4)
    victim.start()
    new = await quorum.observe(victim)
    assert new.directory_id != old.directory_id
    spec = VoterSpec(**new.model_dump(), endpoint=str(victim.peer))

    async def replaced():
        told = await quorum.describe()
        voters = [one.directory_id for one in told.voters]
        if new.directory_id not in voters:
            await quorum.client.add_voter(spec, told.voter_record, replaces=old, timeout_ms=60_000)
        return True if new.directory_id in voters and old.directory_id not in voters else None

    await eventually(replaced, within_s=120, what="the old disk to be replaced")


def test_a_live_quorum_is_followed_through_elections_and_a_lost_disk_without_loss(
    spark, tmp_path, live_quorum, run_async
):
    record, target = ClientRecord(), tmp_path / "target"
    queries: list = []
    failures: list = []
    done = threading.Event()

    async def work() -> int:
        async with live_quorum as quorum:
            await quorum.form(3)
            await record.write(quorum, 0, 50)
            options = {
                "bootstrapServers": ",".join(str(node.api) for node in quorum.nodes),
                "partitionOffsets": "100",
                "timeoutMs": "120000",
            }

            def follow() -> None:
                while not done.is_set():
                    try:
                        export(
                            spark,
                            options,
                            str(target),
                            interval_s=0.5,
                            on_start=lambda query, _summary: queries.append(query),
                        )
                    except Exception as error:  # noqa: BLE001 - judged by the test below
                        # On a machine that is far too busy; who runs an export starts it again.
                        if "failed to connect back" not in str(error):
                            failures.append(error)
                            return

            thread = threading.Thread(target=follow)
            thread.start()
            for first in (50, 200, 350):
                leader = await quorum.leader()
                writing = asyncio.ensure_future(record.write(quorum, first, 150))  # noqa: TID251
                await asyncio.sleep(0.5)
                leader.kill()
                await writing
                leader.start()
                await quorum.wait_running([leader])
            writing = asyncio.ensure_future(record.write(quorum, 500, 150))  # noqa: TID251
            await lose_a_disk(quorum)
            await writing
            end = (await quorum.describe()).high_watermark
            deadline = time.monotonic() + 400
            reached = -1
            while reached < end and time.monotonic() < deadline and thread.is_alive():
                await asyncio.sleep(1)
                rows = exported(target) if target.exists() else []
                reached = rows[-1]["offset"] + 1 if rows else -1
            done.set()
            for query in queries:
                query.stop()
            thread.join(60)
            assert not failures, str(failures[0])
            assert reached >= end
            return reached

    end = run_async(work)
    check(target, record, end)
    rows = exported(target)
    said = [row["control"] for row in rows]
    assert said.count("LeaderChange") >= 5
    assert (said.count("AddVoter"), said.count("RemoveVoter")) == (4, 1)


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "message"),
    [
        (["--path=/x"], {"JAVA_HOME": "/nowhere"}, 7, "needs Java 17 .*JAVA_HOME is /nowhere"),
        ([], {}, 2, "no log is given: give --path"),
        (["--path=/x", "-o", "nonsense"], {}, 2, "'nonsense': expected NAME=VALUE"),
    ],
)
def test_a_command_that_cannot_work_says_why_in_one_line(
    tmp_path, arguments, environment, code, message
):
    process = run_export(f"--output={tmp_path}", *arguments, **environment)
    said = process.communicate()[0]
    assert process.returncode == code, said
    [line] = said.splitlines()
    assert re.search(message, line)


def test_a_quorum_that_cannot_be_reached_is_named(tmp_path):
    process = run_export(
        f"--output={tmp_path}", "--bootstrap-server=127.60.9.9:9", "-o", "timeoutMs=500"
    )
    said = process.communicate()[0]
    assert process.returncode == PipelineExitCode.UNREACHABLE, said
    assert "127.60.9.9:9: no node of the quorum answered in time" in said
