"""Apache Kafka reads our files, and our tools read what Apache Kafka wrote."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from proofkit.kafkacontroller import PORT, write_settings
from raftnode.cli import make_app
from raftnode.commands.storage import random_id
from raftnode.core.records import (
    AddVoter,
    Batch,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
    RemoveVoter,
)
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.logformat import (
    Record,
    SnapshotHead,
    SnapshotId,
    StateRecord,
    encode_data_batch,
    encode_keyless_batch,
    place_finished_batch,
    read_finished_batch,
    stamp,
)
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.files import Files
from raftnode.storage.log.log import LogSettings
from raftnode.storage.snapshots.snapshot_file import write_snapshot

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

CLI = make_app("log")
OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=2 << 64 | 7))
BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*partitionLeaderEpoch: (-?\d+) .*"
    r"isControl: (true|false) .*position: (\d+) CreateTime: (\d+) size: (\d+) magic: 2 "
    r"compresscodec: none crc: (\d+) isvalid: true$",
    re.MULTILINE,
)
RECORD = re.compile(r"^\| offset: (\d+) ", re.MULTILINE)


def raftnode(*arguments: str) -> Result:
    return CliRunner().invoke(CLI, ["log", *arguments])


def our_dump(path: Path) -> list[dict[str, Any]]:
    result = raftnode("dump", str(path), "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def batches_by_us(path: Path) -> list[tuple[int, ...]]:
    names = "base_offset last_offset records epoch control position max_timestamp_ms size crc"
    lines = (line for line in our_dump(path) if line["type"] == "batch")
    return [tuple(int(line[name]) for name in names.split()) for line in lines]


def batches_by_kafka(printed: str) -> list[tuple[int, ...]]:
    return [
        tuple(int(field) if field.isdigit() else field == "true" for field in match)
        for match in BATCH.findall(printed)
    ]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments with everything in it that a node writes."""
    root = tmp_path_factory.mktemp("ours")
    directory = DataDirectory.open(root, NodeId(1))
    own = directory.key
    clock = iter(range(1_700_000_000_000, 1_800_000_000_000, 7))
    log = directory.open_log(LogSettings(segment_bytes=15_000, now_ms=lambda: next(clock)))
    control = (
        LeaderChange(own, (own, OTHER), (own,)),
        RaftVersion(2),
        AddVoter(Voter(own, Endpoint("node-0.nodes.default.svc", 9093))),
        AddVoter(Voter(OTHER)),
        RemoveVoter(OTHER),
        FormationCompleted(),
    )
    for number, record in enumerate(control):
        log.append([Batch(Offset(number), Offset(number), Epoch(1), b"", (record,))])
    for epoch in (1, 3, 4):
        end = log.end_offset
        if epoch > 1:
            change = LeaderChange(OTHER, (own,), (own,))
            log.append([Batch(end, end, Epoch(epoch), b"", (change,))])
        for number in range(60):
            records = [
                Record(
                    b"key", f"value {number}".encode() * 20, (("trace", b"\0\1"), ("none", None))
                ),
                Record(None, b"raw"),
                Record(b"deleted", None),
            ]
            data = encode_data_batch(records, next(clock))
            end = log.end_offset
            stamped = stamp(data, end, Epoch(epoch))
            log.append([Batch(end, Offset(end + 2), Epoch(epoch), stamped)])
    log.close()
    directory.close()
    return directory.log_directory


def test_kafka_prints_our_segments(kafka, ours: Path) -> None:
    segments = sorted(ours.glob("*.log"))
    assert len(segments) > 3
    printed = kafka.dump("--deep-iteration", "--print-data-log", files=segments)
    theirs = batches_by_kafka(printed)
    assert theirs == batches_by_us(ours)
    end = theirs[-1][1] + 1
    assert [int(offset) for offset in RECORD.findall(printed)] == list(range(end))
    assert printed.count("key: key payload: value 7value 7") == 3
    assert printed.count("headerKeys: [trace,none]") == 180
    assert printed.count("LeaderChange: ") == 3
    assert '"leaderId":2,"voters":[{"voterId":1}]' in printed
    assert "isvalid: false" not in printed


def test_kafka_reads_a_segment_that_is_written_and_has_room_reserved(kafka, tmp_path: Path) -> None:
    """To the end of the file, which is where its records end: the rest lies beyond."""
    directory = DataDirectory.open(tmp_path, NodeId(1))
    log = directory.open_log(LogSettings(segment_bytes=8 << 20, preallocate=True))
    for number in range(50):
        stamped = stamp(encode_data_batch([Record(b"key", b"value")], 7), Offset(number), Epoch(1))
        log.append([Batch(Offset(number), Offset(number), Epoch(1), stamped)])
    log.flush()
    [active] = directory.log_directory.glob("*.log")
    assert active.stat().st_size < 100_000
    assert active.stat().st_blocks * 512 >= 8 << 20
    printed = kafka.dump("--deep-iteration", "--print-data-log", files=[active])
    assert batches_by_kafka(printed) == batches_by_us(active)
    assert [int(offset) for offset in RECORD.findall(printed)] == list(range(50))
    log.close()
    directory.close()


def test_kafka_reads_batches_that_clients_have_finished(kafka, tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, NodeId(1))
    log = directory.open_log(LogSettings())
    values = [b"", b"value", *(b"x" * size for size in (63, 64, 8191, 8192)), *[b"y"] * 100]
    for number in range(3):
        finished = read_finished_batch(encode_keyless_batch(values, 0), len(values))
        base, last = log.end_offset, Offset(log.end_offset + len(values) - 1)
        stamped = stamp(place_finished_batch(finished, 1000 + number), base, Epoch(1))
        log.append([Batch(base, last, Epoch(1), stamped)])
    log.flush()
    [active] = directory.log_directory.glob("*.log")
    printed = kafka.dump("--deep-iteration", "--print-data-log", files=[active])
    theirs = batches_by_kafka(printed)
    assert len(theirs) == 3
    assert theirs == batches_by_us(active)
    assert [int(offset) for offset in RECORD.findall(printed)] == list(range(3 * len(values)))
    log.close()
    directory.close()


def test_kafka_finds_no_fault_with_our_indexes(kafka, ours: Path) -> None:
    indexes = sorted([*ours.glob("*.index"), *ours.glob("*.timeindex")])
    full = [index for index in indexes if index.stat().st_size]
    assert len(full) > 6
    printed = kafka.dump("--index-sanity-check", files=full)
    assert printed.count("passed sanity check.") == len(full)
    printed = kafka.dump(files=full)
    assert "ismatch" not in printed
    assert "out of order" not in printed
    entries = sum(file.stat().st_size // 8 for file in full if file.suffix == ".index")
    assert len(re.findall(r"^offset: \d+ position: \d+$", printed, re.MULTILINE)) == entries


def test_kafka_would_find_a_wrong_index(kafka, ours: Path, tmp_path: Path) -> None:
    """So that the test above can fail."""
    name = min(ours.glob("*.log")).stem
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / f"{name}{suffix}").write_bytes((ours / f"{name}{suffix}").read_bytes())
    index = tmp_path / f"{name}.index"
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)
    printed = kafka.dump("--verify-index-only", files=[index])
    assert "Mismatches in" in printed
    found = raftnode("verify", str(tmp_path / f"{name}.log"))
    assert (found.exit_code, "derived" in found.stdout) == (7, True)


def test_ours_is_verified_by_us_too(ours: Path) -> None:
    result = raftnode("verify", str(ours), "--deep")
    assert (result.exit_code, result.stdout.split("\t")[-3:]) == (
        0,
        ["damage 0", "derived 0", "tail 0\n"],
    )


def test_kafka_prints_our_snapshot(kafka, tmp_path: Path) -> None:
    own = ReplicaKey(NodeId(1), uuid.UUID(int=77))
    voters = VoterSet.of([Voter(own, Endpoint("node-0.nodes.default.svc", 9093)), Voter(OTHER)])
    entries = [
        StateRecord(b"key %d" % number, b"value %d" % number, Offset(number), Epoch(number % 3))
        for number in range(1300)
    ]
    which = SnapshotId(Offset(4321), Epoch(5))
    head = SnapshotHead(voters, 2, formation_completed=True, last_timestamp_ms=1_700_000_000_000)
    write_snapshot(Files(), tmp_path, which, head, entries, now_ms=1_700_000_000_007)
    path = tmp_path / "00000000000000004321-0000000005.checkpoint"
    printed = kafka.dump("--deep-iteration", "--print-data-log", files=[path])
    theirs = batches_by_kafka(printed)
    assert theirs == batches_by_us(path)
    end = theirs[-1][1] + 1
    assert end == 1300 + 1 + 1 + 2 + 1 + 1
    assert [int(offset) for offset in RECORD.findall(printed)] == list(range(end))
    assert printed.count("headerKeys: [kq]") == 1300
    assert "key: key 1299 payload: value 1299" in printed
    assert 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1700000000000' in printed
    assert "SnapshotFooter {" in printed
    assert "isvalid: false" not in printed


@pytest.fixture(scope="module")
def theirs(kafka, host: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a Kafka controller that ran, and was read while it ran."""
    root = tmp_path_factory.mktemp("theirs")
    settings = write_settings(root, host)
    kafka.run(
        "kafka.tools.StorageTool", "format", "--standalone", "-t", random_id(), "-c", str(settings)
    )
    with controller(
        kafka.command("kafka.Kafka", str(settings)), root / "controller.out"
    ) as process:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            assert process.poll() is None, (root / "controller.out").read_text()[-2000:]
            # Beside the running controller.
            result = raftnode("dump", str(root / "data"), "--json")
            if result.exit_code == 0 and result.stdout.count('"type":"batch"') > 4:
                break
            time.sleep(0.3)
        else:
            pytest.fail(f"Kafka wrote nothing: {(root / 'controller.out').read_text()[-2000:]}")
    return root / "data"


@contextlib.contextmanager
def controller(command: list[str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def directory_id(data: Path) -> str:
    found = re.search(r"^directory\.id=(\S+)", (data / "meta.properties").read_text(), re.MULTILINE)
    assert found is not None
    return found.group(1)


def test_we_print_the_log_that_kafka_wrote(kafka, host: str, theirs: Path) -> None:
    segments = sorted(theirs.glob("__cluster_metadata-0/*.log"))
    printed = kafka.dump("--cluster-metadata-decoder", files=segments)
    assert batches_by_us(theirs) == batches_by_kafka(printed)
    assert len(batches_by_us(theirs)) > 4
    records = [line for line in our_dump(theirs) if line["type"] == "record"]
    assert [record["offset"] for record in records] == list(map(int, RECORD.findall(printed)))
    control = {record["control"]: record["fields"] for record in records if "control" in record}
    assert set(control) == {"LeaderChange", "KRaftVersion", "KRaftVoters"}
    assert control["LeaderChange"] == {"leader": "7", "voters": ["7"], "granting_voters": ["7"]}
    assert control["KRaftVersion"]["kraft_version"] == 1
    (voter,) = control["KRaftVoters"]["voters"]
    assert voter["voter"] == f"7-{directory_id(theirs)}"
    assert voter["endpoints"][0] == f"CONTROLLER://{host}:{PORT}"


def test_we_print_the_snapshot_that_kafka_wrote(kafka, theirs: Path) -> None:
    (snapshot,) = theirs.glob("__cluster_metadata-0/*-*.checkpoint")
    printed = kafka.dump("--cluster-metadata-decoder", files=[snapshot])
    assert batches_by_us(snapshot) == batches_by_kafka(printed)
    kinds = [line["control"] for line in our_dump(snapshot) if line["type"] == "record"]
    assert kinds == ["SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter"]
    verified = CliRunner().invoke(make_app("snapshot"), ["snapshot", "verify", str(snapshot)])
    assert verified.exit_code == 0, verified.output


def test_we_find_no_fault_with_what_kafka_wrote(theirs: Path) -> None:
    result = raftnode("verify", str(theirs), "--deep")
    assert result.exit_code == 0, result.output
    stats = json.loads(raftnode("stats", str(theirs), "--json").stdout)
    assert stats["control_records"] == {"KRaftVersion": 1, "KRaftVoters": 1, "LeaderChange": 1}
