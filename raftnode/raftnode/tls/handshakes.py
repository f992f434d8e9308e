"""Accepts the connections of a listener: TLS, or plain on the same port.

A connection counts from when it is accepted. Nothing is spent on it until the whole of its first
TLS message has arrived, so a client that sends nothing, or byte by byte, costs a file descriptor
for a limited time. Then a few handshakes start in each turn of the loop, address by address: a
flood of handshakes delays other handshakes, and not the peers' frames.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from aiohttp.base_protocol import BaseProtocol

from raftnode.limits.addresses import address_of
from raftnode.limits.starts import FairStarts
from raftnode.log_limit import LineBudget
from raftnode.tls.failures import Reason, reason_of_failure
from raftnode.tls.files import TlsFiles

_log = structlog.get_logger(__name__)

HANDSHAKES_PER_TURN = 2
"""A signature takes a tenth of a millisecond with an elliptic curve, and some with RSA."""

BUFFER_BYTES = 32 << 10
"""Of each TLS connection; asyncio's own default takes 256 KiB, for idle ones too."""

SHUTDOWN_S = 1.0
"""How long a closed connection waits until the other end closes it, too."""

_ACCEPT_MAX = 64
"""Connections that one turn of the loop accepts."""
_ACCEPT_PAUSE_S = 1.0
_LOOK_AGAIN_S = (0.01, 0.25)
"""The first pause before an incomplete message is looked at again, and the longest."""
_HEAD = 5
_HANDSHAKE = 0x16
_RECORD_MAX = 1 << 14
_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class OnFailed(Protocol):
    """Is called for each connection that did not come about."""

    def __call__(self, listener: str, reason: Reason, address: str, detail: str) -> None:
        """Note it; `detail` is for people."""
        ...


class Spawn(Protocol):
    """Starts a task, holds it, and learns of its failure."""

    def __call__(self, coroutine: Any, *, name: str) -> asyncio.Task[None]:
        """Start it."""
        ...


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """How a listener speaks TLS.

    Attributes:
        files: its certificate, key and CA.
        spawn: starts tasks.
        on_failed: is called for each connection that did not come about.
        handshake_timeout_s: from when a connection is accepted to its handshake's end.
    """

    files: TlsFiles
    spawn: Spawn
    on_failed: OnFailed
    handshake_timeout_s: float


class Arrivals(Protocol):
    """What counts the connections of a listener."""

    def arrive(self, transport: asyncio.Transport) -> BaseProtocol | None:
        """Count a new connection; None: it is turned away.

        Args:
            transport: has an address, and `abort` ends the connection; nothing else works yet.
        """
        ...

    def arrived(self, connection: BaseProtocol) -> None:
        """Note that a connection has come about; it counts as before."""
        ...

    def gone(self, connection: BaseProtocol) -> None:
        """Forget a connection that did not come about."""
        ...


class TlsAcceptor:
    """Accepts connections until it is closed."""

    def __init__(self, tls: ListenerTls, listener: socket.socket, arrivals: Arrivals) -> None:
        # asyncio has no argument for it, and reads it when a connection is made.
        sslproto.SSLProtocol.max_size = BUFFER_BYTES  # pyright: ignore[reportAttributeAccessIssue]
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._listener = listener
        self._arrivals = arrivals
        self._starts = FairStarts(HANDSHAKES_PER_TURN)
        self._arriving: set[_Arriving] = set()
        self._pause: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._begin()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The listening socket, as `asyncio.Server` has it."""
        return (self._listener,)

    def close(self) -> None:
        """Accept no further connection, and end those without a finished handshake."""
        if self._listener.fileno() < 0:
            return
        self._loop.remove_reader(self._listener)
        if self._pause is not None:
            self._pause.cancel()
        self._listener.close()
        for arriving in tuple(self._arriving):
            arriving.abort()

    def _begin(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPT_MAX):
            try:
                accepted, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                _log.warning("connection_not_accepted", problem=str(error))
                self._loop.remove_reader(self._listener)
                self._pause = self._loop.call_later(_ACCEPT_PAUSE_S, self._begin)
                return
            accepted.setblocking(False)
            self._arrive(accepted)

    def _arrive(self, accepted: socket.socket) -> None:
        arriving = _Arriving(self._tls, accepted, self._starts, self._ended)
        self._arriving.add(arriving)
        connection = self._arrivals.arrive(arriving)
        if connection is None:
            arriving.abort()
        else:
            arriving.begin(connection)

    def _ended(self, arriving: _Arriving) -> None:
        self._arriving.discard(arriving)
        if arriving.connection is None:
            return
        if arriving.succeeded:
            self._arrivals.arrived(arriving.connection)
        else:
            self._arrivals.gone(arriving.connection)


class _Arriving(asyncio.Transport):
    """A connection from when it is accepted until it is handed to its protocol."""

    def __init__(
        self,
        tls: ListenerTls,
        accepted: socket.socket,
        starts: FairStarts,
        on_end: Callable[[_Arriving], None],
    ) -> None:
        try:
            name: object = accepted.getpeername()
        except OSError:
            name = None
        super().__init__({"peername": name})
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._socket = accepted
        self._starts = starts
        self._on_end = on_end
        self.connection: BaseProtocol | None = None
        self.succeeded = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._pause_s = _LOOK_AGAIN_S[0]
        self._reads = False
        self._accepted = False
        self.ended = False

    def begin(self, connection: BaseProtocol) -> None:
        """Wait for the first bytes."""
        self.connection = connection
        self._timer = self._loop.call_later(self._tls.handshake_timeout_s, self._late)
        self._read()

    def abort(self) -> None:
        """End the connection at once."""
        if self.ended:
            return
        if self._task is not None:
            self._task.cancel()
        self._finish()
        if not self._accepted:  # otherwise asyncio closes it
            self._socket.close()

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def _finish(self) -> None:
        self.ended = True
        self._stop_reading()
        for timer in (self._timer, self._again):
            if timer is not None:
                timer.cancel()
        self._on_end(self)

    def _read(self) -> None:
        self._again = None
        self._reads = True
        self._loop.add_reader(self._socket, self._look)

    def _stop_reading(self) -> None:
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._socket)

    def _late(self) -> None:
        self._fail(Reason.TIMEOUT, "the handshake did not end in time")
        self.abort()

    def _look(self) -> None:
        """Look at what has arrived, without taking it."""
        try:
            first = self._socket.recv(_HEAD + _RECORD_MAX, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self.abort()
            return
        if first[0] != _HANDSHAKE:
            self._stop_reading()
            if self._tls.files.rules.mode == "required":
                self._fail(Reason.PLAINTEXT, "the client does not speak TLS")
                self.abort()
            else:
                self._start_handshake(None)
        elif _is_whole(first):
            self._stop_reading()
            self._start_handshake(self._tls.files.material.server)
        else:
            self._stop_reading()
            self._again = self._loop.call_later(self._pause_s, self._read)
            self._pause_s = min(2 * self._pause_s, _LOOK_AGAIN_S[1])

    def _start_handshake(self, context: ssl.SSLContext | None) -> None:
        self._task = self._tls.spawn(self._shake_hands(context), name="handshake")

    async def _shake_hands(self, context: ssl.SSLContext | None) -> None:
        connection = self.connection
        assert connection is not None, "`begin` came first"  # noqa: S101
        address = address_of(self)
        if context is not None:
            await self._starts.start(address)
        self._accepted = True
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                self._socket,
                ssl=context,
                ssl_handshake_timeout=None if context is None else self._tls.handshake_timeout_s,
                ssl_shutdown_timeout=None if context is None else SHUTDOWN_S,
            )
        except (OSError, EOFError) as error:
            if not self.ended:
                self._fail(reason_of_failure(error), str(error) or type(error).__name__)
                self._task = None
                self.abort()
            return
        if not self.ended:
            self.succeeded = True
            self._finish()

    def _fail(self, reason: Reason, detail: str) -> None:
        self._tls.on_failed(self._tls.files.rules.listener, reason, address_of(self), detail)


def _is_whole(first: bytes) -> bool:
    """Whether the first record has arrived; a malformed one is OpenSSL's to refuse."""
    if len(first) < _HEAD:
        return False
    size = int.from_bytes(first[3:_HEAD], "big")
    return size > _RECORD_MAX or len(first) >= _HEAD + size


class FailureLog:
    """Counts connections that did not come about, and logs some.

    Args:
        count: is called with listener and reason.
        audit: likewise, and with the address of the other end.
    """

    def __init__(
        self,
        count: Callable[[str, Reason], None],
        audit: Callable[[str, Reason, str], None] | None = None,
    ) -> None:
        self._count = count
        self._audit = audit
        self._lines = LineBudget()

    def __call__(self, listener: str, reason: Reason, address: str, detail: str) -> None:
        """Note one."""
        self._count(listener, reason)
        if self._audit is not None:
            self._audit(listener, reason, address)
        self._lines.say(
            _log.warning,
            "tls_handshake_failed",
            f"{listener} {reason.value}",
            listener=listener,
            reason=reason.value,
            by=address,
            detail=detail[:200],
        )
