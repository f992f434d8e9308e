"""A node, put together from its parts, started, and taken apart at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from raftnode.api.errors import refusal
from raftnode.core.events import EndpointBound, ShutdownRequested
from raftnode.core.roles import Leader, Resigned
from raftnode.core.types import VoterSet
from raftnode.runtime.builders.access import Access
from raftnode.runtime.builders.base import Base, Process, build_base
from raftnode.runtime.builders.disk import Disk, build_disk, watch_disk
from raftnode.runtime.builders.listeners import Listeners, build_listeners
from raftnode.runtime.builders.peers import (
    Connections,
    Peers,
    VoterAddresses,
    build_peers,
    connect,
    own_identity,
)
from raftnode.runtime.builders.tls import Tls, build_tls
from raftnode.runtime.builders.writes import Writes, build_writes
from raftnode.runtime.driver import ClientParts, Parts, PeerParts, StorageParts
from raftnode.runtime.metrics.gauges import Gauges
from raftnode.runtime.peers.peer_hello import greet_before_leading, greet_voters
from raftnode.runtime.peers.vote_promise import forget_promises
from raftnode.runtime.process.poll_time import waited_s
from raftnode.runtime.service import Service
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings

_log = structlog.get_logger("raftnode")

GAUGES_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class NodeParts:
    """All parts of a node, in the order in which they are built.

    Attributes:
        base: what the other parts share.
        tls: certificates and keys of the listeners.
        writes: from a client's request to the store.
        disk: the work on the disk beside the log.
        peers: what knows the other replicas.
        service: what the HTTP API asks.
        connections: to the other replicas.
        listeners: the HTTP servers.
    """

    base: Base
    tls: Tls
    writes: Writes
    disk: Disk
    peers: Peers
    service: Service
    connections: Connections
    listeners: Listeners

    @property
    def of_driver(self) -> Parts:
        """What the driver works on."""
        storage, writes = self.base.storage, self.writes
        return Parts(
            self.base.core,
            StorageParts(storage.directory, storage.log, writes.flusher, writes.cold_reads),
            ClientParts(writes.appends, writes.inquiries, writes.applier),
            PeerParts(self.peers.peering, self.peers.transfer),
        )


async def build_parts(
    settings: NodeSettings, directory: DataDirectory, log: Log, process: Process, access: Access
) -> NodeParts:
    """Build all parts of a node; nothing runs or listens yet."""
    base = await build_base(settings, directory, log, process)
    tls = await build_tls(
        settings,
        base.metrics.registry,
        process.tasks,
        lambda: base.core.replica.cluster_id,
        access.note_refused_connection,
    )
    writes = build_writes(base, lambda: service.leader())  # noqa: PLW0108
    disk = build_disk(base, writes)
    peers = build_peers(base, writes, disk)
    service = Service(
        base.core,
        writes.appends,
        writes.inquiries,
        writes.committed_reads,
        api_of=peers.peering.api_endpoint_of,
        version=process.version,
        disk=disk.state,
        stall=lambda: process.watchdog.stall,
    )
    identity = own_identity(base, service)
    connections = connect(base, peers, identity, tls.peer, access.note_refused_hello)
    listeners = build_listeners(base, service, connections.server, tls, access)
    return NodeParts(base, tls, writes, disk, peers, service, connections, listeners)


class Running:
    """The operations on a running node."""

    def __init__(self, parts: NodeParts) -> None:
        self._core = parts.base.core
        self._driver = parts.base.driver
        self._writes = parts.writes
        self._service = parts.service
        self._turned = asyncio.Event()

    def turned(self) -> None:
        """Note that the core has handled an event."""
        self._turned.set()

    async def transfer_leadership(self, grace_ms: int) -> None:
        """Finish the writes begun, then transfer leadership to a voter, if time allows."""
        self._service.stopping = True
        await self._until(lambda: self._writes.appends.idle, grace_ms // 2)
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
        self._writes.appends.fail_all(error)
        self._writes.inquiries.fail_all(error)


@asynccontextmanager
async def running_node(
    settings: NodeSettings, directory: DataDirectory, log: Log, process: Process, access: Access
) -> AsyncGenerator[Running]:
    """Put a node together, start it, and take it apart at the end."""
    parts = await build_parts(settings, directory, log, process, access)
    running = Running(parts)
    gauges = _follow_turns(parts, running)
    parts.base.driver.on_fact = access.note_fact
    try:
        await _start(parts, gauges)
        access.follow(process.tasks)
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
        await _stop(parts)


def _follow_turns(parts: NodeParts, running: Running) -> Gauges:
    """Let the metrics, the addresses and the rest follow each turn of the core."""
    base, replica = parts.base, parts.base.core.replica
    appends = parts.writes.appends
    gauges = Gauges(base.metrics.node, replica, appends, base.process.version, waited_s)
    base.metrics.before_scrape.call(gauges.show)
    base.after_turn.add(
        gauges.watch_elections,
        VoterAddresses(replica, parts.peers.addresses, VoterSet()).follow,
        parts.peers.gatekeeper.note_acknowledgements,
        running.turned,
    )
    return gauges


async def _start(parts: NodeParts, gauges: Gauges) -> None:
    """Listen, and start all tasks."""
    base, tls, disk = parts.base, parts.tls, parts.disk
    replica, tasks = base.core.replica, base.process.tasks
    pool, peer_server = parts.connections.pool, parts.connections.server
    peer, api = await parts.listeners.start(base)
    parts.service.advertise(peer=peer, api=api, certificates=tls.describe)
    base.driver.begin_with(EndpointBound(peer))
    tls.watch(tasks, pool.renew, peer_server.renew, on_api_changed=parts.listeners.end_former)
    tasks(_drive(parts), name="driver")
    tasks(parts.writes.applier.run(), name="applier")
    tasks(disk.snapshotter.run(), name="snapshots")
    tasks(disk.scrubber.run(), name="scrub")
    tasks(greet_voters(pool, replica), name="greeting")
    tasks(_refresh(gauges, base), name="gauges")
    tasks(forget_promises(base.storage.directory, replica.config.promise_ms), name="promises")
    tasks(watch_disk(base, disk), name="storage-watch")


async def _stop(parts: NodeParts) -> None:
    """End the connections, and then wait for each thread to end."""
    disk, writes, peers = parts.disk, parts.writes, parts.peers
    await parts.connections.close()
    await parts.listeners.stop()
    for end in (
        disk.snapshotter.close,
        disk.scrubber.close,
        peers.transfer.close,
        writes.cold_reads.close,
        writes.committed_reads.close,
        writes.applier.close,
        writes.flusher.stop,
        peers.gatekeeper.close,
    ):
        await asyncio.to_thread(end)
    parts.base.driver.close()


async def _drive(parts: NodeParts) -> None:
    await greet_before_leading(parts.connections.pool, parts.base.core.replica)
    await parts.base.driver.run(parts.of_driver)


async def _refresh(gauges: Gauges, base: Base) -> None:
    loop, metrics = asyncio.get_running_loop(), base.metrics.node
    watchdog, log = base.process.watchdog, base.storage.log
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
        metrics.event_queue.set(base.driver.backlog)
        metrics.log_size_bytes.set(log.size_bytes)
        metrics.log_segments.set(log.segments)
        due = loop.time() + GAUGES_INTERVAL_S
        await asyncio.sleep(GAUGES_INTERVAL_S)
        metrics.loop_lag_seconds.observe(max(loop.time() - due, 0))
