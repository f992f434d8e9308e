"""`fallocate` on the real file system: room and nothing else."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from raftnode.storage import fallocate


def test_room_is_reserved_and_size_and_content_stay(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"content")
    fd = os.open(path, os.O_RDWR)
    try:
        fallocate.reserve(fd, 1 << 20)
        assert os.fstat(fd).st_blocks * 512 >= 1 << 20
        assert path.read_bytes() == b"content"
        os.pwrite(fd, b"!", 10)
        assert path.read_bytes() == b"content\0\0\0!"
        os.ftruncate(fd, 11)
        assert os.fstat(fd).st_blocks * 512 < 1 << 20
    finally:
        os.close(fd)


def test_what_the_system_says_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    fd = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Bad file descriptor") as raised:
            fallocate.reserve(fd, 1 << 20)
    finally:
        os.close(fd)
    assert raised.value.errno == errno.EBADF


def test_a_signal_in_the_middle_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [errno.EINTR, errno.EINTR, 0]
    asked: list[tuple[int, ...]] = []

    def interrupted(*arguments: int) -> int:
        asked.append(arguments)
        number = outcomes.pop(0)
        ctypes.set_errno(number)
        return -1 if number else 0

    monkeypatch.setattr(fallocate, "_call", lambda: interrupted)
    fallocate.reserve(7, 4096)
    assert asked == [(7, 1, 0, 4096)] * 3


def test_a_c_library_without_it_is_one_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallocate, "_call", lambda: None)
    with pytest.raises(OSError, match="not implemented") as raised:
        fallocate.reserve(0, 4096)
    assert raised.value.errno == errno.ENOSYS
