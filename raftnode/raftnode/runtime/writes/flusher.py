"""fdatasync in a thread of its own, one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from raftnode.core.events import LogFlushed
from raftnode.core.log_index import LogIndex
from raftnode.core.types import Offset
from raftnode.storage.log.log import Log

THREAD_NAME = "fsync"


class Flusher:
    """Keeps the log's durable end behind its end by no more than one fsync.

    Args:
        log: the storage's.
        index: the core's, for what it knows durable and how often it was truncated.
        on_flushed: called after each success, on the loop.
        on_error: called with the first failure; nothing is flushed after it.
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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=THREAD_NAME)
        self._loop = asyncio.get_running_loop()
        self._began_s: float | None = None
        self._stopped = False
        self._flushed = LogFlushed(index.durable_end, index.truncations)

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
        self._began_s = started = time.monotonic()
        future = self._loop.run_in_executor(self._thread, self._log.flush)

        def done(finished: asyncio.Future[Offset]) -> None:
            self._began_s = None
            if self._stopped or finished.cancelled():
                return
            error = finished.exception()
            if error is not None:
                self._stopped = True
                self._on_error(error)
                return
            self._on_seconds(time.monotonic() - started)
            # Never past the end at that time: a truncation that the core had decided may not
            # have reached the storage, whose end is then about to be cut.
            self._flushed = LogFlushed(Offset(min(finished.result(), end)), truncations)
            self._on_flushed(self._flushed)
            self.flush_if_needed()

        future.add_done_callback(done)

    def stop(self) -> None:
        """Begin no more fsyncs and wait for the last."""
        self._stopped = True
        self._thread.shutdown(wait=True)
