"""A node from start to stop: what `raftnode run` calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

import structlog

from raftnode.core.types import NodeId
from raftnode.core_dumps import forbid_core_dumps
from raftnode.errors import (
    ExitCode,
    RaftnodeError,
    StorageCorruptError,
    StorageError,
    StorageFailedError,
    StorageStaleError,
)
from raftnode.runtime.builders.access import Access, read_access
from raftnode.runtime.builders.base import Process
from raftnode.runtime.builders.node import Running, running_node
from raftnode.runtime.disk.calls_in_flight import WatchedCalls
from raftnode.runtime.process import interpreter, poll_time
from raftnode.runtime.process.journal import keep_journal
from raftnode.runtime.process.process_setup import (
    StopSignals,
    open_standard_files,
    write_termination_message,
)
from raftnode.runtime.process.refused_storage import tell_damage
from raftnode.runtime.process.tasks import Tasks
from raftnode.runtime.process.watchdog import Stall, Watchdog, end_process
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.files import Files, OsCalls
from raftnode.storage.log.log import Log, LogSettings

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings

_log = structlog.get_logger("raftnode")


def run(settings: NodeSettings) -> ExitCode:
    """Run a node until a signal stops it or it cannot go on.

    Returns:
        The exit code; the termination message has the same code and a message.
    """
    open_standard_files()
    keep_journal(settings.log_format, settings.log_level)
    if settings.core_dumps == "disabled" and (problem := forbid_core_dumps()):
        _log.warning("core_dumps_allowed", problem=problem)
    signals = StopSignals()
    watchdog = Watchdog(settings.stall_timeout_ms, lambda stall: _end(settings, stall))
    watchdog.start()
    try:
        code, message = _outcome(settings, signals, watchdog)
        write_termination_message(settings.termination_path, code, message)
        return code
    finally:
        signals.ignore()


def _end(settings: NodeSettings, stall: Stall) -> None:
    """End the process though its threads hang; on the watchdog's thread."""

    def say() -> None:
        _log.error("node_ended", reason=stall.code.name, message=str(stall))
        write_termination_message(settings.termination_path, stall.code, str(stall))

    end_process(stall.code, say)


def _outcome(
    settings: NodeSettings, signals: StopSignals, watchdog: Watchdog
) -> tuple[ExitCode, str]:
    try:
        with asyncio.Runner(loop_factory=poll_time.make_loop) as runner:
            runner.run(_run(settings, signals, watchdog))
    except RaftnodeError as error:
        _log.error("node_ended", reason=error.exit_code.name, message=str(error))
        return error.exit_code, str(error)
    except Exception as error:  # noqa: BLE001 - whatever it was, the message says so
        _log.exception("node_ended", reason=ExitCode.UNEXPECTED.name)
        return ExitCode.UNEXPECTED, f"{type(error).__name__}: {error}"
    return ExitCode.OK, "stopped on request"


async def _run(settings: NodeSettings, signals: StopSignals, watchdog: Watchdog) -> None:
    interpreter.take_turns()
    watchdog.attach(asyncio.get_running_loop())
    files = Files(WatchedCalls(OsCalls(), watchdog.in_flight))
    node = Node(settings, files, watchdog=watchdog, on_started=interpreter.settle)
    signals.connect(node.request_stop)
    try:
        await node.run()
    except StorageCorruptError as error:
        stop = asyncio.Event()
        signals.connect(stop.set)
        await tell_damage(settings, str(error), stop)
        raise


class Node:
    """One node; `run` is called once, on a running loop.

    Args:
        settings: the node's.
        files: the file layer; None: the operating system's.
        watchdog: reports what makes no progress; None: nothing is watched.
        on_started: called once all parts of the node run.
    """

    def __init__(
        self,
        settings: NodeSettings,
        files: Files | None = None,
        *,
        watchdog: Watchdog | None = None,
        on_started: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings
        self._files = files
        self._watchdog = Watchdog(0, lambda _: None) if watchdog is None else watchdog
        self._on_started = on_started
        self._wanted = asyncio.Event()
        """Set when the node has to stop, on request or not."""
        self._error: BaseException | None = None
        self._directory: DataDirectory | None = None
        self._running: Running | None = None
        self._given_up = False

    def request_stop(self) -> None:
        """Ask `run` to transfer leadership and end."""
        self._wanted.set()

    def _fail(self, error: BaseException) -> None:
        """Record the first failure, even while stopping; the node answers no request after it.

        A report that the storage is stale goes before any failure: no start must open it again.
        """
        if isinstance(error, StorageStaleError):
            error = self._mark_stale(error)
            if not isinstance(self._error, StorageStaleError):
                self._error = error
        if self._given_up and not isinstance(error, StorageError):
            _log.warning("shutdown_step_failed", problem=repr(error))
            return
        if self._error is None:
            self._error = error
        self._wanted.set()
        if self._running is not None:
            self._running.die()

    def _mark_stale(self, stale: StorageStaleError) -> StorageError:
        """Mark the storage now, while nothing else of this node can run.

        The peer that reported it may be down at the next start, and the other peers know less. The
        process may not live until an orderly stop is done.

        Returns:
            The error to end with: the report, or the disk's if the mark could not be written.
        """
        if self._directory is None:
            raise RuntimeError("no peer is heard before the directory is open")
        try:
            self._directory.mark_stale(str(stale))
        except StorageError as error:
            message = f"the storage is stale ({stale}) and could not be marked: {error}"
            failed = StorageFailedError(message)
            failed.__cause__, failed.exit_code = error, error.exit_code
            return failed
        return stale

    async def run(self) -> None:
        """Run until `request_stop`.

        Raises:
            RaftnodeError: the node cannot go on; it answers no further request.
        """
        settings = self.settings
        access = await asyncio.to_thread(read_access, settings)
        directory = await asyncio.to_thread(
            DataDirectory.open, settings.log_dir, NodeId(settings.node_id), self._files
        )
        try:
            access.note_opened(directory)
            await self._run_in(directory, access)
        except StorageCorruptError as error:
            # A later start might not read the damaged part, and go on as if it were whole.
            raise await asyncio.to_thread(directory.set_aside, error) from error
        finally:
            directory.close()
            access.close()

    async def _run_in(self, directory: DataDirectory, access: Access) -> None:
        settings = self.settings
        log = await asyncio.to_thread(
            directory.open_log,
            LogSettings(
                segment_bytes=settings.segment_bytes,
                segment_ms=settings.segment_ms,
                preallocate=settings.log_preallocate,
                recent_bytes=settings.recent_batches_bytes,
                # A reservation then never makes a disk low (S30).
                free_bytes_kept=2 * settings.disk_reserve_bytes,
                on_not_reserved=lambda reason: _log.warning("log_not_preallocated", reason=reason),
            ),
        )
        try:
            await self._run_on(directory, log, access)
        except BaseException:
            with contextlib.suppress(RaftnodeError):
                log.close()
            raise
        log.close()

    async def _run_on(self, directory: DataDirectory, log: Log, access: Access) -> None:
        tasks = Tasks(self._fail)
        cause: Exception | None = None
        self._directory = directory
        try:
            process = Process(tasks, self._fail, self._watchdog, version("kraftquorum"))
            async with running_node(self.settings, directory, log, process, access) as running:
                self._running = running
                if self._error is not None:  # it came before there was anything to stop
                    running.die()
                self._on_started()
                await self._wanted.wait()
                if self._error is None:
                    await running.transfer_leadership(self.settings.shutdown_grace_ms // 2)
                self._given_up = True
                running.give_up()
        except Exception as error:
            if self._error is None:
                raise
            cause = error
        finally:
            await tasks.cancel_all()
        # Raised only now, with all parts stopped.
        if self._error is not None:
            raise self._error from self._error.__cause__ or cause
