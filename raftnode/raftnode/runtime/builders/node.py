"""A node, put together from its parts, started, and taken apart at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version as package_version
from typing import TYPE_CHECKING

import structlog

from raftnode.api.errors import refusal
from raftnode.core.events import EndpointBound, ShutdownRequested
from raftnode.core.raft import RaftCore
from raftnode.core.roles import Leader, Resigned
from raftnode.core.types import VoterSet
from raftnode.runtime.builders.access import Access
from raftnode.runtime.builders.base import build_base
from raftnode.runtime.builders.disk import build_disk, watch_disk
from raftnode.runtime.builders.listeners import build_listeners
from raftnode.runtime.builders.peers import VoterAddresses, build_peers, connect, own_identity
from raftnode.runtime.builders.tls import build_tls
from raftnode.runtime.builders.writes import build_writes
from raftnode.runtime.driver import Driver, Parts
from raftnode.runtime.metrics.gauges import Gauges
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.peers.peer_hello import greet_before_leading, greet_voters
from raftnode.runtime.peers.vote_promise import forget_promises
from raftnode.runtime.process.poll_time import waited_s
from raftnode.runtime.process.tasks import Tasks
from raftnode.runtime.process.watchdog import Watchdog
from raftnode.runtime.service import Service
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log
from raftnode.transport import PeerPool

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings

_log = structlog.get_logger("raftnode")

GAUGES_INTERVAL_S = 0.5


class Running:
    """The operations on a running node."""

    def __init__(self, core: RaftCore, parts: Parts, driver: Driver, service: Service) -> None:
        self._core = core
        self._parts = parts
        self._driver = driver
        self._service = service
        self._turned = asyncio.Event()

    def turned(self) -> None:
        """Note that the core has handled an event."""
        self._turned.set()

    async def transfer_leadership(self, grace_ms: int) -> None:
        """Finish the writes begun, then transfer leadership to a voter, if time allows."""
        self._service.stopping = True
        await self._until(lambda: self._parts.appends.idle, grace_ms // 2)
        replica = self._core.replica
        was_leader = isinstance(replica.role, Leader)
        self._driver.post(ShutdownRequested())
        if was_leader and any(key != replica.key for key in replica.log.voters):
            await self._until(lambda: not isinstance(replica.role, Leader | Resigned), grace_ms)

    async def _until(self, condition: Callable[[], bool], limit_ms: int) -> None:
        """Wait for a condition, but not for ever and not on a dead driver."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_ms / 1000):
                while not (condition() or self._driver.dead):
                    self._turned.clear()
                    await self._turned.wait()

    def die(self) -> None:
        """Stop the core after a failure: it handles no further event."""
        self._driver.die()
        self._turned.set()

    def give_up(self) -> None:
        """Handle no further event and fail every request that waits."""
        self._service.stopping = True
        self._driver.die()
        error = refusal("SHUTTING_DOWN", "the node is stopping")
        self._parts.appends.fail_all(error)
        self._parts.inquiries.fail_all(error)


@asynccontextmanager
async def running_node(
    settings: NodeSettings,
    directory: DataDirectory,
    log: Log,
    tasks: Tasks,
    fail: Callable[[BaseException], None],
    *,
    watchdog: Watchdog,
    access: Access,
) -> AsyncGenerator[Running]:
    """Put a node together, start it, and take it apart at the end."""
    base = await build_base(settings, directory, log, tasks, fail, watchdog=watchdog)
    core, driver, metrics = base.core, base.driver, base.metrics
    version = package_version("kraftquorum")
    tls = await build_tls(
        settings,
        base.registry,
        tasks,
        lambda: core.replica.cluster_id,
        access.note_refused_connection,
    )
    writes = build_writes(base, lambda: service.leader())  # noqa: PLW0108
    disk = build_disk(base, writes)
    peers = build_peers(base, writes, disk)
    service = Service(
        core,
        writes.appends,
        writes.inquiries,
        writes.committed_reads,
        api_of=peers.peering.api_endpoint_of,
        version=version,
        disk=disk.state,
        stall=lambda: watchdog.stall,
    )
    pool, peer_server = connect(base, peers, own_identity(base, service), tls.peer)
    listeners = build_listeners(base, service, peer_server, version, tls, access)
    parts = Parts(
        core,
        directory,
        log,
        writes.flusher,
        writes.appends,
        writes.inquiries,
        writes.applier,
        writes.cold_reads,
        peers.peering,
        peers.transfer,
    )
    gauges = Gauges(metrics, core.replica, writes.appends, version, waited_s)
    base.before_scrape.call(gauges.show)
    driver.on_fact = access.note_fact
    running = Running(core, parts, driver, service)
    base.after_turn.add(
        gauges.watch_elections,
        VoterAddresses(core.replica, peers.addresses, VoterSet()).follow,
        peers.gatekeeper.note_acknowledgements,
        running.turned,
    )
    try:
        peer, api = await listeners.start(base)
        service.advertise(peer=peer, api=api, certificates=tls.describe)
        driver.begin_with(EndpointBound(peer))
        tls.watch(tasks, pool.renew, peer_server.renew, on_api_changed=listeners.end_former)
        tasks(_drive(driver, parts, pool), name="driver")
        tasks(writes.applier.run(), name="applier")
        tasks(disk.snapshotter.run(), name="snapshots")
        tasks(disk.scrubber.run(), name="scrub")
        tasks(greet_voters(pool, core.replica), name="greeting")
        tasks(_refresh(gauges, metrics, driver, log, watchdog), name="gauges")
        tasks(forget_promises(directory, core.replica.config.promise_ms), name="promises")
        tasks(watch_disk(base, disk), name="storage-watch")
        access.follow(tasks)
        _log.info(
            "node_started",
            node_id=settings.node_id,
            replica=str(directory.key),
            cluster_id=directory.cluster_id,
            incarnation=directory.incarnation,
            log_end=log.end_offset,
        )
        yield running
    finally:
        await pool.close()
        await peer_server.close()
        await listeners.stop()
        await asyncio.to_thread(disk.snapshotter.close)
        await asyncio.to_thread(disk.scrubber.close)
        await asyncio.to_thread(peers.transfer.close)
        await asyncio.to_thread(writes.cold_reads.close)
        await asyncio.to_thread(writes.committed_reads.close)
        await asyncio.to_thread(writes.applier.close)
        await asyncio.to_thread(writes.flusher.stop)
        await asyncio.to_thread(peers.gatekeeper.close)
        driver.close()


async def _drive(driver: Driver, parts: Parts, pool: PeerPool) -> None:
    await greet_before_leading(pool, parts.core.replica)
    await driver.run(parts)


async def _refresh(
    gauges: Gauges, metrics: NodeMetrics, driver: Driver, log: Log, watchdog: Watchdog
) -> None:
    loop = asyncio.get_running_loop()
    stalled = False
    while True:
        gauges.measure_idle()
        metrics.storage_operation_in_flight_seconds.set(watchdog.storage_s)
        stall = watchdog.stall
        if stall is not None and not stalled:
            limit_s = watchdog.limit_s
            _log.warning(
                "stall_detected", what=stall.what, seconds=stall.seconds, ends_after_s=limit_s
            )
        elif stalled and stall is None:
            _log.info("stall_ended")
        stalled = stall is not None
        metrics.event_queue.set(driver.backlog)
        metrics.log_size_bytes.set(log.size_bytes)
        metrics.log_segments.set(log.segments)
        due = loop.time() + GAUGES_INTERVAL_S
        await asyncio.sleep(GAUGES_INTERVAL_S)
        metrics.loop_lag_seconds.observe(max(loop.time() - due, 0))
