from __future__ import annotations

import random
from pathlib import Path

import pytest

from raftnode.errors import StorageCorruptError
from raftnode.storage.files import Files
from raftnode.storage.incarnation import read_incarnation, write_incarnation
from raftnode.storage.sealed import seal
from raftnode.testing.faultdisk import FaultDisk

PATH = Path("/data/incarnation")


def test_the_count_comes_back_and_nothing_else_is_believed() -> None:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(PATH.parent)
    files = Files(disk)
    with pytest.raises(StorageCorruptError, match="missing"):
        read_incarnation(files, PATH)
    write_incarnation(files, PATH, 41)
    assert read_incarnation(files, PATH) == 41
    for content in (b"41", b'{"incarnation":41}', seal({"incarnation": -1}), seal({}), b""):
        disk.overwrite(PATH, content)
        with pytest.raises(StorageCorruptError, match="is damaged"):
            read_incarnation(files, PATH)
