"""A sample of `make crash`, and that it would see a loss."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest

from proofkit.crash import __main__ as program
from proofkit.crash import held_flush, nodes, power
from proofkit.crash.history import (
    PEER,
    SETTINGS,
    Append,
    Behind,
    Flush,
    Hold,
    Install,
    LossError,
    Read,
    Release,
    Reopen,
    Snapshot,
    Step,
    Storage,
    Trim,
    Truncate,
    Vote,
    make_history,
    run,
    settings_of,
)
from proofkit.crash.oracle import Expected, expected
from raftnode.core.records import Batch
from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, Offset
from raftnode.errors import RaftnodeError, StorageCorruptError
from raftnode.logformat import Record, SnapshotId, encode_data_batch, iter_records, stamp
from raftnode.storage.files import File, FileOperationError, Files
from raftnode.storage.log import log as log_module
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots import snapshot_store as snapshots_module
from raftnode.storage.snapshots.snapshot_file import SnapshotFile
from raftnode.storage.snapshots.snapshot_store import Snapshots

pytestmark = pytest.mark.timeout(600)


def test_a_history_holds_every_kind_of_step() -> None:
    steps = [step for seed in range(6) for step in make_history(seed)]
    assert {type(step) for step in steps} == {Append, Flush, Vote, Truncate, Snapshot, Reopen}
    assert make_history(3) == make_history(3)
    steps = [step for seed in range(6) for step in make_history(seed, "trims")]
    every = {Append, Flush, Vote, Truncate, Snapshot, Reopen, Trim, Install}
    assert {type(step) for step in steps} == every
    steps = [step for seed in range(6) for step in make_history(seed, "slow")]
    assert {type(step) for step in steps} == every | {Hold, Read, Behind, Release}
    waiting = {type(step.step) for step in steps if isinstance(step, Behind)}
    assert waiting == {Append, Truncate, Install}


def test_histories_have_batches_that_clients_have_finished() -> None:
    appended = [step for step in make_history(3) if isinstance(step, Append)]
    batches = [batch for step in appended for batch in step.batches if not batch.control]
    keyless = [not any(record.key for record in iter_records(batch.data)) for batch in batches]
    assert 0 < keyless.count(True) < keyless.count(False)
    for first in (0, 1):  # with the log trimmed, and not
        assert {nodes.finishes(seed) for seed in range(first, 8, 2)} == {True, False}


def test_a_quarter_of_the_histories_reserve_room_and_the_sample_has_some() -> None:
    of = [settings_of(seed) for seed in range(32)]
    assert [(one.segment_bytes, one.preallocate) for one in of].count((700, True)) == 4
    assert [(one.segment_bytes, one.preallocate) for one in of].count((9000, True)) == 4
    assert any(settings_of(seed).preallocate for seed, _ in islice(power.points(), 0, 2000, 41))


def test_no_power_cut_loses_anything() -> None:
    for seed, point in islice(power.points(), 0, 2000, 41):
        power.crash(seed, point)


@pytest.mark.parametrize("kind", ["trim", "install"])
def test_no_power_cut_in_a_trim_or_an_install_loses_anything(kind: str) -> None:
    for seed, point in islice(power.points_of(kind), 0, 300, 7):
        power.crash(seed, point, "trims")


@pytest.mark.rule("S35")
def test_no_power_cut_beside_a_flush_that_hangs_loses_anything() -> None:
    for seed, point in islice(power.points(story="slow"), 0, 5000, 101):
        power.crash(seed, point, "slow")


def crashes(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program, as a process of its own: one that forks must have no other threads (S29)."""
    command = [sys.executable, "-m", "proofkit.crash", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_no_killed_process_and_no_killed_node_loses_anything() -> None:
    ended = crashes("--points", "60", "--every", "61")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    points = "power 18, kill 15, trim 6, install 6, slow 12, node 2, slow-node 1), 0 losses"
    assert points in ended.stdout
    assert int(ended.stdout.rsplit(maxsplit=1)[-1]) > 0


def test_an_unknown_kind_is_refused() -> None:
    ended = crashes("--kinds", "kill earthquake")
    assert ended.returncode == 2
    assert (
        "--kinds: earthquake: not one of power, kill, trim, install, slow, node, slow-node"
        in ended.stderr
    )


@pytest.mark.parametrize("kind", ["power", "trim", "install", "slow", "node", "slow-node"])
def test_histories_begin_where_they_are_told_to(tmp_path: Path, kind: str) -> None:
    """Or each night would try the same."""
    made = program.make_points(4, tmp_path, 1, (kind,), first=8)
    # The first two of a trim are power cuts; the rest would kill processes.
    names = [name for _, name, _ in islice(made, 2)]
    wanted = ["seed 8", "seed 9"] if "node" in kind else ["seed 8", "seed 8"]
    assert [re.findall(r"seed \d+", name) for name in names] == [[one] for one in wanted]


def test_a_loss_is_told_and_ends_the_program_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(File, "fdatasync", lambda _: None)
    assert program.main(["--points", "200", "--kinds", "power"]) == 1
    assert "LOST power, power seed" in capsys.readouterr().out


# -- would it see a loss? ------------------------------------------------------------


def found_by_power() -> bool:
    for seed, point in islice(power.points(), 0, 3000, 3):
        try:
            power.crash(seed, point)
        except Exception:  # noqa: BLE001 - also a start that is refused
            return True
    return False


def test_a_log_that_is_not_synced_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(File, "fdatasync", lambda _: None)
    assert found_by_power()


def test_names_that_are_not_synced_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Files, "fsync_dir", lambda *_: None)
    assert found_by_power()


def found_in(kind: str) -> bool:
    try:
        for seed, point in islice(power.points_of(kind), 0, 1500, 3):
            power.crash(seed, point, "trims")
    except (LossError, StorageCorruptError, FileOperationError):
        return True
    return False


def nothing(*_: object) -> None:
    """Left out."""


def test_a_trim_that_does_not_say_where_the_log_begins_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_module, "write_log_start", nothing)
    assert found_in("trim")


def test_an_install_without_its_marker_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_module, "write_marker", nothing)
    assert found_in("install")


def test_a_marker_that_goes_before_the_log_is_replaced_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def install(self: Snapshots, log: Log, found: SnapshotFile) -> None:
        snapshots_module.write_marker(self._files, self.directory, found.snapshot_id)
        self.incoming.adopt(found.snapshot_id)
        snapshots_module.remove_marker(self._files, self.directory)
        log.reset(found.snapshot_id)
        self.proved(found)

    monkeypatch.setattr(Snapshots, "install", install)
    assert found_in("install")


def found_beside_a_slow_flush(first: int) -> str:
    for seed, point in islice(power.points(first, "slow"), 0, 6000, 7):
        try:
            power.crash(seed, point, "slow")
        except (LossError, RaftnodeError) as error:
            return str(error)
    return "nothing"


@pytest.mark.rule("S10")
def test_a_flush_that_covers_what_came_while_it_lasted_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def flush_locked(self: Log) -> Offset:
        if self.end_offset > self._flushed_offset:
            self._segments[-1].file.fdatasync()
            self._flushed_offset = self.end_offset  # taken before the sync in the real one
            self._mark.raise_to(self._flushed_offset)
        return self._flushed_offset

    monkeypatch.setattr(Log, "_flush_locked", flush_locked)
    assert "the log" in found_beside_a_slow_flush(first=0)
    # No flush returns late in the other histories.
    for seed, point in islice(power.points(), 0, 2000, 201):
        power.crash(seed, point)


def test_a_truncation_that_does_not_wait_for_the_flush_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def truncate(self: Log, end_offset: Offset) -> Offset:
        lock, self._sync_lock = self._sync_lock, threading.Lock()
        try:
            return real(self, end_offset)
        finally:
            self._sync_lock = lock

    real = Log.truncate
    monkeypatch.setattr(Log, "truncate", truncate)
    assert found_beside_a_slow_flush(first=3) != "nothing"


def appended(offset: int, epoch: int, count: int) -> Append:
    data = stamp(
        encode_data_batch([Record(b"k", b"v" * 40)] * count, 7), Offset(offset), Epoch(epoch)
    )
    return Append((Batch(Offset(offset), Offset(offset + count - 1), Epoch(epoch), data),))


SHORTER = SnapshotId(Offset(5), Epoch(2))
AN_INSTALL_BESIDE_A_FLUSH = (
    Vote(QuorumState(Epoch(1), None, PEER)),
    appended(0, 1, 13),
    Hold(),
    Vote(QuorumState(Epoch(2), None, PEER)),
    Behind(Install(SHORTER)),
    Release(),
    # A log that takes the late flush's end for its own has nothing to sync before offset 13.
    *(step for end in range(5, 11) for step in (appended(end, 2, 1), Flush())),
)
"""The flush that is held covers more than the snapshot that takes the place of the log."""


@pytest.mark.rule("S35")
def test_an_install_that_does_not_wait_for_the_flush_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reset(self: Log, snapshot_id: SnapshotId) -> None:
        lock, self._sync_lock = self._sync_lock, threading.Lock()
        try:
            real(self, snapshot_id)
        finally:
            self._sync_lock = lock

    def history(*_: object) -> tuple[Step, ...]:
        return AN_INSTALL_BESIDE_A_FLUSH

    monkeypatch.setattr(power, "make_history", history)

    def crash_from_the_end(count: int | None = None) -> None:
        calls = power.calls_of(1, "slow")
        for point in islice(reversed(range(calls)), count):
            power.crash(1, point, "slow")

    crash_from_the_end(6)
    real = Log.reset
    monkeypatch.setattr(Log, "reset", reset)
    # It ends at once here; on a busy machine it must do so before the flush is released.
    monkeypatch.setattr(held_flush, "SETTLED_S", 60)
    with pytest.raises(LossError, match="the log ends at"):
        crash_from_the_end()


def test_a_file_that_is_written_in_its_place_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(files: Files, path: Path, data: bytes) -> None:
        file = files.open(path, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.fsync()
        file.close()

    monkeypatch.setattr(Files, "replace", replace)
    assert found_by_power()


def test_a_kill_that_loses_is_found_out(tmp_path: Path) -> None:
    """Here: small files are emptied and written again in their place."""
    script = tmp_path / "in_place.py"
    script.write_text(
        "import sys\n"
        "from raftnode.storage.files import Files\n"
        "from proofkit.crash import __main__ as program\n"
        "def replace(files, path, data):\n"
        "    file = files.open(path, create=True)\n"
        "    file.truncate(0)\n"
        "    file.pwrite(data, 0)\n"
        "    file.fsync()\n"
        "    file.close()\n"
        "Files.replace = replace\n"
        "sys.exit(program.main(['--points', '40', '--every', '7', '--kinds', 'kill']))\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "LOST kill, kill seed" in ended.stdout


SYNCS_NOTHING = """
def flush_locked(self):
    with self._state_lock:
        end = self._end_offset
    self._flushed_offset = end
    return end
"""
GIVES_UP_A_FLUSH_THAT_HANGS = """
def flush_locked(self):
    with self._state_lock:
        segment, end = self._segments[-1], self._end_offset
    if end > self._flushed_offset:
        syncing = threading.Thread(
            target=segment.file.fdatasync, name=threading.current_thread().name, daemon=True
        )
        syncing.start()
        syncing.join(0.05)
        self._flushed_offset = end
        self._mark.raise_to(end)
    return end
"""


@pytest.mark.rule("S10")
@pytest.mark.parametrize(
    ("kind", "flush"),
    [
        ("node", SYNCS_NOTHING),
        ("slow-node", SYNCS_NOTHING),
        ("slow-node", GIVES_UP_A_FLUSH_THAT_HANGS),
    ],
    ids=["node syncs nothing", "syncs nothing", "gives up a flush"],
)
def test_a_node_that_acknowledges_before_its_sync_returned_is_found_out(
    tmp_path: Path, kind: str, flush: str
) -> None:
    """SIGKILL alone takes nothing away that was written: the page cache survives it."""
    script = tmp_path / "early.py"
    script.write_text(
        "import sys, threading\n"
        "from raftnode.storage.log.log import Log\n"
        "from proofkit.crash import __main__ as program\n"
        f"{flush}\n"
        "Log._flush_locked = flush_locked\n"
        "program.LOSSES_SHOWN = 1\n"
        f"sys.exit(program.main(['--points', '30', '--kinds', '{kind}']))\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert f"LOST {kind}, seed" in ended.stdout
    assert "was acknowledged before a sync that covers it had returned" in ended.stdout


def test_a_node_that_writes_other_records_than_a_client_has_finished_is_found_out(
    tmp_path: Path,
) -> None:
    script = tmp_path / "other.py"
    script.write_text(
        "import sys\n"
        "from raftnode.runtime.writes import appends\n"
        "from raftnode.logformat import encode_keyless_batch\n"
        "from proofkit.crash import __main__ as program\n"
        "def place(batch, now_ms):\n"
        "    return encode_keyless_batch([b'0 '] * batch.record_count, now_ms)\n"
        "appends.place_finished_batch = place\n"
        "program.LOSSES_SHOWN = 1\n"
        "sys.exit(program.main(['--points', '30', '--kinds', 'node', '--first', '1']))\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert re.search(
        r"LOST node, seed \d+: (the acknowledged batch|\d+ records of batch 0)", ended.stdout
    )


def test_the_oracle_names_what_is_gone(tmp_path: Path) -> None:
    steps = make_history(3)
    storage = Storage(Files(), tmp_path, SETTINGS[1])
    run(storage, steps, lambda: None)
    storage.close()
    storage.open()
    whole = expected(steps, len(steps), keeps_written=True)
    whole.check(storage)
    for change, words in (
        (lambda one: setattr(one, "floor", Offset(one.end + 1)), "the log ends at"),
        (lambda one: setattr(one, "states", []), "vote"),
        (lambda one: one.batches.reverse(), "not what was written|within a batch|the log ends"),
        (lambda one: setattr(one, "snapshots", set()), "snapshot"),
        (lambda one: setattr(one, "starts", [Offset(9999)]), "the log begins at"),
    ):
        other = expected(steps, len(steps), keeps_written=True)
        change(other)
        with pytest.raises(LossError, match=words):
            other.check(storage)
    storage.close()


def test_an_empty_history_expects_an_empty_storage(tmp_path: Path) -> None:
    storage = Storage(Files(), tmp_path, SETTINGS[0])
    Expected().check(storage)
    storage.close()
