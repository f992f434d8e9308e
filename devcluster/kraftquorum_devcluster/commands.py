"""Runs a program and hands out its output line by line; ends it with the caller."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_LAUNCHER = str(Path(__file__).with_name("launch.py"))
_GRACE_S = 3.0


def run_streaming(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    on_line: Callable[[str], None],
) -> tuple[int, list[str]]:
    """Run and return the exit code and all lines of output and errors.

    Whatever ends this call, Ctrl-C included, ends the program's whole process
    group; should this process be killed, the program dies with it.
    """
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        cwd=cwd,
        env=env,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - PIPE
            for raw in process.stdout:
                line = raw.rstrip("\n")
                lines.append(line)
                on_line(line)
            return process.wait(), lines
        finally:
            _end_group(process)


def _end_group(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
