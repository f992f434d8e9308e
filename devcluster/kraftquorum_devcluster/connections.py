"""Connections to an API server that are gone once their session is closed."""

import asyncio
import socket
import ssl
import time
import weakref
from pathlib import Path
from typing import Any

import aiohttp

_LOOK_EVERY_S = 0.01
_GIVEN_UP_AFTER_S = 5.0


class TlsConnector(aiohttp.TCPConnector):
    """As many TLS connections as wanted; `close` returns when the last socket is closed.

    aiohttp forgets a connection that is closed in the middle of an answer, such as a watch.
    asyncio goes on with it until the other side has said goodbye, and a loop that ends before
    that leaves an open socket behind.
    """

    def __init__(self, ca_file: Path) -> None:
        self._sockets = weakref.WeakSet[socket.socket]()
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - of aiohttp's own types
            ssl=ssl.create_default_context(cafile=str(ca_file)),
            limit=0,
            socket_factory=self._open,
        )

    def _open(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol = address[:3]
        opened = socket.socket(family, kind, protocol)
        self._sockets.add(opened)
        return opened

    def _any_open(self) -> bool:
        return any(connection.fileno() >= 0 for connection in self._sockets)

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close every connection and wait for its socket, for five seconds at the most."""
        await super().close(abort_ssl=abort_ssl)
        deadline = time.monotonic() + _GIVEN_UP_AFTER_S
        while self._any_open() and time.monotonic() < deadline:  # noqa: ASYNC110 - no event
            await asyncio.sleep(_LOOK_EVERY_S)
