from __future__ import annotations

import pytest
from tests.unit.raftnode.storage.conftest import LOG, batch, control, flushed, new_log, reopen

from raftnode.errors import StorageCorruptError

pytestmark = pytest.mark.rule("P48")


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "recovery-point-offset-checkpoint"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n__cluster_metadata 0 -1\n",
        b"0\n2\n1 0\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\n1\n-1 0\n",
        b"\xff\n",
    ],
)
def test_a_damaged_checkpoint_is_refused(name: str, content: bytes) -> None:
    disk = flushed()
    disk.overwrite(LOG / name, content)
    with pytest.raises(StorageCorruptError):
        reopen(disk)


@pytest.mark.parametrize("content", [b"", b"x" * 12, b"\xff" * 12, b"y" * 13])
def test_a_damaged_flushed_offset_counts_as_none(content: bytes) -> None:
    disk = flushed()
    disk.overwrite(LOG / "flushed-offset", content)
    assert reopen(disk).end_offset == 3


@pytest.mark.without(
    "logformat.epochs:encode_epochs", 'f"{entry.epoch} {entry.start_offset}"', 'f"{entry.epoch} 0"'
)
@pytest.mark.without("storage.log.checkpoints:write_recovery_point", "0 {offset}", "0 0")
def test_checkpoints_have_kafkas_text_form() -> None:
    disk, log = new_log()
    log.append([control(0, 3), batch(1, 3), batch(2, 8)])
    log.close()
    assert disk.content(LOG / "leader-epoch-checkpoint") == b"0\n2\n3 0\n8 2\n"
    assert (
        disk.content(LOG / "recovery-point-offset-checkpoint") == b"0\n1\n__cluster_metadata 0 3\n"
    )
