"""The rounds: quorums side by side, and workloads, ours and the peer in turn, within a time."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kraftquorum_bench import machine
from kraftquorum_bench.contenders import Contender, UnsupportedLoadError
from kraftquorum_bench.events import EventTimes, run_event
from kraftquorum_bench.loads import Sample
from kraftquorum_bench.processes import ToolError
from kraftquorum_bench.quorums import OURS, Quorums, settings, words
from kraftquorum_bench.report import Note, Raw, Report, Result, result_of
from kraftquorum_bench.sizes import Size
from kraftquorum_bench.workloads import Group, Workload, grouped
from proofkit.localquorum import NotInTimeError
from raftnode.client import ClientError

LAST_SAMPLE_S = 60.0
SAMPLE_ERRORS = (
    ToolError,
    NotInTimeError,
    ClientError,
    UnsupportedLoadError,
    TimeoutError,
    OSError,
    KeyError,
    ValueError,
)
"""What a sample may raise without ending the run: it is noted."""


@dataclass(slots=True)
class Bench:
    """A run under way.

    Attributes:
        size: its extent.
        root: where all data go, on the disk that is measured.
        peers: which peers may take part, of `PEERS`.
        say: prints a line of progress.
        missing: why a peer cannot be had here, by name.
        began_s: when the run began, by the monotonic clock.
    """

    size: Size
    root: Path
    peers: Sequence[str]
    say: Callable[[str], None]
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    began_s: float = field(default_factory=time.monotonic)
    samples: dict[str, dict[str, dict[int, Sample]]] = field(
        default_factory=dict[str, dict[str, dict[int, Sample]]]
    )
    """By workload, contender and number of the round."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    left_out: list[Note] = field(default_factory=list[Note])
    failures: list[Note] = field(default_factory=list[Note])

    # -- time and notes --------------------------------------------------------------------

    def left_s(self) -> float:
        """Seconds until no further sample begins."""
        return self.size.limit_s - (time.monotonic() - self.began_s)

    def leave_out(self, what: str, why: str) -> None:
        """Note what is missing, once."""
        note = Note(what=what, why=why)
        if note not in self.left_out:
            self.left_out.append(note)
            self.say(f"left out: {what}: {why}")

    def fail(self, what: str, error: BaseException) -> None:
        """Note what of ours failed."""
        self.failures.append(Note(what=what, why=words(error)))
        self.say(f"FAILED: {what}: {words(error)}")

    # -- the rounds ------------------------------------------------------------------------

    async def run(self, workloads: list[Workload]) -> Report:
        """Measure workloads, group by group."""
        described = machine.describe_machine(self.root)
        raw = self._measure_machine()
        for group, rows in grouped(workloads).items():
            if self.left_s() <= 0:
                for row in rows:
                    self.leave_out(row.name, self._time_is_over())
                continue
            try:
                await self._run_group(group, rows)
            except SAMPLE_ERRORS as error:
                if self.left_s() > 0:
                    self.fail(f"quorums of {group.name}", error)
                else:
                    self.leave_out(group.name, self._time_is_over())
        return Report(
            size=self.size.name,  # pyright: ignore[reportArgumentType] - one of three
            made_at=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M"),
            minutes=round((time.monotonic() - self.began_s) / 60, 1),
            machine=described,
            raw=raw,
            settings=settings(),
            workloads=self._results(workloads),
            left_out=tuple(self.left_out),
            failures=tuple(self.failures),
        )

    def _measure_machine(self) -> Raw:
        seconds = min(self.size.seconds, 2)
        p50_ms, p99_ms = machine.fdatasync_ms(self.root, seconds)
        raw = Raw(
            fdatasync_p50_ms=p50_ms,
            fdatasync_p99_ms=p99_ms,
            round_trip_us=machine.round_trip_us("127.0.0.1", seconds),
            calibration_mib_per_s=machine.calibration_mib_per_s(),
        )
        self.say(f"raw machine: fdatasync {p50_ms:.2f} ms, round trip {raw.round_trip_us:.0f} µs")
        return raw

    async def _run_group(self, group: Group, rows: list[Workload]) -> None:
        openings = self.size.rounds if group.fresh else 1
        for opening in range(openings):
            if self.left_s() <= 0:
                self.leave_out(f"rounds of {group.name}", self._time_is_over())
                return
            async with self._opened(group, rows) as contenders:
                first = opening if group.fresh else 0
                rounds = 1 if group.fresh else self.size.rounds
                for number in range(first, first + rounds):
                    for row in rows:
                        await self._take_turns(row, contenders, number)

    async def _take_turns(
        self, workload: Workload, contenders: dict[str, Contender], number: int
    ) -> None:
        if self.left_s() <= 0:
            what = workload.name if number == 0 else f"{workload.name}, round {number + 1}"
            self.leave_out(what, self._time_is_over())
            return
        turns = [name for name in (OURS, workload.peer) if name in contenders]
        if number % 2:
            turns.reverse()
        measured: dict[str, Sample] = {}
        for name in turns:
            try:
                measured[name] = await self._sample(workload, name, contenders[name])
            except (*SAMPLE_ERRORS, ExceptionGroup) as error:
                if name == OURS:
                    self.fail(f"{workload.name}, round {number + 1}", error)
                    return
                self.leave_out(f"{workload.name}: {contenders[name].name}", words(error))
        kept = self.samples.setdefault(workload.name, {})
        for name, sample in measured.items():
            kept.setdefault(name, {})[number] = sample
        self._say_round(workload, number, measured)

    async def _sample(self, workload: Workload, name: str, contender: Contender) -> Sample:
        # A sample that has begun may end after the time, a bit.
        limit_s = min(self.size.sample_limit_s, self.left_s() + LAST_SAMPLE_S)
        async with asyncio.timeout(limit_s):
            if workload.event is not None:
                times = EventTimes.of(self.size.seconds)
                return await run_event(workload.event, contender, times)
            load = workload.load if name == OURS else workload.peer_load or workload.load
            assert load is not None, workload
            return await contender.measure(load, self.size.seconds)

    def _say_round(self, workload: Workload, number: int, measured: dict[str, Sample]) -> None:
        values = {name: sample[workload.figure] for name, sample in measured.items()}
        ours, peer = values.get(OURS), values.get(workload.peer)
        ratio = f"{ours / peer:5.2f}×  " if ours and peer else " " * 8
        each = ", ".join(f"{name} {value:,.4g} {workload.unit}" for name, value in values.items())
        self.say(f"{ratio}{workload.name} (round {number + 1}): {each}")

    def _time_is_over(self) -> str:
        return f"the time of {self.size.limit_s / 60:.0f} minutes is over"

    # -- the contenders --------------------------------------------------------------------

    @asynccontextmanager
    async def _opened(
        self, group: Group, rows: list[Workload]
    ) -> AsyncGenerator[dict[str, Contender]]:
        quorums = Quorums(self.root, self.peers, self.missing, self.leave_out)
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self.left_s()):
                contenders = await quorums.open(group, stack)
                for name, contender in contenders.items():
                    self.names[name] = contender.name
                    self.say(f"{group.name}: {contender.name} runs")
                await quorums.fill(group, rows, contenders)
            yield contenders

    def _results(self, workloads: list[Workload]) -> dict[str, Result]:
        results: dict[str, Result] = {}
        for workload in workloads:
            measured = self.samples.get(workload.name, {})
            ours, peer = measured.get(OURS, {}), measured.get(workload.peer, {})
            # With a peer, a round counts if both were measured in it.
            rounds = sorted(ours.keys() & peer.keys() if peer else ours)
            if not rounds:
                continue
            results[workload.name] = result_of(
                workload,
                [ours[number] for number in rounds],
                [peer[number] for number in rounds if peer],
                self.names.get(workload.peer),
            )
        return results


def busy_warning() -> str | None:
    """A warning if others use the machine: then figures do not count."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load <= 0.5 * cores:
        return None
    return f"the machine is busy (load {load:.1f} on {cores} cores): these figures do not count"
