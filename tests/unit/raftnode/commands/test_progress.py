"""The bar on long work: drawn for a person at a terminal, and only then."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from raftnode.commands import progress
from raftnode.core.types import Epoch, Offset
from raftnode.logformat import Record, encode_data_batch, stamp

LONG = 3 * progress.LEAST_BYTES
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

READ_IN_STEPS = """
import sys, time
from raftnode.commands import progress
with progress.reading("reading it", int(sys.argv[1])) as on_bytes:
    for _ in range(3):
        on_bytes(int(sys.argv[1]) // 3)
        time.sleep(0.5)
"""


def at_a_terminal(*words: str) -> tuple[str, int]:
    """What a command writes to stderr if that is a terminal of 100 columns; its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        environment.pop(name, None)
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        parts: list[bytes] = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # how a terminal tells that no process writes any more
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    return b"".join(parts).decode(), process.returncode


def percents(text: str) -> list[str]:
    """How much of how much, as the bar says it, in its order."""
    return re.findall(r"(\d+\.\d)/\d+\.\d MiB", ESCAPES.sub("", text))


def test_a_bar_tells_how_much_was_read_and_goes_away() -> None:
    shown, code = at_a_terminal(sys.executable, "-c", READ_IN_STEPS, str(LONG))
    assert code == 0
    assert "reading it" in shown
    seen = list(dict.fromkeys(percents(shown)))
    assert seen[-1] == f"{LONG / (1 << 20):.1f}"
    assert seen == sorted(seen, key=float)
    assert len(seen) >= 3
    # Its line is erased at the end, so that what is said stands alone.
    assert shown.rindex("\x1b[2K") > shown.rindex("reading it")


def test_what_is_read_in_a_moment_has_none() -> None:
    shown, _ = at_a_terminal(sys.executable, "-c", READ_IN_STEPS, str(progress.LEAST_BYTES - 1))
    assert shown == ""


def test_a_script_sees_none(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.reading("reading it", LONG) as on_bytes:
        on_bytes(LONG)
    assert capfd.readouterr() == ("", "")


def test_verify_of_a_long_log_shows_one(tmp_path: Path) -> None:
    """The count that the reader tells adds up to the file."""
    path = tmp_path / f"{0:020d}.log"
    value = bytes(1 << 20)
    with path.open("wb") as file:
        offset = 0
        while file.tell() < progress.LEAST_BYTES:
            data = encode_data_batch([Record(b"key", value)], 1)
            file.write(stamp(data, Offset(offset), Epoch(1)))
            offset += 1
    raftnode = str(Path(sys.executable).with_name("raftnode"))
    shown, code = at_a_terminal(raftnode, "log", "verify", str(path))
    assert code == 0
    size = path.stat().st_size / (1 << 20)
    assert percents(shown)[-1] == f"{size:.1f}"
