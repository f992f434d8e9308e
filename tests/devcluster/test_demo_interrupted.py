"""The demo, stopped in the middle or started twice: says so, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

COMMAND = [sys.executable, "-u", "-m", "kraftquorum_demo", "--short"]
ROOT = Path(__file__).resolve().parents[2]


def demo(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--root", str(ROOT), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"ended before {words!r}:\n{seen}")


def left_behind(out: Path) -> list[str]:
    """Living processes whose command line names the demo's folder; zombies do not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            environment = (entry / "environ").read_bytes().decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and (str(out) in words or str(out) in environment):
            found.append(words.replace("\0", " "))
    return found


@pytest.mark.parametrize(
    ("number", "words"),
    [
        pytest.param(signal.SIGINT, "5/8", marks=pytest.mark.nightly),
        (signal.SIGTERM, "hangs: no flush returns"),
    ],
)
def test_a_demo_that_is_stopped_leaves_no_process_and_no_mount(tmp_path, number, words):
    out = tmp_path / "demo"
    process = demo(out)
    try:
        read_until(process, words)
        assert left_behind(out)
        second = subprocess.run(
            [*COMMAND, "--root", str(ROOT), "--out", str(out)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 2
        assert str(process.pid) in second.stderr + second.stdout
        process.send_signal(number)
        process.communicate(timeout=120)
        assert process.returncode == 130
    finally:
        process.kill()
        process.communicate()
    deadline = time.monotonic() + 15
    while left_behind(out) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left_behind(out) == []
    assert str(out) not in Path("/proc/mounts").read_text()
