"""A tiny run of `make bench`: ours alone, and beside etcd where it is built already."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kraftquorum_devcluster.binaries import missing_programs
from kraftquorum_devcluster.versions import BENCH_TOOLS

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]

COMMAND = [sys.executable, "-m", "kraftquorum_bench", "run", "--size", "quick"]


def run(tmp_path, *arguments):
    """Run it to the end; return its report."""
    (tmp_path / "data").mkdir()
    places = ["--directory", str(tmp_path / "data"), "--output", str(tmp_path / "out")]
    tiny = ["--rounds", "1", "--seconds", "0.3", "--state-mib", "1"]
    done = subprocess.run(
        [*COMMAND, *places, *tiny, *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "data").iterdir()) == []
    return json.loads((tmp_path / "out" / "report.json").read_text())


def processes_of(directory):
    """Processes that have the directory in their environment or command line."""
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(directory).encode() in text and entry.name != str(os.getpid()):
            pids.append(entry.name)
    return pids


def test_a_tiny_round_of_ours_alone(tmp_path):
    report = run(tmp_path, "--peers", "none", "--only", "put_64 get_64_http wiped memory bulk_etcd")
    rows = report["workloads"]
    assert set(rows) == {"put_64", "get_64_http", "bulk_etcd", "wiped", "memory"}
    assert all(row["ours"] > 0 and row["ratio"] is None for row in rows.values())
    assert rows["put_64"]["our_figures"]["leader_us"] > 0
    assert report["failures"] == []
    assert "etcd" in [note["what"] for note in report["left_out"]]


@pytest.mark.skipif(bool(missing_programs(BENCH_TOOLS)), reason="devcluster build --bench-tools")
def test_a_tiny_round_beside_etcd(tmp_path):
    report = run(tmp_path, "--peers", "etcd", "--only", "put_64 mixed_64 restart")
    assert report["left_out"] == []
    assert all(row["ratio"] > 0 for row in report["workloads"].values())
    assert report["workloads"]["put_64"]["peer_figures"]["leader_us"] > 0


def test_a_tiny_round_with_tls_beside_a_plain_quorum(tmp_path):
    report = run(tmp_path, "--peers", "plain", "--only", "put_64_tls get_1_tls")
    assert (report["left_out"], report["failures"]) == ([], [])
    rows = report["workloads"]
    assert set(rows) == {"put_64_tls", "get_1_tls"}
    assert all(row["ratio"] > 0 for row in rows.values())
    assert all(row["peer_name"].endswith("without TLS") for row in rows.values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_leaves_no_process_and_no_data(tmp_path, number):
    data = tmp_path / "data"
    data.mkdir()
    arguments = ["--peers", "none", "--only", "put_64", "--seconds", "300"]
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        *("--directory", str(data), "--output", str(tmp_path / "out")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(200):
            while b"kraftquorum" not in (line := await process.stdout.readline()):
                assert line, (await process.communicate())[1].decode()
            await asyncio.sleep(2)  # the load runs, or the store is filled
            process.send_signal(number)
            _, complained = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 130, complained.decode()
    assert "all processes are stopped" in complained.decode()
    assert processes_of(data) == []
    assert list(data.iterdir()) == []
    assert not (tmp_path / "out").exists()
