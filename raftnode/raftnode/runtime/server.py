"""A node from start to stop: recovery, listeners, tasks, signals, exit code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version as package_version
from types import FrameType
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from raftnode.api.errors import refusal
from raftnode.api.http import ApiLimits
from raftnode.api.metrics import HttpMetrics, NodeMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.core.config import CoreConfig
from raftnode.core.events import DiskSpaceChanged, ShutdownRequested
from raftnode.core.log_index import LogIndex
from raftnode.core.raft import RaftCore
from raftnode.core.roles import Leader, Resigned
from raftnode.core.types import Endpoint, NodeId, VoterSet
from raftnode.errors import (
    ConfigurationError,
    ExitCode,
    RaftnodeError,
    StorageError,
    StorageIdentityError,
)
from raftnode.runtime import clock
from raftnode.runtime.appends import Appends
from raftnode.runtime.applier import Applier
from raftnode.runtime.driver import Driver, Parts
from raftnode.runtime.flusher import Flusher
from raftnode.runtime.gauges import Gauges
from raftnode.runtime.inquiries import Inquiries
from raftnode.runtime.peering import Peering
from raftnode.runtime.service import Service
from raftnode.runtime.tasks import Tasks
from raftnode.runtime.watch import watch_storage
from raftnode.storage.batch import decode_batches
from raftnode.storage.directory import DataDirectory
from raftnode.storage.files import Files
from raftnode.storage.log import Log, LogSettings
from raftnode.transport import (
    AddressBook,
    HostsFile,
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

FILES_WANTED = 16_384
"""Open files to ask the system for, if it lets this process have so many."""

FILES_RESERVED = 512
"""Of these, kept from clients: peers both ways, segments, and files that are replaced."""


def run(settings: NodeSettings) -> ExitCode:
    """Run a node until it is told to stop or cannot go on.

    Returns:
        Why it ended; the same code and a message stand in the termination message.
    """
    signals = _StopSignals()
    try:
        return _report(settings, *_outcome(settings, signals))
    finally:
        signals.ignore()


def _outcome(settings: NodeSettings, signals: _StopSignals) -> tuple[ExitCode, str]:
    try:
        asyncio.run(_run(settings, signals))
    except RaftnodeError as error:
        _log.error("node_ended", reason=error.exit_code.name, message=str(error))
        return error.exit_code, str(error)
    except Exception as error:  # noqa: BLE001 - whatever it was, the message says so
        _log.exception("node_ended", reason=ExitCode.UNEXPECTED.name)
        return ExitCode.UNEXPECTED, f"{type(error).__name__}: {error}"
    return ExitCode.OK, "stopped on request"


async def _run(settings: NodeSettings, signals: _StopSignals) -> None:
    node = Node(settings)
    signals.connect(node.request_stop)
    await node.run()


def raise_file_limit() -> int:
    """Allow this process more open files if the system does; returns how many it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return FILES_WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as problem:
        _log.warning("file_limit_not_raised", limit=soft, problem=str(problem))
        return soft
    return wanted


def descriptors_for_clients(limit: int) -> int:
    """How many connections clients may hold, of so many open files."""
    return max(limit - FILES_RESERVED, limit // 2)


class _StopSignals:
    """SIGTERM and SIGINT, from now to the end of the process.

    Not the loop's own handlers: with the loop they end, and then a second SIGTERM would
    kill a process that is about to exit cleanly.
    """

    def __init__(self) -> None:
        self._come = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], None] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def connect(self, stop: Callable[[], None]) -> None:
        """Call `stop` on the running loop at each signal, one that has come before included."""
        self._loop, self._stop = asyncio.get_running_loop(), stop
        if self._come:
            stop()

    def ignore(self) -> None:
        """The process is about to exit: Python would let go of the handlers before that."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self._come = True
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it is stopping
                self._loop.call_soon_threadsafe(self._stop)


def _report(settings: NodeSettings, code: ExitCode, message: str) -> ExitCode:
    """Write the termination message; returns the exit code."""
    path = settings.termination_path
    if path is None:
        return code
    text = json.dumps({"reason": code.name, "message": message})
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        _log.warning("termination_message_not_written", path=str(path), problem=str(problem))
    return code


class Node:
    """One node; `run` is called once, on a running loop.

    Args:
        settings: the node's.
        files: the file layer; None: the operating system's.
    """

    def __init__(self, settings: NodeSettings, files: Files | None = None) -> None:
        self.settings = settings
        self._files = files
        self._wanted = asyncio.Event()
        """Set when it is to end, on request or not."""
        self._error: BaseException | None = None
        self._running: _Running | None = None
        self._given_up = False

    def request_stop(self) -> None:
        """Ask `run` to hand leadership over and end."""
        self._wanted.set()

    def _fail(self, error: BaseException) -> None:
        """The first failure counts, even while stopping; nobody is answered after it."""
        if self._given_up and not isinstance(error, StorageError):
            _log.warning("failed_while_being_taken_apart", problem=repr(error))
            return
        if self._error is None:
            self._error = error
        self._wanted.set()
        if self._running is not None:
            self._running.die()

    async def run(self) -> None:
        """Run until `request_stop`.

        Raises:
            RaftnodeError: the node cannot go on; it answers nobody any more.
        """
        settings = self.settings
        directory = await asyncio.to_thread(
            DataDirectory.open, settings.log_dir, NodeId(settings.node_id), self._files
        )
        try:
            log = await asyncio.to_thread(
                directory.open_log, LogSettings(segment_bytes=settings.segment_bytes)
            )
            try:
                await self._run_on(directory, log)
            except BaseException:
                with contextlib.suppress(RaftnodeError):
                    log.close()
                raise
            log.close()
        finally:
            directory.close()

    async def _run_on(self, directory: DataDirectory, log: Log) -> None:
        tasks = Tasks(self._fail)
        try:
            async with _running(self.settings, directory, log, tasks, self._fail) as running:
                self._running = running
                await self._wanted.wait()
                if self._error is None:
                    await running.hand_over(self.settings.shutdown_grace_ms // 2)
                self._given_up = True
                running.give_up()
        finally:
            await tasks.cancel_all()
        # Raised only now that all is taken apart.
        if self._error is not None:
            raise self._error


class _Running:
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
async def _running(
    settings: NodeSettings,
    directory: DataDirectory,
    log: Log,
    tasks: Tasks,
    fail: Callable[[BaseException], None],
) -> AsyncGenerator[_Running]:
    """Put a node together, start it, and take it apart at the end."""
    registry = CollectorRegistry()
    metrics = NodeMetrics(registry)
    core = _recover(settings, directory, log)
    metrics.replica.info(
        {"node_id": str(settings.node_id), "directory_id": str(directory.key).partition("-")[2]}
    )
    addresses = AddressBook(settings.bootstrap_servers)
    known = VoterSet()

    def changed() -> None:
        nonlocal known
        gauges.watch_elections()
        voters = core.replica.log.voters
        if voters is not known:
            known = voters
            addresses.set_voters(voters)
        running.turned()

    driver = Driver(changed)
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
        is_flushing=lambda: flusher.in_flight,
        on_commit=metrics.commit_latency_seconds.observe,
    )
    applier = Applier(log)
    gauges = Gauges(metrics, core.replica, appends)
    peering = Peering(
        driver.post,
        inquiries.next_id,
        addresses,
        timeout_ms=settings.request_timeout_ms,
        backlog=lambda: driver.backlog,
    )
    service = Service(
        core,
        appends,
        inquiries,
        applier,
        api_of=peering.api_endpoint_of,
        version=package_version("kraftquorum"),
    )

    def identity() -> Identity:
        return Identity(
            directory.key,
            core.replica.cluster_id,
            directory.incarnation,
            service.peer_endpoint,
            service.api_endpoint,
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
        spawn=tasks,
        rng=random.Random(),  # noqa: S311
        resolver=resolver,
    )
    peer_server = PeerServer(
        codec=codec,
        identity=identity,
        on_request=peering.on_request,
        on_hello=peering.on_called,
        spawn=tasks,
    )
    peer_app = web.Application()
    peer_app.router.add_get(PEER_PATH, peer_server.handle)
    peer_listener = ApiServer(peer_app, shutdown_grace_ms=200)
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
    parts = Parts(core, directory, log, flusher, appends, inquiries, applier, peering)
    running = _Running(core, parts, driver, service)

    try:
        peer = await _listen(peer_listener, settings.peer_listen, "peer_listen")
        api = await _listen(api_listener, settings.api_listen, "api_listen")
        service.advertise(
            peer=_with_port(settings.peer_endpoint, peer.port),
            api=_with_port(settings.api_endpoint, api.port),
        )
        core.replica.endpoint = service.peer_endpoint
        tasks(driver.run(parts), name="driver")
        tasks(applier.run(), name="applier")
        tasks(_refresh(gauges), name="gauges")
        tasks(
            watch_storage(
                directory,
                log,
                settings.log_dir,
                interval_ms=settings.storage_check_interval_ms,
                reserve_bytes=settings.disk_reserve_bytes,
                on_space=lambda low: driver.post(DiskSpaceChanged(low)),
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
        await asyncio.to_thread(flusher.stop)
        driver.close()


async def _listen(listener: ApiServer, endpoint: Endpoint, name: str) -> Endpoint:
    try:
        bound = await listener.start(endpoint)
    except OSError as error:
        raise ConfigurationError(f"{name}: cannot listen on {endpoint}: {error}") from error
    _log.info("listening", what=name, endpoint=str(bound))
    return bound


def _with_port(endpoint: Endpoint, bound: int) -> Endpoint:
    """What is advertised, once it is known which port was free."""
    return endpoint if endpoint.port else Endpoint(endpoint.host, bound)


async def _refresh(gauges: Gauges) -> None:
    while True:
        gauges.refresh()
        await asyncio.sleep(GAUGES_INTERVAL_S)


def _recover(settings: NodeSettings, directory: DataDirectory, log: Log) -> RaftCore:
    """Make the core from what the disk holds."""
    latch = directory.latch
    index = LogIndex.restore(
        latch.voters if latch else VoterSet(),
        start=log.start_offset,
        end=log.end_offset,
        epochs=[(entry.epoch, entry.start_offset) for entry in log.epochs],
        control=log.recovered,
    )
    state = directory.quorum_state
    if index.last_epoch > state.epoch:
        # S2: every epoch in the log was durable in quorum-state first.
        raise StorageIdentityError(
            f"quorum-state knows epoch {state.epoch}, the log has epoch {index.last_epoch}: "
            "votes were forgotten; this replica must be replaced"
        )
    if log.torn_tail is not None:
        _log.warning("torn_tail_cut_off", damage=str(log.torn_tail), log_end=log.end_offset)
    return RaftCore(
        directory.key,
        log=index,
        state=state,
        cluster_id=directory.cluster_id,
        rng=random.Random(),  # noqa: S311
        now_ms=clock.now_ms(),
        config=CoreConfig(
            fetch_timeout_ms=settings.fetch_timeout_ms,
            election_timeout_ms=settings.election_timeout_ms,
            election_backoff_max_ms=settings.election_backoff_max_ms,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            retry_backoff_max_ms=settings.retry_backoff_max_ms,
        ),
        incarnation=directory.incarnation,
        fetch_sequence=clock.fetch_sequence_base(),
    )
