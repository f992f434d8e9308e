"""Processor time and memory of processes, as the kernel counts them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")


def cpu_us(pid: int, proc: Path = _PROC) -> float:
    """Microseconds of processor time that the living threads of a process have taken.

    Read from schedstat, which counts nanoseconds; without it from stat, which counts ticks.

    Raises:
        ProcessLookupError: the process has ended.
    """
    try:
        threads = [entry / "schedstat" for entry in (proc / str(pid) / "task").iterdir()]
    except FileNotFoundError as error:
        raise ProcessLookupError(f"process {pid} has ended") from error
    total_ns = 0
    for path in threads:
        try:
            total_ns += int(path.read_text(encoding="ascii").split()[0])
        except ProcessLookupError:
            continue  # a thread that has just ended
        except FileNotFoundError:
            if not path.parent.exists():
                continue
            return _ticks_us(proc / str(pid) / "stat")
    return total_ns / 1000


def _ticks_us(stat: Path) -> float:
    fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def total_cpu_us(pids: Iterable[int]) -> float:
    """The sum of `cpu_us` over processes."""
    return sum(cpu_us(pid) for pid in pids)


def resident_mib(pid: int, proc: Path = _PROC) -> float:
    """Memory of a process that is in RAM, in MiB."""
    for line in (proc / str(pid) / "status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has no memory any more")
