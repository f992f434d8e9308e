"""The base of every other part of a node: the core from the disk's content, metrics, a driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from raftnode.core.raft import RaftCore
from raftnode.runtime.description import present
from raftnode.runtime.driver import Driver
from raftnode.runtime.metrics.before_scrape import BeforeScrape
from raftnode.runtime.metrics.leader_metrics import LeaderCollector, view_of
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.peers.vote_promise import remember_promise
from raftnode.runtime.process.tasks import Tasks
from raftnode.runtime.process.watchdog import Watchdog
from raftnode.runtime.recovery import recover
from raftnode.runtime.snapshots.restore import covered_end, restore_state
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots.snapshot_file import SnapshotFile
from raftnode.storage.snapshots.snapshot_store import Snapshots

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings


class AfterTurn:
    """The steps after each turn of the core, in order."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []

    def add(self, *steps: Callable[[], None]) -> None:
        """Add steps after those that are there."""
        self._steps += steps

    def __call__(self) -> None:
        """Do all steps."""
        for step in self._steps:
            step()


@dataclass(frozen=True, slots=True)
class Process:
    """What a node runs in.

    Attributes:
        tasks: starts and watches tasks.
        fail: called with an error with which the node cannot go on.
        watchdog: reports what makes no progress.
        version: of the program.
    """

    tasks: Tasks
    fail: Callable[[BaseException], None]
    watchdog: Watchdog
    version: str


@dataclass(frozen=True, slots=True)
class Storage:
    """What is on the disk.

    Attributes:
        directory: the data directory, open and locked.
        log: the log, recovered.
        snapshots: those beside the log.
    """

    directory: DataDirectory
    log: Log
    snapshots: Snapshots


@dataclass(frozen=True, slots=True)
class Metrics:
    """What Prometheus reads.

    Attributes:
        registry: of all metrics.
        before_scrape: calls back when they are asked for.
        node: the metrics of the node itself.
    """

    registry: CollectorRegistry
    before_scrape: BeforeScrape
    node: NodeMetrics


@dataclass(frozen=True, slots=True)
class RestoredState:
    """The state machine at the start.

    Attributes:
        store: the store, as of `snapshot` or empty.
        snapshot: the snapshot that the store is from; None: there is none.
    """

    store: KeyValueStore
    snapshot: SnapshotFile | None


@dataclass(frozen=True, slots=True)
class Base:
    """The parts that the builders share.

    Attributes:
        settings: the node's.
        process: what the node runs in.
        storage: what is on its disk.
        metrics: what Prometheus reads.
        restored: the state machine at the start.
        core: the replica.
        driver: the one task that will own the core.
        after_turn: what the driver calls after each of its turns.
    """

    settings: NodeSettings
    process: Process
    storage: Storage
    metrics: Metrics
    restored: RestoredState
    core: RaftCore
    driver: Driver
    after_turn: AfterTurn


async def build_base(
    settings: NodeSettings, directory: DataDirectory, log: Log, process: Process
) -> Base:
    """Read the state and the core from the disk, and make this start's promise durable.

    Raises:
        RaftnodeError: the disk's content does not allow a start, as `restore_state` and
            `recover` say.
    """
    metrics = _build_metrics()
    snapshots = await asyncio.to_thread(directory.open_snapshots, settings.snapshots_retained)
    covered = await asyncio.to_thread(covered_end, snapshots)
    store, loaded = await asyncio.to_thread(restore_state, snapshots, log)
    core = recover(settings, directory, log, loaded, covered)
    await remember_promise(directory, core.replica.config.promise_ms)
    LeaderCollector(lambda: view_of(present(core.replica)), metrics.registry)
    metrics.node.disk_reserve_bytes.set(settings.disk_reserve_bytes)
    metrics.node.stall_timeout_seconds.set(process.watchdog.limit_s)
    after_turn = AfterTurn()
    return Base(
        settings,
        process,
        Storage(directory, log, snapshots),
        metrics,
        RestoredState(store, loaded),
        core,
        Driver(after_turn, process.fail),
        after_turn,
    )


def _build_metrics() -> Metrics:
    disable_created_metrics()  # a series more for each counter, which nothing asks for
    registry = CollectorRegistry()
    before_scrape = BeforeScrape(registry)
    node = NodeMetrics(registry)
    ProcessCollector(registry=registry)
    return Metrics(registry, before_scrape, node)
