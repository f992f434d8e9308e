"""`raftnode snapshot dump`, `verify` and `create` on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from raftnode.cli import make_app
from raftnode.core.records import AddVoter, Batch, FormationCompleted, LeaderChange, RaftVersion
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, Voter
from raftnode.errors import ExitCode
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.storage.directory.directory import DataDirectory

CLI = make_app("snapshot")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(CLI, ["snapshot", *map(str, arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log of 4 control records and 30 batches of 2 records, which end at offset 64."""
    root = tmp_path / "data"
    root.mkdir()
    directory = DataDirectory.open(root, NodeId(4))
    log = directory.open_log()
    own = directory.key
    control = (
        LeaderChange(own, (own,), (own,)),
        RaftVersion(2),
        AddVoter(Voter(own, Endpoint("a", 9093))),
        FormationCompleted(),
    )
    log.append([Batch(Offset(0), Offset(3), Epoch(3), b"", control)])
    for number in range(30):
        end = log.end_offset
        records = [Record(b"key %d" % (number % 7), b"%d" % number), Record(b"gone", None)]
        body = stamp(encode_data_batch(records, 1_700_000_000_000 + number), end, Epoch(3))
        log.append([Batch(end, Offset(end + 1), Epoch(3), body)])
    log.close()
    directory.close()
    return root


def test_create_then_verify_and_dump(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    made = run("create", data, "--output", out, "--end-offset", 44, "--json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    path = out / "00000000000000000044-0000000003.checkpoint"
    assert list(out.iterdir()) == [path]
    assert (told["file"], told["records"], told["bytes"]) == (str(path), 7, path.stat().st_size)
    assert (told["raft_version"], told["formation_completed"]) == (2, True)
    assert told["last_timestamp_ms"] == 1_700_000_000_019
    assert [voter[:2] for voter in told["voters"]] == ["4-"]
    verified = run("verify", out, "--json")
    assert (verified.exit_code, json.loads(verified.stdout)) == (0, told)
    lines = [json.loads(line) for line in run("dump", path, "--json").stdout.splitlines()]
    names = [line["control"] for line in lines if "control" in line and line["type"] == "record"]
    assert names == [
        "SnapshotHeader",
        "RaftVersion",
        "AddVoter",
        "FormationCompleted",
        "SnapshotFooter",
    ]
    assert len([line for line in lines if line["type"] == "record" and "key" in line]) == 7


def test_damage_is_named(data: Path, tmp_path: Path) -> None:
    run("create", data, "--output", tmp_path, "--end-offset", 64)
    run("create", data, "--output", tmp_path, "--end-offset", 44)
    path = tmp_path / "00000000000000000044-0000000003.checkpoint"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    result = run("verify", tmp_path)
    assert result.exit_code == ExitCode.STORAGE_CORRUPT
    assert f"damage\tsnapshot {path}" in result.stdout
    assert "00000000000000000064-0000000003.checkpoint" in result.stdout
    assert run("verify", path, "--json").exit_code == ExitCode.STORAGE_CORRUPT


@pytest.mark.parametrize(
    ("end", "output", "reason"),
    [
        (65, "out", "the log ends at offset 64"),
        (45, "out", "in the middle of a batch"),
        (44, "data/__cluster_metadata-0", "is the log directory"),
        (44, "nowhere", "is not an existing directory"),
    ],
)
def test_create_refuses(data: Path, tmp_path: Path, end: int, output: str, reason: str) -> None:
    (tmp_path / "out").mkdir()
    result = run("create", data, "--output", tmp_path / output, "--end-offset", end)
    assert result.exit_code == ExitCode.USAGE
    assert reason in " ".join(result.stderr.split())
    assert not list(tmp_path.rglob("*.checkpoint*"))
