"""The disk that lies must lie as told: what it keeps and loses."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from proofkit.faultdisk import Fault, FaultDisk, PowerCutError

ROOT = Path("/data")
CREATE = os.O_RDWR | os.O_CREAT


def make(seed: int = 0) -> FaultDisk:
    disk = FaultDisk(random.Random(seed))
    disk.make_directory(ROOT)
    return disk


def write(disk: FaultDisk, name: str, data: bytes, *, sync: bool) -> int:
    fd = disk.open(str(ROOT / name), CREATE, 0o600)
    disk.pwrite(fd, data, 0)
    if sync:
        disk.fsync(fd)
        sync_directory(disk)
    return fd


def sync_directory(disk: FaultDisk) -> None:
    fd = disk.open(str(ROOT), os.O_RDONLY, 0)
    disk.fsync(fd)
    disk.close(fd)


def test_what_was_synced_survives_every_crash() -> None:
    for seed in range(50):
        disk = make(seed)
        write(disk, "a", b"x" * 2000, sync=True)
        disk.crash()
        assert disk.content(ROOT / "a") == b"x" * 2000


def test_what_was_not_synced_survives_in_every_possible_part() -> None:
    seen: set[int | None] = set()
    for seed in range(200):
        disk = make(seed)
        write(disk, "a", b"", sync=True)
        fd = disk.open(str(ROOT / "a"), os.O_RDWR, 0)
        disk.pwrite(fd, b"x" * 1000, 0)
        disk.crash()
        seen.add(len(disk.content(ROOT / "a")))
    assert {0, 512, 1000} <= seen
    assert len(seen) > 20


def test_a_name_that_was_not_synced_may_be_lost_with_a_synced_file() -> None:
    outcomes: set[bool] = set()
    for seed in range(50):
        disk = make(seed)
        disk.fsync(write(disk, "a", b"x", sync=False))
        disk.crash()
        outcomes.add("a" in disk.listdir(str(ROOT)))
    assert outcomes == {True, False}


def test_a_rename_that_was_not_synced_happens_whole_or_not_at_all() -> None:
    outcomes: set[bytes] = set()
    for seed in range(50):
        disk = make(seed)
        write(disk, "a", b"old", sync=True)
        write(disk, "b", b"new", sync=True)
        disk.rename(str(ROOT / "b"), str(ROOT / "a"))
        assert disk.listdir(str(ROOT)) == ["a"]
        disk.crash()
        outcomes.add(disk.content(ROOT / "a"))
        assert ("b" in disk.listdir(str(ROOT))) == (disk.content(ROOT / "a") == b"old")
    assert outcomes == {b"old", b"new"}


def test_a_second_name_leads_to_the_same_file_and_survives_by_itself() -> None:
    outcomes: set[tuple[str, ...]] = set()
    for seed in range(50):
        disk = make(seed)
        write(disk, "a", b"old", sync=True)
        disk.link(str(ROOT / "a"), str(ROOT / "b"))
        with pytest.raises(OSError, match="File exists"):
            disk.link(str(ROOT / "a"), str(ROOT / "b"))
        disk.rename(str(ROOT / "a"), str(ROOT / "b"))
        assert disk.listdir(str(ROOT)) == ["a", "b"]
        assert disk.stat(str(ROOT / "a")) == disk.stat(str(ROOT / "b"))
        if seed % 2:
            disk.unlink(str(ROOT / "a"))
        disk.crash()
        names = disk.listdir(str(ROOT))
        assert all(disk.content(ROOT / name) == b"old" for name in names)
        outcomes.add(tuple(names))
    # Without a sync between, the power may take the one and not have made the other.
    assert outcomes == {("a",), ("b",), ("a", "b"), ()}


def test_two_names_of_a_file_take_its_room_once() -> None:
    disk = make()
    disk.capacity_bytes = 150
    fd = write(disk, "a", b"x" * 100, sync=True)
    disk.link(str(ROOT / "a"), str(ROOT / "b"))
    disk.pwrite(fd, b"x" * 50, 100)
    with pytest.raises(OSError, match="No space"):
        disk.pwrite(fd, b"x", 150)


def test_the_end_of_a_process_loses_nothing_but_its_handles() -> None:
    disk = make()
    fd = write(disk, "a", b"x", sync=False)
    disk.kill()
    assert disk.content(ROOT / "a") == b"x"
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.fsync(fd)


def test_after_a_failed_sync_the_bytes_are_seen_but_never_reach_the_disk() -> None:
    for seed in range(20):
        disk = make(seed)
        write(disk, "a", b"old", sync=True)
        fd = disk.open(str(ROOT / "a"), os.O_RDWR, 0)
        disk.pwrite(fd, b"new", 0)
        disk.faults.append(Fault("fsync"))
        with pytest.raises(OSError) as caught:
            disk.fsync(fd)
        assert caught.value.errno == errno.EIO
        disk.fsync(fd)
        assert disk.content(ROOT / "a") == b"new"
        disk.crash()
        assert disk.content(ROOT / "a") == b"old"


def test_faults_strike_the_call_they_name() -> None:
    disk = make()
    disk.faults.append(Fault("pwrite", errno.ENOSPC, nth=2, path_part="b"))
    write(disk, "a", b"x", sync=False)
    write(disk, "b", b"x", sync=False)
    with pytest.raises(OSError) as caught:
        write(disk, "b", b"x", sync=False)
    assert caught.value.errno == errno.ENOSPC
    write(disk, "b", b"x", sync=False)


def test_power_is_cut_at_the_call_and_nothing_works_until_it_is_back() -> None:
    disk = make()
    disk.cut_power_at = 1
    with pytest.raises(PowerCutError):
        write(disk, "a", b"x", sync=False)
    with pytest.raises(PowerCutError):
        disk.listdir(str(ROOT))
    disk.crash()
    write(disk, "a", b"x", sync=True)


def test_a_full_disk_takes_what_fits() -> None:
    disk = make()
    disk.capacity_bytes = 3
    fd = disk.open(str(ROOT / "a"), CREATE, 0)
    assert disk.pwrite(fd, b"12345", 0) == 3
    with pytest.raises(OSError) as caught:
        disk.pwrite(fd, b"45", 3)
    assert caught.value.errno == errno.ENOSPC
    assert disk.pwrite(fd, b"xyz", 0) == 3


def test_reserved_room_counts_and_the_size_stays() -> None:
    disk = make()
    disk.capacity_bytes = 100
    fd = write(disk, "a", b"x" * 10, sync=True)
    disk.fallocate(fd, 60)
    assert disk.fstat(fd).size == 10
    assert disk.fstat(fd).spare_bytes == 50
    assert disk.free_bytes(fd) == 40
    other = write(disk, "b", b"y" * 40, sync=True)
    assert disk.pwrite(fd, b"x" * 50, 10) == 50
    with pytest.raises(OSError, match="No space"):
        disk.pwrite(fd, b"x", 60)
    disk.ftruncate(other, 30)
    disk.fallocate(other, 35)
    disk.ftruncate(other, 30)
    assert disk.fstat(other).spare_bytes == 0
    assert disk.free_bytes(other) == 10


def test_a_reservation_that_finds_too_little_keeps_what_it_found() -> None:
    """As ext4 does."""
    disk = make()
    disk.capacity_bytes = 100
    fd = write(disk, "a", b"x" * 10, sync=True)
    with pytest.raises(OSError, match="No space"):
        disk.fallocate(fd, 101)
    assert disk.fstat(fd).spare_bytes == 90
    assert disk.free_bytes(fd) == 0


def test_a_reservation_that_was_not_synced_may_survive_and_one_that_was_does() -> None:
    spare: set[int] = set()
    for seed in range(30):
        disk = make(seed)
        fd = write(disk, "a", b"x", sync=True)
        disk.fallocate(fd, 50)
        disk.crash()
        spare.add(disk.stat(str(ROOT / "a")).spare_bytes)
        fd = disk.open(str(ROOT / "a"), os.O_RDWR, 0)
        disk.fallocate(fd, 70)
        disk.fdatasync(fd)
        disk.crash()
        assert disk.stat(str(ROOT / "a")).spare_bytes == 69
        assert disk.content(ROOT / "a") == b"x"
    assert spare == {0, 49}


def test_open_files_outlive_a_wipe() -> None:
    disk = make()
    fd = write(disk, "a", b"x", sync=True)
    before = disk.stat(str(ROOT))
    disk.wipe(ROOT)
    assert disk.pread(fd, 1, 0) == b"x"
    assert disk.listdir(str(ROOT)) == []
    assert disk.stat(str(ROOT)) == before
    disk.swap_directory(ROOT)
    assert disk.stat(str(ROOT)) != before


def test_the_same_seed_loses_the_same() -> None:
    def left(seed: int) -> list[bytes]:
        disk = make(seed)
        for name in "abcd":
            write(disk, name, name.encode() * 3000, sync=False)
        disk.crash()
        return [disk.content(ROOT / name) for name in disk.listdir(str(ROOT))]

    assert left(5) == left(5)
    assert any(left(5) != left(seed) for seed in range(6, 12))
