"""Damaged storage is set aside: kept whole, found by a person, and never opened again."""

from __future__ import annotations

import errno

import pytest
from tests.unit.raftnode.storage.conftest import LOG, ROOT, open_on, used

from proofkit.faultdisk import Fault, FaultDisk, PowerCutError
from raftnode.errors import StorageCorruptError, StorageIdentityError, StorageLockedError
from raftnode.storage.directory.quarantine import quarantine, read_mark
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import find_log

ASIDE = ROOT / "__cluster_metadata-0.quarantined"
SEGMENT = f"{0:020d}.log"


def log_files(disk: FaultDisk) -> dict[str, bytes]:
    """The log's files by name, wherever their directory is now; not what is never synced."""
    [name] = [one for one in disk.listdir(str(ROOT)) if one.startswith(LOG.name)]
    directory = ROOT / name
    names = [one for one in disk.listdir(str(directory)) if one != "flushed-offset"]
    return {one: disk.content(directory / one) for one in names}


def damaged() -> FaultDisk:
    """A used directory whose vote no longer has its checksum."""
    disk = used()
    disk.flip_bit(LOG / "quorum-state", disk.content(LOG / "quorum-state").index(b":3,") + 1)
    return disk


def test_the_log_is_kept_whole_under_another_name() -> None:
    disk = damaged()
    before = log_files(disk)
    with pytest.raises(StorageCorruptError, match=r"checksum is wrong; .* kept in .*quarantined"):
        open_on(disk)
    assert log_files(disk) == before
    assert find_log(Files(disk), ASIDE).size == len(before[SEGMENT])
    assert not Files(disk).stat(LOG)


def test_every_later_start_says_the_same() -> None:
    disk = damaged()
    told = set()
    for _ in range(3):
        with pytest.raises(StorageCorruptError) as error:
            open_on(disk)
        told.add(str(error.value))
        disk.crash()
    assert len(told) == 1


def test_damage_where_no_start_reads_is_not_forgotten() -> None:
    """Found while it ran, below the recovery point: without the mark the next start is well."""
    disk = used()
    directory = open_on(disk)
    directory.open_log().close()
    told = directory.set_aside(StorageCorruptError("a batch of last year"))
    directory.close()
    assert "a batch of last year" in str(told)
    with pytest.raises(StorageCorruptError, match="a batch of last year"):
        open_on(disk)


def test_a_directory_that_is_another_one_now_is_left_alone() -> None:
    disk = used()
    directory = open_on(disk)
    disk.swap_directory(ROOT)
    told = directory.set_aside(StorageCorruptError("rot"))
    assert "not set aside" in str(told)
    assert disk.listdir(str(ROOT)) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_at_any_call_leaves_all_files_and_a_refusal(seed: int) -> None:
    point = 0
    while True:
        disk = damaged()
        disk.rng.seed(seed * 100 + point)
        before = log_files(disk)
        disk.cut_power_at = disk.modifications + point
        try:
            with pytest.raises(StorageCorruptError):
                open_on(disk)
        except PowerCutError:
            disk.crash()
            assert log_files(disk) == before
            with pytest.raises(StorageCorruptError, match="checksum is wrong"):
                open_on(disk)
            point += 1
            continue
        disk.crash()
        assert log_files(disk) == before
        assert Files(disk).stat(ASIDE)
        break
    assert point >= 6


def test_without_its_mark_the_rest_is_no_replica_any_more() -> None:
    """As an earlier program sees it, which knows no mark."""
    disk = damaged()
    with pytest.raises(StorageCorruptError):
        open_on(disk)
    disk.remove(ROOT / "corrupt")
    with pytest.raises(StorageIdentityError, match="must be replaced"):
        open_on(disk)


def test_a_person_can_put_it_back_and_it_may_be_set_aside_again() -> None:
    disk = used()
    for expected in ("", "-2"):
        quarantine(Files(disk), ROOT, "rot")
        name = ASIDE.name + expected
        assert name in disk.listdir(str(ROOT))
        disk.remove(ROOT / "corrupt")
        if not expected:
            disk.rename(str(ROOT / name), str(LOG))
            open_on(disk).close()
            disk.make_directory(ASIDE)  # of an earlier time
            disk.kill()


def test_a_mark_that_cannot_be_read_refuses_too() -> None:
    disk = used()
    disk.overwrite(ROOT / "corrupt", b"\xff")
    with pytest.raises(StorageCorruptError, match="cannot be read"):
        open_on(disk)
    assert disk.content(ROOT / "corrupt") == b"\xff"


def test_a_layer_that_has_failed_meanwhile_does_not_keep_it_from_being_set_aside() -> None:
    disk = used()
    files = Files(disk)
    files.failed("pread", LOG, errno.EIO)
    quarantine(files, ROOT, "rot")
    assert read_mark(Files(disk), ROOT) == "rot"


@pytest.mark.parametrize("call", ["create", "pwrite", "fsync", "rename"])
def test_a_disk_that_refuses_hides_no_damage(call: str) -> None:
    disk = damaged()
    disk.faults.append(Fault(call, errno.ENOSPC, path_part="corrupt"))
    if call == "rename":
        disk.faults.append(Fault(call, errno.EIO, path_part="quarantined"))
    with pytest.raises(StorageCorruptError, match=r"checksum is wrong.*could not be moved"):
        open_on(disk)
    disk.kill()
    disk.faults.clear()
    with pytest.raises(StorageCorruptError, match="checksum is wrong"):
        open_on(disk)


def test_the_lock_is_held_meanwhile() -> None:
    disk = used()
    running = open_on(disk)
    with pytest.raises(StorageLockedError):
        open_on(disk)
    running.close()
    assert read_mark(Files(disk), ROOT) is None
