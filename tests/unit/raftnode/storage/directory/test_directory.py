from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

import pytest
from tests.unit.raftnode.storage.conftest import KEY, LATCH, LOG, ONE, ROOT, blank, open_on, used

from proofkit.faultdisk import Fault, PowerCutError
from raftnode.core.records import Batch, RaftVersion
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.errors import (
    ConfigurationError,
    ProtocolHaltError,
    StorageCorruptError,
    StorageFailedError,
    StorageIdentityError,
    StorageLockedError,
    StorageLostError,
)
from raftnode.storage.directory.directory import DataDirectory, LatchConflictError, format_storage
from raftnode.storage.directory.incarnation import Incarnation, write_incarnation
from raftnode.storage.files import Files
from raftnode.storage.log.log import LogSettings


def test_a_directory_in_use_is_refused() -> None:
    disk = blank()
    open_on(disk)
    with pytest.raises(StorageLockedError):
        open_on(disk)


@pytest.mark.rule("P47")
@pytest.mark.without(
    "storage.directory.directory:DataDirectory._start",
    "if self._meta.node_id != node_id:",
    "if False:",
)
def test_the_lock_is_let_go_when_opening_fails() -> None:
    disk = used()
    with pytest.raises(ConfigurationError, match="belongs to node 1"):
        DataDirectory.open(ROOT, NodeId(2), Files(disk))
    open_on(disk)


def test_a_wiped_directory_is_another_replica() -> None:
    disk = used()
    before = open_on(disk)
    before.close()
    disk.wipe(ROOT)
    after = open_on(disk)
    assert after.key.directory_id != before.key.directory_id
    assert after.incarnation == 1


@pytest.mark.parametrize("name", ["incarnation", "formation.json", "meta.properties"])
def test_damaged_files_are_refused(name: str) -> None:
    disk = blank()
    directory = open_on(disk)
    directory.write_latch(LATCH)
    directory.close()
    disk.flip_bit(ROOT / name, 10)
    with pytest.raises(StorageCorruptError, match=f"{name} is damaged"):
        open_on(disk)


def test_a_missing_incarnation_is_refused() -> None:
    disk = used()
    disk.remove(ROOT / "incarnation")
    with pytest.raises(StorageCorruptError, match="incarnation is missing"):
        open_on(disk)


def test_a_flipped_digit_of_the_epoch_is_refused() -> None:
    disk = used()
    disk.flip_bit(LOG / "quorum-state", disk.content(LOG / "quorum-state").index(b'Epoch":3') + 7)
    with pytest.raises(StorageCorruptError, match="checksum is wrong"):
        open_on(disk)


def test_a_stale_volume_shows_in_the_incarnation() -> None:
    disk = used()
    old = disk.snapshot()
    open_on(disk).close()
    seen = open_on(disk).incarnation
    disk.restore(old)
    assert open_on(disk).incarnation < seen


def test_the_vote_is_durable_and_a_promise_is_kept() -> None:
    disk = blank()
    directory = open_on(disk)
    state = QuorumState(Epoch(2), None, KEY)
    directory.write_quorum_state(state)
    disk.crash()
    directory = open_on(disk)
    assert directory.quorum_state == state
    with pytest.raises(ProtocolHaltError):
        directory.write_quorum_state(QuorumState(Epoch(1)))
    assert directory.quorum_state == state


def test_a_failed_vote_is_never_retried() -> None:
    disk = blank()
    directory = open_on(disk)
    disk.faults.append(Fault("fsync", path_part="quorum-state"))
    for _ in range(2):
        with pytest.raises(StorageFailedError):
            directory.write_quorum_state(QuorumState(Epoch(2), None, KEY))
    with pytest.raises(StorageFailedError):
        directory.write_quorum_state(directory.quorum_state)


@pytest.mark.rule("S36")
@pytest.mark.without(
    "storage.directory.directory:DataDirectory.prove",
    "quorum_state.write_quorum_state(self._files, path, self._state, self._meta.directory_id)",
    "pass",
)
def test_a_disk_is_proved_by_a_write_that_reaches_it() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.prove()
    disk.faults.append(Fault("fsync", path_part="quorum-state"))
    with pytest.raises(StorageFailedError):
        directory.prove()


def test_the_latch_is_written_once() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.write_latch(LATCH)
    before = disk.modifications
    directory.write_latch(LATCH)
    assert disk.modifications == before
    for other in (
        Latch("other", LATCH.voters),
        Latch("cluster", VoterSet.of([Voter(ReplicaKey(NodeId(2), KEY.directory_id))])),
    ):
        with pytest.raises(LatchConflictError) as caught:
            directory.write_latch(other)
        assert caught.value.existing == LATCH
    directory.close()
    again = open_on(disk)
    assert (again.latch, again.cluster_id) == (LATCH, "cluster")


def test_the_cluster_id_is_set_once() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.set_cluster_id("cluster")
    directory.set_cluster_id("cluster")
    for attempt in (
        lambda: directory.set_cluster_id("other"),
        lambda: directory.write_latch(Latch("other", LATCH.voters)),
    ):
        with pytest.raises(LatchConflictError, match="belongs to cluster cluster"):
            attempt()
    with pytest.raises(ConfigurationError):
        directory.set_cluster_id("")
    directory.close()
    assert open_on(disk).cluster_id == "cluster"


@pytest.mark.rule("P47")
@pytest.mark.without(
    "storage.directory.directory:DataDirectory._start",
    "elif self._meta.cluster_id != self._latch.cluster_id:",
    "elif False:",
)
def test_latch_and_cluster_id_that_differ_are_refused() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.write_latch(LATCH)
    directory.close()
    meta = disk.content(ROOT / "meta.properties")
    disk.overwrite(
        ROOT / "meta.properties", meta.replace(b"cluster.id=cluster", b"cluster.id=other")
    )
    with pytest.raises(StorageIdentityError, match="cluster id is other"):
        open_on(disk)


@pytest.mark.rule("S2", "S18", "S19")
@pytest.mark.parametrize("starts", [0, 1])
@pytest.mark.parametrize("how", ["sent", "formatted"])
@pytest.mark.without(
    "storage.directory.directory:DataDirectory._start",
    "if before.latched and self._latch is None:",
    "if False:",
)
def test_a_latch_that_is_missing_is_refused_for_good(how: str, starts: int) -> None:
    """An empty log without its first voters would be a replica that has forgotten whose it is."""
    disk = blank()
    if how == "sent":
        directory = open_on(disk)
        directory.write_latch(LATCH)
        directory.close()
    else:
        format_storage(ROOT, ONE, files=Files(disk), directory_id=KEY.directory_id, latch=LATCH)
    for _ in range(starts):
        open_on(disk).close()
    disk.crash()
    disk.remove(ROOT / "formation.json")
    for _ in range(2):
        with pytest.raises(
            StorageIdentityError, match=r"formation\.json is missing, but .* replaced"
        ):
            open_on(disk)


def test_a_replica_that_has_joined_never_had_one() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.set_cluster_id("cluster")
    directory.close()
    for _ in range(2):
        directory = open_on(disk)
        assert (directory.latch, directory.cluster_id) == (None, "cluster")
        directory.close()


def test_a_latch_of_an_earlier_program_is_missed_from_the_next_start_on() -> None:
    disk = blank()
    directory = open_on(disk)
    directory.write_latch(LATCH)
    directory.close()
    # An earlier program does not know the mark, and writes the file without it.
    write_incarnation(Files(disk), ROOT / "incarnation", Incarnation(5))
    directory = open_on(disk)
    assert (directory.latch, directory.incarnation) == (LATCH, 6)
    directory.close()
    disk.remove(ROOT / "formation.json")
    with pytest.raises(StorageIdentityError):
        open_on(disk)


def test_a_power_cut_while_the_latch_is_written_refuses_no_start() -> None:
    for nth in range(100):
        disk = blank()
        directory = open_on(disk)
        disk.cut_power_at = disk.modifications + nth
        done = False
        with contextlib.suppress(PowerCutError):
            directory.write_latch(LATCH)
            done = True
        disk.crash()
        again = open_on(disk)
        assert again.latch in ((LATCH,) if done else (LATCH, None))
        again.write_latch(LATCH)
        again.close()
        if done:
            break
    else:
        pytest.fail("it never ended")


def test_a_formation_without_voters_is_refused() -> None:
    disk = blank()
    with pytest.raises(ConfigurationError, match="without voters"):
        open_on(disk).write_latch(Latch("c", VoterSet()))


@pytest.mark.rule("S4")
@pytest.mark.parametrize(
    "loss", ["wipe", "wipe log", "swap", "swap log", "remove", "lock", "marker"]
)
@pytest.mark.without(
    "storage.directory.directory:DataDirectory._check_identity",
    "if now != self._opened:",
    "if False:",
)
def test_a_directory_lost_under_the_process_stops_everything(loss: str) -> None:
    disk = blank()
    directory = open_on(disk)
    log = directory.open_log(LogSettings(segment_bytes=100))
    directory.check_identity()
    match loss:
        case "wipe":
            disk.wipe(ROOT)
        case "wipe log":
            disk.wipe(LOG)
        case "swap":
            disk.swap_directory(ROOT)
        case "swap log":
            disk.swap_directory(LOG)
        case "remove":
            disk.remove(ROOT)
        case "lock":
            disk.overwrite(ROOT / ".lock", b"")
        case _:
            disk.overwrite(LOG / "storage-id", b"AAAAAAAAAAAAAAAAAAAABw\n")
    log.append(
        [Batch(Offset(0), Offset(0), Epoch(3), b"", (RaftVersion(2),))]
        if loss in ("lock", "marker")
        else []
    )
    with pytest.raises(StorageLostError):
        directory.check_identity()
    for attempt in (
        log.flush,
        lambda: directory.write_quorum_state(QuorumState(Epoch(9))),
        lambda: log.truncate(Offset(0)),
    ):
        with pytest.raises((StorageLostError, StorageFailedError)):
            attempt()


@pytest.mark.rule("S4")
@pytest.mark.without(
    "storage.directory.directory:DataDirectory.write_quorum_state",
    "self.check_identity()",
    "pass",
)
@pytest.mark.without(
    "storage.directory.directory:DataDirectory.open_log",
    "before_roll=self.check_identity",
    "before_roll=lambda: None",
)
def test_vote_and_roll_check_the_directory_themselves() -> None:
    disk = blank()
    directory = open_on(disk)
    disk.overwrite(LOG / "storage-id", b"AAAAAAAAAAAAAAAAAAAABw\n")
    with pytest.raises(StorageLostError):
        directory.write_quorum_state(QuorumState(Epoch(9)))
    disk = blank()
    log = open_on(disk).open_log(LogSettings(segment_bytes=100))
    disk.overwrite(LOG / "storage-id", b"AAAAAAAAAAAAAAAAAAAABw\n")
    with pytest.raises(StorageLostError):
        log.append(
            [Batch(Offset(i), Offset(i), Epoch(3), b"", (RaftVersion(2),)) for i in range(3)]
        )


@pytest.mark.rule("S4")
def test_a_disk_that_cannot_be_reached_any_more_is_lost() -> None:
    disk = blank()
    directory = open_on(disk)
    disk.faults.append(Fault("stat", errno.ESTALE))
    with pytest.raises(StorageLostError, match="cannot be reached"):
        directory.check_identity()


def test_paths_that_cannot_be_data_directories(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigurationError, match="does not exist"):
        DataDirectory.open(tmp_path / "none", ONE)
    with pytest.raises(ConfigurationError, match="not a directory"):
        DataDirectory.open(tmp_path / "file", ONE)
    disk = blank()
    disk.read_only = True
    with pytest.raises(ConfigurationError, match="cannot be written to"):
        open_on(disk)


def test_a_disk_that_turned_read_only_has_failed() -> None:
    """Not a mistake in the settings: the kernel does so after an error of the file system."""
    disk = blank()
    open_on(disk).close()
    disk.read_only = True
    with pytest.raises(StorageFailedError, match="Read-only file system"):
        open_on(disk)


@pytest.mark.parametrize("capacity", [*range(0, 381, 20), 10_000])
def test_a_full_disk_is_told_and_does_no_harm(capacity: int) -> None:
    disk = blank()
    disk.capacity_bytes = capacity
    files = Files(disk)
    with contextlib.suppress(StorageFailedError):
        DataDirectory.open(ROOT, ONE, files).close()
    assert (files.failure is not None) == (capacity < 400)
    if files.failure is not None:
        assert getattr(files.failure, "errno", None) == errno.ENOSPC
    disk.kill()
    disk.capacity_bytes = None
    assert open_on(disk).quorum_state == QuorumState()


def test_formatting_by_hand_can_be_repeated_after_a_crash() -> None:
    for point in range(25):
        disk = blank(point)
        disk.cut_power_at = point
        try:
            format_storage(ROOT, ONE, files=Files(disk), directory_id=KEY.directory_id, latch=LATCH)
        except Exception:  # noqa: BLE001
            disk.crash()
        try:
            other = format_storage(ROOT, ONE, files=Files(disk))
        except ConfigurationError:
            assert open_on(disk).latch == LATCH
        else:
            directory = open_on(disk)
            assert (directory.key, directory.latch, directory.cluster_id) == (other, None, None)


def test_formatting_by_hand_wants_sense() -> None:
    disk = blank()
    with pytest.raises(ConfigurationError, match="at least one"):
        format_storage(ROOT, ONE, files=Files(disk), latch=Latch("c", VoterSet()))
    with pytest.raises(ConfigurationError, match="cluster id"):
        format_storage(ROOT, ONE, files=Files(disk), latch=Latch("c c", LATCH.voters))


def test_on_the_real_file_system(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    (root / "lost+found").mkdir()
    directory = DataDirectory.open(root, ONE)
    log = directory.open_log(LogSettings(segment_bytes=200))
    log.append([Batch(Offset(i), Offset(i), Epoch(1), b"", (RaftVersion(2),)) for i in range(9)])
    log.flush()
    directory.write_quorum_state(QuorumState(Epoch(1), directory.key, directory.key))
    directory.check_identity()
    log.check_identity()
    log.close()
    directory.close()
    again = DataDirectory.open(root, ONE)
    assert again.open_log().end_offset == 9
    assert again.incarnation == 2
    with pytest.raises(StorageLockedError):
        DataDirectory.open(root, ONE)
    for name in os.listdir(root):  # noqa: PTH208
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(StorageLostError):
        again.check_identity()
    again.close()
