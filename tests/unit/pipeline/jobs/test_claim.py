"""One run at a time: a lock on this machine, a file that is written again and again elsewhere."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kraftquorum_pipeline.errors import OptionError, UnreachableError
from kraftquorum_pipeline.jobs import claim
from kraftquorum_pipeline.jobs.claim import Claim

PLACE = "store://x/_checkpoint/c.running"
BUSY = "c.running: another run is exporting this cluster to this target"


class Far:
    """A store that is not on this machine."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.down = False

    def local(self, path: str) -> Path | None:
        return None

    def read_text(self, path: str) -> str | None:
        if self.down:
            raise UnreachableError(path, "down")
        return self.found.get(path)

    def write_text(self, path: str, text: str) -> None:
        self.found[path] = text

    def remove(self, path: str) -> None:
        self.found.pop(path, None)


class Near(Far):
    def local(self, path: str) -> Path | None:
        return Path(path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "BEAT_S", 0.02)
    monkeypatch.setattr(claim, "_LOOK_S", 0.1)


@pytest.mark.usefixtures("quick")
def test_a_run_that_is_alive_keeps_the_others_away_until_it_ends():
    files = Far()
    with Claim.taken(files, PLACE) as held:
        with pytest.raises(OptionError, match=BUSY), Claim.taken(files, PLACE):
            pass
        held.check()
    assert files.found == {}
    with Claim.taken(files, PLACE):
        pass


@pytest.mark.usefixtures("quick")
def test_a_run_that_was_killed_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(claim, "DEAD_S", 0.5)
    files = Far()
    files.found[PLACE] = "of one that is no more"
    with Claim.taken(files, PLACE) as held:
        held.check()


@pytest.mark.usefixtures("quick")
def test_a_run_that_was_taken_for_dead_does_nothing_more():
    files = Far()
    with Claim.taken(files, PLACE) as held:
        # As the one that came since; nothing of it is written over or removed.
        files.found[PLACE] = "another's"
        with pytest.raises(OptionError, match=BUSY):
            held.check()
        threading.Event().wait(0.1)
    assert files.found == {PLACE: "another's"}


class Slow(Far):
    """Empties a file before it is written, as file systems do."""

    def write_text(self, path: str, text: str) -> None:
        self.found[path] = ""
        threading.Event().wait(0.02)
        self.found[path] = text


@pytest.mark.usefixtures("quick")
def test_a_run_does_not_take_its_own_writing_for_anothers():
    files = Slow()
    with Claim.taken(files, PLACE) as held:
        for _ in range(50):
            held.check()
            threading.Event().wait(0.003)
        with pytest.raises(OptionError, match=BUSY), Claim.taken(files, PLACE):
            pass


@pytest.mark.usefixtures("quick")
def test_of_two_that_begin_at_once_one_goes_on(monkeypatch: pytest.MonkeyPatch):
    files = Far()
    write = files.write_text

    def overtaken(path: str, text: str) -> None:
        write(path, text)
        write(path, "another's, which found nothing either")

    monkeypatch.setattr(files, "write_text", overtaken)
    with pytest.raises(OptionError, match=BUSY), Claim.taken(files, PLACE):
        pass


@pytest.mark.usefixtures("quick")
def test_a_store_that_does_not_answer_for_a_while_costs_no_claim():
    files = Far()
    with Claim.taken(files, PLACE) as held:
        files.down = True
        threading.Event().wait(0.1)
        files.down = False
        with pytest.raises(OptionError, match=BUSY), Claim.taken(files, PLACE):
            pass
        held.check()


def test_on_this_machine_a_killed_process_holds_nothing(tmp_path: Path):
    path = tmp_path / "deep" / "c.running"
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from kraftquorum_pipeline.jobs.claim import _locked\n"
        "with _locked(Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(OptionError, match=BUSY), Claim.taken(Near(), str(path)):
            pass
        process.kill()
    with Claim.taken(Near(), str(path)) as held:
        held.check()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    where = tmp_path / "file" / "c.running"
    with pytest.raises(UnreachableError, match=f"{where}: "), Claim.taken(Near(), str(where)):
        pass
