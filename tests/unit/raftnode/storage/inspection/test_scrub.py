"""A pass finds rot wherever it is, leaves the disk's time to others, and believes nothing at once."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from proofkit import bit_flip_directories
from proofkit.faultdisk import Fault, FaultDisk
from raftnode.storage.files import OsCalls
from raftnode.storage.inspection.scrub import PIECE_BYTES, ScrubPass, SlowCalls


def scrub(disk: FaultDisk) -> list[tuple[str, str]]:
    """Kind and file of what a pass finds."""
    calls = SlowCalls(disk, lambda _: None)
    return [(one.kind, one.path.name) for one in ScrubPass(calls, bit_flip_directories.LOG).run()]


def names(disk: FaultDisk, suffix: str) -> list[str]:
    return sorted(
        name for name in disk.listdir(str(bit_flip_directories.LOG)) if name.endswith(suffix)
    )


def test_a_whole_storage_has_nothing_to_tell() -> None:
    disk = bit_flip_directories.make_directory(clean=True)
    calls = SlowCalls(disk, lambda _: None)
    one = ScrubPass(calls, bit_flip_directories.LOG)
    assert one.run() == ()
    assert one.batches == 24
    content = [
        disk.content(bit_flip_directories.LOG / name)
        for name in disk.listdir(str(bit_flip_directories.LOG))
    ]
    assert 0 < one.size() <= sum(map(len, content))


@pytest.mark.parametrize("suffix", [".log", ".checkpoint"])
@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_of_any_segment_or_snapshot_is_found(suffix: str, seed: int) -> None:
    rng = random.Random(seed)
    disk = bit_flip_directories.make_directory(clean=True)
    name = rng.choice(names(disk, suffix))
    size = len(disk.content(bit_flip_directories.LOG / name))
    disk.flip_bit(bit_flip_directories.LOG / name, rng.randrange(size), rng.randrange(8))
    assert ("damage", name) in scrub(disk)


def test_what_a_start_makes_again_is_told_apart() -> None:
    disk = bit_flip_directories.make_directory(clean=True)
    name = names(disk, ".index")[0]
    disk.flip_bit(bit_flip_directories.LOG / name, 3)
    assert {kind for kind, _ in scrub(disk)} == {"derived"}


def test_a_missing_segment_is_found() -> None:
    disk = bit_flip_directories.make_directory(clean=True)
    disk.remove(bit_flip_directories.LOG / names(disk, ".log")[1])
    assert "damage" in {kind for kind, _ in scrub(disk)}


def test_a_sector_that_cannot_be_read_is_a_finding_and_the_node_goes_on() -> None:
    disk = bit_flip_directories.make_directory(clean=True)
    name = names(disk, ".log")[0]
    disk.faults = [Fault("pread", errno.EIO, path_part=name) for _ in range(2)]
    assert scrub(disk) == [("damage", name)]


@pytest.mark.parametrize("suffix", [".log", ".checkpoint"])
def test_want_of_descriptors_is_no_damage(suffix: str) -> None:
    disk = bit_flip_directories.make_directory(clean=True)
    name = names(disk, suffix)[0]
    disk.faults = [Fault("open", errno.EMFILE, path_part=name) for _ in range(4)]
    assert scrub(disk) == []


def test_what_a_second_look_does_not_find_is_not_believed() -> None:
    disk = bit_flip_directories.make_directory(clean=True)
    disk.faults = [Fault("pread", errno.EIO, path_part=names(disk, ".log")[0])]
    assert scrub(disk) == []


def test_a_snapshot_that_is_removed_meanwhile_is_no_damage() -> None:
    disk = bit_flip_directories.make_directory(clean=True)
    name = names(disk, ".checkpoint")[0]
    removed = False

    def on_read(_size: int) -> None:
        nonlocal removed
        if not removed and disk.listdir(str(bit_flip_directories.LOG)).count(name):
            removed = True
            disk.remove(bit_flip_directories.LOG / name)

    assert ScrubPass(SlowCalls(disk, on_read), bit_flip_directories.LOG).run() == ()
    assert removed


def test_a_pass_reads_in_pieces_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3 * PIECE_BYTES + 5))
    asked: list[int] = []
    calls = SlowCalls(OsCalls(), asked.append)
    fd = calls.open(str(path), os.O_RDONLY, 0)
    assert calls.pread(fd, 10 * PIECE_BYTES, 0) == path.read_bytes()
    assert asked == [PIECE_BYTES] * 3 + [5]
    calls.close(fd)
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_CREAT):
        with pytest.raises(OSError, match="writes nothing"):
            calls.open(str(path), flags, 0)


def test_a_pass_reads_past_the_page_cache_but_for_the_segment_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, *_: told.append(fd))
    old, active = tmp_path / "old", tmp_path / "active"
    for path in (old, active):
        path.write_bytes(b"bytes")
    calls = SlowCalls(OsCalls(), lambda _: None, lambda: active)
    first, second = (calls.open(str(path), os.O_RDONLY, 0) for path in (old, active))
    calls.pread(first, 5, 0)
    calls.pread(second, 5, 0)
    assert told == [first]
    calls.close(first)
    calls.close(second)
