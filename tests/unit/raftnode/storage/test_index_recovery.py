"""Indexes, `control-batches.json` and the recovery point: what a start trusts and makes again."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from proofkit.faultdisk import FaultDisk
from raftnode.core.records import Batch, RaftVersion
from raftnode.core.types import Epoch, Offset
from raftnode.errors import StorageCorruptError
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import find_log
from raftnode.storage.inspection.verification import Verification
from raftnode.storage.log.log import Log, LogSettings

DIR = Path("/data/__cluster_metadata-0")
FEW = LogSettings(segment_bytes=20_000, now_ms=lambda: 5)
CONTROL = DIR / "control-batches.json"


def batch(base: int, epoch: int = 1, count: int = 2, size: int = 400) -> Batch:
    records = [Record(None, base.to_bytes(8, "big") + bytes(size))] * count
    data = stamp(encode_data_batch(records, 1000 + base), Offset(base), Epoch(epoch))
    return Batch(Offset(base), Offset(base + count - 1), Epoch(epoch), data)


def control(base: int, epoch: int) -> Batch:
    return Batch(Offset(base), Offset(base), Epoch(epoch), b"", (RaftVersion(2),))


class CountingDisk(FaultDisk):
    """Counts what is read of the segments."""

    read = 0

    def pread(self, fd: int, length: int, position: int) -> bytes:
        data = super().pread(fd, length, position)
        if self._handles[fd].path.endswith(".log"):
            self.read += len(data)
        return data


def open_log(disk: FaultDisk, settings: LogSettings = FEW) -> Log:
    return Log.open(Files(disk), DIR, settings)


def written(batches: int = 120, seed: int = 0) -> CountingDisk:
    disk = CountingDisk(random.Random(seed))
    disk.make_directory(DIR)
    log = open_log(disk)
    log.append([control(0, 1)])
    end = 1
    for number in range(batches):
        epoch = 1 + number // 50
        if epoch > log.position.epoch:
            log.append([control(end, epoch)])
            end += 1
        log.append([batch(end, epoch)])
        end += 2
    log.flush()
    log.close()
    return disk


def names(disk: FaultDisk, suffix: str) -> list[str]:
    return [name for name in sorted(disk.listdir(str(DIR))) if name.endswith(suffix)]


def findings(disk: FaultDisk) -> list[str]:
    files = Files(disk)
    return [str(finding) for finding in Verification(files, find_log(files, DIR)).run()]


def places(disk: FaultDisk) -> object:
    return json.loads(disk.content(CONTROL))["batches"]


def read_all(log: Log) -> int:
    offset = log.start_offset
    count = 0
    while offset < log.end_offset:
        data = log.read(offset, 1, log.end_offset)
        count += 1
        offset = Offset(offset + int.from_bytes(data[23:27], "big") + 1)
    return count


def test_a_start_reads_the_ends_of_the_segments_and_no_more() -> None:
    totals = []
    for batches in (100, 800):
        disk = written(batches)
        disk.read = 0
        log = open_log(disk)
        assert log.rebuilt == ()
        size = sum(len(disk.content(DIR / name)) for name in names(disk, ".log"))
        totals.append((disk.read, size))
    (small, small_size), (large, large_size) = totals
    assert large_size > 7 * small_size
    # A header for each segment more, and a control batch for each epoch more.
    assert large - small < (large_size - small_size) / 50


def test_indexes_agree_with_the_log_and_lead_everywhere() -> None:
    disk = written()
    assert findings(disk) == []
    assert len(names(disk, ".index")) == len(names(disk, ".timeindex")) > 4
    assert all(disk.content(DIR / name) for name in names(disk, ".index")[:-1])
    log = open_log(disk)
    assert read_all(log) == 120 + 3


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize("how", ["missing", "empty", "odd", "other"])
def test_indexes_that_are_missing_or_damaged_at_their_end_are_made_again(
    suffix: str, which: int, how: str
) -> None:
    disk = written()
    path = DIR / names(disk, suffix)[which]
    before = disk.content(path)
    if how == "missing":
        disk.remove(path)
    else:
        damaged = {"empty": b"", "odd": before[:-3], "other": before[:-4] + b"\x7f\0\0\0"}
        disk.overwrite(path, damaged[how])
    assert findings(disk)
    log = open_log(disk)
    log.close()
    assert disk.content(path) == before
    assert findings(disk) == []
    assert read_all(open_log(disk)) == 123


def test_rot_within_an_index_is_stepped_over_by_readers_and_told_by_verify() -> None:
    disk = written()
    path = DIR / names(disk, ".index")[1]
    assert len(disk.content(path)) > 16
    disk.flip_bit(path, 6, 3)  # the position of the first entry
    log = open_log(disk)
    assert log.rebuilt == ()
    assert read_all(log) == 123
    assert any(path.name in finding for finding in findings(disk))


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"version":1,"batches":[],"crc32c":1}\n'])
def test_control_batches_are_looked_for_when_their_file_is_no_help(content: bytes | None) -> None:
    disk = written()
    expected = open_log(disk).recovered
    assert len(expected) == 3
    before = places(disk)
    if content is None:
        disk.remove(CONTROL)
    else:
        disk.overwrite(CONTROL, content)
    log = open_log(disk)
    assert log.recovered == expected
    assert log.rebuilt == ("control-batches.json",)
    assert places(disk) == before
    assert findings(disk) == []


def test_control_batches_that_a_program_without_that_file_has_appended_are_not_missed() -> None:
    """After an upgrade, a rollback and an upgrade: a stale list would hide a voter change."""
    disk = written()
    before = disk.content(CONTROL)
    log = open_log(disk)
    end = log.end_offset
    log.append([batch(end, 3), control(end + 2, 3), batch(end + 3, 3)])
    log.close()  # the recovery point moves over the control batch
    disk.overwrite(CONTROL, before)  # and that program leaves the file as it is
    assert any("control-batches.json" in finding for finding in findings(disk))
    log = open_log(disk)
    assert log.recovered[-1].base_offset == end + 2
    assert log.rebuilt == ("control-batches.json",)
    log.close()
    assert open_log(disk).rebuilt == ()


def test_rot_in_a_control_batch_below_the_recovery_point_stops_the_start() -> None:
    disk = written()
    disk.flip_bit(DIR / names(disk, ".log")[0], 66)
    with pytest.raises(StorageCorruptError, match=r"at byte 0 \(offset 0\): .*checksum"):
        open_log(disk)


def test_another_epoch_in_a_control_batch_stops_the_start() -> None:
    """The epoch lies outside the checksum."""
    disk = written()
    disk.flip_bit(DIR / names(disk, ".log")[0], 15, 1)
    with pytest.raises(StorageCorruptError, match="have different epochs"):
        open_log(disk)


@pytest.mark.parametrize("byte", [3, 9, 15, 17, 26, 60, 61, 300])
def test_rot_below_the_recovery_point_is_found_by_who_reads_there_and_by_verify(byte: int) -> None:
    disk = written()
    segment = DIR / names(disk, ".log")[1]
    first = int.from_bytes(disk.content(segment)[8:12], "big") + 12
    second = int.from_bytes(disk.content(segment)[first + 8 : first + 12], "big") + 12
    disk.flip_bit(segment, first + second + byte, 1)
    log = open_log(disk)
    with pytest.raises(StorageCorruptError, match=segment.name):
        read_all(log)
    assert any(f"{segment} at byte {first + second}" in finding for finding in findings(disk))


def test_an_epoch_missing_in_its_file_stops_the_start() -> None:
    disk = written()
    path = DIR / "leader-epoch-checkpoint"
    assert disk.content(path).startswith(b"0\n3\n")
    lines = disk.content(path).splitlines()
    disk.overwrite(path, b"\n".join([b"0", b"2", lines[2], lines[4]]) + b"\n")
    with pytest.raises(StorageCorruptError, match="have different epochs"):
        open_log(disk)


def test_an_epoch_that_begins_elsewhere_than_its_file_says_stops_the_start() -> None:
    disk = CountingDisk(random.Random(0))
    disk.make_directory(DIR)
    log = open_log(disk)
    log.append([batch(0, 1), batch(2, 1), batch(4, 2)])  # no control batches to go by
    log.close()
    assert open_log(disk).end_offset == 6
    disk.overwrite(DIR / "leader-epoch-checkpoint", b"0\n2\n1 0\n2 2\n")
    with pytest.raises(StorageCorruptError, match="have different epochs"):
        open_log(disk)


def test_a_segment_cut_short_below_the_recovery_point_stops_the_start() -> None:
    disk = written()
    segment = DIR / names(disk, ".log")[1]
    disk.overwrite(segment, disk.content(segment)[:-1])
    with pytest.raises(StorageCorruptError, match=segment.name):
        open_log(disk)


def test_indexes_of_segments_that_are_gone_are_removed() -> None:
    disk = written(20)
    disk.overwrite(DIR / f"{999:020d}.index", b"x")
    disk.overwrite(DIR / f"{999:020d}.timeindex", b"x")
    open_log(disk)
    assert not [name for name in disk.listdir(str(DIR)) if "999." in name]


def test_a_new_segment_takes_nothing_over_from_an_index_that_was_left() -> None:
    disk = written(4)
    log = open_log(disk, LogSettings(segment_bytes=500, now_ms=lambda: 5))
    end = log.end_offset
    disk.overwrite(DIR / f"{end:020d}.index", b"12345678" * 4)
    log.append([batch(end), batch(end + 2)])
    log.close()
    assert findings(disk) == []


def test_truncation_cuts_the_indexes_too() -> None:
    disk = written()
    log = open_log(disk)
    bases = [int(name[:20]) for name in names(disk, ".log")]
    log.truncate(Offset(bases[2] + 11))
    end = log.end_offset
    log.append([batch(end + 2 * number, 4) for number in range(30)])
    log.close()
    assert findings(disk) == []
    assert open_log(disk).rebuilt == ()


def test_a_segment_is_rolled_when_a_batch_is_much_later_than_its_first() -> None:
    disk = CountingDisk(random.Random(0))
    disk.make_directory(DIR)
    settings = LogSettings(segment_ms=50, now_ms=lambda: 1000)
    log = open_log(disk, settings)

    def at(offset: int, timestamp_ms: int) -> Batch:
        data = encode_data_batch([Record(None, b"v")], timestamp_ms)
        return Batch(
            Offset(offset), Offset(offset), Epoch(1), stamp(data, Offset(offset), Epoch(1))
        )

    log.append([at(0, 1000), at(1, 1050)])
    assert len(names(disk, ".log")) == 1
    assert log.append_syncs([at(2, 1051)])
    log.append([at(2, 1051), at(3, 900)])
    assert names(disk, ".log") == [f"{0:020d}.log", f"{2:020d}.log"]
    log.close()
    log = open_log(disk, settings)  # the first batch's time is read again
    assert not log.append_syncs([at(4, 1101)])
    assert log.append_syncs([at(4, 1102)])


def test_the_recovery_point_moves_only_over_what_was_synced() -> None:
    """At every moment: what lies below it has reached the disk, indexes and all."""
    disk = CountingDisk(random.Random(5))
    disk.make_directory(DIR)
    log = open_log(disk)
    checked = 0
    original = disk.rename

    def rename(source: str, target: str) -> None:
        nonlocal checked
        if target.endswith("recovery-point-offset-checkpoint"):
            point = int(disk.content(Path(source)).split()[-1])
            for name in names(disk, ".log"):
                if int(name[:20]) < point:
                    for suffix in (".log", ".index", ".timeindex"):
                        node = disk._node(str((DIR / name).with_suffix(suffix)))
                        assert not node.pending, (name, suffix)
                        checked += 1
        original(source, target)

    disk.rename = rename  # type: ignore[method-assign]
    log.append([batch(2 * number) for number in range(200)])
    log.close()
    assert checked > 20
