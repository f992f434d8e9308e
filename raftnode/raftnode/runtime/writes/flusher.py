"""fdatasync in a thread of its own, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

from raftnode.core.events import LogFlushed
from raftnode.core.log_index import LogIndex
from raftnode.core.types import Offset
from raftnode.runtime.process.thread_signal import ThreadSignal
from raftnode.storage.log.log import Log

THREAD_NAME = "fsync"


class Flusher:
    """Keeps the log's durable end behind its end by no more than one fsync.

    The loop and the thread wake each other by a `ThreadSignal`, once for each fsync.

    Args:
        log: the storage's.
        index: the core's, for what it knows durable and how often it was truncated.
        on_flushed: called after each success, on the loop.
        on_error: called on the loop with the first failure, of an fsync or of this class or its
            callbacks; nothing is flushed after it.
        on_seconds: called with the duration of an fsync.
    """

    def __init__(
        self,
        log: Log,
        index: LogIndex,
        *,
        on_flushed: Callable[[LogFlushed], None],
        on_error: Callable[[BaseException], None],
        on_seconds: Callable[[float], None],
    ) -> None:
        self._log = log
        self._index = index
        self._on_flushed = on_flushed
        self._on_error = on_error
        self._on_seconds = on_seconds
        self._loop = asyncio.get_running_loop()
        self._began_s: float | None = None
        self._covers = LogFlushed(index.durable_end, index.truncations)
        """What the fsync under way is for."""
        self._outcome: Offset | BaseException = index.durable_end
        """Of the last fsync; the thread writes it before it signals."""
        self._stopped = False
        self._ended = False
        self._flushed = self._covers
        self._wanted, self._done = ThreadSignal(), ThreadSignal()
        self._done.add_callback(self._loop, self._hear)
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    @property
    def in_flight(self) -> bool:
        """Whether an fsync is under way."""
        return self._began_s is not None

    @property
    def in_flight_s(self) -> float | None:
        """For how long the present fsync has been under way; None: there is none."""
        return None if self._began_s is None else time.monotonic() - self._began_s

    def flush_if_needed(self) -> None:
        """Begin an fsync if something is not durable and none is under way."""
        index = self._index
        # Records that the storage lacks yet wait behind another effect, whose end calls this.
        truncations, end = index.truncations, min(index.end, self._log.end_offset)
        # The core has yet to hear of the last flush: records that it covered need no other.
        reported_end = self._flushed.end_offset if self._flushed.truncations == truncations else 0
        if self.in_flight or self._stopped or max(index.durable_end, reported_end) >= end:
            return
        self._began_s = time.monotonic()
        self._covers = LogFlushed(end, truncations)
        self._wanted.notify()

    def _run(self) -> None:
        """Flush at each signal; on the thread, which does not end unseen."""
        try:
            while True:
                self._wanted.wait()
                if self._ended:
                    return
                try:
                    self._outcome = self._log.flush()
                except BaseException as error:  # noqa: BLE001 - the loop reports it
                    self._outcome = error
                self._done.notify()
        except BaseException as error:  # noqa: BLE001 - the loop reports it
            with contextlib.suppress(RuntimeError):  # a closed loop runs no node
                self._loop.call_soon_threadsafe(self._fail, error)

    def _fail(self, error: BaseException) -> None:
        """Report an error and flush no more; on the loop."""
        self._began_s = None
        if not self._stopped:
            self._stopped = True
            self._on_error(error)

    def _hear(self) -> None:
        """Report an fsync that has ended; on the loop, which would only log an error."""
        began_s, self._began_s = self._began_s, None
        if self._stopped or began_s is None:
            return
        try:
            self._note_outcome(began_s)
        except Exception as error:  # noqa: BLE001 - records would never be durable
            self._fail(error)

    def _note_outcome(self, began_s: float) -> None:
        outcome, covers = self._outcome, self._covers
        if isinstance(outcome, BaseException):
            self._fail(outcome)
            return
        self._on_seconds(time.monotonic() - began_s)
        # Never past the end at that time: a truncation that the core had decided may not
        # have reached the storage, whose end is then about to be cut.
        self._flushed = LogFlushed(Offset(min(outcome, covers.end_offset)), covers.truncations)
        self._on_flushed(self._flushed)
        self.flush_if_needed()

    def stop(self) -> None:
        """Begin no more fsyncs, wait for the last and report none; blocks."""
        self._stopped = True
        if self._ended:
            return
        self._ended = True
        self._wanted.notify()
        self._thread.join()
        with contextlib.suppress(RuntimeError):  # a closed loop watches nothing
            self._loop.call_soon_threadsafe(self._close_signals)

    def _close_signals(self) -> None:
        self._began_s = None
        self._done.remove_callback(self._loop)
        self._done.close()
        self._wanted.close()
