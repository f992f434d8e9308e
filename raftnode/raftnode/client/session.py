"""One session with one node: operations go out together, and each gets one outcome.

An operation is *waiting* until the session's credits allow it, then it is in a message, and from
then on it counts as sent: when the session is lost or its time is over, its outcome is unknown.
One that was still waiting was certainly not sent.
"""

from __future__ import annotations

import asyncio
from asyncio.trsock import TransportSocket
from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace

import aiohttp

from raftnode.client.credential_files import PLAIN, LoadedCredentials
from raftnode.client.exchange import (
    CutError,
    NotSentError,
    answer_within_ms,
    describe_failure,
)
from raftnode.core.types import Endpoint
from raftnode.deadline_timer import DeadlineTimer
from raftnode.errors import DecodeError
from raftnode.session import PATH, SUBPROTOCOL, answers, operations
from raftnode.session.answers import Answer, Greeting

MESSAGE_BYTES = 256 << 10
"""A message of operations ends before it exceeds this; it has at least one operation."""

CLOSE_S = 1.0
"""How long a node has to answer the close of a session; then the connection is closed anyway."""

CLOSED_CHECK_S = 0.002
"""The time between two looks at whether a connection is closed: aiohttp does not say when it is."""

TIMER_PAUSE_S = 0.02
"""The least time between two looks at all deadlines."""

_REFUSALS = frozenset({401, 403, 409})
"""Statuses of a node that serves sessions, though not to this client with these credentials."""

ANSWER_BYTES_MAX = 64 << 20
"""The largest message that is accepted from a node."""


class NoSessionsError(Exception):
    """The operation cannot go through a session of this node, but over HTTP.

    The node is of an older version, has as many sessions as it accepts, or the operation is
    larger than its credits.

    Attributes:
        lasting: whether the node will serve none for a while.
    """

    def __init__(self, reason: str, *, lasting: bool = False) -> None:
        super().__init__(reason)
        self.lasting = lasting


class RedirectedError(aiohttp.ClientConnectionError):
    """A node answered with another address; a client that followed would show it its token."""


def refuse_redirects_trace() -> aiohttp.TraceConfig:
    """Make the hook that lets the opening of a session follow no redirect."""
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    return trace


async def _refuse_redirect(
    _session: aiohttp.ClientSession,
    _context: SimpleNamespace,
    redirect: aiohttp.TraceRequestRedirectParams,
) -> None:
    redirect.response.close()
    raise RedirectedError(
        f"it answers {redirect.response.status} with another address, which the client does not "
        "follow"
    )


@dataclass(slots=True, eq=False)
class _Operation:
    kind: int
    body: bytes
    deadline_s: float
    answered: asyncio.Future[Answer]
    sent: bool = False
    operation_id: int = 0

    @property
    def cost_bytes(self) -> int:
        return operations.cost_bytes(self.body)


class NodeSession:
    """An open session; `open` makes it.

    Attributes:
        endpoint: the node's.
        greeting: the node's limits.
        credentials: the version of the credentials that it was opened with.
        usable: whether operations may be given to it: it is open, and nothing on it is overdue.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        websocket: aiohttp.ClientWebSocketResponse,
        greeting: Greeting,
        credentials: int = 0,
    ) -> None:
        self.endpoint = endpoint
        self.greeting = greeting
        self.credentials = credentials
        self.usable = True
        self._websocket = websocket
        self._loop = asyncio.get_running_loop()
        self._credit_bytes = greeting.credit_bytes
        self._credit_max = greeting.credit_bytes
        self._waiting: deque[_Operation] = deque()
        self._sent: dict[int, _Operation] = {}
        self._last_id = 0
        self._wake = asyncio.Event()
        self._timer = DeadlineTimer(self._expire, pause_s=TIMER_PAUSE_S)
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.Task[None] | None = None
        self._retired = False

    @classmethod
    async def open(
        cls,
        http: aiohttp.ClientSession,
        endpoint: Endpoint,
        *,
        timeout_s: float,
        loaded: LoadedCredentials = PLAIN,
    ) -> NodeSession:
        """Connect to a node and read its greeting.

        Args:
            http: made with `refuse_redirects_trace`.
            endpoint: the node's.
            timeout_s: how long that may take.
            loaded: what to present.

        Raises:
            NoSessionsError: the node answers, and serves none.
            NotSentError: no connection came about.
        """
        try:
            async with asyncio.timeout(timeout_s):
                websocket = await http.ws_connect(
                    loaded.url(endpoint, PATH),
                    protocols=(SUBPROTOCOL,),
                    headers=loaded.headers,
                    ssl=loaded.ssl,
                    server_hostname=loaded.server_name,
                    max_msg_size=ANSWER_BYTES_MAX,
                    compress=0,
                )
                try:
                    greeting = answers.decode_greeting(await websocket.receive_bytes())
                except BaseException:
                    await _close(websocket)
                    raise
        except aiohttp.WSServerHandshakeError as error:
            failure: Exception = NoSessionsError(
                f"{endpoint} answers {error.status} to {PATH}",
                lasting=error.status not in _REFUSALS,
            )
        except (DecodeError, aiohttp.WSMessageTypeError) as error:
            failure = NotSentError(f"no greeting: {error}")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = describe_failure(error, timeout_s, endpoint, loaded)
            failure = NotSentError(reason, timed_out=isinstance(error, TimeoutError))
        else:
            session = cls(endpoint, websocket, greeting, loaded.version)
            session._start()
            return session
        # Not from the error, which may hold the request's headers.
        raise failure

    def _start(self) -> None:
        for work in (self._send_operations(), self._receive_answers()):
            task = self._loop.create_task(work)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lose(f"the client failed: {error!r}")
            raise error  # a defect: the loop reports it

    async def ask(self, kind: int, body: bytes, timeout_s: float) -> Answer:
        """Send an operation and wait for its answer.

        Raises:
            NotSentError: it is certain that it was not sent.
            CutError: it was sent, and no answer came.
            NoSessionsError: the operation is larger than the session's credits.
        """
        if not self.usable:
            raise NotSentError("the session is closed")
        if operations.cost_bytes(body) > self._credit_max:
            raise NoSessionsError(f"more than the {self._credit_max} bytes of a session")
        operation = _Operation(
            kind, body, self._loop.time() + timeout_s, self._loop.create_future()
        )
        self._waiting.append(operation)
        self._wake.set()
        self._timer.watch(operation.deadline_s)
        try:
            return await operation.answered
        except asyncio.CancelledError:
            if not operation.sent and operation in self._waiting:
                self._waiting.remove(operation)
            raise

    def retire(self) -> None:
        """Take no further operation, and close once those that it has are answered."""
        self.usable = False
        self._retired = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._retired and not self._sent and not self._waiting:
            self._lose("the session was replaced")

    # -- out --------------------------------------------------------------------------------------

    async def _send_operations(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while message := self._next_message():
                    await self._websocket.send_bytes(message)
        except (OSError, aiohttp.ClientError) as error:
            self._lose(str(error) or "the connection was lost")

    def _next_message(self) -> bytes:
        """Take what the credits allow; from here on it counts as sent."""
        parts: list[bytes] = []
        size, now_s = 0, self._loop.time()
        while self._waiting:
            operation = self._waiting[0]
            cost = operation.cost_bytes
            if cost > self._credit_bytes:
                break
            if parts and size + cost > MESSAGE_BYTES:
                break
            self._waiting.popleft()
            if operation.answered.done():
                continue
            self._last_id += 1
            operation.operation_id, operation.sent = self._last_id, True
            self._sent[self._last_id] = operation
            self._credit_bytes -= cost
            size += cost
            # The node's own answer comes before the deadline here.
            timeout_ms = answer_within_ms(int((operation.deadline_s - now_s) * 1000))
            parts += (
                operations.encode_head(self._last_id, timeout_ms, operation.kind, operation.body),
                operation.body,
            )
        return operations.encode_message(parts) if parts else b""

    # -- in ---------------------------------------------------------------------------------------

    async def _receive_answers(self) -> None:
        reason = "the node closed the session"
        try:
            async for message in self._websocket:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    reason = "the node sent no answers"
                    break
                self._take(message.data)
            else:
                code = self._websocket.close_code
                reason = f"the node closed the session ({code})"
        except (OSError, aiohttp.ClientError) as error:
            reason = str(error) or "the connection was lost"
        except DecodeError as error:
            reason = f"the node's answers cannot be read: {error}"
        self._lose(reason)

    def _take(self, data: bytes) -> None:
        for answer in answers.decode_message(data):
            operation = self._sent.pop(answer.operation_id, None)
            if operation is None:
                raise DecodeError(f"an answer to {answer.operation_id}, which waits for none")
            self._credit_bytes += operation.cost_bytes
            if not operation.answered.done():
                operation.answered.set_result(answer)
        if self._waiting:
            self._wake.set()
        self._close_if_done()

    # -- the end ----------------------------------------------------------------------------------

    def _expire(self, now_s: float) -> float | None:
        """Fail what is overdue. A node that is silent for so long gets no further operation."""
        earliest_s: float | None = None
        for operation in (*self._sent.values(), *self._waiting):
            if operation.answered.done() and not operation.sent:
                continue
            # What was sent and then cancelled has no answer either, and holds its credits.
            if operation.deadline_s <= now_s:
                self._fail(operation, "no answer in time")
                self.usable = self.usable and not operation.sent
            elif earliest_s is None or operation.deadline_s < earliest_s:
                earliest_s = operation.deadline_s
        if earliest_s is None and not self.usable:
            self._lose("no answer in time")
        return earliest_s

    def _fail(self, operation: _Operation, reason: str) -> None:
        if not operation.answered.done():
            error = CutError(reason) if operation.sent else NotSentError(reason)
            operation.answered.set_exception(error)

    def _lose(self, reason: str) -> None:
        """End the session, and give each operation its outcome."""
        self.usable = False
        self._timer.cancel()
        for operation in (*self._sent.values(), *self._waiting):
            self._fail(operation, reason)
        self._sent.clear()
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        if self._closing is None:
            self._closing = self._loop.create_task(self._close_connection())

    async def _close_connection(self) -> None:
        await _close(self._websocket)

    async def close(self) -> None:
        """Close the session."""
        self._lose("the client is closing")
        if self._closing is not None:
            await self._closing


async def _close(websocket: aiohttp.ClientWebSocketResponse) -> None:
    """Close a WebSocket and its connection; of a TLS connection that takes a round trip more."""
    connection: TransportSocket | None = websocket.get_extra_info("socket")
    try:
        async with asyncio.timeout(CLOSE_S):
            await websocket.close()
            while connection is not None and connection.fileno() != -1:  # noqa: ASYNC110 - no event
                await asyncio.sleep(CLOSED_CHECK_S)
    except (OSError, aiohttp.ClientError, TimeoutError):
        pass  # aiohttp has closed the connection all the same
