"""Runs the scrub beside the node: when a pass is due, how fast it reads, where it reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import structlog

from raftnode.logformat.snapshot import SnapshotId
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.process.idle import make_thread_idle
from raftnode.runtime.process.pause import Pause, StoppedError
from raftnode.storage.files import OsCalls, SystemCalls
from raftnode.storage.inspection.scrub import ScrubPass, SlowCalls
from raftnode.storage.inspection.verification import Finding
from raftnode.storage.snapshots.snapshot_store import SnapshotDamage

_log = structlog.get_logger("raftnode")

FIRST_PASS_MS = 60_000
"""How long after the start the first pass begins; after an interval if that is shorter."""


@dataclass(frozen=True, slots=True)
class ScrubPace:
    """How fast and how often the scrub reads.

    Attributes:
        bytes_per_second: how much is read at most, on average; 0: no pass is made.
        interval_ms: from the beginning of a pass to the beginning of the next.
    """

    bytes_per_second: int
    interval_ms: int


class Scrubber:
    """Makes a pass each interval.

    Args:
        directory: the log's.
        disk: gets the damage.
        metrics: get the progress of a pass.
        pace: how fast and how often it reads.
        in_use: the segment that is written.
        on_damaged_snapshot: called with a damaged snapshot.
        calls: the system calls; None: the operating system's.
        now_s: a clock that never goes back: the one of `Snapshots`, which compares a finding
            with when it gave a file its name.
    """

    def __init__(
        self,
        directory: Path,
        disk: DiskState,
        metrics: NodeMetrics,
        pace: ScrubPace,
        *,
        in_use: Callable[[], Path | None],
        on_damaged_snapshot: Callable[[SnapshotDamage], None] = lambda _: None,
        calls: SystemCalls | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._metrics = metrics
        self._rate = pace.bytes_per_second
        self._interval_s = pace.interval_ms / 1000
        self._on_damaged_snapshot = on_damaged_snapshot
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="scrub", initializer=make_thread_idle
        )
        self._pause = Pause()
        slow = SlowCalls(calls or OsCalls(), self._pace, in_use)
        self._pass = ScrubPass(slow, directory, now_s)
        self._now_s = now_s
        self._read_bytes = self._size = 0
        self._began = 0.0

    async def run(self) -> None:
        """Make passes for ever; a finding does not end them."""
        if not self._rate:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + min(self._interval_s, FIRST_PASS_MS / 1000)
        while not self._pause.stopped:
            await asyncio.sleep(max(0.0, due - loop.time()))
            due = loop.time() + self._interval_s
            try:
                findings = await loop.run_in_executor(self._thread, self._one_pass)
            except StoppedError:
                return
            self._tell(findings)

    def _one_pass(self) -> tuple[Finding, ...]:
        self._began, self._read_bytes = self._now_s(), 0
        self._size = self._pass.size()
        return self._pass.run()

    def _pace(self, size: int) -> None:
        """Wait for as long as so many bytes may take; on the scrub's thread."""
        self._read_bytes += size
        self._metrics.scrub_read_bytes.inc(size)
        early = self._began + self._read_bytes / self._rate - self._now_s()
        self._pause(max(early, 0.0))
        # Checks of findings read some bytes twice.
        self._metrics.scrub_progress_ratio.set(min(self._read_bytes / max(self._size, 1), 1.0))

    def _tell(self, findings: tuple[Finding, ...]) -> None:
        damage = tuple(str(finding) for finding in findings if finding.kind == "damage")
        derived = tuple(str(finding) for finding in findings if finding.kind == "derived")
        for text in damage:
            if text not in self._disk.damage:
                self._metrics.scrub_corrupt_batches.inc()
                _log.error("storage_damaged", damage=text, directory=str(self._directory))
        if derived:
            _log.warning("index_damaged", findings=list(derived))
        self._disk.damage = damage
        self._disk.scrubbed_ms = time.time_ns() // 1_000_000
        metrics = self._metrics
        metrics.scrub_passes.inc()
        metrics.scrub_progress_ratio.set(1)
        metrics.scrub_last_pass_timestamp_seconds.set(time.time())
        metrics.scrub_last_pass_seconds.set(self._now_s() - self._began)
        metrics.storage_damaged.set(len(self._disk.all_damage))
        for finding in findings:
            snapshot_id = SnapshotId.of(finding.path.name) if finding.kind == "damage" else None
            if snapshot_id is not None:
                self._on_damaged_snapshot(
                    SnapshotDamage(snapshot_id, str(finding), self._pass.looked_s)
                )
        _log.info(
            "storage_scrubbed",
            bytes=self._read_bytes,
            batches=self._pass.batches,
            damaged=len(damage),
            seconds=round(self._now_s() - self._began, 1),
        )

    def close(self) -> None:
        """Give up a pass that is under way and wait for its thread; blocks."""
        self._pause.stop()
        self._thread.shutdown(wait=True)
