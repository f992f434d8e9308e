"""Snapshot files: what is written is read again, anything else is refused."""

from __future__ import annotations

import contextlib
import errno
import random
from pathlib import Path

import pytest
from tests.unit.raftnode.storage.conftest import KEY, LOG

from proofkit.faultdisk import Fault, FaultDisk, PowerCutError
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.logformat import SnapshotHead, SnapshotId, StateRecord, read_header, stamp
from raftnode.storage.files import FileOperationError, Files
from raftnode.storage.snapshots import snapshot_file
from raftnode.storage.snapshots.snapshot_file import (
    SnapshotDamagedError,
    list_snapshots,
    write_snapshot,
)
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader

ID = SnapshotId(Offset(1000), Epoch(7))
TWIN = ReplicaKey(NodeId(1), KEY.directory_id.__class__(int=99))
HEAD = SnapshotHead(
    VoterSet.of([Voter(KEY, Endpoint("a.example", 9093)), Voter(TWIN)]), 2, True, 1234
)


def entries(count: int, size: int = 30) -> list[StateRecord]:
    return [
        StateRecord(b"key %d" % number, b"v" * size, Offset(number % 1000), Epoch(number % 7))
        for number in range(count)
    ]


def new_disk(seed: int = 0) -> FaultDisk:
    disk = FaultDisk(random.Random(seed))
    disk.make_directory(LOG)
    return disk


def write(disk: FaultDisk, records: list[StateRecord], which: SnapshotId = ID) -> Path:
    write_snapshot(Files(disk), LOG, which, HEAD, records, now_ms=5)
    return LOG / which.file_name


def read(
    disk: FaultDisk, path: Path = LOG / ID.file_name
) -> tuple[SnapshotHead, list[StateRecord]]:
    reader = SnapshotReader(Files(disk), path)
    records = list(reader.records())
    assert reader.snapshot is not None
    assert reader.snapshot.records == len(records)
    return reader.snapshot.head, records


def batches(content: bytes) -> list[bytes]:
    parts = []
    while content:
        size = read_header(content).size
        parts.append(content[:size])
        content = content[size:]
    return parts


@pytest.mark.parametrize("count", [0, 1, 300, 1200])
def test_what_is_written_is_read_again(count: int) -> None:
    disk = new_disk()
    path = write(disk, entries(count, 700 if count == 300 else 30))
    assert path.name == "00000000000000001000-0000000007.checkpoint"
    assert read(disk) == (HEAD, entries(count, 700 if count == 300 else 30))


@pytest.mark.rule("S27")
@pytest.mark.rule("P49", "P50", "S15")
@pytest.mark.without(
    "storage.snapshots.snapshot_file:_Writer.write",
    "quorum_records(head)",
    "list(quorum_records(head))[:2]",
)
def test_two_storages_of_one_node_are_two_voters() -> None:
    """S27: Kafka's own record would know one."""
    disk = new_disk()
    write(disk, [])
    assert set(read(disk)[0].voters) == {KEY, TWIN}


def test_names() -> None:
    assert SnapshotId.of(ID.file_name) == ID
    for name in (
        "00000000000000001000-0000000007.checkpoint.part",
        "00000000000000001000.checkpoint",
        "0000000000000000100x-0000000007.checkpoint",
        "leader-epoch-checkpoint",
        "00000000000000001000.log",
    ):
        assert SnapshotId.of(name) is None


def test_every_flipped_bit_is_found() -> None:
    disk = new_disk()
    path = write(disk, entries(3))
    content = disk.content(path)
    for byte in range(len(content)):
        disk.flip_bit(path, byte, byte % 8)
        with pytest.raises(SnapshotDamagedError):
            read(disk)
        disk.flip_bit(path, byte, byte % 8)
    assert read(disk)[1] == entries(3)


def test_every_cut_is_found_and_every_byte_too_many() -> None:
    disk = new_disk()
    path = write(disk, entries(3))
    content = disk.content(path)
    for length in range(len(content)):
        disk.overwrite(path, content[:length])
        with pytest.raises(SnapshotDamagedError):
            read(disk)
    footer = batches(content)[-1]
    after = stamp(footer, read_header(footer).end_offset, ID.epoch)
    for extra in (b"\0", content, after):
        disk.overwrite(path, content + extra)
        with pytest.raises(SnapshotDamagedError):
            read(disk)


def test_a_batch_left_out_is_found_though_the_offsets_are_repaired() -> None:
    """Offsets lie outside the checksum: the footer's count tells."""
    disk = new_disk()
    path = write(disk, entries(1200))
    parts = batches(disk.content(path))
    assert len(parts) == 5
    repaired, offset = b"", 0
    for part in (parts[0], parts[1], *parts[3:]):
        repaired += stamp(part, Offset(offset), ID.epoch)
        offset += read_header(part).record_count
    disk.overwrite(path, repaired)
    with pytest.raises(SnapshotDamagedError, match="the footer says"):
        read(disk)


@pytest.mark.parametrize(
    "name", [SnapshotId(Offset(1001), Epoch(7)), SnapshotId(Offset(1000), Epoch(8))]
)
def test_a_file_under_another_name_is_refused(name: SnapshotId) -> None:
    disk = new_disk()
    path = write(disk, entries(3))
    other = LOG / name.file_name
    write(disk, [], name)
    content = disk.content(path)
    if name.epoch != ID.epoch:
        content = b"".join(
            stamp(part, read_header(part).base_offset, name.epoch) for part in batches(content)
        )
    disk.overwrite(other, content)
    with pytest.raises(SnapshotDamagedError, match="name of another snapshot"):
        read(disk, other)


def test_an_entry_from_beyond_the_snapshot_is_refused() -> None:
    disk = new_disk()
    write(disk, [StateRecord(b"k", b"v", ID.end_offset, Epoch(7))])
    with pytest.raises(SnapshotDamagedError, match="offset 1000"):
        read(disk)


def test_a_control_record_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()

    def unknown(_record: object) -> tuple[bytes, bytes]:
        return b"\0\0\4\1", b"\0\0\0"

    monkeypatch.setattr(snapshot_file, "encode_control_record", unknown)
    write(disk, [])
    monkeypatch.undo()
    with pytest.raises(SnapshotDamagedError, match="unknown type 1025"):
        read(disk)


def test_a_power_cut_at_every_call_leaves_none_or_a_whole_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_file, "_SYNC_BYTES", 20_000)
    older = SnapshotId(Offset(500), Epoch(7))
    outcomes: set[bool] = set()
    cuts = 0
    for seed in range(8):
        for nth in range(1, 200):
            disk = new_disk(seed * 1000 + nth)
            write(disk, entries(5), older)
            disk.cut_power_at = disk.modifications + nth - 1
            done = False
            with contextlib.suppress(PowerCutError):
                write(disk, entries(1200))
                done = True
            disk.crash()
            if done:
                assert read(disk)[1] == entries(1200)
                break
            cuts += 1
            files = Files(disk)
            assert read(disk, LOG / older.file_name)[1] == entries(5)
            there = ID in list_snapshots(files, LOG)
            outcomes.add(there)
            if there:
                assert read(disk) == (HEAD, entries(1200))
        else:
            pytest.fail("it never ended")
    assert outcomes == {True, False}
    assert cuts > 50


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "fsync", "rename"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failing_disk_leaves_no_snapshot(
    call: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_file, "_SYNC_BYTES", 20_000)
    disk = new_disk()
    disk.faults.append(Fault(call, number))
    files = Files(disk)
    with pytest.raises(FileOperationError):
        write_snapshot(files, LOG, ID, HEAD, entries(1200), now_ms=5)
    # No room for its content is none for it alone; its name is the directory's matter.
    alone = number == errno.ENOSPC and call != "rename"
    assert (files.failure is None) == alone
    assert list_snapshots(Files(disk), LOG) == []
    assert not alone or disk.listdir(str(LOG)) == []


def test_giving_up_leaves_nothing() -> None:
    disk = new_disk()

    def give_up() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_snapshot(Files(disk), LOG, ID, HEAD, entries(3), now_ms=5, pause=give_up)
    assert disk.listdir(str(LOG)) == []


# -- checksums alone ---------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 300, 1200])
def test_a_whole_one_passes_the_check_of_its_checksums(count: int) -> None:
    disk = new_disk()
    path = write(disk, entries(count))
    told: list[int] = []
    SnapshotReader(Files(disk), path, on_bytes=told.append).check()
    assert sum(told) == len(disk.content(path))


def test_the_check_finds_every_flipped_bit_and_every_cut() -> None:
    disk = new_disk()
    path = write(disk, entries(3))
    content = disk.content(path)
    for byte in range(len(content)):
        disk.flip_bit(path, byte, byte % 8)
        with pytest.raises(SnapshotDamagedError):
            SnapshotReader(Files(disk), path).check()
        disk.overwrite(path, content[:byte])
        with pytest.raises(SnapshotDamagedError):
            SnapshotReader(Files(disk), path).check()
        disk.overwrite(path, content)
    SnapshotReader(Files(disk), path).check()


def test_the_check_knows_a_batch_that_is_another_files() -> None:
    disk = new_disk()
    path = write(disk, [one._replace(value=b"w" * 30) for one in entries(3)])
    theirs = batches(disk.content(path))
    write(disk, entries(3))
    mine = batches(disk.content(path))
    disk.overwrite(path, b"".join([mine[0], theirs[1], *mine[2:]]))
    with pytest.raises(SnapshotDamagedError, match="the checksum of other content"):
        SnapshotReader(Files(disk), path).check()
