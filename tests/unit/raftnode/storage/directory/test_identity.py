from __future__ import annotations

import errno
import uuid
from pathlib import Path

import pytest
from tests.unit.raftnode.storage.conftest import KEY, LATCH, LOG, ONE, ROOT, blank, open_on, used

from proofkit.faultdisk import Fault, FaultDisk
from raftnode.core.state import Latch, QuorumState
from raftnode.errors import (
    ConfigurationError,
    StorageFailedError,
    StorageIdentityError,
)
from raftnode.storage.directory.directory import format_storage
from raftnode.storage.directory.identity import Format, random_directory_id
from raftnode.storage.files import Files

pytestmark = pytest.mark.rule("S2")


@pytest.mark.rule("P47")
@pytest.mark.without(
    "storage.directory.identity:write_format",
    "MetaProperties(wanted.key.node_id, own, cluster_id)",
    "MetaProperties(wanted.key.node_id, own, 'c')",
)
def test_an_empty_directory_gets_a_fresh_uuid_in_three_places() -> None:
    disk = blank()
    disk.make_directory(ROOT / "lost+found")
    directory = open_on(disk)
    text = str(directory.key)[2:].encode()
    for path in (ROOT / "meta.properties", LOG / "quorum-state", LOG / "storage-id"):
        assert text in disk.content(path)
    assert directory.incarnation == 1
    assert (directory.cluster_id, directory.latch, directory.quorum_state) == (
        None,
        None,
        QuorumState(),
    )
    assert "formatting" not in disk.listdir(str(ROOT))
    directory.close()
    again = open_on(disk)
    assert (again.key, again.incarnation) == (directory.key, 2)
    assert open_on(blank(1)).key != directory.key


@pytest.mark.without(
    "storage.directory.directory:DataDirectory._open",
    "identity.stored.state, wanted)",
    "identity.stored.state, Format(ReplicaKey(node_id, identity.meta.directory_id)))",
)
def test_a_directory_says_which_format_its_opening_made() -> None:
    disk = blank()
    directory = open_on(disk)
    assert directory.formatted == Format(directory.key)
    directory.close()
    assert open_on(disk).formatted is None


@pytest.mark.parametrize("latch", [None, LATCH])
def test_a_directory_says_which_format_its_opening_finished(latch: Latch | None) -> None:
    disk = blank()
    fault = Fault("unlink", errno.EIO, path_part="formatting")
    disk.faults.append(fault)
    with pytest.raises(StorageFailedError):
        format_storage(ROOT, ONE, files=Files(disk), directory_id=KEY.directory_id, latch=latch)
    disk.faults.clear()
    directory = open_on(disk)
    assert directory.formatted == Format(KEY, latch)
    directory.close()
    assert open_on(disk).formatted is None


def test_fresh_uuids_never_begin_with_a_dash() -> None:
    made = iter([uuid.UUID(bytes=b"\xf8" + bytes(15)), uuid.UUID(int=5)])
    assert random_directory_id(lambda: next(made)) == uuid.UUID(int=5)


PLACES = [ROOT / "meta.properties", LOG / "quorum-state", LOG / "storage-id"]


@pytest.mark.parametrize("place", PLACES, ids=lambda path: path.name)
@pytest.mark.rule("P47")
def test_a_missing_uuid_is_refused_and_told(place: Path) -> None:
    disk = used()
    disk.remove(place)
    with pytest.raises(StorageIdentityError, match=f"{place.name} missing.*must be replaced"):
        open_on(disk)


@pytest.mark.rule("S2")
@pytest.mark.parametrize("place", PLACES, ids=lambda path: path.name)
@pytest.mark.without(
    "storage.directory.identity:read_identity",
    " or len(set(directory_ids.values())) != 1",
    "",
)
@pytest.mark.scenario("uuid-survives-state-does-not")
def test_a_different_uuid_is_refused_and_told(place: Path) -> None:
    """S2; a vote or a log from another disk is what this one forgot, too."""
    disk, other = used(), used_elsewhere()
    disk.overwrite(place, other.content(place))
    with pytest.raises(StorageIdentityError, match="not the same in its three places"):
        open_on(disk)


@pytest.mark.rule("S2")
@pytest.mark.parametrize("lost", ["the vote", "vote and log"])
@pytest.mark.without(
    "storage.directory.identity:read_identity",
    "if meta is None or stored is None or len(set(directory_ids.values())) != 1:",
    "stored = stored or StoredQuorumState(QuorumState(), meta.directory_id, intact=True)\n"
    "    if meta is None:",
)
@pytest.mark.scenario("uuid-survives-state-does-not")
def test_uuid_survives_state_does_not(lost: str) -> None:
    """S2: it voted in epoch 3 and has a record; under its old name it must know both or not run."""
    disk = used()
    if lost == "the vote":
        disk.remove(LOG / "quorum-state")
    else:
        disk.wipe(LOG)
    with pytest.raises(StorageIdentityError, match=r"quorum-state missing.*must be replaced"):
        open_on(disk)


def used_elsewhere() -> FaultDisk:
    disk = blank(7)
    open_on(disk).close()
    return disk


@pytest.mark.parametrize("wiped", [LOG, ROOT / "x"])
def test_a_surviving_meta_properties_over_a_lost_log_is_refused(wiped: Path) -> None:
    disk = used()
    if wiped == LOG:
        disk.wipe(LOG)
    else:
        disk.remove(LOG)
    with pytest.raises(StorageIdentityError):
        open_on(disk)


def test_a_directory_of_something_else_is_left_alone() -> None:
    disk = blank()
    disk.overwrite(ROOT / "passwd", b"x")
    with pytest.raises(
        ConfigurationError, match=r"neither empty nor a data directory; it holds .*passwd"
    ):
        open_on(disk)
    with pytest.raises(ConfigurationError, match="not empty"):
        format_storage(ROOT, ONE, files=Files(disk))
    assert "meta.properties" not in disk.listdir(str(ROOT))


@pytest.mark.rule("S4")
@pytest.mark.parametrize("suffix", ["", ".tmp"])
def test_what_a_node_wrote_into_a_directory_that_was_emptied_under_it_is_no_content(
    suffix: str,
) -> None:
    emptied = blank()
    emptied.overwrite(ROOT / f"peer-starts{suffix}", b"of the disk that it was")
    directory = open_on(emptied)
    assert directory.peer_marks == {}
    assert f"peer-starts{suffix}" not in emptied.listdir(str(ROOT))
    directory.close()
    by_hand = blank()
    by_hand.overwrite(ROOT / f"peer-starts{suffix}", b"of the disk that it was")
    format_storage(ROOT, ONE, files=Files(by_hand))
    assert open_on(by_hand).peer_marks == {}
    used_for_more = used()
    for place in PLACES:
        used_for_more.remove(place)
    used_for_more.overwrite(ROOT / f"peer-starts{suffix}", b"x")
    with pytest.raises(StorageIdentityError):
        open_on(used_for_more)


def test_a_format_mark_over_a_directory_that_was_used_is_refused() -> None:
    disk, fresh = used(), blank()
    fresh.faults.append(Fault("unlink", errno.EIO, path_part="formatting"))
    with pytest.raises(StorageFailedError):
        format_storage(ROOT, ONE, files=Files(fresh), directory_id=KEY.directory_id)
    disk.overwrite(ROOT / "formatting", fresh.content(ROOT / "formatting"))
    with pytest.raises(StorageIdentityError, match="never finished, but it holds"):
        open_on(disk)
    for path in (
        LOG / f"{0:020d}.log",
        LOG / "leader-epoch-checkpoint",
        LOG / "recovery-point-offset-checkpoint",
        LOG / "flushed-offset",
        LOG / f"{0:020d}.index",
        LOG / f"{0:020d}.timeindex",
        LOG / "control-batches.json",
    ):
        disk.remove(path)
    with pytest.raises(StorageIdentityError, match="but it holds quorum-state"):
        open_on(disk)


def test_formatting_by_hand_gives_the_uuid_and_the_latch_once() -> None:
    disk = blank()
    assert (
        format_storage(ROOT, ONE, files=Files(disk), directory_id=KEY.directory_id, latch=LATCH)
        == KEY
    )
    with pytest.raises(ConfigurationError, match="not empty"):
        format_storage(ROOT, ONE, files=Files(disk))
    directory = open_on(disk)
    assert (directory.key, directory.latch, directory.cluster_id) == (KEY, LATCH, "cluster")


@pytest.mark.parametrize("latch", [None, LATCH])
def test_a_flipped_bit_of_an_unfinished_format_makes_no_other_replica(latch) -> None:
    """Formed by hand, another UUID would be a replica that no voter set has."""
    disk = blank()
    disk.faults.append(Fault("unlink", errno.EIO, path_part="formatting"))
    with pytest.raises(StorageFailedError):
        format_storage(ROOT, ONE, files=Files(disk), directory_id=KEY.directory_id, latch=latch)
    disk.kill()
    image, path = disk.snapshot(), ROOT / "formatting"
    for byte in range(len(disk.content(path))):
        for bit in range(8):
            disk.restore(image)
            disk.flip_bit(path, byte, bit)
            with pytest.raises(StorageIdentityError, match="unfinished format is damaged"):
                open_on(disk)
    disk.restore(image)
    directory = open_on(disk)
    assert (directory.key, directory.latch) == (KEY, latch)
