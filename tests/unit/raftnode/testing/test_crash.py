"""A sample of `make crash`, and that it would see a loss."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from raftnode.core.types import Offset
from raftnode.storage.files import File, Files
from raftnode.testing.crash import __main__ as program
from raftnode.testing.crash import power
from raftnode.testing.crash.history import (
    SETTINGS,
    Append,
    Flush,
    Reopen,
    Snapshot,
    Storage,
    Truncate,
    Vote,
    make_history,
    run,
)
from raftnode.testing.crash.oracle import Expected, LossError, expected

pytestmark = pytest.mark.timeout(120)


def test_a_history_holds_every_kind_of_step() -> None:
    steps = [step for seed in range(6) for step in make_history(seed, power.STEPS)]
    assert {type(step) for step in steps} == {Append, Flush, Vote, Truncate, Snapshot, Reopen}
    assert make_history(3, 30) == make_history(3, 30)


def test_no_power_cut_loses_anything() -> None:
    for seed, point in islice(power.points(), 0, 2000, 41):
        power.crash(seed, point)


def crashes(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program, as a process of its own: one that forks must have no other threads (S29)."""
    command = [sys.executable, "-m", "raftnode.testing.crash", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_no_killed_process_and_no_killed_node_loses_anything() -> None:
    ended = crashes("--points", "60", "--every", "61")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "60 crash points (power 30, kill 27, node 3), 0 losses" in ended.stdout
    assert int(ended.stdout.rsplit(maxsplit=1)[-1]) > 0


def test_a_loss_is_told_and_ends_the_program_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(File, "fdatasync", lambda _: None)
    monkeypatch.setattr(program, "POWER_SHARE", 1.0)
    monkeypatch.setattr(program, "NODE_SHARE", 0.0)
    assert program.main(["--points", "200"]) == 1
    assert "LOST power, seed" in capsys.readouterr().out


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
    """Here: small files are emptied and written anew in their place."""
    script = tmp_path / "in_place.py"
    script.write_text(
        "import sys\n"
        "from raftnode.storage.files import Files\n"
        "from raftnode.testing.crash import __main__ as program\n"
        "def replace(files, path, data):\n"
        "    file = files.open(path, create=True)\n"
        "    file.truncate(0)\n"
        "    file.pwrite(data, 0)\n"
        "    file.fsync()\n"
        "    file.close()\n"
        "Files.replace = replace\n"
        "program.POWER_SHARE = program.NODE_SHARE = 0.0\n"
        "sys.exit(program.main(['--points', '40', '--every', '7']))\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "LOST kill, seed" in ended.stdout


def test_the_oracle_names_what_is_gone(tmp_path: Path) -> None:
    steps = make_history(3, 30)
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
