"""The program that pods run in the demo, and the file by which a disk is made to hang."""

import subprocess
import sys
from pathlib import Path

import pytest

from kraftquorum_demo import hanging_disk
from proofkit.faultynode import NodeFaults

WRITES_DURABLY = """
import os, sys
from pathlib import Path
from proofkit import faultynode
faultynode._install(faultynode._Faults(Path(os.environ[faultynode.CONTROL])))
with open(sys.argv[1], "wb") as file:
    print("flushing", flush=True)
    os.fdatasync(file.fileno())
print("durable", flush=True)
"""


def test_a_pod_runs_the_node_s_own_program_with_the_arguments_that_it_is_given(tmp_path):
    hanging_disk.install(tmp_path / "programs")
    done = subprocess.run(
        [tmp_path / "programs" / "raftnode", "run", "--help"],
        env={"RAFTNODE_LOG_DIR": str(tmp_path / "pvc-1"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "raftnode" in done.stdout


@pytest.fixture
def program(tmp_path, monkeypatch) -> Path:
    """The pods' program, with a Python in it that takes what comes next for its own."""
    python = tmp_path / "python with a space"
    writer = tmp_path / "writer.py"
    writer.write_text(WRITES_DURABLY)
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {writer} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(hanging_disk.sys, "executable", str(python))
    hanging_disk.install(tmp_path / "programs")
    monkeypatch.undo()
    return tmp_path / "programs" / "raftnode"


def test_a_flush_hangs_for_as_long_as_the_file_beside_the_volume_says_so(tmp_path, program):
    volume = tmp_path / "pvc-1"
    faults = hanging_disk.faults_of(volume)
    assert isinstance(faults, NodeFaults)
    faults.hang("sync")
    with subprocess.Popen(
        [program, str(tmp_path / "file")],
        env={"RAFTNODE_LOG_DIR": str(volume), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "flushing\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        faults.heal()
        assert process.stdout.readline() == "durable\n"
        assert process.wait(100) == 0
