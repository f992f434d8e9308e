from __future__ import annotations

import random
from pathlib import Path

import pytest

from proofkit.faultdisk import FaultDisk
from raftnode.core.replication.peer_memory import LINE_MAX
from raftnode.errors import StorageCorruptError
from raftnode.logformat.sealed_json import seal
from raftnode.storage.directory.incarnation import Incarnation, read_incarnation, write_incarnation
from raftnode.storage.files import Files

PATH = Path("/data/incarnation")
NONCE = "0123456789abcdef"


def test_the_count_comes_back_and_nothing_else_is_believed() -> None:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(PATH.parent)
    files = Files(disk)
    with pytest.raises(StorageCorruptError, match="missing"):
        read_incarnation(files, PATH)
    write_incarnation(files, PATH, Incarnation(41, (NONCE,)))
    assert read_incarnation(files, PATH) == Incarnation(41, (NONCE,))
    for content in (
        b"41",
        b'{"incarnation":41}',
        seal({"incarnation": -1}),
        seal({}),
        b"",
        seal({"incarnation": 41, "starts": NONCE}),
        seal({"incarnation": 41, "starts": ["x"]}),
        seal({"incarnation": 41, "starts": [7]}),
        seal({"incarnation": 99, "starts": [NONCE] * (LINE_MAX + 1)}),
        seal({"incarnation": 41, "promisedMs": -1}),
        seal({"incarnation": 41, "promisedMs": "2000"}),
    ):
        disk.overwrite(PATH, content)
        with pytest.raises(StorageCorruptError, match="is damaged"):
            read_incarnation(files, PATH)


def test_the_file_of_an_earlier_program_has_no_line() -> None:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(PATH.parent)
    files = Files(disk)
    files.replace(PATH, seal({"incarnation": 41}))
    found = read_incarnation(files, PATH)
    assert found == Incarnation(41)
    after = found.next()
    assert (after.count, len(after.line)) == (42, 1)


@pytest.mark.rule("S33")
@pytest.mark.without(
    "storage.directory.incarnation:Incarnation.next",
    "self.latched, self.promised_ms",
    "self.latched",
)
def test_what_was_promised_is_remembered_by_the_next_opening() -> None:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(PATH.parent)
    files = Files(disk)
    write_incarnation(files, PATH, Incarnation(41, (NONCE,), promised_ms=2000))
    assert read_incarnation(files, PATH).next().promised_ms == 2000


@pytest.mark.rule("S3")
@pytest.mark.without(
    "storage.directory.incarnation:Incarnation.next",
    "(secrets.token_hex(8), *self.line)",
    "self.line or (secrets.token_hex(8),)",
)
def test_each_opening_puts_a_nonce_of_its_own_before_the_others() -> None:
    before = Incarnation()
    for count in range(1, LINE_MAX + 10):
        after = before.next()
        assert after.count == count
        assert after.line[1:] == before.line[: LINE_MAX - 1]
        assert after.line[0] not in before.line
        before = after
    assert len(before.line) == LINE_MAX
