"""What is free, and how a log that keeps room reserved makes more of it."""

from __future__ import annotations

import shutil

import pytest
from tests.unit.raftnode.runtime.conftest import DIRECTORY

from raftnode.errors import StorageLostError
from raftnode.runtime.disk.disk_room import make_room
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, LogSettings

MIB = 1 << 20


@pytest.mark.without("runtime.disk.disk_room:make_room", "room.free_bytes < wanted_bytes and", "")
@pytest.mark.without(
    "runtime.disk.disk_room:make_room", "room.free_bytes < ", "room.free_bytes <= "
)
@pytest.mark.without("runtime.disk.disk_room:make_room", " and log.give_back()", "")
@pytest.mark.without(
    "runtime.disk.disk_room:make_room",
    "log.give_back():\n        room = _look(path)",
    "log.give_back(): pass",
)
def test_the_log_gives_back_what_it_reserved_where_that_is_needed(storage, tmp_path, unreserved):
    storage.log.close()
    log = Log.open(Files(storage.disk), DIRECTORY, LogSettings(segment_bytes=MIB, preallocate=True))
    file = log._segments[-1].file
    unreserved(lambda: 2 * MIB, file)
    assert make_room(tmp_path, MIB, log).free_bytes == MIB
    assert file.stat().spare_bytes == MIB
    assert make_room(tmp_path, MIB + 1, log).free_bytes == 2 * MIB
    assert file.stat().spare_bytes == 0
    assert make_room(tmp_path, 2 * MIB + 1, log).free_bytes == 2 * MIB


def test_room_is_what_the_system_says(storage, tmp_path):
    room, known = make_room(tmp_path, 0, storage.log), shutil.disk_usage(tmp_path)
    assert room.size_bytes == known.total
    assert abs(room.free_bytes - known.free) < 64 * MIB


def test_a_path_that_is_gone_is_a_lost_disk(storage, tmp_path):
    with pytest.raises(StorageLostError, match="cannot be reached"):
        make_room(tmp_path / "gone", 0, storage.log)
