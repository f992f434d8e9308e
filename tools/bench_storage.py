"""Measure the log's files: how fast they are dumped and verified, and how a start grows.

`make bench-storage` runs it; MIB=n sets how much is written, STARTS="10 1000" the sizes of the logs
that are started (MB). Speeds stand beside a plain sequential read of the same files in the
same process, as ratios: a machine's own speed falls out of them. First all files are in the page
cache and processor time is counted: other load and the disk fall out as well. Then they are read
from the disk and the clock on the wall is counted, a plain read and a tool in turns.

A start is one after a clean stop, and one after a SIGKILL in the middle of a write, which leaves
half a segment above the recovery point and a torn batch at the end.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from raftnode.commands import log_files
from raftnode.core.records import Batch, LeaderChange
from raftnode.core.types import Epoch, NodeId, Offset
from raftnode.logfiles import Files, find_log
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.inspection.verification import Verification

MIB = 1 << 20
UNSYNCED_MIB = 32
"""Written since the last segment was begun when a node is killed: half of one."""
ROUNDS = 3


def generate(root: Path, total_bytes: int, batch_bytes: int, records: int) -> None:
    """Write a log through the node's own storage and stop it cleanly."""
    root.mkdir(exist_ok=True)
    directory = DataDirectory.open(root, NodeId(1))
    log = directory.open_log()
    own = directory.key
    lead = LeaderChange(own, (own,), (own,))
    log.append([Batch(Offset(0), Offset(0), Epoch(1), b"", (lead,))])
    value = os.urandom(max(batch_bytes // records - 16, 2) // 2).hex().encode()
    made = encode_data_batch([Record(b"key-%d" % n, value) for n in range(records)], 0)
    written = 0
    while written < total_bytes:
        batches: list[Batch] = []
        end = log.end_offset
        for _ in range(max(MIB // len(made), 1)):
            data = stamp(made, end, Epoch(1))
            batches.append(Batch(end, Offset(end + records - 1), Epoch(1), data))
            end = Offset(end + records)
            written += len(data)
        log.append(batches)
        if written % (64 * MIB) < 2 * MIB:
            log.flush()
    log.flush()
    log.close()
    directory.close()


def plain_read(root: Path) -> int:
    """Read the segments as `cat` would."""
    total = 0
    for path in sorted(root.glob("*/*.log")):
        with path.open("rb", buffering=0) as file:
            while piece := file.read(MIB):
                total += len(piece)
    return total


def verify(root: Path, *, deep: bool) -> int:
    """Verify the log; returns its bytes."""
    files = Files()
    log = find_log(files, root)
    assert not list(Verification(files, log, deep).run())
    return log.size


def dump(root: Path, *, batches_only: bool, as_json: bool) -> int:
    """Dump the log to nowhere; returns its bytes."""
    with redirect_stdout(io.StringIO()):
        log_files.dump(root, offset=0, limit=None, batches_only=batches_only, as_json=as_json)
    return find_log(Files(), root).size


def speed(work: Callable[[], int], rounds: int = 3) -> float:
    """MB per second of processor time, in the best of a few rounds."""
    best = 0.0
    for _ in range(rounds):
        began = time.process_time()
        size = work()
        best = max(best, size / (time.process_time() - began) / 1e6)
    return best


def tools(scratch: Path, total_bytes: int) -> None:
    """Print the speeds of the tools for three shapes of a log."""
    print(f"{'log':<34}{'what':<16}{'MB/s':>8}  of a plain read")
    for name, batch_bytes, records in (
        ("large batches, 1 MiB of 1 KiB", MIB, 1024),
        ("middling ones, 16 KiB of 160 B", 16 << 10, 100),
        ("lone writes, 160 B each", 160, 1),
    ):
        root = scratch / "tools"
        generate(root, total_bytes, batch_bytes, records)
        plain = speed(lambda root=root: plain_read(root))
        print(f"{name:<34}{'plain read':<16}{plain:>8.0f}")
        for what, work in (
            ("verify", lambda root=root: verify(root, deep=False)),
            ("verify --deep", lambda root=root: verify(root, deep=True)),
            ("dump --batches", lambda root=root: dump(root, batches_only=True, as_json=False)),
            ("dump", lambda root=root: dump(root, batches_only=False, as_json=False)),
            ("dump --json", lambda root=root: dump(root, batches_only=False, as_json=True)),
        ):
            speed_mb_s = speed(work, 1)
            print(f"{'':<34}{what:<16}{speed_mb_s:>8.0f}  {speed_mb_s / plain:.3f}")
        from_disk(root)
        shutil.rmtree(root)


def forget(root: Path) -> None:
    """Have the page cache hold none of the files, so that the next read is the disk's."""
    for path in root.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def from_disk(root: Path) -> None:
    """Print the speeds of the same by the clock on the wall, each beside a read of its own."""
    for what, work in (
        ("verify", lambda: verify(root, deep=False)),
        ("dump --batches", lambda: dump(root, batches_only=True, as_json=False)),
        ("dump", lambda: dump(root, batches_only=False, as_json=False)),
    ):
        speeds: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            plain = on_the_wall(root, lambda: plain_read(root))
            speeds.append((plain, on_the_wall(root, work)))
        plain, speed = (statistics.median(column) for column in zip(*speeds, strict=True))
        ratio = statistics.median(tool / read for read, tool in speeds)
        print(f"{'':<34}{what:<16}{speed:>8.0f}  {ratio:.3f} of a read from the disk, {plain:.0f}")


def on_the_wall(root: Path, work: Callable[[], int]) -> float:
    """MB per second, the files being read from the disk."""
    forget(root)
    began = time.perf_counter()
    size = work()
    return size / (time.perf_counter() - began) / 1e6


def die_writing(root: Path) -> None:
    """Half a segment more than what is there, then a torn batch; and the end."""
    directory = DataDirectory.open(root, NodeId(1))
    log = directory.open_log()
    made = encode_data_batch([Record(b"key", os.urandom(16 << 10))], 0)
    for left in range((UNSYNCED_MIB << 20) // len(made), -1, -1):
        base = log.end_offset
        log.append([Batch(base, base, Epoch(1), stamp(made, base, Epoch(1)))])
        if left == 1:
            log.flush()
    path = log.active_path
    assert path is not None
    os.truncate(path, path.stat().st_size - len(made) // 2)
    os.kill(os.getpid(), signal.SIGKILL)


def start(root: Path, *, cold: bool, torn: bool = False) -> float:
    """Milliseconds that opening the log takes; it is stopped cleanly afterwards."""
    directory = DataDirectory.open(root, NodeId(1))
    if cold:
        forget(root)
    began = time.perf_counter()
    log = directory.open_log()
    taken = (time.perf_counter() - began) * 1000
    assert (log.torn_tail is not None) is torn
    log.close()
    directory.close()
    return taken


def start_after_a_kill(root: Path, *, cold: bool) -> float:
    """The same, on what a process left that was killed as it wrote."""
    command = [sys.executable, __file__, "--die-writing", str(root)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    return start(root, cold=cold, torn=True)


def starts(scratch: Path, sizes_mb: list[int]) -> None:
    """Print how long opening a log takes, by its size, after a clean stop and after a kill."""
    print(f"\nstart in ms: after a clean stop, and killed with {UNSYNCED_MIB} MiB to read again")
    print(f"{'log, MB':>8}{'segments':>10}{'clean':>8}{'cold':>8}{'killed':>8}{'cold':>8}")
    for size in sizes_mb:
        if shutil.disk_usage(scratch).free < size * 1_300_000:
            print(f"{size:>8}  not enough room on the disk")
            continue
        root = scratch / "starts"
        generate(root, size * 1_000_000, 16 << 10, 100)
        segments = len(list(root.glob("*/*.log")))
        row = f"{size:>8}{segments:>10}"
        for how in (start, start_after_a_kill):
            for cold in (False, True):
                taken = [how(root, cold=cold) for _ in range(2 * ROUNDS - 1)]
                row += f"{statistics.median(taken):>8.1f}"
        print(row)
        shutil.rmtree(root)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of the logs for the tools")
    parser.add_argument("--starts", default="10 1000", help="sizes of the logs to start, MB")
    parser.add_argument("--die-writing", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help="where to write; default: temporary")
    given = parser.parse_args()
    if given.die_writing:
        die_writing(given.die_writing)
    with tempfile.TemporaryDirectory(dir=given.directory, prefix="kraftquorum-bench-") as scratch:
        tools(Path(scratch), given.mib * MIB)
        sys.stdout.flush()
        starts(Path(scratch), [int(size) for size in given.starts.split()])


if __name__ == "__main__":
    main()
