"""Child processes that never outlive the supervisor.

Each child is its own session and process group, dies with its parent (see
`launch`), and carries `OWNER_VARIABLE` in its environment, by which a later
start finds and ends what a killed supervisor may have left (grandchildren are
not covered by the death signal).
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)

OWNER_VARIABLE = "KRAFTQUORUM_DEVCLUSTER_OWNER"
CONTAINER_VARIABLE = "KRAFTQUORUM_DEVCLUSTER_CONTAINER"
"""Marks what a container started, in whatever session or process group."""
_LAUNCHER = str(Path(__file__).with_name("launch.py"))
_KILL_WAIT_S = 10.0


@dataclass(slots=True)
class Child:
    """A started process group.

    Attributes:
        name: For logs.
        process: Its leader.
    """

    name: str
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its group."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether the leader has not been seen to end."""
        return self.process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; nothing happens if it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def stop(self, grace_s: float) -> int:
        """SIGTERM, wait ``grace_s`` seconds, SIGKILL; returns the exit code.

        What the leader leaves behind in its group is killed as well.

        Raises:
            TimeoutError: If the process is still there some seconds after SIGKILL.
        """
        if grace_s > 0 and self.running:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.process.wait()
        self.signal(signal.SIGKILL)
        async with asyncio.timeout(_KILL_WAIT_S):
            return await self.process.wait()

    async def end(self, grace_s: float) -> int:
        """The same however long it takes: a killed process ends after its call on a slow disk."""
        while True:
            try:
                return await self.stop(grace_s)
            except TimeoutError:
                _log.warning("process not ended yet", process=self.name, pid=self.pid)
                grace_s = 0


async def spawn(
    name: str,
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    env: Mapping[str, str],
    owner: str,
) -> Child:
    """Start a process whose output is appended to ``log``.

    Must be called on the main thread's event loop: the death signal is tied to
    the thread that starts the child.
    """
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            _LAUNCHER,
            str(os.getpid()),
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env={**env, OWNER_VARIABLE: owner},
            start_new_session=True,
        )
    _log.debug("process started", process=name, pid=process.pid)
    return Child(name, process)


def owned_pids(owner: str, variable: str = OWNER_VARIABLE) -> list[int]:
    """Processes of this user, other than this one, that carry the mark in their environment."""
    mark = f"{variable}={owner}".encode()
    pids: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return pids


def kill_owned(owner: str, variable: str = OWNER_VARIABLE, wait_s: float = _KILL_WAIT_S) -> int:
    """SIGKILL every process that carries the mark; returns how many."""
    killed: set[int] = set()
    deadline = time.monotonic() + wait_s
    while (pids := owned_pids(owner, variable)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed.update(pids)
        time.sleep(0.05)
    return len(killed)
