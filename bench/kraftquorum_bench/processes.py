"""Children of the bench: none outlives it, whatever ends it but SIGKILL."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class ToolError(RuntimeError):
    """A program of a peer ended with an error, or did not end in time."""


@dataclass(slots=True)
class Children:
    """Servers that run until the end of the block.

    Attributes:
        root: where their outputs go.
        pass_fds: file descriptors that they inherit, such as the claim of a network.
    """

    root: Path
    pass_fds: Sequence[int] = ()
    running: dict[str, subprocess.Popen[bytes]] = field(
        default_factory=dict[str, subprocess.Popen[bytes]]
    )

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a server under a name, which must not run already."""
        if name in self.running:
            raise ValueError(f"{name} runs already")
        with self.output(name).open("ab") as output:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                env={**os.environ, **(environment or {})},
                pass_fds=tuple(self.pass_fds),
            )
        self.running[name] = process
        return process

    def output(self, name: str) -> Path:
        """The file with all that the server has printed."""
        return self.root / f"{name}.log"

    def last_lines(self, name: str) -> str:
        """The end of what the server has printed."""
        try:
            return self.output(name).read_text(encoding="utf-8", errors="replace")[-2000:]
        except FileNotFoundError:
            return ""

    def kill(self, name: str) -> None:
        """End a server by SIGKILL; it is no error if it does not run."""
        process = self.running.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def check_running(self) -> None:
        """Raise a `ToolError` with the output of a server that has ended by itself."""
        for name, process in self.running.items():
            if process.poll() is not None:
                said = self.last_lines(name)
                raise ToolError(f"{name} exited with code {process.returncode}: {said}")

    async def eventually(
        self, check: Callable[[], Awaitable[T | None]], within_s: float, what: str
    ) -> T:
        """Call a function until it returns a value, while the servers run.

        Raises:
            ToolError: it returned none in time, or a server ended by itself.
        """
        deadline_s = time.monotonic() + within_s
        last_error: Exception | None = None
        while time.monotonic() < deadline_s:
            self.check_running()
            try:
                value = await check()
            except Exception as error:  # noqa: BLE001 - it is reported below
                last_error = error
            else:
                if value is not None:
                    return value
            await asyncio.sleep(0.02)
        raise ToolError(f"{what}: not within {within_s:.0f} s; last: {last_error!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()
        self.running.clear()


async def run_tool(
    command: Sequence[str], *, timeout_s: float, cwd: Path, stdin: bytes | None = None
) -> str:
    """Run a program to its end; return what it printed on standard output.

    The program is killed when the time is over or the caller is cancelled.

    Raises:
        ToolError: it ended with an error or was too slow.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    name = Path(command[0]).name
    try:
        async with asyncio.timeout(timeout_s):
            printed, complained = await process.communicate(stdin)
    except TimeoutError as error:
        raise ToolError(f"{name} did not end within {timeout_s:.0f} s: {command}") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = (complained or printed).decode(errors="replace")[-1500:]
        raise ToolError(f"{name} exited with code {process.returncode}: {said}")
    return printed.decode(errors="replace")
