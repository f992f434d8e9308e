"""Puts a node's parts together, starts them, and takes them apart at the end.

What lives here: which part knows which. What must not: what any of them does.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version as package_version
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from raftnode.api.errors import refusal
from raftnode.api.http import ApiLimits
from raftnode.api.metrics import HttpMetrics, NodeMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.core.events import DiskSpaceChanged, ShutdownRequested
from raftnode.core.raft import RaftCore
from raftnode.core.roles import Leader, Resigned
from raftnode.core.types import Endpoint, VoterSet
from raftnode.errors import ConfigurationError, StorageStaleError
from raftnode.hosts import HostsFile
from raftnode.logformat.batch import decode_batches
from raftnode.runtime.description import present
from raftnode.runtime.disk.cold_reads import ColdReads
from raftnode.runtime.disk.disk_room import make_room
from raftnode.runtime.disk.disk_state import DiskState
from raftnode.runtime.disk.disk_watch import watch_storage
from raftnode.runtime.disk.scrubber import Scrubber
from raftnode.runtime.driver import Driver, Parts
from raftnode.runtime.inquiries import Inquiries
from raftnode.runtime.metrics.gauges import Gauges
from raftnode.runtime.metrics.leader_metrics import LeaderCollector, view_of
from raftnode.runtime.peers.gatekeeper import Gatekeeper
from raftnode.runtime.peers.peer_hello import greet_before_leading, greet_voters
from raftnode.runtime.peers.peer_messages import PEER_CONNECTIONS_MAX, Peering, rank_of
from raftnode.runtime.peers.vote_promise import forget_promises, remember_promise
from raftnode.runtime.process.process_setup import descriptors_for_clients, raise_file_limit
from raftnode.runtime.process.tasks import Tasks
from raftnode.runtime.process.watchdog import Watchdog
from raftnode.runtime.recovery import recover
from raftnode.runtime.service import Service
from raftnode.runtime.snapshots.restore import covered_end, restore_state
from raftnode.runtime.snapshots.snapshotter import SnapshotLimits, Snapshotter
from raftnode.runtime.snapshots.transfer import SnapshotTransfer
from raftnode.runtime.writes.appends import Appends
from raftnode.runtime.writes.applier import Applier
from raftnode.runtime.writes.flusher import Flusher
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log
from raftnode.transport import (
    AddressBook,
    HostsFileResolver,
    Identity,
    PeerPool,
    PeerServer,
)
from raftnode.transport.dial import PATH as PEER_PATH
from raftnode.wire import Codec

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings

_log = structlog.get_logger("raftnode")

GAUGES_INTERVAL_S = 0.5


class Running:
    """What can be said to a node that runs."""

    def __init__(self, core: RaftCore, parts: Parts, driver: Driver, service: Service) -> None:
        self._core = core
        self._parts = parts
        self._driver = driver
        self._service = service
        self._turned = asyncio.Event()

    def turned(self) -> None:
        """The core has handled something."""
        self._turned.set()

    async def hand_over(self, grace_ms: int) -> None:
        """Finish the writes begun, give leadership up and let a voter take it, if time allows."""
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
        """Something failed: the core handles nothing more."""
        self._driver.die()
        self._turned.set()

    def give_up(self) -> None:
        """Handle nothing more and tell everybody who waits."""
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
) -> AsyncGenerator[Running]:
    """Put a node together, start it, and take it apart at the end."""
    disable_created_metrics()  # a series more for each counter, which nobody asks for
    registry = CollectorRegistry()
    metrics = NodeMetrics(registry)
    ProcessCollector(registry=registry)
    snapshots = await asyncio.to_thread(directory.open_snapshots, settings.snapshots_retained)
    covered = await asyncio.to_thread(covered_end, snapshots)
    state, loaded = await asyncio.to_thread(restore_state, snapshots, log)
    core = recover(settings, directory, log, loaded)
    await remember_promise(directory, core.replica.config.promise_ms)
    LeaderCollector(lambda: view_of(present(core.replica)), registry)
    metrics.disk_reserve_bytes.set(settings.disk_reserve_bytes)
    metrics.stall_timeout_seconds.set(watchdog.limit_s)
    addresses = AddressBook(settings.first_addresses)
    known = VoterSet()

    def changed() -> None:
        nonlocal known
        gauges.watch_elections()
        voters = core.replica.log.voters
        if voters is not known:
            known = voters
            addresses.set_voters(voters)
        gatekeeper.note_acknowledgements()
        running.turned()

    gatekeeper = Gatekeeper(
        core.replica,
        directory.peer_marks,
        write=directory.write_peer_marks,
        on_stale=lambda reason: fail(StorageStaleError(reason)),
        spawn=tasks,
    )
    driver = Driver(changed, fail)
    cold_reads = ColdReads(log, core.replica.may_be_voter)
    flusher = Flusher(
        log,
        core.replica.log,
        on_flushed=driver.post,
        on_error=fail,
        on_seconds=metrics.fsync_seconds.observe,
    )
    inquiries = Inquiries(driver.post, lambda: service.leader())  # noqa: PLW0108
    appends = Appends(
        driver.post,
        inquiries.next_id,
        inquiries.error_of,
        queue_bytes_max=settings.append_queue_bytes,
        batch_bytes_max=settings.max_batch_bytes,
        linger_ms=settings.append_linger_ms,
        flushing_s=lambda: flusher.in_flight_s,
        on_commit=metrics.commit_latency_seconds.observe,
    )
    applier = Applier(log, state)
    applier.committed(core.replica.high_watermark, core.replica.applicable)
    disk = DiskState(damaged_snapshots=snapshots.damaged)

    def free_bytes(wanted_bytes: int) -> int:
        return make_room(settings.log_dir, wanted_bytes, log).free_bytes

    def has_room(snapshot_bytes: int) -> bool:
        wanted_bytes = snapshot_bytes + 2 * settings.disk_reserve_bytes
        return free_bytes(wanted_bytes) >= wanted_bytes

    snapshotter = Snapshotter(
        snapshots,
        applier,
        core.replica.log,
        SnapshotLimits(
            settings.max_record_bytes_between_snapshots,
            settings.max_snapshot_interval_ms,
            settings.disk_reserve_bytes,
            settings.log_retention_bytes,
        ),
        metrics,
        log=log,
        last=loaded,
        free_bytes=free_bytes,
        disk=disk,
        on_taken=driver.post,
    )
    scrubber = Scrubber(
        directory.log_directory,
        disk,
        metrics,
        bytes_per_second=settings.scrub_bytes_per_second,
        interval_ms=settings.scrub_interval_ms,
        in_use=lambda: log.active_path,
        on_damaged_snapshot=snapshotter.damaged,
        now_s=snapshots.now_s,
    )

    def on_space(low: bool) -> None:  # noqa: FBT001
        disk.low = low
        metrics.disk_low.set(low)
        driver.post(DiskSpaceChanged(disk.low, disk.full))

    def on_full(full: bool) -> None:  # noqa: FBT001
        disk.full = full
        driver.post(DiskSpaceChanged(disk.low, disk.full))

    def on_usage(free_bytes: int, size_bytes: int) -> None:
        disk.usage(free_bytes, size_bytes)
        metrics.disk_usage(free_bytes, size_bytes)

    gauges = Gauges(metrics, core.replica, appends, package_version("kraftquorum"))
    peering = Peering(
        driver.post,
        inquiries.next_id,
        addresses,
        timeout_ms=settings.request_timeout_ms,
        vote_timeout_ms=settings.election_timeout_ms,
        backlog=lambda: driver.backlog,
        on_epoch=gatekeeper.note_epoch,
        metrics=metrics,
    )
    transfer = SnapshotTransfer(
        snapshots,
        log,
        applier,
        post=driver.post,
        respond=peering.respond,
        on_error=fail,
        on_installed=snapshotter.installed,
        on_piece=metrics.snapshot_piece,
        room_for=has_room,
        on_damaged=snapshotter.damaged,
    )
    service = Service(
        core,
        appends,
        inquiries,
        applier,
        api_of=peering.api_endpoint_of,
        version=package_version("kraftquorum"),
        disk=disk,
        stall=lambda: watchdog.stall,
    )

    start_epoch, start_end = core.replica.epoch, log.end_offset

    def identity() -> Identity:
        return Identity(
            directory.key,
            core.replica.cluster_id,
            directory.incarnation,
            service.peer_endpoint,
            service.api_endpoint,
            directory.line,
            start_end,
            start_epoch,
        )

    codec = Codec(decode_batches=decode_batches)
    resolver = (
        HostsFileResolver(HostsFile(settings.hosts_file), spawn=tasks)
        if settings.hosts_file
        else None
    )
    peering.pool = PeerPool(
        codec=codec,
        identity=identity,
        addresses=addresses,
        on_response=peering.on_response,
        on_failure=peering.on_failure,
        on_hello=peering.on_hello,
        gate=gatekeeper,
        spawn=tasks,
        rng=random.Random(),  # noqa: S311
        resolver=resolver,
    )
    peer_server = PeerServer(
        codec=codec,
        identity=identity,
        on_request=peering.on_request,
        on_hello=peering.on_called,
        gate=gatekeeper,
        rank=lambda key: rank_of(core.replica, key),
        spawn=tasks,
    )
    peer_app = web.Application()
    peer_app.router.add_get(PEER_PATH, peer_server.handle)
    peer_listener = ApiServer(
        peer_app,
        shutdown_grace_ms=200,
        connections_max=PEER_CONNECTIONS_MAX,
        on_connection=peer_server.lobby.enter,
    )
    limits = ApiLimits(
        record_max_bytes=settings.record_max_bytes, batch_max_bytes=settings.max_batch_bytes
    )
    app = make_app(
        service,
        registry=registry,
        version=package_version("kraftquorum"),
        limits=limits,
        observer=HttpMetrics(registry),
    )
    api_listener = ApiServer(
        app, shutdown_grace_ms=500, connections_max=descriptors_for_clients(raise_file_limit())
    )
    parts = Parts(
        core,
        directory,
        log,
        flusher,
        appends,
        inquiries,
        applier,
        cold_reads,
        peering,
        transfer,
        covered,
    )
    running = Running(core, parts, driver, service)

    try:
        peer = await _listen(peer_listener, settings.peer_listen, "peer_listen")
        api = await _listen(api_listener, settings.api_listen, "api_listen")
        service.advertise(
            peer=_with_port(settings.peer_endpoint, peer.port),
            api=_with_port(settings.api_endpoint, api.port),
        )
        core.replica.endpoint = service.peer_endpoint
        tasks(_drive(driver, parts, peering.pool), name="driver")
        tasks(applier.run(), name="applier")
        tasks(snapshotter.run(), name="snapshots")
        tasks(scrubber.run(), name="scrub")
        tasks(greet_voters(peering.pool, core.replica), name="greeting")
        tasks(_refresh(gauges, metrics, driver, log, watchdog), name="gauges")
        tasks(forget_promises(directory, core.replica.config.promise_ms), name="promises")
        tasks(
            watch_storage(
                directory,
                log,
                settings.log_dir,
                interval_ms=settings.storage_check_interval_ms,
                reserve_bytes=settings.disk_reserve_bytes,
                on_space=on_space,
                on_full=on_full,
                on_usage=on_usage,
            ),
            name="storage-watch",
        )
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
        await peering.pool.close()
        await peer_server.close()
        await api_listener.stop()
        await peer_listener.stop()
        await asyncio.to_thread(snapshotter.close)
        await asyncio.to_thread(scrubber.close)
        await asyncio.to_thread(transfer.close)
        await asyncio.to_thread(cold_reads.close)
        await asyncio.to_thread(applier.close)
        await asyncio.to_thread(flusher.stop)
        await asyncio.to_thread(gatekeeper.close)
        driver.close()


async def _listen(listener: ApiServer, endpoint: Endpoint, name: str) -> Endpoint:
    try:
        bound = await listener.start(endpoint)
    except OSError as error:
        raise ConfigurationError(f"{name}: cannot listen on {endpoint}: {error}") from error
    _log.info("listener_started", what=name, endpoint=str(bound))
    return bound


def _with_port(endpoint: Endpoint, bound: int) -> Endpoint:
    """What is advertised, once it is known which port was free."""
    return endpoint if endpoint.port else Endpoint(endpoint.host, bound)


async def _drive(driver: Driver, parts: Parts, pool: PeerPool) -> None:
    await greet_before_leading(pool, parts.core.replica)
    await driver.run(parts)


async def _refresh(
    gauges: Gauges, metrics: NodeMetrics, driver: Driver, log: Log, watchdog: Watchdog
) -> None:
    loop = asyncio.get_running_loop()
    stalled = False
    while True:
        gauges.refresh()
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
