from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from proofkit.faultdisk import Fault, FaultDisk
from raftnode.errors import StorageError, StorageFailedError, StorageLockedError
from raftnode.storage.files import FileOperationError, Files

ROOT = Path("/data")


def make() -> tuple[FaultDisk, Files]:
    disk = FaultDisk(random.Random(1))
    disk.make_directory(ROOT)
    return disk, Files(disk)


def test_short_writes_are_continued_to_the_last_byte() -> None:
    disk, files = make()
    disk.short_writes = True
    data = random.Random(2).randbytes(5000)
    file = files.open(ROOT / "a", create=True)
    file.pwrite(b"xyz", 0)
    file.pwrite(data, 3)
    assert disk.content(ROOT / "a") == b"xyz" + data
    assert file.pread(9999, 3) == data


def test_a_write_of_nothing_is_a_failure_not_a_loop() -> None:
    disk, files = make()
    disk.pwrite = lambda fd, data, position: 0
    with pytest.raises(StorageFailedError, match="nothing was written"):
        files.open(ROOT / "a", create=True).pwrite(b"abc", 0)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "pread", "ftruncate"])
def test_after_a_failure_everything_is_refused_without_touching_the_disk(
    call: str, number: int
) -> None:
    disk, files = make()
    file = files.open(ROOT / "a", create=True)
    disk.faults.append(Fault(call, number))

    def use() -> None:
        file.pwrite(b"abc", 0)
        file.truncate(2)
        file.fdatasync()
        file.pread(1, 0)

    with pytest.raises(FileOperationError) as caught:
        use()
    assert (caught.value.errno, caught.value.operation) == (number, call)
    assert caught.value.path == ROOT / "a"
    assert files.failure is caught.value
    before = disk.modifications
    for attempt in (
        file.fdatasync,
        lambda: file.pwrite(b"x", 0),
        lambda: file.pread(1, 0),
        lambda: files.replace(ROOT / "b", b"x"),
        lambda: files.stat(ROOT),
        lambda: files.read_bytes(ROOT / "a"),
        lambda: files.fsync_dir(ROOT),
        lambda: files.lock(ROOT / "l"),
    ):
        with pytest.raises(StorageError):
            attempt()
    assert disk.modifications == before
    file.close()
    file.close()


def test_a_call_that_succeeded_while_another_thread_failed_is_not_believed() -> None:
    disk, files = make()
    file = files.open(ROOT / "a", create=True)
    sync = disk.fdatasync

    def racing(fd: int) -> None:
        sync(fd)
        files.failed("fdatasync", ROOT / "other", errno.EIO)

    disk.fdatasync = racing
    with pytest.raises(StorageFailedError):
        file.fdatasync()


def test_replace_leaves_the_old_or_the_new_whole_over_any_crash() -> None:
    for point in range(12):
        disk, files = make()
        files.replace(ROOT / "a", b"old")
        disk.cut_power_at = disk.modifications + point
        try:
            files.replace(ROOT / "a", b"new and longer")
            done = True
        except Exception:  # noqa: BLE001
            done = False
        disk.crash()
        assert Files(disk).read_bytes(ROOT / "a") in (
            (b"new and longer",) if done else (b"old", b"new and longer")
        )


def test_a_lock_is_exclusive_and_ends_with_its_file(tmp_path: Path) -> None:
    first = Files().lock(tmp_path / ".lock")
    with pytest.raises(StorageLockedError, match="another process"):
        Files().lock(tmp_path / ".lock")
    first.close()
    Files().lock(tmp_path / ".lock").close()


def test_the_operating_system_does_what_the_fault_disk_does(tmp_path: Path) -> None:
    _disk, fake = make()
    for files, root in ((fake, ROOT), (Files(), tmp_path)):
        files.mkdir(root / "d")
        files.replace(root / "d" / "a", b"12345")
        file = files.open(root / "d" / "a")
        file.truncate(3)
        file.pwrite(b"z", 4)
        file.fsync()
        assert files.listdir(root / "d") == ["a"]
        assert files.read_bytes(root / "d" / "a") == b"123\0z"
        assert file.pread(10, 1) == b"23\0z"
        assert file.stat().size == 5
        assert file.stat().spare_bytes == 0
        assert file.reserve(100_000) is None
        assert file.stat().size == 5
        assert file.stat().spare_bytes >= 90_000
        assert file.free_bytes() > 0
        file.truncate(5)
        assert file.stat().spare_bytes == 0
        there = files.stat(root / "d" / "a")
        assert there is not None
        assert there.identity == file.stat().identity
        assert not there.is_directory
        files.unlink(root / "d" / "a")
        assert files.stat(root / "d" / "a") is None
        assert files.read_bytes(root / "d" / "a") is None
        assert files.stat(root / "d" / "a" / "b") is None
        file.close()
        with pytest.raises(FileOperationError):
            files.open(root / "none")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EOPNOTSUPP, errno.ENOSYS])
def test_room_that_is_not_reserved_is_no_failure(number: int) -> None:
    disk, files = make()
    file = files.open(ROOT / "a", create=True)
    disk.faults = [Fault("fallocate", number)]
    assert file.reserve(100) == number
    assert files.failure is None
    file.pwrite(b"x", 0)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EINVAL])
def test_a_disk_that_fails_to_reserve_has_failed(number: int) -> None:
    disk, files = make()
    file = files.open(ROOT / "a", create=True)
    disk.faults = [Fault("fallocate", number)]
    with pytest.raises(FileOperationError, match="fallocate of /data/a failed"):
        file.reserve(100)
    before = disk.modifications
    with pytest.raises(FileOperationError):
        file.reserve(100)
    assert disk.modifications == before
