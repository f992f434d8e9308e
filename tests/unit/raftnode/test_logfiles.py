"""`raftnode log dump`, `verify` and `stats` on a real directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from raftnode.cli import make_app
from raftnode.commands.output import CommandExitCode
from raftnode.core.records import Batch, LeaderChange
from raftnode.core.types import Epoch, NodeId, Offset
from raftnode.errors import ExitCode
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log, LogSettings

CLI = make_app("log")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(CLI, ["log", *map(str, arguments)])


@dataclass
class Node:
    """What a running node has open."""

    root: Path
    directory: DataDirectory
    log: Log

    @property
    def segments(self) -> list[Path]:
        return sorted(self.directory.log_directory.glob("*.log"))

    def write(self, count: int) -> None:
        for _ in range(count):
            end = self.log.end_offset
            records = [Record(b"key", b"v" * 500), Record(None, b"a\tb\n"), Record(b"\xff", None)]
            data = encode_data_batch(records, 1_700_000_000_000 + end)
            self.log.append([Batch(end, Offset(end + 2), Epoch(3), stamp(data, end, Epoch(3)))])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    directory = DataDirectory.open(tmp_path, NodeId(4))
    log = directory.open_log(LogSettings(segment_bytes=8_000, now_ms=lambda: 1_700_000_000_000))
    own = directory.key
    change = LeaderChange(own, (own,), (own,))
    log.append([Batch(Offset(0), Offset(0), Epoch(3), b"", (change,))])
    one = Node(tmp_path, directory, log)
    one.write(40)
    log.flush()
    yield one
    log.close()
    directory.close()


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size, path.read_bytes())
        for path in files
    }


def test_tools_read_a_running_nodes_directory_and_leave_it_as_it_is(node: Node) -> None:
    assert len(node.segments) > 3
    before = snapshot(node.root)
    dumped = run("dump", node.root)
    assert (dumped.exit_code, dumped.stderr) == (0, "")
    verified = run("verify", node.root, "--deep")
    assert (verified.exit_code, verified.stdout.split("\t")[2:4]) == (
        0,
        ["batches 41", "records 121"],
    )
    assert run("stats", node.root).exit_code == 0
    assert snapshot(node.root) == before
    node.write(1)
    assert run("verify", node.directory.log_directory).exit_code == 0


def test_dump_prints_a_line_for_each_batch_and_record(node: Node) -> None:
    lines = run("dump", node.root).stdout.splitlines()
    assert len(lines) == 41 + 121
    own = str(node.directory.key)
    assert lines[0].startswith(f"batch\t0-0\tepoch 3\tcontrol\t{0:020d}.log@0\t")
    assert lines[1].split("\t")[3] == "LeaderChange"
    assert json.loads(lines[1].split("\t")[4])["leader"] == own
    assert lines[2].split("\t")[:4] == ["batch", "1-3", "epoch 3", "data"]
    assert "2023-11-14T22:13:20.001+00:00" in lines[2]
    assert lines[4].split("\t")[3:] == ["-", "a\\tb\\n"]
    assert lines[5].split("\t")[3:] == ["\\xff", "(null)"]


def test_dump_as_json_from_an_offset_within_a_batch(node: Node) -> None:
    printed = run("dump", node.root, "--json", "--offset", 119, "--limit", 1).stdout
    batch, first, second = map(json.loads, printed.splitlines())
    assert (batch["type"], batch["base_offset"], batch["records"]) == ("batch", 118, 3)
    assert batch["file"] == node.segments[-1].name
    assert (first["offset"], first["key"], first["value"]) == (119, None, "YQliCg==")
    assert (second["offset"], second["key"], second["value"]) == (120, "/w==", None)
    only = run("dump", node.root, "--json", "--batches").stdout.splitlines()
    assert len(only) == 41


def test_an_unfinished_end_is_told_and_is_no_fault(node: Node) -> None:
    node.log.check_identity()
    with node.segments[-1].open("ab") as file:
        file.write(bytes(30))
    dumped = run("dump", node.root)
    assert (dumped.exit_code, dumped.stdout.count("\n")) == (0, 162)
    assert dumped.stderr.startswith(f"tail\t{node.segments[-1]} at byte ")
    verified = run("verify", node.root)
    assert (verified.exit_code, "tail 1" in verified.stdout) == (0, True)
    assert json.loads(run("dump", node.root, "--json").stdout.splitlines()[-1])["type"] == "tail"


def test_damage_names_file_byte_and_offset_and_what_to_do(node: Node) -> None:
    segment = node.segments[1]
    data = bytearray(segment.read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    data[size + 100] ^= 1
    segment.write_bytes(data)
    place = f"{segment} at byte {size} (offset {int(segment.stem) + 3}): "
    dumped = run("dump", node.root)
    assert dumped.exit_code == ExitCode.STORAGE_CORRUPT
    assert dumped.stderr.startswith(f"raftnode: {place}checksum ")
    assert dumped.stdout.splitlines()[-1].startswith(str(int(segment.stem) + 2))
    verified = run("verify", node.root)
    assert verified.exit_code == ExitCode.STORAGE_CORRUPT
    assert f"damage\t{place}checksum" in verified.stdout
    assert "replace this replica" in verified.stderr
    finding = json.loads(run("verify", node.root, "--json").stdout.splitlines()[0])
    assert (finding["kind"], finding["file"], finding["position"]) == ("damage", str(segment), size)


def test_what_a_start_makes_again_has_an_exit_code_of_its_own(node: Node) -> None:
    node.segments[0].with_suffix(".index").unlink()
    (node.directory.log_directory / "control-batches.json").write_text("{}")
    verified = run("verify", node.root)
    assert verified.exit_code == CommandExitCode.DERIVED_DAMAGED
    assert verified.stdout.count("derived\t") == 2
    assert f"{node.segments[0].with_suffix('.index')}: missing" in verified.stdout
    assert run("dump", node.root).exit_code == 0


def test_a_log_shorter_than_what_was_durable_is_damage(node: Node) -> None:
    segment = node.segments[-1]
    os.truncate(segment, segment.stat().st_size - 10)
    verified = run("verify", node.root)
    assert verified.exit_code == ExitCode.STORAGE_CORRUPT
    assert run("dump", node.root).exit_code == ExitCode.STORAGE_CORRUPT


def test_stats_count_what_there_is(node: Node) -> None:
    stats = json.loads(run("stats", node.root, "--json").stdout)
    assert (stats["records"], stats["data_records"], stats["batches"]) == (121, 120, 41)
    assert stats["control_records"] == {"LeaderChange": 1}
    assert (stats["start_offset"], stats["end_offset"], stats["known_durable_to"]) == (0, 121, 121)
    assert (stats["epochs"], stats["last_epoch"], stats["span_ms"]) == (1, 3, 118)
    assert stats["bytes"] == sum(path.stat().st_size for path in node.segments)


def test_one_segment_alone_is_read_too(node: Node) -> None:
    segment = node.segments[2]
    first = json.loads(run("dump", segment, "--json").stdout.splitlines()[0])
    assert first["base_offset"] == int(segment.stem)
    assert run("verify", segment).exit_code == 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere", "does not exist; give a data directory or a segment"),
        ("empty", "holds no log"),
        ("file.txt", "neither a segment (.log) nor a snapshot (.checkpoint)"),
    ],
)
def test_a_path_that_is_no_log_is_a_usage_error(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("x")
    for command in ("dump", "verify", "stats"):
        result = run(command, tmp_path / name)
        assert (result.exit_code, says in result.stderr) == (ExitCode.USAGE, True)
