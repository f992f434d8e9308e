"""Runs load processes: ours, and those for loads under a fault."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kraftquorum_bench.loads import Errand, LoadResult
from kraftquorum_bench.processes import ToolError

START_S = 120.0
"""How long a load process may take until it is connected; 2,048 clients on a busy machine."""
GRACE_S = 90.0
"""How long the operations may take that had begun when the time was over."""


@dataclass(slots=True)
class LoadProcess:
    """A load process that is connected and waits for `go`."""

    errand: Errand
    process: asyncio.subprocess.Process

    def go(self) -> None:
        """Let the clients call."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.close()

    async def result(self) -> LoadResult:
        """Wait for the end of the load.

        Raises:
            ToolError: the process ended with an error, or not in time.
        """
        line = await _line(self.process, self.errand.seconds + GRACE_S)
        return LoadResult.model_validate_json(line)


@asynccontextmanager
async def load_process(errand: Errand) -> AsyncGenerator[LoadProcess]:
    """Start a load process and wait until it is connected; it ends with the block.

    Raises:
        ToolError: it could not connect.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "kraftquorum_bench.loadprocess"),
        cwd=Path.cwd(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 28,  # a timeline is one line
    )
    try:
        assert process.stdin is not None
        process.stdin.write(errand.model_dump_json().encode() + b"\n")
        line = await _line(process, START_S)
        if line != b"ready":
            raise ToolError(f"the load process said {line[:100]!r} instead of ready")
        yield LoadProcess(errand, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def run_errand(errand: Errand) -> LoadResult:
    """Run a load from its start to its end."""
    async with load_process(errand) as load:
        load.go()
        return await load.result()


async def _line(process: asyncio.subprocess.Process, timeout_s: float) -> bytes:
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(timeout_s):
            line = await process.stdout.readline()
            if not line:
                said = (await process.stderr.read()).decode(errors="replace")
                raise ToolError(f"a load process failed: {said[-1500:]}")
    except TimeoutError as error:
        raise ToolError(f"a load process gave no answer within {timeout_s:.0f} s") from error
    return line.strip()
