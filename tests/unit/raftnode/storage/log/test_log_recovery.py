"""What a start makes of every kind of damage."""

from __future__ import annotations

import random

import pytest
from tests.unit.raftnode.storage.conftest import (
    LOG,
    batch,
    control,
    flushed,
    new_log,
    reopen,
    segments,
)

from proofkit.faultdisk import FaultDisk
from raftnode.errors import StorageCorruptError
from raftnode.logformat import decode_batches


def test_control_batches_are_recovered_without_their_bytes() -> None:
    disk = flushed()
    log = reopen(disk)
    assert log.recovered == (control(0, 1),)
    assert log.torn_tail is None
    log.close()
    assert reopen(disk).recovered == (control(0, 1),)


def test_a_torn_tail_is_cut_and_told() -> None:
    disk, log = new_log()
    log.append([batch(0)])
    log.flush()
    log.append([batch(1)])
    disk.kill()
    disk.flip_bit(LOG / segments(disk)[0], len(batch(0).data) + 70)
    log = reopen(disk)
    assert log.end_offset == 1
    assert log.torn_tail is not None
    assert (log.torn_tail.position, log.torn_tail.offset) == (len(batch(0).data), 1)
    log.append([batch(1)])
    log.flush()
    disk.crash()
    assert reopen(disk).torn_tail is None


def test_damage_in_flushed_records_is_refused_never_cut() -> None:
    """No segment was rolled since: only `flushed-offset` tells them from a torn tail."""
    disk = flushed()
    assert disk.content(LOG / "recovery-point-offset-checkpoint").endswith(b" 0\n")
    path = LOG / segments(disk)[0]
    before = len(disk.content(path))
    disk.flip_bit(path, before - 5)
    with pytest.raises(
        StorageCorruptError, match=r"0000.log at byte \d+ \(offset 2\): .*up to offset 3"
    ):
        reopen(disk)
    assert len(disk.content(path)) == before


def test_damage_below_the_recovery_point_is_refused_also_without_flushed_offset() -> None:
    disk = flushed()
    reopen(disk).close()
    disk.remove(LOG / "flushed-offset")
    path = LOG / segments(disk)[0]
    disk.flip_bit(path, len(disk.content(path)) - len(batch(2).data) + 7)
    with pytest.raises(
        StorageCorruptError, match=r"0000.log at byte \d+ \(offset 2\): .*up to offset 3"
    ):
        reopen(disk)


@pytest.mark.parametrize("field", [3, 9, 15, 16, 22, 26, 60])
def test_rot_in_any_header_field_is_refused(field: int) -> None:
    disk = flushed()
    first = len(decode_batches(disk.content(LOG / segments(disk)[0]))[0].data)
    disk.flip_bit(LOG / segments(disk)[0], first + field, 1)
    with pytest.raises(StorageCorruptError):
        reopen(disk)


def test_a_raised_epoch_of_the_last_batch_is_found_by_the_epochs_file() -> None:
    disk = flushed()
    path = LOG / segments(disk)[0]
    disk.flip_bit(path, len(disk.content(path)) - len(batch(2).data) + 15, 6)
    with pytest.raises(StorageCorruptError, match="have different epochs"):
        reopen(disk)


def test_rot_in_an_earlier_segment_is_refused_whatever_is_known_durable() -> None:
    disk, log = new_log()
    log.append([batch(offset) for offset in range(6)])
    disk.kill()
    disk.remove(LOG / "flushed-offset")
    disk.overwrite(LOG / "recovery-point-offset-checkpoint", b"0\n1\n__cluster_metadata 0 0\n")
    disk.flip_bit(LOG / segments(disk)[0], 200)
    with pytest.raises(StorageCorruptError, match=r"0000.log at byte"):
        reopen(disk)


def test_a_log_shorter_than_what_was_durable_is_refused() -> None:
    disk = flushed()
    path = LOG / segments(disk)[0]
    disk.overwrite(path, disk.content(path)[: -len(batch(2).data)])
    with pytest.raises(StorageCorruptError, match="durable up to offset 3"):
        reopen(disk)


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        f"{0:020d}.log",
        f"{4:020d}.log",
        f"{8:020d}.log",
    ],
)
def test_a_missing_file_is_refused(name: str) -> None:
    disk, log = new_log()
    log.append([batch(offset) for offset in range(10)])
    log.close()
    disk.remove(LOG / name)
    with pytest.raises(StorageCorruptError):
        reopen(disk)


def test_after_a_clean_stop_no_body_is_read_below_the_recovery_point() -> None:
    disk = flushed()
    reopen(disk).close()
    path = LOG / segments(disk)[0]
    disk.flip_bit(path, len(disk.content(path)) - 5)
    assert reopen(disk).end_offset == 3


def test_leftover_temporary_files_are_removed() -> None:
    disk = flushed()
    disk.overwrite(LOG / "leader-epoch-checkpoint.tmp", b"half")
    reopen(disk)
    assert not [name for name in disk.listdir(str(LOG)) if name.endswith(".tmp")]


@pytest.mark.parametrize("seed", range(20))
def test_the_first_open_survives_a_power_cut_at_every_call(seed: int) -> None:
    for point in range(20):
        disk = FaultDisk(random.Random(seed * 100 + point))
        disk.make_directory(LOG)
        disk.cut_power_at = point
        try:
            reopen(disk)
        except Exception:  # noqa: BLE001
            disk.crash()
        disk.cut_power_at = None
        assert reopen(disk).end_offset == 0
        disk.crash()
        log = reopen(disk)
        log.append([batch(0)])
        log.flush()
        disk.crash()
        assert reopen(disk).end_offset == 1
