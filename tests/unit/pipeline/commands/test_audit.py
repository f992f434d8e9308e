"""`kraftquorum-pipeline audit --local`: exit codes, and what is said to people and programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kraftquorum_pipeline.audit.engine import LocalEngine, Scanned
from kraftquorum_pipeline.audit.replica_files import Piece
from kraftquorum_pipeline.cli import make_app
from proofkit.replicadirs import batches_in, flip, segments
from raftnode.core.types import Offset
from raftnode.errors import StorageFailedError
from raftnode.logfiles import LOG_DIRECTORY, LOG_START_FILE, Files
from raftnode.storage.log.checkpoints import write_log_start


def audit(*arguments: object) -> Result:
    app = make_app("audit")
    return CliRunner().invoke(app, ["audit", "--local", *map(str, arguments)])


def test_sound_files_end_with_0(quorum: list[Path]):
    done = audit(quorum[0].parent)
    assert done.exit_code == 0, done.output
    assert "The replicas agree." in done.stdout
    assert "FOUND" not in done.stdout
    assert "reading 24 segments of 3 replicas" in done.stderr


def test_damage_ends_with_8_and_shows_the_first_divergence_with_both_sides(quorum: list[Path]):
    segment = segments(quorum[1])[2]
    position, header = batches_in(segment)[3]
    flip(segment, position + 70)
    done = audit(*quorum)
    assert done.exit_code == 8
    assert "FOUND 1  crc" in done.stdout
    shown = done.stdout.partition("The first divergence:")[2]
    assert f"[crc] offset {header.base_offset}: checksum" in shown
    assert f"node-1 {segment} at byte {position}" in shown
    for other in ("node-0", "node-2"):
        assert f"{other} " in shown
    assert "THE REPLICAS DO NOT AGREE" in shown


def test_the_verdict_for_programs(quorum: list[Path], tmp_path: Path):
    segment = segments(quorum[1])[2]
    flip(segment, batches_in(segment)[3][0] + 70)
    path = tmp_path / "deep" / "audit.json"
    assert audit(*quorum, "--json", path).exit_code == 8
    printed = audit(*quorum, "--json", "-")
    assert {**json.loads(printed.stdout), "seconds": 0} == {
        **json.loads(path.read_text()),
        "seconds": 0,
    }
    told = json.loads(path.read_text())
    assert (told["verdict"], told["counts"]) == ("damaged", {"crc": 1})
    assert told["first_divergence"]["place"]["replica"] == "node-1"
    assert len(told["first_divergence"]["others"]) == 2


def test_what_could_not_be_checked_is_no_ok(quorum: list[Path]):
    """No log says who the voters are: nothing is wrong, and nothing is proved."""
    for path in quorum:
        for one in (path / LOG_DIRECTORY).glob("*.checkpoint"):
            one.unlink()
        for one in segments(path)[1:]:
            one.unlink()
        first = segments(path)[0]
        first.write_bytes(b"")
        (path / LOG_DIRECTORY / "flushed-offset").unlink()
        (path / LOG_DIRECTORY / "recovery-point-offset-checkpoint").unlink()
        (path / LOG_DIRECTORY / "leader-epoch-checkpoint").unlink()
    done = audit(*quorum)
    assert done.exit_code == 9, done.output
    assert "not checked: committed_prefix" in done.stdout


def removing(monkeypatch: pytest.MonkeyPatch, quorum: list[Path], times: int) -> None:
    """So many scans find that the oldest segment of a replica has been trimmed away by then."""
    scan, left = LocalEngine.scan, [times]

    def trim_first(engine: LocalEngine, pieces: Sequence[Piece]) -> Scanned:
        if left[0]:
            left[0] -= 1
            first, second, *_ = segments(quorum[1])
            write_log_start(Files(), first.parent / LOG_START_FILE, Offset(int(second.stem)))
            first.unlink()
        return scan(engine, pieces)

    monkeypatch.setattr(LocalEngine, "scan", trim_first)


def test_files_that_a_running_node_removes_meanwhile_are_looked_for_again(
    quorum: list[Path], monkeypatch: pytest.MonkeyPatch
):
    removing(monkeypatch, quorum, 2)
    done = audit(*quorum)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("reading them again") == 2


def test_files_that_are_removed_each_time_end_it_with_advice(
    quorum: list[Path], monkeypatch: pytest.MonkeyPatch
):
    removing(monkeypatch, quorum, 3)
    done = audit(*quorum)
    assert done.exit_code == 1
    assert "audit a copy" in done.stderr
    assert "No such file" in done.stderr


def test_a_file_that_cannot_be_read_ends_it_at_once(
    quorum: list[Path], monkeypatch: pytest.MonkeyPatch
):
    def refuse(_engine: LocalEngine, _pieces: Sequence[Piece]) -> Scanned:
        raise StorageFailedError("pread failed: Input/output error")

    monkeypatch.setattr(LocalEngine, "scan", refuse)
    done = audit(*quorum)
    assert done.exit_code == 1
    assert "reading them again" not in done.stderr


def test_a_path_that_is_no_replica_ends_with_2_and_says_what_is_missing(tmp_path: Path):
    for path, said in (
        (tmp_path, "__cluster_metadata-0 is missing"),
        (tmp_path / "gone", "is not a directory"),
    ):
        done = audit(path)
        assert done.exit_code == 2
        assert said in done.stderr


def test_a_directory_named_twice_is_refused(quorum: list[Path]):
    done = audit(quorum[0], quorum[0])
    assert done.exit_code == 2
    assert "given twice" in done.stderr
