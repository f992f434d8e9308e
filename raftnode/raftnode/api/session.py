"""One client's session: operations in, answers out, both as bytes.

The module has the rules of a session: its credits, deadlines, and what it refuses. It has nothing
of WebSockets; `session_route` has that. Operations of a session run at the same time, and are
answered in the order in which they end.

What a client can make the node hold is bounded: operations by the credits, answers by
`ANSWERS_BYTES_MAX`, beyond which the session begins no further operation. A large value is read
when its answer is sent, since reading it makes a copy: it is then the same or a newer one, as a
read may give at any time until it is answered. A client that reads no answers for `UNREAD_S` loses
its session.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol

import structlog

from raftnode.access.roles import EVERYTHING
from raftnode.api.authorization import Caller
from raftnode.api.checks import check_batch_sizes, check_key, check_sizes
from raftnode.api.encode import control_fields
from raftnode.api.errors import refusal
from raftnode.api.http import ApiLimits, error_model
from raftnode.api.model import RECORDS_MAX, TIMEOUT_MS_MAX
from raftnode.api.queries import READ_BYTES_MAX, WAIT_MS_MAX
from raftnode.api.service import (
    CommittedRecord,
    CommittedRun,
    NewRecord,
    NodeService,
    Waiting,
)
from raftnode.api.session_share import SessionShare
from raftnode.core.types import Offset
from raftnode.deadline_timer import DeadlineTimer
from raftnode.errors import DecodeError, RequestError
from raftnode.limits.answers import LARGE_BYTES
from raftnode.log_limit import LineBudget
from raftnode.logformat.keyless import RECORD_BYTES_MAX, read_finished_batch
from raftnode.session import answers, operations
from raftnode.session.answers import FoundValue, Greeting, LogRecord, Records, Refusal, Written
from raftnode.session.operations import Kind, Operation
from raftnode.statemachine.kv import Entry

_log = structlog.get_logger(__name__)
_lines = LineBudget()

CREDIT_BYTES = 4 << 20
"""What operations without an answer may cost together, or one batch if that is more."""

ANSWERS_BYTES_MAX = 4 << 20
"""While more bytes of answers wait to be sent, the session begins no further operation."""

MESSAGE_BYTES = 256 << 10
"""A message of answers ends before it exceeds this; it has at least one answer."""

TURN_OPERATIONS = 128
"""How many operations are begun in one go; then other tasks have a turn."""

TURN_S = 0.005
"""They have it before, if the operations take this long: an APPEND may have many records."""

READS_MAX = 64
"""How many READ operations of a session may wait for records at once."""

READING_MAX = 4
"""How many of them may read records at once, each a megabyte at most: those that have waited
together for a record would all hold it, until the client takes their answers."""

TIMER_PAUSE_S = 0.05
"""The least time between two looks at all deadlines: an answer may come so much too late, and many
different deadlines cost no more than few."""

UNREAD_S = 30.0
"""How long a message may wait for the client to take it."""

_NAMES = {kind.value: kind.name.lower() for kind in Kind}


class SessionFault(Exception):  # noqa: N818 - the client's fault, not the program's
    """The session cannot go on; the message names the client's mistake."""


class SessionObserver(Protocol):
    """Is called for sessions; `raftnode.api.metrics.SessionMetrics` implements it."""

    def note_sessions(self, count: int) -> None:
        """Note how many sessions are open."""
        ...

    def note_operation(self, name: str, outcome: str) -> None:
        """Note an answered operation: its kind, and `ok`, `not_done` or `unknown`."""
        ...


class _Pending:
    """An operation without an answer."""

    __slots__ = (
        "cost",
        "deadline_s",
        "key",
        "operation",
        "session",
        "shared_bytes",
        "waiting",
    )

    def __init__(self, session: Session, operation: Operation, cost: int) -> None:
        self.session = session
        self.operation = operation
        self.cost = cost
        self.deadline_s: float | None = None
        self.key = b""
        self.shared_bytes = 0
        self.waiting: Waiting | None = None

    def written(self, outcome: CommittedRun | RequestError) -> None:
        """Take the outcome of a write."""
        if isinstance(outcome, RequestError):
            self.session.refuse(self, outcome)
            return
        written = Written(outcome.base_offset, outcome.last_offset, outcome.epoch)
        self.session.answer(self, answers.encode_written(self.operation.operation_id, written))

    def readable(self, outcome: Offset | RequestError) -> None:
        """Read the key, now that it may be read."""
        if isinstance(outcome, RequestError):
            self.session.refuse(self, outcome)
        else:
            self.session.answer_read(self)


class _Answer:
    """An answer that waits to be sent; `encoded` None: the value of `key`, which is large."""

    __slots__ = ("cost", "encoded", "key", "operation_id", "size")

    def __init__(self, encoded: bytes | None, size: int, pending: _Pending) -> None:
        self.encoded = encoded
        self.size = size
        self.key = pending.key
        self.operation_id = pending.operation.operation_id
        self.cost = pending.cost


class Session:
    """The state of one session.

    Args:
        service: the node.
        limits: sizes to check before the node is called.
        send: sends one message; returns once the client's connection takes more.
        spawn: starts and holds a task; `close` cancels it.
        observer: is called for each answered operation; None: no observer.
        share: what the session may use of the node; None: all.
        caller: whose it is, for the access file; None: each operation is allowed.
    """

    def __init__(
        self,
        service: NodeService,
        limits: ApiLimits,
        send: Callable[[bytes], Awaitable[None]],
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
        observer: SessionObserver | None = None,
        share: SessionShare | None = None,
        caller: Caller | None = None,
    ) -> None:
        self._service = service
        self._limits = limits
        self._share = share
        self._caller = caller
        self._send = send
        self._spawn = spawn
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, _Pending] = {}
        self._unanswered_bytes = 0
        self._reads: set[asyncio.Task[None]] = set()
        self._reading = asyncio.Semaphore(READING_MAX)
        self._writer: asyncio.Task[None] | None = None
        self._answers: deque[_Answer] = deque()
        self._answers_bytes = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._timer = DeadlineTimer(self._expire, pause_s=TIMER_PAUSE_S)
        self.greeting = greeting_of(limits)

    def start(self) -> None:
        """Begin to send answers; call `close` afterwards."""
        self._writer = self._spawn(self._write_answers())

    @property
    def is_idle(self) -> bool:
        """Whether it has neither an operation without an answer nor an answer to send."""
        return not self._pending and not self._answers

    def unsent_bytes(self) -> int:
        """The size of the answers that wait to be sent."""
        return self._answers_bytes

    # -- operations in ------------------------------------------------------------------------

    async def take(self, data: bytes) -> None:
        """Begin the operations of a message.

        Raises:
            SessionFault: the message is malformed, or breaks the session's rules.
        """
        try:
            taken = operations.decode_message(data)
        except DecodeError as error:
            raise SessionFault(str(error)) from None
        if self._share is not None:
            self._share.message_taken(len(data))
            await self._share.turn()
        began_s = self._loop.time()
        for number, operation in enumerate(taken, start=1):
            self._begin(operation)
            await self._until_room()
            if number % TURN_OPERATIONS == 0 or self._loop.time() - began_s > TURN_S:
                await asyncio.sleep(0)
                if self._share is not None:
                    await self._share.turn()
                began_s = self._loop.time()

    async def _until_room(self) -> None:
        """Wait until fewer bytes of answers wait to be sent."""
        while self._answers_bytes > ANSWERS_BYTES_MAX:
            self._room.clear()
            await self._room.wait()

    def _begin(self, operation: Operation) -> None:
        cost = operation.cost_bytes
        if operation.operation_id in self._pending:
            raise SessionFault(f"operation id {operation.operation_id} is in use; use a new one")
        if self._unanswered_bytes + cost > self.greeting.credit_bytes:
            raise SessionFault(
                f"credits overdrawn: {self._unanswered_bytes} bytes are unanswered, an operation "
                f"costs {cost}; the session has {self.greeting.credit_bytes}"
            )
        self._unanswered_bytes += cost
        pending = _Pending(self, operation, cost)
        self._pending[operation.operation_id] = pending
        try:
            if self._share is not None:
                self._share.take(cost)
                pending.shared_bytes = cost
            self._start(pending)
        except DecodeError as error:
            self.refuse(pending, refusal("INVALID_REQUEST", str(error)))
        except RequestError as error:
            self.refuse(pending, error)
        except Exception:  # noqa: BLE001 - whatever it is, it is logged and answered
            self._fail(pending)

    def _start(self, pending: _Pending) -> None:
        _, timeout_ms, kind, body = pending.operation
        if not 1 <= timeout_ms <= TIMEOUT_MS_MAX:
            raise refusal(
                "INVALID_REQUEST", f"timeout_ms: {timeout_ms}; expected 1 to {TIMEOUT_MS_MAX}"
            )
        if kind == Kind.PUT:
            key, value = operations.decode_put(body)
            self._check(pending, key)
            check_key(key)
            self._append(pending, [NewRecord(key, value)])
        elif kind == Kind.GET:
            linearizable, pending.key = operations.decode_get(body)
            self._check(pending, pending.key)
            check_key(pending.key)
            if not linearizable:
                self.answer_value(pending)
                return
            pending.waiting = self._service.submit_read(pending.readable)
            self._keep_deadline(pending)
        elif kind == Kind.DELETE:
            self._check(pending, body)
            check_key(body)
            self._append(pending, [NewRecord(body, None)])
        elif kind == Kind.APPEND:
            self._check(pending)
            values = operations.decode_append(body, RECORDS_MAX)
            self._append(pending, [NewRecord(None, value) for value in values])
        elif kind == Kind.APPEND_BATCH:
            self._check(pending)
            self._append_batch(pending)
        elif kind == Kind.READ:
            self._check(pending)
            self._start_read(pending, operations.decode_read(body))
        else:
            known = ", ".join(f"{number} ({name})" for number, name in _NAMES.items())
            raise refusal("INVALID_REQUEST", f"operation kind: {kind}; expected one of {known}")

    def _check(self, pending: _Pending, target: bytes = EVERYTHING) -> None:
        """Refuse what the access file in force does not allow."""
        if self._caller is not None:
            self._caller.check(operations.VERBS[pending.operation.kind], target)

    def _append(self, pending: _Pending, records: list[NewRecord]) -> None:
        check_sizes(records, self._limits)
        pending.waiting = self._service.submit(records, pending.written)
        self._keep_deadline(pending)

    def _append_batch(self, pending: _Pending) -> None:
        body = pending.operation.body
        if len(body) < operations.BATCH_BYTES_MIN:
            raise refusal(
                "INVALID_REQUEST",
                f"APPEND_BATCH: a batch of {len(body)} bytes; expected "
                f"{operations.BATCH_BYTES_MIN} or more; APPEND takes fewer",
            )
        batch = read_finished_batch(body, RECORDS_MAX)
        check_batch_sizes(batch.sizes, self._limits)
        pending.waiting = self._service.submit_batch(batch, pending.written)
        self._keep_deadline(pending)

    def _start_read(self, pending: _Pending, read: operations.Read) -> None:
        if not 1 <= read.max_bytes <= READ_BYTES_MAX or read.max_wait_ms > WAIT_MS_MAX:
            raise refusal(
                "INVALID_REQUEST",
                f"READ: max_bytes {read.max_bytes}, max_wait_ms {read.max_wait_ms}; expected 1 to "
                f"{READ_BYTES_MAX} bytes and at most {WAIT_MS_MAX} ms",
            )
        if read.offset >= 1 << 63:
            raise refusal("INVALID_REQUEST", f"READ: offset {read.offset}; at most {2**63 - 1}")
        if len(self._reads) >= READS_MAX:
            raise refusal(
                "QUEUE_FULL",
                f"{READS_MAX} READ operations are waiting, the most of a session; send the "
                "next one after an answer",
            )
        task = self._spawn(self._read(pending, read))
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)

    async def _read(self, pending: _Pending, read: operations.Read) -> None:
        offset = Offset(read.offset)
        try:
            if read.max_wait_ms:
                await self._service.wait_readable(offset, max_wait_ms=read.max_wait_ms)
            async with self._reading:
                await self._until_room()
                part = await self._service.read(offset, max_bytes=read.max_bytes, max_wait_ms=0)
                self._check(pending)  # it may have waited for long
                async with self._service.turns.turn():
                    records = Records(
                        tuple(_log_record(record) for record in part.records),
                        part.next_offset,
                        part.high_watermark,
                        part.log_start_offset,
                    )
                    self.answer(
                        pending, answers.encode_records(pending.operation.operation_id, records)
                    )
        except RequestError as error:
            self.refuse(pending, error)
        except Exception:  # noqa: BLE001 - as for any operation
            self._fail(pending)

    # -- deadlines --------------------------------------------------------------------------------

    def _keep_deadline(self, pending: _Pending) -> None:
        pending.deadline_s = self._loop.time() + pending.operation.timeout_ms / 1000
        self._timer.watch(pending.deadline_s)

    def _expire(self, now_s: float) -> float | None:
        """Refuse what is overdue; return the earliest deadline that is left."""
        earliest_s: float | None = None
        for pending in list(self._pending.values()):
            if pending.deadline_s is None or pending.waiting is None:
                continue
            if pending.deadline_s <= now_s:
                self.refuse(pending, pending.waiting.too_late(pending.operation.timeout_ms))
            elif earliest_s is None or pending.deadline_s < earliest_s:
                earliest_s = pending.deadline_s
        return earliest_s

    # -- answers out ------------------------------------------------------------------------------

    def answer_read(self, pending: _Pending) -> None:
        """Answer a read that has waited until it may be done, if it is still allowed."""
        try:
            self._check(pending, pending.key)
        except RequestError as error:
            self.refuse(pending, error)
        else:
            self.answer_value(pending)

    def answer_value(self, pending: _Pending) -> None:
        """Answer with the key's value as it is applied now."""
        kv, operation_id = self._service.kv, pending.operation.operation_id
        entry = kv.get(pending.key)
        if entry is None:
            self.answer(pending, answers.encode_no_value(operation_id, kv.next_offset))
            return
        if len(entry.value) < LARGE_BYTES:
            self.answer(pending, b"".join(self._encode_value(operation_id, entry)))
        else:
            self._answer_later(pending, len(entry.value))

    def _encode_value(self, operation_id: int, entry: Entry) -> tuple[bytes, bytes]:
        value = FoundValue(entry.offset, entry.epoch, self._service.kv.next_offset, entry.value)
        return answers.encode_value_head(operation_id, value), entry.value

    def refuse(self, pending: _Pending, error: RequestError) -> None:
        """Answer with an error, as HTTP does."""
        body = error_model(error).model_dump_json().encode()
        encoded = answers.encode_refusal(
            pending.operation.operation_id, Refusal(error.status, body)
        )
        self.answer(pending, encoded, outcome=error.outcome)

    def _fail(self, pending: _Pending) -> None:
        name = _NAMES.get(pending.operation.kind, "other")
        _lines.say(_log.exception, "operation_failed", name, operation=name)
        self.refuse(
            pending,
            refusal("INTERNAL", "the node failed on this operation; its log has the details"),
        )

    def answer(self, pending: _Pending, encoded: bytes, *, outcome: str = "ok") -> None:
        """Queue an answer."""
        self._queue(pending, _Answer(encoded, len(encoded), pending), outcome)

    def _answer_later(self, pending: _Pending, size: int) -> None:
        """Queue an answer with the key's value at the time when it is sent: it is a large copy."""
        self._queue(pending, _Answer(None, size, pending), "ok")

    def _queue(self, pending: _Pending, answer: _Answer, outcome: str) -> None:
        if self._pending.pop(pending.operation.operation_id, None) is None:
            return  # the session is closed
        self._give_back(pending)
        self._answers.append(answer)
        self._answers_bytes += answer.size
        self._wake.set()
        if self._observer is not None:
            self._observer.note_operation(_NAMES.get(pending.operation.kind, "other"), outcome)

    async def _write_answers(self) -> None:
        """Send answers for ever: those of a turn of the loop in one message, if it is not too long.

        Raises:
            SessionFault: the client does not read its answers.
        """
        while True:
            while self._answers:
                if self._share is not None and self._answers_bytes >= LARGE_BYTES:
                    await self._share.room()
                message = self._next_message()
                if self._share is not None and len(message) >= LARGE_BYTES:
                    self._share.made(len(message))
                try:
                    async with asyncio.timeout(UNREAD_S):
                        await self._send(message)
                except TimeoutError:
                    raise SessionFault(
                        f"the client has read no answer for {UNREAD_S:g} s"
                    ) from None
                del message  # it may be large, and the next one may come late
                self._room.set()
            self._wake.clear()
            await self._wake.wait()

    def _next_message(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while self._answers:
            answer = self._answers[0]
            if parts and size + answer.size > MESSAGE_BYTES:
                break
            self._answers.popleft()
            parts += self._encoded(answer)
            size += answer.size
            # Before it is sent: the client uses these credits as soon as it has the answer.
            self._unanswered_bytes -= answer.cost
        self._answers_bytes -= size
        return answers.encode_message(parts)

    def _encoded(self, answer: _Answer) -> tuple[bytes, ...]:
        if answer.encoded is not None:
            return (answer.encoded,)
        kv = self._service.kv
        entry = kv.get(answer.key)
        if entry is None:
            return (answers.encode_no_value(answer.operation_id, kv.next_offset),)
        return self._encode_value(answer.operation_id, entry)

    def _give_back(self, pending: _Pending) -> None:
        if self._share is not None and pending.shared_bytes:
            self._share.give_back(pending.shared_bytes)

    def close(self) -> None:
        """Forget all operations without an answer: what has begun goes on."""
        self._timer.cancel()
        if self._share is not None:
            self._share.close()
        for task in (*self._reads, self._writer):
            if task is not None:
                task.cancel()
        self._answers.clear()
        self._answers_bytes = 0
        for pending in self._pending.values():
            self._give_back(pending)
        waiting = [pending.waiting for pending in self._pending.values()]
        self._pending.clear()
        for request in waiting:
            if request is not None:
                request.forget()


def greeting_of(limits: ApiLimits) -> Greeting:
    """Make the greeting: the largest batch fits into the credits of a session without others."""
    encoding = RECORDS_MAX * RECORD_BYTES_MAX
    batch = limits.batch_max_bytes + encoding + operations.cost_bytes(b"") + 4096
    return Greeting(
        max(CREDIT_BYTES, batch),
        limits.record_max_bytes,
        limits.batch_max_bytes,
        operations.BATCH_BYTES_MIN,
    )


def _log_record(record: CommittedRecord) -> LogRecord:
    control, value = record.control, record.value
    if control is not None:
        described = {"control": type(control).__name__, "fields": control_fields(control)}
        value = json.dumps(described).encode()
    return LogRecord(
        control is not None, record.offset, record.epoch, record.timestamp_ms, record.key, value
    )
