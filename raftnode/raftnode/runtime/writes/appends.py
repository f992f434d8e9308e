"""Clients' writes: they are gathered, appended as one batch, and get exactly one outcome each.

While one batch is being fsynced the next one fills: the busier the node, the larger its batches
(group commit). If an fsync takes long and the others have committed all that was appended, the
next batch does not wait for the fsync: a leader's slow disk slows no writes.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from raftnode.api.errors import refusal
from raftnode.api.model import Appended
from raftnode.api.service import CommittedRun, NewRecord, WriteDone
from raftnode.core.effects import AppendAccepted, Refused
from raftnode.core.events import AppendRequested, Event
from raftnode.core.types import Epoch, Offset
from raftnode.errors import RequestError
from raftnode.logformat.batch import Record, encode_data_batch
from raftnode.logformat.keyless import FinishedBatch, place_finished_batch
from raftnode.runtime.outcomes import outcome_of
from raftnode.runtime.process import clock

SLOW_FLUSH_S = 0.02
"""An fsync that has taken this long is slow: no batch waits for it any more. On a faster disk the
batches are those of plain group commit."""

RECORD_OVERHEAD_BYTES = 32
"""The rough cost of a record in a queue or a batch besides its key and value."""


@dataclass(slots=True, eq=False)
class Write:
    """A write without an outcome: `raftnode.api.service.Waiting`. Only `Appends` makes it.

    Invariant: `done` is called at most once, and not after `too_late` or `forget`.
    """

    appends: Appends
    content: Sequence[NewRecord] | FinishedBatch
    record_count: int
    size: int
    done: WriteDone | None
    base: int = -1
    """The place of the write's first record in its batch, then in the log."""

    def settle(self, outcome: CommittedRun | RequestError) -> None:
        """Report the outcome, if the client still waits for it."""
        done, self.done = self.done, None
        if done is not None:
            done(outcome)

    def too_late(self, timeout_ms: int) -> RequestError:
        """Stop waiting at the deadline; return the error for the client."""
        if self.appends.withdraw(self):
            return refusal("NOT_COMMITTED", f"not started within {timeout_ms} ms")
        return refusal("TIMED_OUT", f"not committed within {timeout_ms} ms")

    def forget(self) -> None:
        """Stop waiting, because the client has gone; the write itself goes on if it has begun."""
        self.appends.withdraw(self)


@dataclass(slots=True)
class _Batch:
    writes: list[Write]
    appended_at: float = 0.0
    last_offset: Offset = field(default=Offset(-1))
    epoch: Epoch = field(default=Epoch(-1))


class Appends:
    """All writes of this node that have no outcome yet.

    Args:
        post: gives the core an event.
        next_id: makes request ids.
        error_of: the API's error for a refusal.
        queue_bytes_max: how many bytes may wait; more are refused at once.
        batch_bytes_max: how large a batch may grow.
        linger_ms: how long a batch waits for more records; 0: until the loop's next turn.
        flushing_s: for how long an fsync has been under way; its end calls `pump`. None: none is.
        on_commit: called with the seconds that a batch took to commit.
    """

    def __init__(
        self,
        post: Callable[[Event], None],
        next_id: Callable[[], int],
        error_of: Callable[[Refused], RequestError],
        *,
        queue_bytes_max: int,
        batch_bytes_max: int,
        linger_ms: int,
        flushing_s: Callable[[], float | None],
        on_commit: Callable[[float], None],
    ) -> None:
        self._post = post
        self._next_id = next_id
        self._error_of = error_of
        self._queue_bytes_max = queue_bytes_max
        self._batch_bytes_max = batch_bytes_max
        self._linger_s = linger_ms / 1000
        self._flushing_s = flushing_s
        self._on_commit = on_commit
        # A write may leave from any place at its deadline, at the same cost.
        self._queue: OrderedDict[Write, None] = OrderedDict()
        self._looks_again = False
        self.queued_bytes = 0
        self._asked: dict[int, _Batch] = {}
        self._appended: deque[_Batch] = deque()
        self.appended_records = 0

    def submit(self, records: Sequence[NewRecord], done: WriteDone) -> Write:
        """Queue records; `done` gets the outcome in a later turn of the loop.

        The caller keeps the deadline, and calls `too_late` or `forget` of what this returns.

        Raises:
            RequestError: QUEUE_FULL; `done` is not called then.
        """
        size = sum(record.size_bytes + RECORD_OVERHEAD_BYTES for record in records)
        return self._submit(Write(self, records, len(records), size, done))

    def submit_batch(self, batch: FinishedBatch, done: WriteDone) -> Write:
        """Queue a client's batch, which stays one batch in the log, as `submit` queues records.

        Raises:
            RequestError: QUEUE_FULL; `done` is not called then.
        """
        return self._submit(Write(self, batch, batch.record_count, len(batch.data), done))

    def _submit(self, write: Write) -> Write:
        # One write always fits into an empty queue, whatever its overhead.
        if self._queue and self.queued_bytes + write.size > self._queue_bytes_max:
            raise refusal(
                "QUEUE_FULL",
                f"{self.queued_bytes} bytes are waiting to be written "
                "(append_queue_bytes is the limit)",
            )
        self._queue[write] = None
        self.queued_bytes += write.size
        if len(self._queue) == 1:
            # Not at once: writes of one turn of the loop share a batch even without linger.
            asyncio.get_running_loop().call_later(self._linger_s, self.pump)
        return write

    def withdraw(self, write: Write) -> bool:
        """Forget the client of a write; True: the write is certainly not done and never will be."""
        write.done = None
        if write not in self._queue:
            return False
        del self._queue[write]
        self.queued_bytes -= write.size
        return True

    async def append(self, records: Sequence[NewRecord], timeout_ms: int) -> Appended:
        """Queue records and wait for their commit.

        Raises:
            RequestError: with outcome `unknown` once the core has them.
        """
        run = await outcome_of(partial(self.submit, records), timeout_ms)
        return Appended(base_offset=run.base_offset, last_offset=run.last_offset, epoch=run.epoch)

    @property
    def idle(self) -> bool:
        """Whether every write has its outcome."""
        return not (self._queue or self._asked or self._appended)

    @property
    def pending(self) -> int:
        """How many writes have no outcome yet."""
        batches = (*self._asked.values(), *self._appended)
        return len(self._queue) + sum(len(batch.writes) for batch in batches)

    def pump(self) -> None:
        """Give the core the next batch once the last one is synced here, or committed.

        It is several batches if clients have finished some: each of those stays as it is.
        """
        if self._asked or not self._queue or self._held_by_flush():
            return
        for writes in self._taken():
            try:
                data, record_count = _encoded(writes)
            except ValueError as error:
                # No part of the batch has left: the next batch must not wait for it.
                for write in writes:
                    write.settle(
                        refusal("INVALID_REQUEST", f"cannot make a batch of the records: {error}")
                    )
                asyncio.get_running_loop().call_soon(self.pump)
                continue
            request_id = self._next_id()
            self._asked[request_id] = _Batch(writes)
            self._post(AppendRequested(request_id, data, record_count))

    def _taken(self) -> list[list[Write]]:
        """Take the writes that fit together, in order; each list makes one batch of the log."""
        batches: list[list[Write]] = []
        size, is_open = 0, False
        while self._queue:
            write = next(iter(self._queue))
            if batches and size + write.size > self._batch_bytes_max:
                break
            del self._queue[write]
            self.queued_bytes -= write.size
            size += write.size
            finished = isinstance(write.content, FinishedBatch)
            if is_open and not finished:
                batches[-1].append(write)
            else:
                batches.append([write])
            is_open = not finished
        return batches

    def _held_by_flush(self) -> bool:
        """Whether an fsync under way is worth waiting for: a quick one, or its batch's commit."""
        flushing_s = self._flushing_s()
        if flushing_s is None:
            return False
        if not self._appended and flushing_s < SLOW_FLUSH_S and not self._looks_again:
            self._looks_again = True
            asyncio.get_running_loop().call_later(SLOW_FLUSH_S - flushing_s, self._look_again)
        return bool(self._appended) or flushing_s < SLOW_FLUSH_S

    def _look_again(self) -> None:
        self._looks_again = False
        self.pump()

    def accepted(self, accepted: AppendAccepted) -> None:
        """Note that the batch is in the log; the next one waits for its flush or its commit."""
        batch = self._asked.pop(accepted.request_id)
        batch.appended_at = time.monotonic()
        batch.last_offset, batch.epoch = accepted.last_offset, accepted.epoch
        for write in batch.writes:
            write.base += accepted.base_offset
        self._appended.append(batch)
        self.appended_records += accepted.last_offset - accepted.base_offset + 1

    def refused(self, refused: Refused) -> bool:
        """Fail a batch that the core refused; return whether it was a batch of this node."""
        batch = self._asked.pop(refused.request_id, None)
        if batch is None:
            return False
        error = self._error_of(refused)
        for write in batch.writes:
            write.settle(error)
        asyncio.get_running_loop().call_soon(self.pump)
        return True

    def committed(self, high_watermark: Offset) -> None:
        """Acknowledge the writes that the high watermark has passed (P43)."""
        while self._appended and self._appended[0].last_offset < high_watermark:
            batch = self._appended.popleft()
            self._on_commit(time.monotonic() - batch.appended_at)
            for write in batch.writes:
                if write.done is not None:
                    last = Offset(write.base + write.record_count - 1)
                    write.settle(CommittedRun(Offset(write.base), last, batch.epoch))
        if not self._appended and self._flushing_s() is not None:
            self.pump()  # its end need not be waited for

    def leadership_lost(self) -> None:
        """Fail the appended writes, which may or may not survive; waiting writes are not done."""
        while self._appended:
            for write in self._appended.popleft().writes:
                write.settle(
                    refusal(
                        "LEADERSHIP_LOST",
                        f"appended at offset {write.base}; this node lost leadership before "
                        "the commit",
                    )
                )
        # The core refuses the waiting writes; a flush that hangs would never ask it.
        asyncio.get_running_loop().call_soon(self.pump)

    def fail_all(self, error: RequestError) -> None:
        """Fail all writes, as the node stops."""
        self.leadership_lost()
        for batch in self._asked.values():
            for write in batch.writes:
                write.settle(refusal("LEADERSHIP_LOST", "the node stopped during the append"))
        self._asked.clear()
        while self._queue:
            write, _ = self._queue.popitem(last=False)
            write.settle(error)
        self.queued_bytes = 0


def _encoded(writes: Sequence[Write]) -> tuple[bytes, int]:
    """Make a batch of writes, now; note the place of each in it.

    Raises:
        ValueError: no batch can be made of them.
    """
    records: list[Record] = []
    for write in writes:
        write.base = len(records)
        if isinstance(write.content, FinishedBatch):  # the only one of its batch
            data = place_finished_batch(write.content, clock.wall_ms())
            return data, write.record_count
        records.extend(Record(record.key, record.value) for record in write.content)
    return encode_data_batch(records, clock.wall_ms()), len(records)
