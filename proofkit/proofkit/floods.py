"""Clients that use up a node, from a process of their own, so that they take its time alone.

`python -m proofkit.floods KIND COUNT HOST PORT LOCAL...` opens COUNT connections, shared among
the LOCAL addresses, says `ready`, and goes on until its input ends. A connection that the node
closes is opened again. At its end it prints what became of them, as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import os
import resource
import ssl
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from raftnode.core.types import Endpoint
from raftnode.session import PATH, SUBPROTOCOL, operations
from raftnode.session.operations import Kind

PAUSE_S = 0.25
"""Before a connection that was closed is opened again, and between two bytes of a trickle."""
LARGE = 512 << 10
"""A value that the sessions and readers which read nothing ask for."""
LARGE_KEY = "large"

_HEAD = b"PUT /v1/kv/flood HTTP/1.1\r\nHost: node\r\nContent-Length: 100000\r\n"
_READ = f"GET /v1/kv/{LARGE_KEY} HTTP/1.1\r\nHost: node\r\n\r\n".encode()


class Flood:
    """What became of the connections."""

    def __init__(self, to: Endpoint) -> None:
        self.to = to
        self.counts: Counter[str] = Counter()


Attack = Callable[[Flood, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def idle(_flood: Flood, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Send nothing."""
    await reader.read()


async def trickle_head(
    flood: Flood, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send a head that never ends, byte by byte."""
    writer.write(_HEAD + b"X-Endless: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        flood.counts["bytes"] += 1
        await asyncio.sleep(PAUSE_S)


async def trickle_body(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send a body byte by byte."""
    writer.write(_HEAD + b"\r\n")
    head = b""
    while not head:
        writer.write(b"a")
        await writer.drain()
        flood.counts["bytes"] += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_S):
                head = await reader.readline()
    flood.counts[_status(head)] += 1


async def requests(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Write a value, and the next as soon as it is answered."""
    value = bytes(100)
    while True:
        writer.write(
            b"PUT /v1/kv/flood HTTP/1.1\r\nHost: node\r\nContent-Length: 100\r\n\r\n" + value
        )
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        flood.counts[_status(head)] += 1
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                await reader.readexactly(int(line.split(b":")[1]))


async def read_nothing(
    _flood: Flood, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Ask for a large value again and again, and read no answer."""
    writer.write(_READ * 30)
    await writer.drain()
    await writer.wait_closed()


async def _open_session(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    key = base64.b64encode(bytes(16)).decode()
    writer.write(
        f"GET {PATH} HTTP/1.1\r\nHost: node\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n".encode()
    )
    status = _status(await reader.readuntil(b"\r\n\r\n"))
    flood.counts[status] += 1
    if status != "101":
        raise ConnectionRefusedError(status)


def _frame(payload: bytes) -> bytes:
    """A masked message whose mask is 0."""
    size = len(payload)
    head = bytes([0x82, 0x80 | size]) if size < 126 else b"\x82\xfe" + size.to_bytes(2, "big")
    return head + bytes(4) + payload


def _gets(count: int) -> bytes:
    body = operations.get_body(LARGE_KEY.encode(), linearizable=False)
    parts: list[bytes] = []
    for number in range(count):
        parts += [operations.encode_head(number, 60_000, Kind.GET, body), body]
    return _frame(operations.encode_message(parts))


async def idle_sessions(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Open a session and do nothing in it."""
    await _open_session(flood, reader, writer)
    await reader.read()


async def deaf_sessions(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Ask for large values in a session, and read no answer."""
    await _open_session(flood, reader, writer)
    writer.write(_gets(200))
    await writer.drain()
    await writer.wait_closed()


async def greedy_sessions(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Overdraw the credits of a session."""
    await _open_session(flood, reader, writer)
    body = operations.put_body(b"flood", bytes(60_000))
    parts = [operations.encode_head(1, 60_000, Kind.PUT, body), body]
    for number in range(100):
        parts[0] = operations.encode_head(number, 60_000, Kind.PUT, body)
        writer.write(_frame(operations.encode_message(parts)))
        await writer.drain()
    await reader.read()


async def handshakes(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Begin a handshake, and leave once the node has signed: all of the work is the node's."""
    writer.write(_client_hello())
    await writer.drain()
    if await reader.read(1):
        flood.counts["signed"] += 1


@functools.cache
def _client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="node").do_handshake()
    return outgoing.read()


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        idle,
        trickle_head,
        trickle_body,
        requests,
        read_nothing,
        idle_sessions,
        deaf_sessions,
        greedy_sessions,
        handshakes,
    )
}
DEAF = ("read_nothing", "deaf_sessions")


def _status(head: bytes) -> str:
    parts = head.split(b" ", 2)
    return parts[1].decode() if len(parts) > 1 else "closed"


async def _insist(flood: Flood, attack: Attack, local: str, limit: int) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(
                flood.to.host, flood.to.port, local_addr=(local, 0), limit=limit
            )
        except OSError:
            flood.counts["not_connected"] += 1
        else:
            flood.counts["connected"] += 1
            try:
                await attack(flood, reader, writer)
                flood.counts["closed"] += 1
            except (OSError, EOFError):
                flood.counts["cut"] += 1
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE_S)


async def _run(kind: str, count: int, to: Endpoint, locals_: Sequence[str]) -> Flood:
    flood = Flood(to)
    limit = 1 << 10 if kind in DEAF else 1 << 16
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_insist(flood, ATTACKS[kind], locals_[at % len(locals_)], limit))
            for at in range(count)
        ]
        while flood.counts["connected"] + flood.counts["not_connected"] < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        print("ready", flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
    return flood


@asynccontextmanager
async def flood_of(
    kind: str, count: int, to: Endpoint, local: Sequence[str]
) -> AsyncGenerator[Counter[str]]:
    """Run a flood until the end of the block; then its counts are in the result."""
    arguments = ("-m", "proofkit.floods", kind, str(count), to.host, str(to.port), *local)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path.cwd(),
    )
    assert process.stdout is not None
    counts: Counter[str] = Counter()
    try:
        assert (await process.stdout.readline()).strip() == b"ready"
        yield counts
        output, _ = await process.communicate(b"")
        counts.update(json.loads(output))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def main() -> None:
    """Run the flood that the arguments name."""
    kind, count, host, port, *local = sys.argv[1:]
    # Clients run elsewhere: what this process costs is no part of what it does to the nodes.
    os.nice(10)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    flood = asyncio.run(_run(kind, int(count), Endpoint(host, int(port)), local))
    print(json.dumps(flood.counts), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
