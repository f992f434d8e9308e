"""HTTP as a load generator speaks it: one connection, one request at a time, little work for each.

A general client costs several times what our server spends on a request, and both share the
processors: that would measure the client.
"""

from __future__ import annotations

import asyncio
from typing import Self

_END_OF_HEAD = b"\r\n\r\n"


class HttpCallError(RuntimeError):
    """The server refused the request or hung up."""


class HttpConnection(asyncio.Protocol):
    """A kept-alive connection that carries one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._received = b""

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """Connect.

        Raises:
            OSError: nothing listens there.
        """
        _, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request under way."""
        self._fail(f"the server hung up: {exc}")

    def data_received(self, data: bytes) -> None:
        """Collect an answer, and hand it over when it is whole."""
        received = self._received = self._received + data if self._received else data
        head, end, body = received.partition(_END_OF_HEAD)
        if not end or len(body) < _content_length(head):
            return
        self._received = b""
        if not head.startswith(b"HTTP/1.1 20"):
            status = head.partition(b"\r\n")[0].decode()
            self._fail(f"{status}: {body[:200].decode(errors='replace')}")
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(body)

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(HttpCallError(why))

    async def call(self, request: bytes) -> bytes:
        """Send a whole request; return the body of its answer.

        Raises:
            HttpCallError: any answer but success, or none.
        """
        assert self._transport is not None
        if self._transport.is_closing():
            raise HttpCallError("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def put_request(host: str, key: str, value: bytes) -> bytes:
    """A PUT of a key."""
    head = f"PUT /v1/kv/{key} HTTP/1.1\r\nHost: {host}\r\n"
    head += f"Content-Type: application/octet-stream\r\nContent-Length: {len(value)}\r\n\r\n"
    return head.encode("ascii") + value


def get_request(host: str, key: str, consistency: str) -> bytes:
    """A GET of a key, `linearizable` or `local`."""
    head = f"GET /v1/kv/{key}?consistency={consistency} HTTP/1.1\r\nHost: {host}\r\n\r\n"
    return head.encode("ascii")
