"""The work on the disk beside the log: snapshots, the scrub, the watch of its room."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from raftnode.core.events import DiskSpaceChanged, Event
from raftnode.runtime.builders.base import Base
from raftnode.runtime.builders.writes import Writes
from raftnode.runtime.disk.disk_room import make_room
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.disk.disk_watch import watch_storage
from raftnode.runtime.disk.scrubber import Scrubber, ScrubPace
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.snapshots.snapshotter import (
    AppliedState,
    SnapshotLimits,
    SnapshotStorage,
    Snapshotter,
)


@dataclass(frozen=True, slots=True)
class Disk:
    """The parts that know the disk, or work on it beside the log.

    Attributes:
        state: the known state of the disk.
        snapshotter: takes snapshots.
        scrubber: reads again what was written long ago.
        has_room: whether a snapshot of so many bytes fits beside the reserve.
    """

    state: DiskState
    snapshotter: Snapshotter
    scrubber: Scrubber
    has_room: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class SpaceReport:
    """Passes the reports of the disk's watch on to the core, the metrics and the API."""

    state: DiskState
    metrics: NodeMetrics
    post: Callable[[Event], None]

    def low(self, low: bool) -> None:  # noqa: FBT001
        """Report whether less than the reserve is free."""
        self.state.low = low
        self.metrics.disk_low.set(low)
        self.post(DiskSpaceChanged(self.state.low, self.state.full))

    def full(self, full: bool) -> None:  # noqa: FBT001
        """Report whether less than a quarter of the reserve is free."""
        self.state.full = full
        self.post(DiskSpaceChanged(self.state.low, self.state.full))

    def usage(self, free_bytes: int, size_bytes: int) -> None:
        """Report the free bytes and the size of the last check."""
        self.state.usage(free_bytes, size_bytes)
        self.metrics.disk_usage(free_bytes, size_bytes)


def build_disk(base: Base, writes: Writes) -> Disk:
    """Build the parts."""
    settings, log, snapshots = base.settings, base.storage.log, base.storage.snapshots
    state = DiskState(damaged_snapshots=snapshots.damaged)

    def free_bytes(wanted_bytes: int) -> int:
        return make_room(settings.log_dir, wanted_bytes, log).free_bytes

    def has_room(snapshot_bytes: int) -> bool:
        wanted_bytes = snapshot_bytes + 2 * settings.disk_reserve_bytes
        return free_bytes(wanted_bytes) >= wanted_bytes

    snapshotter = Snapshotter(
        SnapshotStorage(snapshots, log, base.restored.snapshot),
        AppliedState(writes.applier, base.core.replica.log),
        SnapshotLimits(
            settings.max_record_bytes_between_snapshots,
            settings.max_snapshot_interval_ms,
            settings.disk_reserve_bytes,
            settings.log_retention_bytes,
        ),
        base.metrics.node,
        free_bytes=free_bytes,
        disk=state,
        on_taken=base.driver.post,
    )
    scrubber = Scrubber(
        base.storage.directory.log_directory,
        state,
        base.metrics.node,
        ScrubPace(settings.scrub_bytes_per_second, settings.scrub_interval_ms),
        in_use=lambda: log.active_path,
        on_damaged_snapshot=snapshotter.damaged,
        now_s=snapshots.now_s,
    )
    return Disk(state, snapshotter, scrubber, has_room)


def watch_disk(base: Base, disk: Disk) -> Coroutine[None, None, None]:
    """Check the disk's identity and its room until cancelled."""
    report = SpaceReport(disk.state, base.metrics.node, base.driver.post)
    return watch_storage(
        base.storage.directory,
        base.storage.log,
        base.settings.log_dir,
        interval_ms=base.settings.storage_check_interval_ms,
        reserve_bytes=base.settings.disk_reserve_bytes,
        on_space=report.low,
        on_full=report.full,
        on_usage=report.usage,
    )
