"""The commands as a user runs them: progress, summary, exit codes, and running them again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kraftquorum_pipeline.errors import PipelineExitCode
from kraftquorum_pipeline.jobs.history import TABLES
from kraftquorum_pipeline.testing import quorum_history, write_quorum

PROGRAM = Path(sys.executable).with_name("kraftquorum-pipeline")
MASTER = "--master=local[2]"
CLUSTER = "TestTestTestTestTestTe"


def run(command, *arguments, code=0, **environment):
    done = subprocess.run(
        [str(PROGRAM), command, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def last_line(text):
    return text.strip().splitlines()[-1]


def table(path):
    found = ds.dataset(str(path), format="parquet", partitioning="hive").to_table().to_pylist()
    return sorted(found, key=repr)


@pytest.fixture(scope="session")
def exported(recorded, tmp_path_factory, quick_conf):
    """What `export` wrote, and what it said."""
    target = tmp_path_factory.mktemp("exported") / "deep" / "log"
    limit = ("-o", "maxOffsetsPerTrigger=1500")
    done = run(
        "export", f"--path={recorded.root}", f"--output={target}", MASTER, *limit, *quick_conf
    )
    return target, done


def test_export_tells_of_each_batch_and_of_all_of_them(exported):
    target, done = exported
    assert f"cluster {CLUSTER}, committed up to " in done.stderr
    told = re.findall(r"batch (\d+): offsets (\d+) to (\d+), (\d+) rows, .* (\d+)%", done.stderr)
    assert len(told) >= 2, done.stderr
    assert told[-1][4] == "100"
    rows = table(target)
    assert sum(int(one[3]) for one in told) == len(rows)
    summary = rf"{target}: {len(rows)} rows \(\d+ control, \d+ data\) of offsets 0 to {told[-1][2]}"
    assert re.match(summary, last_line(done.stdout))


def test_history_is_written_anew_each_time_and_says_what_it_found(exported, tmp_path, quick_conf):
    target, _ = exported
    output = tmp_path / "tables"
    arguments = ("history", f"--tables={target}", f"--output={output}", MASTER, *quick_conf)
    done = run(*arguments)
    # A replica of another id came for one that went: no repair (test_history.py has some).
    assert re.search(r"\d+ elections, 5 voter changes, 0 repairs, at most ", done.stdout)
    assert done.stderr.strip(), "it tells of its progress"
    first = {name: table(output / name) for name in TABLES}
    # As a run that was killed in the middle may leave it.
    shutil.rmtree(output / "elections")
    (output / "repairs" / "_SUCCESS").unlink()
    told = json.loads(last_line(run(*arguments, "--json").stdout))
    assert {name: table(output / name) for name in TABLES} == first
    assert told["repairs"] == first["repairs"] == []
    assert len(first["voter_changes"]) == 5
    assert told["output"] == str(output)


def test_restore_check_against_a_quorum_that_goes_on(
    recorded, tmp_path, restored_quorum, run_async
):
    backup = shutil.copytree(recorded.root, tmp_path / "backup")
    shutil.copytree(recorded.root, tmp_path / "quorum")

    async def work():
        async with restored_quorum(tmp_path / "quorum") as quorum:
            for node in quorum.nodes:
                node.start()
            await quorum.wait_running(quorum.nodes)
            await quorum.leader()
            await quorum.client.put("key-1", b"another value", timeout_ms=15_000)
            servers = ",".join(str(node.api) for node in quorum.nodes)

            def check(*arguments, **more):
                place = f"--bootstrap-server={servers}"
                return asyncio.to_thread(run, "restore-check", *arguments, place, **more)

            done = await check(backup)
            assert "The files bring back what the quorum has." in done.stdout
            assert re.search(
                r"keys at offset \d+ by the files; \d+ in the quorum, 1 written", done.stdout
            )
            told = json.loads((await check(backup, "--json")).stdout)
            assert (told["ok"], told["changed"], told["different"]) == (True, 1, 0)
            # The files of another history that has the same cluster id.
            other = write_quorum(tmp_path / "other", quorum_history())
            found = await check(*other, code=PipelineExitCode.DIVERGED)
            assert re.search(r"key '.*' is not there, not what offset \d+ wrote", found.stdout)
            assert re.search(r"^\d+ KEYS DIFFER\.$", last_line(found.stdout))

    run_async(work)
    gone = run("restore-check", backup, "--bootstrap-server=127.60.9.9:9", code=3)
    assert "127.60.9.9:9" in last_line(gone.stderr)
