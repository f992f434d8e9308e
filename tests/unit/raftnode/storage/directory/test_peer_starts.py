"""S3: what is remembered of the peers, and that a stale storage is never opened again."""

from __future__ import annotations

import random
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.raftnode.storage.conftest import ROOT, blank, open_on

from proofkit.faultdisk import Fault, FaultDisk
from raftnode.core.replication.peer_memory import Mark
from raftnode.core.types import NodeId, ReplicaKey
from raftnode.errors import (
    ExitCode,
    StorageCorruptError,
    StorageError,
    StorageFailedError,
    StorageLostError,
    StorageStaleError,
)
from raftnode.logformat.sealed_json import JsonValue, seal
from raftnode.storage.directory.peer_starts import encode_marks, read_marks, write_marks
from raftnode.storage.files import Files

PATH = Path("/data/peer-starts")
A, B = (ReplicaKey(NodeId(n), uuid.UUID(int=n)) for n in (1, 2))
MARKS = {B: Mark(7, "0123456789abcdef"), A: Mark(0, None)}
PEER: dict[str, JsonValue] = {"replica": str(A), "incarnation": 1, "nonce": None}


def test_the_marks_come_back_in_their_order_and_nothing_else_is_believed() -> None:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(PATH.parent)
    files = Files(disk)
    assert read_marks(files, PATH) == {}
    write_marks(files, PATH, MARKS)
    assert list(read_marks(files, PATH).items()) == list(MARKS.items())
    damaged: list[list[JsonValue]] = [
        [PEER, PEER],
        ["1"],
        [{**PEER, "nonce": "x"}],
        [{**PEER, "incarnation": -1}],
        [{**PEER, "replica": "1"}],
    ]
    for content in (
        b"",
        b"{}",
        seal({}),
        seal({"version": 2, "peers": []}),
        encode_marks(MARKS).replace(b":7,", b":8,"),
        *(seal({"version": 1, "peers": peers}) for peers in damaged),
    ):
        disk.overwrite(PATH, content)
        with pytest.raises(StorageCorruptError, match="is damaged"):
            read_marks(files, PATH)


def test_what_is_remembered_survives_a_power_cut() -> None:
    disk = blank()
    directory = open_on(disk)
    assert directory.peer_marks == {}
    directory.write_peer_marks(MARKS)
    disk.crash()
    assert open_on(disk).peer_marks == MARKS


def test_what_could_not_be_remembered_is_an_error() -> None:
    disk = blank()
    directory = open_on(disk)
    disk.faults.append(Fault("fsync", path_part="peer-starts"))
    with pytest.raises(StorageFailedError):
        directory.write_peer_marks(MARKS)


@pytest.mark.rule("S3")
@pytest.mark.without(
    "storage.directory.stale_mark:check_not_stale", "raise StorageStaleError(reason)", "return"
)
def test_a_stale_storage_is_never_opened_again() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.mark_stale("2 has seen more of it")
    disk.crash()
    for _ in range(2):
        with pytest.raises(StorageStaleError, match="2 has seen more of it") as raised:
            open_on(disk)
        assert raised.value.exit_code is ExitCode.STORAGE_STALE


@pytest.mark.rule("S3")
@pytest.mark.without(
    "storage.directory.directory:DataDirectory.mark_stale",
    "Files(self._files.calls)",
    "self._files",
)
def test_a_failure_before_does_not_keep_the_mark_from_being_written() -> None:
    disk = blank()
    directory = open_on(disk)
    disk.faults.append(Fault("fsync", path_part="peer-starts"))
    with pytest.raises(StorageFailedError):
        directory.write_peer_marks(MARKS)
    with suppress(StorageError):
        directory.mark_stale("2 has seen more of it")
    disk.crash()
    with pytest.raises(StorageStaleError, match="2 has seen more of it"):
        open_on(disk)


@pytest.mark.rule("S4")
def test_a_directory_that_is_another_one_now_is_not_marked() -> None:
    disk = blank()
    directory = open_on(disk)
    disk.swap_directory(ROOT)
    with pytest.raises(StorageLostError):
        directory.mark_stale("2 has seen more of it")
    assert "stale" not in disk.listdir(str(ROOT))


@pytest.mark.without(
    "storage.directory.directory:DataDirectory.set_aside",
    "_check_identity(Files(self._files.calls))",
    "check_identity()",
)
def test_a_failure_before_does_not_keep_the_damage_from_being_set_aside() -> None:
    disk = blank()
    directory = open_on(disk)
    disk.faults.append(Fault("fsync", path_part="peer-starts"))
    with pytest.raises(StorageFailedError):
        directory.write_peer_marks(MARKS)
    directory.set_aside(StorageCorruptError("rot"))
    disk.crash()
    with pytest.raises(StorageCorruptError, match="rot"):
        open_on(disk)


def test_a_stale_mark_that_cannot_be_read_is_one_all_the_same() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.mark_stale("why")
    directory.close()
    disk.overwrite(ROOT / "stale", b"\x00\xff")
    with pytest.raises(StorageStaleError, match="cannot be read"):
        open_on(disk)


def test_starts_that_were_turned_away_are_not_counted() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.mark_stale("why")
    directory.close()
    before = disk.content(ROOT / "incarnation")
    with pytest.raises(StorageStaleError):
        open_on(disk)
    assert disk.content(ROOT / "incarnation") == before
