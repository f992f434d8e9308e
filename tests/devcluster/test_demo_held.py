"""The held demo: what a cluster would restart is restarted, and the demo reports it.

For the night, because the gate has each part elsewhere: `tests/unit/demo/test_processes.py` restarts
killed operators, also before they are active, `tests/unit/demo/test_restarts.py` reports restarted
nodes, and `make demo` runs the demo on a real cluster.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.processes import owned_pids

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.extended,
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
BOTH_S = 600.0
"""For the whole script and for the end of a demo, on a busy machine."""


class HeldDemo:
    """A demo that is left running, and all that it printed."""

    def __init__(self, out: Path) -> None:
        self.out = out
        command = [sys.executable, "-u", "-m", "kraftquorum_demo", "--short", "--hold"]
        self.process = subprocess.Popen(
            [*command, "--no-spark", "--root", str(ROOT), "--out", str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def until(self, pattern: str, *, times: int = 1, within_s: float = PATIENCE_S) -> None:
        """Wait until so many lines match."""
        deadline = time.monotonic() + within_s
        while sum(re.search(pattern, line) is not None for line in self.lines) < times:
            assert self.process.poll() is None, f"ended before {pattern!r}:\n{self.text}"
            assert time.monotonic() < deadline, f"no {pattern!r}:\n{self.text}"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it, if it still runs, and what reads from it."""
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def operators(self) -> list[int]:
        return owned_pids(f"{self.out}/operator")

    def cluster(self) -> DevCluster:
        return DevCluster(self.out / "state", keep_data=True).attach()


@pytest.fixture
def held(tmp_path) -> Iterator[HeldDemo]:
    demo = HeldDemo(tmp_path / "demo")
    try:
        demo.until("It goes on running until Ctrl-C", within_s=BOTH_S)
        yield demo
    finally:
        demo.kill()


def test_a_killed_operator_and_a_killed_node_are_restarted_and_the_demo_goes_on(held):
    [operator] = held.operators()
    os.kill(operator, signal.SIGKILL)
    held.until("the operator was ended by SIGKILL")
    held.until("the operator is active again")
    # Twice in a row, before it is active.
    for times in (2, 3):
        [operator] = held.operators()
        os.kill(operator, signal.SIGKILL)
        held.until("the operator was ended by SIGKILL", times=times)
        deadline = time.monotonic() + PATIENCE_S
        while not held.operators() or held.operators() == [operator]:
            assert time.monotonic() < deadline, held.text
            time.sleep(0.05)
    held.until("the operator is active again", times=2)
    assert len(held.operators()) == 1

    os.kill(held.cluster().pod_process("default", "demo-1"), signal.SIGKILL)
    held.until(r"pod demo-1: raftnode ended with exit code 137 \(SIGKILL\).*restarted")
    held.cluster().kubectl("scale", "krq/demo", "--replicas=4")
    held.until(r"^ .*operator: 4 voters, all caught up")

    # Killed at the moment of Ctrl-C.
    [operator] = held.operators()
    held.process.send_signal(signal.SIGINT)
    os.kill(operator, signal.SIGKILL)
    assert held.process.wait(timeout=BOTH_S) == 0, held.text
    assert "Every promise was kept." in held.text
    assert owned_pids(str(held.out / "state")) == held.operators() == []
