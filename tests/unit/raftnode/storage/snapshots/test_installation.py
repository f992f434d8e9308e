"""A fetched snapshot in the place of the log: the one or the other, whole, over every crash."""

from __future__ import annotations

import contextlib
import errno
import random
import threading
from pathlib import Path

import pytest
from tests.unit.raftnode.storage.conftest import KEY, LOG, batch, control, new_log, reopen, segments

from proofkit.faultdisk import Fault, FaultDisk, PowerCutError
from raftnode.core.types import (
    Endpoint,
    Epoch,
    LogPosition,
    Offset,
    Voter,
    VoterRecordId,
    VoterSet,
)
from raftnode.errors import (
    StorageCorruptError,
    StorageError,
    StorageFailedError,
    StorageLostError,
)
from raftnode.logformat import SnapshotHead, SnapshotId, StateRecord, decode_batches, read_header
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import find_log
from raftnode.storage.inspection.verification import Verification
from raftnode.storage.log import log as log_module
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots.installation import MARKER_FILE, read_marker, write_marker
from raftnode.storage.snapshots.snapshot_file import (
    SnapshotDamagedError,
    SnapshotFile,
    write_snapshot,
)
from raftnode.storage.snapshots.snapshot_store import Snapshots

pytestmark = pytest.mark.rule("P25")

ID = SnapshotId(Offset(100), Epoch(6))
HEAD = SnapshotHead(
    VoterSet.of([Voter(KEY, Endpoint("a.example", 9093))]),
    2,
    True,
    1234,
    voter_record=VoterRecordId(Offset(3), Epoch(1)),
)
ENTRIES = [
    StateRecord(b"key %d" % number, b"v" * 50, Offset(number), Epoch(2)) for number in range(50)
]
ELSEWHERE = Path("/elsewhere")


def file_of_the_leader() -> bytes:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(ELSEWHERE)
    write_snapshot(Files(disk), ELSEWHERE, ID, HEAD, ENTRIES, now_ms=5)
    return disk.content(ELSEWHERE / ID.file_name)


CONTENT = file_of_the_leader()


def follower(seed: int = 0, end: int = 30) -> tuple[FaultDisk, Log]:
    """A log that ends before the snapshot, or with what the quorum has given up."""
    disk, log = new_log(seed)
    for offset in range(end):
        epoch = offset // 10 % 3 + 1 if offset < 30 else 3
        log.append([control(offset, epoch) if offset in {0, 10, 20} else batch(offset, epoch)])
    log.flush()
    return disk, log


def snapshots_of(disk: FaultDisk) -> Snapshots:
    return Snapshots(Files(disk), LOG, 2, lambda: None)


def fetched(snapshots: Snapshots, content: bytes = CONTENT, piece: int = 700) -> SnapshotFile:
    """Bring it in pieces and read it whole."""
    for position in range(0, len(content), piece):
        end = snapshots.incoming.store(ID, position, content[position : position + piece])
        assert end == min(position + piece, len(content))
    reader = snapshots.incoming.reader(ID)
    assert list(reader.records()) == ENTRIES
    assert reader.snapshot is not None
    return reader.snapshot


def findings(disk: FaultDisk) -> list[str]:
    files = Files(disk)
    return [str(finding) for finding in Verification(files, find_log(files, LOG)).run()]


def state(log: Log) -> tuple[int, int, LogPosition]:
    return log.start_offset, log.end_offset, log.position


INSTALLED = (100, 100, LogPosition(Epoch(6), Offset(100)))


@pytest.mark.parametrize("end", [0, 30, 140])
def test_the_log_begins_at_its_end_and_goes_on(end: int):
    disk, log = follower(end=end)
    snapshots = snapshots_of(disk)
    found = fetched(snapshots)
    snapshots.install(log, found)
    assert state(log) == INSTALLED
    assert log.flushed_offset == 100
    assert segments(disk) == [f"{100:020d}.log"]
    log.append([batch(100, 6), batch(101, 6)])
    log.append([control(102, 8)])
    log.flush()
    disk.crash()
    again = reopen(disk)
    assert (again.start_offset, again.end_offset, again.rebuilt) == (100, 103, ())
    read = decode_batches(again.read(Offset(100), 1 << 20, Offset(103)))
    assert [(one.base_offset, one.epoch) for one in read] == [(100, 6), (101, 6), (102, 8)]
    assert [one.base_offset for one in again.recovered] == [102]
    assert findings(disk) == []
    assert snapshots_of(disk).ids() == [ID]


def test_what_it_says_of_the_quorum_comes_with_it():
    disk, _ = follower()
    head = fetched(snapshots_of(disk)).log_head
    assert head is not None
    assert (head.position, head.voters) == (ID.position, HEAD.voters)
    assert head.voter_record == VoterRecordId(Offset(3), Epoch(1))
    assert (head.raft_version, head.formation_completed) == (2, True)


@pytest.mark.parametrize(("seed", "end"), [(1, 30), (2, 110)])
def test_a_power_cut_at_every_call_leaves_the_log_or_the_snapshot(seed: int, end: int):
    outcomes: set[bool] = set()
    for nth in range(300):
        disk, log = follower(seed * 1000 + nth, end)
        before = state(log)
        snapshots = snapshots_of(disk)
        found = fetched(snapshots)
        disk.cut_power_at = disk.modifications + nth
        done = False
        with contextlib.suppress(PowerCutError):
            snapshots.install(log, found)
            done = True
        disk.crash()
        # What the next start does is cut too, before it is let through.
        for extra in range(2):
            disk.cut_power_at = disk.modifications + (nth + extra * 7) % 25
            with contextlib.suppress(PowerCutError):
                reopen(disk)
            disk.crash()
        again = reopen(disk)
        kept = snapshots_of(disk)
        installed = state(again) == INSTALLED
        outcomes.add(installed)
        assert installed or (not done and state(again) == before)
        assert kept.ids() == ([ID] if installed else [])
        if installed:
            assert list(kept.reader(ID).records()) == ENTRIES
        assert again.rebuilt == ()
        assert findings(disk) == []
        assert MARKER_FILE not in disk.listdir(str(LOG))
        assert not [name for name in disk.listdir(str(LOG)) if name.endswith(".incoming")]
        if done:
            break
    else:
        pytest.fail("it never ended")
    assert outcomes == {True, False}


def test_a_snapshot_beyond_the_log_without_the_marker_is_no_install():
    """Then this replica made it itself, and has lost records since."""
    disk, log = follower()
    log.close()
    snapshots = snapshots_of(disk)
    fetched(snapshots)
    snapshots.incoming.adopt(ID)
    assert state(reopen(disk))[:2] == (0, 30)


@pytest.mark.without(
    "storage.snapshots.installation:finish_install", "remove_marker(files, directory)", "pass"
)
def test_a_marker_without_the_snapshot_changes_nothing():
    disk, log = follower()
    log.close()
    write_marker(Files(disk), LOG, ID)
    again = reopen(disk)
    assert state(again)[:2] == (0, 30)
    assert read_marker(Files(disk), LOG) is None


def test_no_flipped_bit_of_the_marker_makes_another_snapshot_of_it():
    disk, _ = new_log()
    write_marker(Files(disk), LOG, ID)
    for byte in range(len(disk.content(LOG / MARKER_FILE))):
        for bit in range(8):
            disk.flip_bit(LOG / MARKER_FILE, byte, bit)
            with pytest.raises(StorageCorruptError, match="is damaged"):
                read_marker(Files(disk), LOG)
            disk.flip_bit(LOG / MARKER_FILE, byte, bit)
    assert read_marker(Files(disk), LOG) == ID


def test_a_damaged_marker_is_refused():
    disk, log = follower()
    log.close()
    write_marker(Files(disk), LOG, ID)
    disk.flip_bit(LOG / MARKER_FILE, 20, 0)
    with pytest.raises(StorageCorruptError, match="snapshot-install"):
        reopen(disk)


def test_epochs_missing_from_a_log_without_records_are_refused():
    disk, log = follower()
    snapshots = snapshots_of(disk)
    snapshots.install(log, fetched(snapshots))
    log.close()
    disk.remove(LOG / "leader-epoch-checkpoint")
    with pytest.raises(StorageError):
        reopen(disk)


@pytest.mark.parametrize("position", [0, 60, 800, len(CONTENT) - 1])
def test_damage_on_the_way_is_found_before_it_counts(position: int):
    disk, _ = follower()
    snapshots = snapshots_of(disk)
    content = bytearray(CONTENT)
    content[position] ^= 4
    with pytest.raises((SnapshotDamagedError, AssertionError)):
        fetched(snapshots, bytes(content))
    assert snapshots.ids() == []
    # From the start once more.
    assert fetched(snapshots).snapshot_id == ID


def test_two_halves_of_two_files_do_not_make_one():
    """The footer's checksum: batch by batch and by count they might."""
    disk = FaultDisk(random.Random(0))
    disk.make_directory(ELSEWHERE)
    other = [StateRecord(one.key, b"w" * 50, one.offset, one.epoch) for one in ENTRIES]
    write_snapshot(Files(disk), ELSEWHERE, ID, HEAD, other, now_ms=5)
    theirs = disk.content(ELSEWHERE / ID.file_name)
    assert len(theirs) == len(CONTENT)
    mine, _ = follower()
    snapshots = snapshots_of(mine)
    head = read_header(CONTENT).size
    cut = head + read_header(CONTENT, head).size
    snapshots.incoming.store(ID, 0, theirs[:cut])
    snapshots.incoming.store(ID, cut, CONTENT[cut:])
    with pytest.raises(SnapshotDamagedError, match="footer has the checksum of other content"):
        list(snapshots.incoming.reader(ID).records())


def test_pieces_must_follow_each_other():
    disk, _ = follower()
    incoming = snapshots_of(disk).incoming
    with pytest.raises(ValueError, match="does not follow byte 0 of None"):
        incoming.store(ID, 5, b"x")
    incoming.store(ID, 0, b"abc")
    with pytest.raises(ValueError, match="byte 2"):
        incoming.store(ID, 2, b"x")
    other = SnapshotId(Offset(200), Epoch(6))
    with pytest.raises(ValueError, match="byte 3"):
        incoming.store(other, 3, b"x")
    with pytest.raises(ValueError, match="is not here, but"):
        incoming.reader(other)
    incoming.store(other, 0, b"new")
    assert [name for name in disk.listdir(str(LOG)) if name.endswith(".incoming")] == [
        f"{other}.checkpoint.incoming"
    ]


def test_the_check_of_the_files_identity_waits_for_it(monkeypatch: pytest.MonkeyPatch):
    """S4: the names of the old files are gone for a while, and no disk was taken away."""
    disk, log = follower()
    snapshots = snapshots_of(disk)
    found = fetched(snapshots)
    problems: list[BaseException] = []
    real = log_module.empty_log

    def check() -> None:
        try:
            log.check_identity()
        except StorageError as error:
            problems.append(error)

    checking = threading.Thread(target=check)

    def slow(*arguments) -> None:
        real(*arguments)
        checking.start()
        checking.join(0.05)

    monkeypatch.setattr(log_module, "empty_log", slow)
    snapshots.install(log, found)
    checking.join()
    assert problems == []
    disk.remove(LOG / segments(disk)[0])
    with pytest.raises(StorageLostError):
        log.check_identity()


@pytest.mark.parametrize("call", ["rename", "unlink", "fsync", "pwrite"])
def test_a_failing_disk_ends_it_and_the_next_start_has_one_of_both(call: str):
    disk, log = follower()
    snapshots = snapshots_of(disk)
    found = fetched(snapshots)
    fault = Fault(call, errno.EIO)
    disk.faults.append(fault)
    snapshots._files = Files(disk)
    with pytest.raises(StorageFailedError):
        snapshots.install(log, found)
    disk.faults.clear()
    disk.kill()
    assert state(reopen(disk)) in (INSTALLED, (0, 30, LogPosition(Epoch(3), Offset(30))))


def test_pieces_are_given_of_whole_ones_only_and_keep_them():
    disk, log = follower()
    now = [1000.0]
    snapshots = Snapshots(Files(disk), LOG, 1, lambda: None, lambda: now[0])
    del log

    def take(end: int) -> SnapshotId:
        which = SnapshotId(Offset(end), Epoch(1))
        snapshots.write(which, SnapshotHead(), ENTRIES[:3], now_ms=1, pause=lambda: None)
        return which

    first = take(5)
    content = disk.content(LOG / first.file_name)
    piece = snapshots.read_piece(first, 10, 20)
    assert piece is not None
    assert (piece.data, piece.size) == (content[10:30], len(content))
    beyond = snapshots.read_piece(first, len(content), 20)
    assert beyond is not None
    assert beyond.data == b""
    # A replica is fetching it: the next one does not make it superfluous yet.
    second = take(6)
    assert snapshots.ids() == [first, second]
    now[0] += 31
    third = take(7)
    assert snapshots.ids() == [third]
    assert snapshots.read_piece(first, 0, 10) is None
    # A snapshot that was not read here may be anything.
    assert snapshots_of(disk).read_piece(third, 0, 10) is None


def test_the_log_may_go_up_to_the_oldest_of_as_many_whole_ones_as_are_kept():
    disk, log = follower()
    del log
    snapshots = snapshots_of(disk)  # which keeps two

    def take(end: int, head: SnapshotHead = HEAD) -> None:
        which = SnapshotId(Offset(end), Epoch(2))
        snapshots.write(which, head, ENTRIES[:3], now_ms=1, pause=lambda: None)

    assert snapshots.covered() == 0
    take(10)
    assert snapshots.covered() == 0
    take(20)
    assert snapshots.covered() == 10
    take(30)
    assert snapshots.covered() == 20
    # A start has read the newest only: the others prove nothing to it.
    again = snapshots_of(disk)
    for _ in (reader := again.reader(again.ids()[-1])).records():
        pass
    assert reader.snapshot is not None
    again.proved(reader.snapshot)
    assert again.covered() == 0
    # One that does not say which record its voters come from can stand for no log.
    take(40, SnapshotHead())
    assert snapshots.covered() == 0


@pytest.mark.parametrize("end", [30, 140])
def test_the_old_log_gives_its_room_back_at_once(end: int, monkeypatch: pytest.MonkeyPatch):
    """An open file takes its room though its name is gone; a reader keeps only its own."""
    disk, log = follower(end=end)
    old = list(log._segments)
    closed: list[Path] = []
    for segment in old:
        path, close = segment.file.path, segment.close
        monkeypatch.setattr(segment, "close", lambda p=path, c=close: (closed.append(p), c()))
    old[1].readers += 1
    snapshots = snapshots_of(disk)
    snapshots.install(log, fetched(snapshots))
    assert closed == [one.file.path for one in old if one is not old[1]]
    with log._reading(old[1]):
        pass
    assert len(closed) == len(old)
    log.append([batch(100, 6)])
    assert log.flush() == 101
    log.close()
    assert len(closed) == len(old)


def test_a_truncation_waits_for_the_check_of_the_files_identity(monkeypatch: pytest.MonkeyPatch):
    """S4: the segment that is looked for goes with the truncation, and no disk was taken away."""
    disk, log = follower()
    cutting = threading.Thread(target=log.truncate, args=(Offset(5),))
    real = disk.stat

    def slow(path: str) -> object:
        if path == str(log.active_path) and cutting.ident is None:
            cutting.start()
            cutting.join(0.1)
        return real(path)

    monkeypatch.setattr(disk, "stat", slow)
    log.check_identity()
    cutting.join()
    assert log.end_offset == 5
    log.check_identity()
    assert log._dropped == []
