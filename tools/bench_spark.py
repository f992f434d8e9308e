"""Measure export and audit in Spark against one process that does the same without it.

`make bench-spark` runs it; MB="10 1000" sets the sizes of the log, WORK="export audit" what is
measured, CORES="1 2" on how many cores Spark runs, MEMORY="1g 512m" how much heap its driver gets.
Both ways read the same files with the same decoder and check every checksum; the one process has
neither Spark's start nor its processes in between. After the audits bits are flipped in as many
places as PLANTED says, each in a batch of its own, and counted.

Wall time says what a person waits; processor time of the whole tree of processes is printed beside
it, since it does not change with what else the machine does. Memory is the peak of the driver's
JVM, and of all Python processes together, a page that several share counted once; beside it how
many there were then, and the most that one of them held at any time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from bench_storage import generate
from kraftquorum_pipeline.source.files import FileLog
from kraftquorum_pipeline.source.options import parse_options
from raftnode.core.state import Latch
from raftnode.core.types import NodeId, ReplicaKey, Voter, VoterSet
from raftnode.storage.directory.directory import format_storage
from raftnode.storage.directory.identity import random_directory_id

MB = 1_000_000
PROGRAM = str(Path(sys.executable).with_name("kraftquorum-pipeline"))
BATCH_BYTES, BATCH_RECORDS = 16 << 10, 100
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """What a run took."""

    output: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    java_mb: float = 0.0
    python_mb: float = 0.0
    python_count: int = 0
    largest_mb: float = 0.0
    cpu_s_by_pid: dict[int, float] = field(default_factory=dict[int, float])

    def look(self, root: int) -> None:
        """Take in the processes below one, as they are now."""
        now_mb, count = 0.0, 0
        for pid in tree(root):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                # By the program: what Java is about to start has all of its memory until then.
                name = Path(f"/proc/{pid}/exe").readlink().name
                # A JVM has many pages and shares none of them.
                sizes = Path(f"/proc/{pid}/{'status' if name == 'java' else 'smaps_rollup'}")
                size_mb = kilobytes(sizes.read_text()) / 1000
            except OSError:
                continue
            self.cpu_s_by_pid[pid] = (int(fields[11]) + int(fields[12])) / _TICK
            if name == "java":
                self.java_mb = max(self.java_mb, size_mb)
            else:
                now_mb, count = now_mb + size_mb, count + 1
                self.largest_mb = max(self.largest_mb, size_mb)
        if now_mb > self.python_mb:
            self.python_mb, self.python_count = now_mb, count
        self.cpu_s = sum(self.cpu_s_by_pid.values())


def kilobytes(text: str) -> int:
    """What a process holds by /proc: resident by `status`, its share of it by `smaps_rollup`."""
    for entry in text.splitlines():
        name, _, size = entry.partition(":")
        if name in {"VmRSS", "Pss"}:
            return int(size.split()[0])
    return 0


def tree(root: int) -> Iterator[int]:
    """A process and all below it."""
    yield root
    try:
        for task in Path(f"/proc/{root}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))
    except OSError:
        return


def measured(command: list[str], cores: int, codes: tuple[int, ...] = (0,)) -> Cost:
    """Run a command on so many cores; it may end with one of the codes."""
    some = sorted(os.sched_getaffinity(0))[:cores]
    pinned = ["taskset", "-c", ",".join(map(str, some)), *command]
    cost = Cost()
    began = time.monotonic()
    process = subprocess.Popen(pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        cost.look(process.pid)
        time.sleep(0.1)
    cost.wall_s = time.monotonic() - began
    cost.output, said = process.communicate()
    if process.returncode not in codes:
        sys.exit(f"{' '.join(command)}: {said[-3000:]}")
    return cost


def alone(path: str, output: str) -> None:
    """The same work in this process."""
    log = FileLog(parse_options({"path": path}))
    state = log.look()
    rows = 0
    for number, part in enumerate(log.parts(0, state.end)):
        writer = None
        for batch in part.read():
            if writer is None:
                writer = pq.ParquetWriter(f"{output}/{number:05d}.parquet", batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    print(json.dumps({"rows": rows}))


def make(root: Path, size_mb: int) -> None:
    """A voter's directory with that much in it, through the node's own storage."""
    directory_id = random_directory_id()
    key = ReplicaKey(NodeId(1), directory_id)
    root.mkdir()
    latch = Latch("BenchBenchBenchBenchBe", VoterSet.of([Voter(key)]))
    format_storage(root, NodeId(1), directory_id=directory_id, latch=latch)
    generate(root, size_mb * MB, BATCH_BYTES, BATCH_RECORDS)


@dataclass(frozen=True, slots=True)
class Way:
    """How the work is done: by one process where there is no heap, else by Spark."""

    cores: int = 1
    heap: str = ""

    @property
    def flags(self) -> list[str]:
        """Of a command that runs on Spark."""
        return [f"--master=local[{self.cores}]", f"--conf=spark.driver.memory={self.heap}"]

    def __str__(self) -> str:
        """Name it for a table."""
        return f"spark {self.heap}" if self.heap else "alone"


Once = Callable[[Way, Path, Path], tuple[Cost, int]]


def export_once(way: Way, source: Path, scratch: Path) -> tuple[Cost, int]:
    """Export a log; what it took, and how many rows there are."""
    output = scratch / "output"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    if not way.heap:
        command = [sys.executable, __file__, "--alone", str(source), str(output)]
    else:
        where = [f"--path={source}", f"--output={output}", *way.flags]
        command = [PROGRAM, "export", *where, "-o", "upTo=end", "--json"]
    cost = measured(command, way.cores)
    rows = json.loads(cost.output.splitlines()[-1])["rows"]
    shutil.rmtree(output)
    return cost, sum(rows.values()) if isinstance(rows, dict) else rows


def audit_once(way: Way, source: Path, _scratch: Path) -> tuple[Cost, int]:
    """Audit a log; what it took, and how many findings there are."""
    where = way.flags if way.heap else ["--local"]
    cost = measured([PROGRAM, "audit", str(source), "--json", "-", *where], way.cores, (0, 8, 9))
    return cost, sum(json.loads(cost.output)["counts"].values())


def plant(source: Path, count: int) -> int:
    """Flip a bit in each of so many batches, far from each other; returns how many it were."""
    segments = sorted(source.rglob("*.log"))
    chosen = random.Random(7)
    planted = 0
    for segment in segments:
        places: list[int] = []
        position = 0
        with segment.open("r+b") as file:
            while len(head := file.read(12)) == 12:
                places.append(position)
                position += 12 + int.from_bytes(head[8:], "big")
                file.seek(position)
            share = -(-(count - planted) // (len(segments) - segments.index(segment)))
            for place in chosen.sample(places[1:], min(share, len(places) - 1)):
                at = place + 100
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << chosen.randrange(8)]))
                planted += 1
    return planted


HEAD = (
    *("job", "MB", "way", "cores", "wall s", "MB/s", "CPU s"),
    *("JVM MB", "Python MB", "processes", "largest", "found"),
)


def line(*cells: object) -> None:
    """Print cells in columns."""
    print(" ".join(f"{cell!s:>10}" for cell in cells), flush=True)


def run(sizes: list[int], scratch: Path, jobs: list[str], planted: int, spark: list[Way]) -> None:
    """Print a line for each job, size and way."""
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f}")
    line(*HEAD)
    ways = [Way(), *spark]
    for size in sizes:
        source = scratch / f"log-{size}"
        make(source, size)

        def print_rows(job: str, once: Once, of: list[Way], size: int, log: Path) -> None:
            for way in of:
                cost, result = once(way, log, scratch)
                wall = f"{cost.wall_s:.1f}", f"{size / cost.wall_s:.1f}", f"{cost.cpu_s:.1f}"
                memory = round(cost.java_mb), round(cost.python_mb)
                python = cost.python_count, round(cost.largest_mb)
                line(job, size, way, way.cores, *wall, *memory, *python, result)

        if "export" in jobs:
            print_rows("export", export_once, ways, size, source)
        if "audit" in jobs:
            print_rows("audit", audit_once, ways, size, source)
            if planted:
                done = plant(source, planted)
                print_rows(f"of {done}", audit_once, [ways[0], ways[-1]], size, source)
        shutil.rmtree(source)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", default="10 1000")
    parser.add_argument("--jobs", default="export audit")
    parser.add_argument("--planted", type=int, default=20)
    parser.add_argument("--cores", default="1 2")
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--alone", nargs=2, metavar=("PATH", "OUTPUT"))
    given = parser.parse_args()
    if given.alone:
        alone(*given.alone)
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as scratch:
        sizes = [int(size) for size in given.mb.split()]
        heaps = given.memory.split()
        spark = [Way(int(cores), heap) for cores in given.cores.split() for heap in heaps]
        run(sizes, Path(scratch), given.jobs.split(), given.planted, spark)


if __name__ == "__main__":
    main()
