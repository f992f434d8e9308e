"""Workloads that are no loads: failover, restart, repair, scale-up and memory."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

from kraftquorum_bench.contenders import Cluster, Contender, UnsupportedLoadError
from kraftquorum_bench.generator import load_process
from kraftquorum_bench.loads import Load, Sample
from kraftquorum_bench.machine import copy_s
from kraftquorum_bench.own_quorum import OurQuorum
from kraftquorum_bench.process_usage import resident_mib
from kraftquorum_bench.processes import ToolError

CLIENTS = 64
SCALED_VOTERS = 5
SETTLE_S = 6.0
"""How long a new quorum runs before it grows: etcd refuses sooner."""
REST_S = 3.0
"""How long a quorum rests before its memory is read."""


@dataclass(frozen=True, slots=True)
class EventTimes:
    """How long the loads around an event last.

    Attributes:
        before_s: load before a leader is killed.
        after_s: load afterwards; a stall that is longer is a failure.
    """

    before_s: float
    after_s: float

    @classmethod
    def of(cls, seconds: float) -> EventTimes:
        """By the seconds of a load."""
        return cls(before_s=min(seconds, 3), after_s=max(8, 2 * seconds))


class RawCopy:
    """A raw copy of as many bytes as a disk holds, in a contender's place."""

    name = "raw copy"

    def __init__(self, directory: Path, mib: int) -> None:
        self._directory, self._mib = directory, mib

    async def measure(self, load: Load, seconds: float) -> Sample:
        """Raises: a copy takes no load."""
        raise UnsupportedLoadError(f"a raw copy takes no {load.operation} for {seconds} s")

    async def fill(self, count: int, value_bytes: int, keys: int) -> None:
        """The copy makes its own bytes."""

    async def copy(self) -> Sample:
        """Copy once."""
        return Sample(figures={"s": await copy_s(self._directory, self._mib)})


def longest_stall_s(answered_at_s: Sequence[float], since_s: float) -> float:
    """The longest time without an answer after a moment, to the last answer.

    Raises:
        ToolError: there was no answer after it.
    """
    after = sorted(moment for moment in answered_at_s if moment >= since_s)
    if not after:
        raise ToolError("no write was answered after the fault")
    return max(later - earlier for earlier, later in pairwise([since_s, *after]))


async def failover(cluster: Cluster, times: EventTimes) -> Sample:
    """Kill the leader under load: the longest stall of all clients together."""
    errand = cluster.errand(Load(operation="put", clients=CLIENTS), times.before_s + times.after_s)
    async with load_process(errand) as generator:
        generator.go()
        await asyncio.sleep(times.before_s)
        leader = await cluster.leader()
        killed_at_s = time.monotonic()
        cluster.kill(leader)
        result = await generator.result()
    cluster.start_again(leader)
    await cluster.wait_serving(leader)
    stall_s = longest_stall_s(result.answered_at_s, killed_at_s)
    return Sample(figures={"s": stall_s, "errors": result.errors})


async def _follower(cluster: Cluster) -> int:
    return 1 if await cluster.leader() == 0 else 0


async def restart(cluster: Cluster, _times: EventTimes) -> Sample:
    """Kill a follower and start it again: seconds until it has caught up."""
    member = await _follower(cluster)
    cluster.kill(member)
    began_s = time.monotonic()
    cluster.start_again(member)
    await cluster.wait_serving(member)
    return Sample(figures={"s": time.monotonic() - began_s})


async def wiped(contender: Cluster | RawCopy, _times: EventTimes) -> Sample:
    """Empty a follower's disk: seconds from its start until three voters have caught up."""
    if isinstance(contender, RawCopy):
        return await contender.copy()
    if not isinstance(contender, OurQuorum):
        raise UnsupportedLoadError("the repair is held against a raw copy alone")
    member = await _follower(contender)
    contender.kill(member)
    contender.wipe(member)
    began_s = time.monotonic()
    contender.start_again(member)
    await contender.replace(member)
    await contender.wait_redundant(3)
    return Sample(figures={"s": time.monotonic() - began_s})


async def scale(cluster: Cluster, times: EventTimes) -> Sample:
    """From three to five voters under load: seconds until all have caught up."""
    longest_s = 600.0
    await asyncio.sleep(SETTLE_S)
    errand = cluster.errand(Load(operation="put", clients=CLIENTS), longest_s)
    async with load_process(errand) as generator:
        generator.go()
        await asyncio.sleep(times.before_s)
        began_s = time.monotonic()
        await cluster.grow(SCALED_VOTERS)
        return Sample(figures={"s": time.monotonic() - began_s})


async def memory(cluster: Cluster, _times: EventTimes) -> Sample:
    """Memory of a member at rest, the median of all."""
    await cluster.leader()
    await asyncio.sleep(REST_S)
    return Sample(figures={"mib": statistics.median(map(resident_mib, cluster.pids()))})


Event = Callable[[Cluster, EventTimes], Awaitable[Sample]]
EVENTS: dict[str, Event] = {
    "failover": failover,
    "restart": restart,
    "wiped": wiped,
    "scale": scale,
    "memory": memory,
}


async def run_event(name: str, contender: Contender, times: EventTimes) -> Sample:
    """Let an event happen to a contender, which must be a cluster or, for `wiped`, a raw copy."""
    return await EVENTS[name](cast("Cluster", contender), times)
