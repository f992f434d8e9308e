"""Applies the limits of `raftnode.limits` to the connections, requests and bodies of clients.

An application has a guard, which its listener asks for each connection and its middleware for
each request. Requests are of three kinds, so that a flood of one takes nothing from another:
data, administration (with probes), and metrics, which cost most. Refused requests are of data
alone, apart from a holder with very many of administration.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import structlog
from aiohttp import web

from raftnode.api.authorization import holder_of
from raftnode.api.client_connection import ClientConnection
from raftnode.api.errors import refusal
from raftnode.limits.answers import HOLDER, LARGE_BYTES, UnreadAnswers
from raftnode.limits.connections import ConnectionLimits
from raftnode.limits.model import ClientLimits, Limit
from raftnode.limits.shares import FreeShares, Shares
from raftnode.limits.starts import FairStarts
from raftnode.log_limit import LineBudget
from raftnode.session import PATH as SESSION_PATH

_log = structlog.get_logger(__name__)

SWEEP_S = 0.25
"""How often deadlines are looked at: a slow client may have so much more time."""

UNREAD_GRACE_S = 1.0
"""A client that has read nothing for less is not cut off for the memory of its answers."""

ARRIVING_BODIES = 16
"""Sessions may receive so many times `bodies_max_bytes` before their messages are whole."""

DATA_PATHS = ("/v1/kv", "/v1/log", SESSION_PATH)
_METRICS = "/metrics"
_SPREAD = 64
_BODY_BYTES = web.RequestKey("body_bytes", int)
_HOLDER = web.RequestKey("holder", str)
"""Who takes the shares of a request, and gives them back: a new access file may rename a caller."""
_ADMIN_REQUESTS_MAX = 512
_ADMIN_HOLDER_REQUESTS_MAX = 64


class LimitObserver(Protocol):
    """Is called for connections and refusals: `raftnode.api.metrics.ListenerMetrics`."""

    def note_connections(self, count: int) -> None:
        """Note how many connections are open."""
        ...

    def note_refused(self, limit: Limit) -> None:
        """Note a refusal."""
        ...


HolderOf = Callable[[web.BaseRequest], str]
"""The holder of a request's shares."""


class _Kind:
    """Requests of one kind: how many are in flight, and how they start."""

    __slots__ = ("in_flight", "starts")

    def __init__(self, most: int, most_each: int, per_turn: int) -> None:
        self.in_flight = Shares(most, most_each)
        self.starts = FairStarts(per_turn)


class Guard:
    """The limits of one application.

    Args:
        limits: the settings.
        body_max_bytes: the largest body; one always fits, for which there is room for four.
        observer: is called for connections and refusals; None: no observer.
        holder_of: the holder of a request; None: its subject, or the address that it comes from.
    """

    def __init__(
        self,
        limits: ClientLimits | None = None,
        observer: LimitObserver | None = None,
        holder_of: HolderOf | None = None,
        body_max_bytes: int = 0,
    ) -> None:
        self.limits = limits = limits or ClientLimits()
        self._observer = observer
        self._lines = LineBudget()
        self.holder_of: HolderOf = holder_of or _holder_of
        self.connections = ConnectionLimits(
            limits.connections_max,
            limits.address_connections_max,
            self.refused,
            limits.reserved_max,
        )
        self.sessions = Shares(limits.sessions_max, limits.holder_sessions_max)
        self.bodies = FreeShares(max(limits.bodies_max_bytes, 4 * body_max_bytes))
        self.arriving = FreeShares(ARRIVING_BODIES * max(limits.bodies_max_bytes, body_max_bytes))
        self.answers = UnreadAnswers(limits.unread_max_bytes)
        self.session_starts = FairStarts(4)
        """For the parts of messages in sessions: each takes up to five milliseconds."""
        self._data = _Kind(limits.requests_max, limits.holder_requests_max, 32)
        self._admin = _Kind(_ADMIN_REQUESTS_MAX, _ADMIN_HOLDER_REQUESTS_MAX, 8)
        self._metrics = _Kind(_ADMIN_REQUESTS_MAX, _ADMIN_HOLDER_REQUESTS_MAX, 1)
        self._held: set[ClientConnection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._bodies_begun = 0

    # -- connections --------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to look at deadlines; call `end` afterwards."""
        self._sweep_later(asyncio.get_running_loop())

    def end(self) -> None:
        """Stop to look at deadlines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def enter(self, connection: ClientConnection) -> bool:
        """Accept a new connection; False: it may only ask for administration."""
        self._held.add(connection)
        return self.connections.enter(connection, connection.address)

    def leave(self, connection: ClientConnection) -> None:
        """Forget a connection that has ended."""
        self._held.discard(connection)
        self.connections.leave(connection)

    def idle(self, connection: ClientConnection) -> None:
        """Note that its request was answered."""
        self.connections.idle(connection)

    def head_refused(self, connection: ClientConnection) -> None:
        """Note that its head was too large."""
        self.refused(Limit.HEAD_SIZE, connection.address)

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        shortest_ms = min(
            self.limits.head_timeout_ms, self.limits.unread_timeout_ms, self.limits.idle_timeout_ms
        )
        self._timer = loop.call_later(min(SWEEP_S, shortest_ms / 4000), self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        unread: list[ClientConnection] = []
        for connection in list(self._held):
            if connection.unread_since_s is not None:
                unread.append(connection)
            limit = self._overdue(connection, now_s)
            if limit is None:
                continue
            if isinstance(limit, Limit):
                self.refused(limit, connection.address)
            connection.cut()
        self._cut_unread(unread, now_s)
        if self._observer is not None:
            self._observer.note_connections(len(self._held))
        self._sweep_later(loop)

    def _overdue(
        self, connection: ClientConnection, now_s: float
    ) -> Limit | Literal["idle"] | None:
        """Why a connection ends now; None: it goes on."""
        limits = self.limits
        unread_s = connection.unread_since_s
        if unread_s is not None and now_s - unread_s > limits.unread_timeout_ms / 1000:
            return Limit.UNREAD
        if connection.waits_for_head:
            waited_ms = (now_s - connection.since_s) * 1000
            if connection.head_began:
                return Limit.HEAD_TIME if waited_ms > limits.head_timeout_ms else None
            return "idle" if waited_ms > limits.idle_timeout_ms else None
        return None

    def _cut_unread(self, unread: Iterable[ClientConnection], now_s: float) -> None:
        """Cut off clients that do not read, while others need the memory of their answers.

        The address with most is cut first.
        """
        sizes = {connection: connection.unread_bytes for connection in unread}
        total = sum(sizes.values())
        limit = self.limits.unread_max_bytes
        if total > limit or self.answers.waits:
            total = self._cut_largest(sizes, total, limit // 2, now_s)
        self.answers.measured(total)

    def _cut_largest(
        self, sizes: dict[ClientConnection, int], total: int, wanted: int, now_s: float
    ) -> int:
        """Cut until no more than `wanted` bytes are unread; return how many are."""
        by_address: dict[str, int] = {}
        for connection, size in sizes.items():
            by_address[connection.address] = by_address.get(connection.address, 0) + size
        for connection in sorted(
            sizes, key=lambda each: (by_address[each.address], sizes[each]), reverse=True
        ):
            if total <= wanted:
                break
            since_s = connection.unread_since_s
            if since_s is not None and now_s - since_s >= UNREAD_GRACE_S:
                self.refused(Limit.UNREAD, connection.address)
                connection.cut()
                total -= sizes[connection]
        return total

    # -- requests -----------------------------------------------------------------------------

    @asynccontextmanager
    async def request(self, request: web.Request) -> AsyncGenerator[None]:
        """Let a request start in its turn, and count it as in flight until it is answered.

        Raises:
            RequestError: TOO_MANY_CONNECTIONS, TOO_MANY_REQUESTS.
        """
        connection, kind = request.protocol, self._kind_of(request.path)
        if isinstance(connection, ClientConnection):
            connection.head_arrived()
            self.connections.busy(connection)
            if connection.restricted and kind is self._data:
                raise refusal(
                    "TOO_MANY_CONNECTIONS",
                    "the node has as many connections as it accepts, in total or of this address "
                    "(api_connections_max, api_address_connections_max); close some",
                )
        holder = self.holder_of(request)
        request[_HOLDER] = holder
        HOLDER.set(holder)  # for the task of this request, and for what it starts
        if request.path == SESSION_PATH:  # it lasts, and has a limit of its own
            await kind.starts.start(holder)
            yield
            return
        exceeded = kind.in_flight.take(holder)
        if exceeded is not None:
            limit = Limit.REQUESTS if exceeded == "total" else Limit.HOLDER_REQUESTS
            self.refused(limit, holder)
            raise refusal(
                "TOO_MANY_REQUESTS",
                f"{kind.in_flight.of(holder)} requests of {holder} are in flight and "
                f"{kind.in_flight.total} in total (api_holder_requests_max, api_requests_max); "
                "ask again after an answer",
            )
        try:
            await kind.starts.start(holder)
            yield
        finally:
            kind.in_flight.give_back(holder)
            if (size := request.get(_BODY_BYTES)) is not None:
                self.bodies.give_back(holder, size)

    def _kind_of(self, path: str) -> _Kind:
        if path.startswith(DATA_PATHS):
            return self._data
        return self._metrics if path == _METRICS else self._admin

    def take_bytes(self, request: web.Request, size: int) -> None:
        """Count bytes of a body until the request is answered.

        Raises:
            RequestError: TOO_MANY_REQUESTS.
        """
        holder = request.get(_HOLDER) or self.holder_of(request)
        self.take_operation(holder, size)
        request[_BODY_BYTES] = request.get(_BODY_BYTES, 0) + size

    def take_operation(self, holder: str, size: int) -> None:
        """Count the bytes of a session's operation; give them back to `bodies` afterwards.

        Raises:
            RequestError: TOO_MANY_REQUESTS.
        """
        if not self.bodies.take(holder, size):
            self.refused(Limit.BODIES, holder)
            raise refusal(
                "TOO_MANY_REQUESTS",
                f"the requests in flight have {self.bodies.total} bytes of at most "
                f"{self.limits.bodies_max_bytes} (api_bodies_max_bytes), of them "
                f"{self.bodies.of(holder)} of {holder}, which may have as many as are left; ask "
                "again after an answer",
            )

    def made(self, response: web.StreamResponse) -> web.StreamResponse:
        """Count an answer that was made, until it is read."""
        body = response.body if isinstance(response, web.Response) else None
        if isinstance(body, bytes) and len(body) >= LARGE_BYTES:
            self.answers.add(len(body))
        return response

    def next_body_timeout_s(self) -> float:
        """How long the next body may take: up to a quarter more than the setting.

        So bodies that begin together do not end together, in one turn of the loop.
        """
        self._bodies_begun = (self._bodies_begun + 1) % _SPREAD
        return self.limits.body_timeout_ms / 1000 * (1 + self._bodies_begun / _SPREAD / 4)

    def body_too_large(self, request: web.Request) -> None:
        """Note that a body was too large."""
        self.refused(Limit.BODY_SIZE, self.holder_of(request))

    async def body_too_late(self, request: web.Request) -> None:
        """Note that a body came too late; return once it may be answered.

        Bodies that began together are late together: their answers must not fill one turn.
        """
        holder = self.holder_of(request)
        self.refused(Limit.BODY_TIME, holder)
        await self._kind_of(request.path).starts.start(holder)

    def take_session(self, request: web.Request) -> Callable[[], None]:
        """Count a session; call the result at its end.

        Raises:
            RequestError: TOO_MANY_SESSIONS.
        """
        holder = self.holder_of(request)
        exceeded = self.sessions.take(holder)
        if exceeded is not None:
            self.refused(Limit.SESSIONS if exceeded == "total" else Limit.HOLDER_SESSIONS, holder)
            raise refusal(
                "TOO_MANY_SESSIONS",
                f"{self.sessions.of(holder)} sessions of {holder} are open and "
                f"{self.sessions.total} in total (api_holder_sessions_max, api_sessions_max); "
                "use HTTP, or ask later",
            )
        return lambda: self.sessions.give_back(holder)

    def refused(self, limit: Limit, holder: str) -> None:
        """Count a refusal, and log some."""
        if self._observer is not None:
            self._observer.note_refused(limit)
        self._lines.say(_log.warning, "client_refused", limit.value, limit=limit.value, by=holder)


GUARD: web.AppKey[Guard] = web.AppKey("guard", Guard)
"""Where an application has its guard."""


def _holder_of(request: web.BaseRequest) -> str:
    connection = request.protocol
    address = connection.address if isinstance(connection, ClientConnection) else ""
    return holder_of(request, address)
