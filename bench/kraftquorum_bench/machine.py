"""The raw machine: what no quorum on it can beat, and how fast it is at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import socket
import threading
import time
from pathlib import Path

from kraftquorum_bench.loads import KIB
from kraftquorum_bench.rounds import quantile

RECORD_BYTES = KIB + 100
"""A record of 1 KiB with its head."""
_MIB = 1 << 20
_CALIBRATION_MIB = 64


def fdatasync_ms(directory: Path, seconds: float) -> tuple[float, float]:
    """Append a record and sync it, again and again; the median and the 99th percentile."""
    path = directory / "fdatasync"
    taken_ms: list[float] = []
    data = os.urandom(RECORD_BYTES)
    end = time.perf_counter() + seconds
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        while (began := time.perf_counter()) < end or not taken_ms:
            os.write(descriptor, data)
            os.fdatasync(descriptor)
            taken_ms.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    taken_ms.sort()
    return quantile(taken_ms, 0.5), quantile(taken_ms, 0.99)


def round_trip_us(host: str, seconds: float) -> float:
    """The median round trip of a record over loopback TCP, between two threads."""
    taken_us: list[float] = []
    data = bytes(RECORD_BYTES)
    with socket.create_server((host, 0)) as server:
        echo = threading.Thread(target=_echo, args=(server,), daemon=True)
        echo.start()
        with socket.create_connection(server.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end = time.perf_counter() + seconds
            while (began := time.perf_counter()) < end or not taken_us:
                connection.sendall(data)
                left = len(data)
                while left:
                    left -= len(connection.recv(left))
                taken_us.append((time.perf_counter() - began) * 1e6)
        echo.join()
    taken_us.sort()
    return quantile(taken_us, 0.5)


def _echo(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def calibration_mib_per_s() -> float:
    """MiB of SHA-256 in a second on one core, the median of five: compares machines and minutes."""
    data = bytes(_CALIBRATION_MIB * _MIB // 8)
    rates: list[float] = []
    for _ in range(5):
        began = time.process_time()
        hashlib.sha256(data).digest()
        rates.append(len(data) / _MIB / (time.process_time() - began))
    return sorted(rates)[2]


async def copy_s(directory: Path, mib: int) -> float:
    """Seconds of a raw copy: read a file, send it through loopback TCP, write it and sync it."""
    return await asyncio.to_thread(_copy, directory, mib)


def _copy(directory: Path, mib: int) -> float:
    source, target = directory / "copy-source", directory / "copy-target"
    block = os.urandom(_MIB)
    try:
        with source.open("wb") as file:
            for _ in range(mib):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        began = time.perf_counter()
        with socket.create_server(("127.0.0.1", 0)) as server:
            sender = threading.Thread(
                target=_send, args=(source, server.getsockname()), daemon=True
            )
            sender.start()
            connection, _ = server.accept()
            with connection, target.open("wb") as file:
                while data := connection.recv(_MIB):
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            sender.join()
        return time.perf_counter() - began
    finally:
        source.unlink(missing_ok=True)
        target.unlink(missing_ok=True)


def _send(source: Path, address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection, source.open("rb") as file:
        connection.sendfile(file)


def file_system(directory: Path, mounts: str | None = None) -> str:
    """The type of the file system that a directory is on, such as `ext4`; `?` if not known."""
    listed = mounts if mounts is not None else Path("/proc/mounts").read_text(encoding="utf-8")
    place, kind = "", "?"
    for line in listed.splitlines():
        _, point, this_kind, *_ = line.split(" ")
        # A later mount on the same point hides the earlier one.
        if len(point) >= len(place) and directory.resolve().is_relative_to(point):
            place, kind = point, this_kind
    return kind


def describe_machine(directory: Path) -> dict[str, str]:
    """Kernel, processors, memory, load and the directory's file system, in words."""
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MIB
    return {
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "memory": f"{memory_mib} MiB",
        "load": f"{os.getloadavg()[0]:.2f}",
        "file system": file_system(directory),
        "python": platform.python_version(),
    }


def free_gib(directory: Path) -> float:
    """Free space for files, in GiB."""
    return shutil.disk_usage(directory).free / 2**30
