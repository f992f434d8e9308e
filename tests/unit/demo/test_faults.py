"""What the demo breaks."""

import os
import signal
import subprocess
import sys

import pytest

from kraftquorum_demo.errors import DemoError
from kraftquorum_demo.faults import is_alive, kill, wipe


def test_wipe_empties_the_volume_and_leaves_it_there(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "segment").write_bytes(b"data")
    (tmp_path / "meta.properties").write_text("x")
    (tmp_path / "link").symlink_to("log")
    before = tmp_path.stat().st_ino
    assert wipe(tmp_path) == 3
    assert list(tmp_path.iterdir()) == []
    assert tmp_path.stat().st_ino == before


def test_wipe_says_what_it_could_not_delete(tmp_path, monkeypatch):
    (tmp_path / "log").mkdir()
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(DemoError, match="could not be emptied: log"):
        wipe(tmp_path)


def test_a_killed_process_is_not_alive_even_before_its_parent_waits():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert is_alive(process.pid)
        kill(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(process.pid)
    finally:
        assert process.wait() == -signal.SIGKILL
        process.stdin.close()
    assert not is_alive(process.pid)
