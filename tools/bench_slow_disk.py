"""Writes per second while the fsyncs of the leader take long: `python tools/bench_slow_disk.py`.

With `--against PATH`, a checkout of another commit, nodes of both run side by side, and the same
clients write to the one and to the other in turns, so that a machine that is busy meanwhile is so
for both; what counts is the ratio of two turns that follow each other. Beside the writes per second
stands the processor time of the nodes for each write, which other programs disturb far less.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from proofkit import faultynode
from proofkit.localquorum import LocalQuorum
from proofkit.loopback import claim_loopback
from raftnode.client.errors import ClientError

VALUE = bytes(100)


@dataclass(frozen=True, slots=True)
class Load:
    """What is done to a quorum in each turn."""

    clients: int
    seconds: float
    fsync_ms: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What was found in one turn."""

    per_s: float
    """Acknowledged writes per second."""
    cpu_ms: float
    """Processor time of all nodes for each of them."""


def cpu_s(quorum: LocalQuorum) -> float:
    """Processor time that the nodes have taken so far."""
    ticks = 0
    for node in quorum.nodes:
        assert node.process is not None, "started"
        fields = Path(f"/proc/{node.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def start(
    stack: AsyncExitStack, load: Load, checkout: Path | None, program: tuple[str, ...]
) -> LocalQuorum:
    """A quorum of three that runs the code of a checkout, its leader's disk slow already."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    network = stack.enter_context(claim_loopback())
    settings = {"RAFTNODE_DISK_RESERVE_BYTES": "0"}
    if checkout is not None:
        settings["PYTHONPATH"] = str(checkout / "raftnode")
    quorum = await stack.enter_async_context(LocalQuorum(root, 3, network, settings))
    faults = {node.node_id: node.make_faulty() for node in quorum.nodes} if load.fsync_ms else {}
    for node in quorum.nodes:
        node.command = program
    await quorum.form(3)
    leader = await quorum.leader()
    await quorum.put("warm", b"up")
    if faults:
        faults[leader.node_id].slow("sync", load.fsync_ms)
    return quorum


async def turn(quorum: LocalQuorum, load: Load) -> Turn:
    """Let the clients write for a while."""
    done, ends = 0, time.monotonic() + load.seconds

    async def write(name: int) -> None:
        nonlocal done
        number = 0
        while time.monotonic() < ends:
            number += 1
            try:
                await quorum.client.put(f"{name}-{number}", VALUE)
            except ClientError:
                continue
            done += 1

    began, cpu_before_s = time.monotonic(), cpu_s(quorum)
    await asyncio.gather(*(write(name) for name in range(load.clients)))
    cpu_ms = (cpu_s(quorum) - cpu_before_s) * 1000
    return Turn(done / (time.monotonic() - began), cpu_ms / max(done, 1))


def program_of(fsync_ms: int) -> tuple[str, ...]:
    """What runs a node of any checkout: this one's faulty node only where a disk is to be slow."""
    if not fsync_ms:
        return (str(Path(sys.executable).with_name("raftnode")), "run")
    return (sys.executable, "-P", faultynode.__file__, "run")


async def measure(load: Load, rounds: int, against: Path | None) -> str:
    """Measure in rounds, each on fresh nodes and with the order of the two the other way round."""
    program = program_of(load.fsync_ms)
    here: list[Turn] = []
    there: list[Turn] = []
    for number in range(rounds):
        async with AsyncExitStack() as stack:
            mine = await start(stack, load, None, program)
            if against is None:
                here.append(await turn(mine, load))
                continue
            other = await start(stack, load, against, program)
            for first in (number % 2 == 0, number % 2 == 1):
                if first:
                    here.append(await turn(mine, load))
                    there.append(await turn(other, load))
                else:
                    there.append(await turn(other, load))
                    here.append(await turn(mine, load))
    line = f"{load.clients} clients, fsync of the leader +{load.fsync_ms} ms: {figures(here)}"
    if there:
        line += f"; {against}: {figures(there)}; "
        line += f"ratios of {len(here)} pairs: writes/s "
        line += ratio([mine.per_s / other.per_s for mine, other in zip(here, there, strict=True)])
        line += ", processor time "
        line += ratio([mine.cpu_ms / other.cpu_ms for mine, other in zip(here, there, strict=True)])
    return line


def figures(turns: list[Turn]) -> str:
    """Medians."""
    per_s = statistics.median(turn.per_s for turn in turns)
    cpu_ms = statistics.median(turn.cpu_ms for turn in turns)
    return f"{per_s:.0f} writes/s, {cpu_ms:.2f} ms processor time each"


def ratio(values: list[float]) -> str:
    """The median and the spread."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Print a line for each delay and number of clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fsync", default="0 100 1000", help="milliseconds that each fsync takes")
    parser.add_argument("--clients", default="16", help="how many write at once")
    parser.add_argument("--seconds", type=float, default=8, help="of each turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    for fsync_ms in map(int, options.fsync.split()):
        for clients in map(int, options.clients.split()):
            load = Load(clients, options.seconds, fsync_ms)
            print(asyncio.run(measure(load, options.rounds, options.against)), flush=True)


if __name__ == "__main__":
    main()
