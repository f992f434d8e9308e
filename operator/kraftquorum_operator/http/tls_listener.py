"""Accepts TLS connections with a limit on those whose handshake is under way, too.

asyncio's own TLS server accepts every connection and reports it only after the handshake. A client
that connects and never says anything would cost a descriptor for as long as a handshake may take.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

HANDSHAKE_S = 5.0
"""How long a handshake may take."""
RETRY_S = 0.1
"""Pause after a connection that could not be accepted, such as for want of descriptors."""


class TlsListener:
    """A listening socket, and the handshakes that are under way."""

    def __init__(
        self,
        accept: Callable[[], asyncio.Protocol],
        is_full: Callable[[int], bool],
        context: ssl.SSLContext,
    ) -> None:
        """Prepare; nothing listens before `start`.

        Args:
            accept: makes the protocol of a connection.
            is_full: whether there are too many connections, with this many handshakes.
            context: of the server.
        """
        self._accept = accept
        self._is_full = is_full
        self._context = context
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port.

        Raises:
            OSError: the address cannot be listened on.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=32)
        listener.setblocking(False)
        self._socket = listener
        self._accepting = asyncio.create_task(self._run(listener), name="tls-listener")  # noqa: TID251
        return int(listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and end the handshakes."""
        tasks = [*self._handshakes, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._socket is not None:
            self._socket.close()

    async def _run(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            if self._is_full(len(self._handshakes)):
                connection.close()
                continue
            task = asyncio.create_task(self._shake_hands(connection))  # noqa: TID251
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        # A client that is no TLS client, or gives up, is no event worth a log line.
        with suppress(OSError, ssl.SSLError, TimeoutError):
            await loop.connect_accepted_socket(
                self._accept,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=1.0,
            )
