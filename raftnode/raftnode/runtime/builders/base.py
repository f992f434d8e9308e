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
class Base:
    """The parts that the builders share.

    Attributes:
        settings: the node's.
        directory: its data directory, open and locked.
        log: its log, recovered.
        tasks: starts and watches tasks.
        fail: called with an error with which the node cannot go on.
        watchdog: reports what makes no progress.
        registry: of the metrics.
        before_scrape: calls back when they are asked for.
        metrics: the node's.
        snapshots: those beside the log.
        state: the store, as of `loaded` or empty.
        loaded: the snapshot that the state is from; None: there is none.
        core: the replica.
        driver: the one task that will own the core.
        after_turn: what the driver calls after each of its turns.
    """

    settings: NodeSettings
    directory: DataDirectory
    log: Log
    tasks: Tasks
    fail: Callable[[BaseException], None]
    watchdog: Watchdog
    registry: CollectorRegistry
    before_scrape: BeforeScrape
    metrics: NodeMetrics
    snapshots: Snapshots
    state: KeyValueStore
    loaded: SnapshotFile | None
    core: RaftCore
    driver: Driver
    after_turn: AfterTurn


async def build_base(
    settings: NodeSettings,
    directory: DataDirectory,
    log: Log,
    tasks: Tasks,
    fail: Callable[[BaseException], None],
    *,
    watchdog: Watchdog,
) -> Base:
    """Read the state and the core from the disk, and make this start's promise durable.

    Raises:
        RaftnodeError: the disk's content does not allow a start, as `restore_state` and
            `recover` say.
    """
    disable_created_metrics()  # a series more for each counter, which nothing asks for
    registry = CollectorRegistry()
    before_scrape = BeforeScrape(registry)
    metrics = NodeMetrics(registry)
    ProcessCollector(registry=registry)
    snapshots = await asyncio.to_thread(directory.open_snapshots, settings.snapshots_retained)
    covered = await asyncio.to_thread(covered_end, snapshots)
    state, loaded = await asyncio.to_thread(restore_state, snapshots, log)
    core = recover(settings, directory, log, loaded, covered)
    await remember_promise(directory, core.replica.config.promise_ms)
    LeaderCollector(lambda: view_of(present(core.replica)), registry)
    metrics.disk_reserve_bytes.set(settings.disk_reserve_bytes)
    metrics.stall_timeout_seconds.set(watchdog.limit_s)
    after_turn = AfterTurn()
    return Base(
        settings,
        directory,
        log,
        tasks,
        fail,
        watchdog,
        registry,
        before_scrape,
        metrics,
        snapshots,
        state,
        loaded,
        core,
        Driver(after_turn, fail),
        after_turn,
    )
