"""Clients that use up a node, from a process of their own, so that they take its time alone.

`python -m proofkit.floods KIND COUNT HOST PORT LOCAL...` opens COUNT connections, shared among
the LOCAL addresses, says `ready`, and goes on until its input ends. A connection that the node
closes is opened again. At its end it prints what became of them, as JSON. With `--ca FILE` each
connection is TLS, and with `--token FILE` each request carries the token.
"""

from __future__ import annotations

import argparse
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
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from raftnode.client import Credentials
from raftnode.client.credential_files import CredentialFiles, LoadedCredentials
from raftnode.client.credentials import NO_CREDENTIALS
from raftnode.core.types import Endpoint
from raftnode.session import PATH, SUBPROTOCOL, operations
from raftnode.session.operations import Kind

PAUSE_S = 0.25
"""Before a connection that was closed is opened again, and between two bytes of a trickle."""
LARGE = 512 << 10
"""A value that the sessions and readers which read nothing ask for."""
LARGE_KEY = "large"
FLOOD_PATH = "/v1/kv/flood"

_NO_HEADERS: Mapping[str, object] = {}
_LONG = {"Content-Length": 100_000}


class Flood:
    """Where the connections go, what they present, and what became of them."""

    def __init__(self, to: Endpoint, access: LoadedCredentials) -> None:
        self.to = to
        self.access = access
        self.counts: Counter[str] = Counter()

    def head(self, method: str, path: str, headers: Mapping[str, object] = _NO_HEADERS) -> bytes:
        """The head of a request, without the empty line that ends it."""
        lines = {"Host": "node", **self.access.headers, **headers}.items()
        fields = "".join(f"{name}: {value}\r\n" for name, value in lines)
        return f"{method} {path} HTTP/1.1\r\n{fields}".encode()

    async def connect(
        self, local: str, limit: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection from an address, and end its handshake."""
        return await asyncio.open_connection(
            self.to.host, self.to.port, ssl=self.access.tls, local_addr=(local, 0), limit=limit
        )


Attack = Callable[[Flood, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def idle(_flood: Flood, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Send nothing."""
    await reader.read()


async def trickle_head(
    flood: Flood, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send a head that never ends, byte by byte."""
    writer.write(flood.head("PUT", FLOOD_PATH, _LONG) + b"X-Endless: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        flood.counts["bytes"] += 1
        await asyncio.sleep(PAUSE_S)


async def trickle_body(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send a body byte by byte."""
    writer.write(flood.head("PUT", FLOOD_PATH, _LONG) + b"\r\n")
    head = b""
    while not head and not reader.at_eof():
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
    request = flood.head("PUT", FLOOD_PATH, {"Content-Length": 100}) + b"\r\n" + bytes(100)
    while True:
        writer.write(request)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        flood.counts[_status(head)] += 1
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                await reader.readexactly(int(line.split(b":")[1]))


async def read_nothing(
    flood: Flood, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Ask for a large value again and again, and read no answer."""
    writer.write((flood.head("GET", f"/v1/kv/{LARGE_KEY}") + b"\r\n") * 30)
    await writer.drain()
    await writer.wait_closed()


async def _open_session(
    flood: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    head = flood.head(
        "GET",
        PATH,
        {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": 13,
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
            "Sec-WebSocket-Protocol": SUBPROTOCOL,
        },
    )
    writer.write(head + b"\r\n")
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
            reader, writer = await flood.connect(local, limit)
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


async def _run(flood: Flood, kind: str, count: int, locals_: Sequence[str]) -> None:
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


@asynccontextmanager
async def flood_of(
    kind: str,
    count: int,
    to: Endpoint,
    local: Sequence[str],
    credentials: Credentials = NO_CREDENTIALS,
) -> AsyncGenerator[Counter[str]]:
    """Run a flood until the end of the block; then its counts are in the result."""
    files = {"--ca": credentials.ca_file, "--token": credentials.token_file}
    options = [f"{option}={file}" for option, file in files.items() if file is not None]
    arguments = ("-m", "proofkit.floods", *options, kind, str(count), to.host, str(to.port), *local)
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
    parser = argparse.ArgumentParser(prog="python -m proofkit.floods")
    parser.add_argument("kind", choices=ATTACKS)
    parser.add_argument("count", type=int)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("local", nargs="+")
    parser.add_argument("--ca", type=Path, help="PEM: each connection is TLS")
    parser.add_argument("--token", type=Path, help="each request carries it")
    asked = parser.parse_args()
    credentials = Credentials(
        ca_file=asked.ca, token_file=asked.token, plaintext_token=asked.ca is None
    )
    flood = Flood(Endpoint(asked.host, asked.port), CredentialFiles(credentials).current())
    # Clients run elsewhere: what this process costs is no part of what it does to the nodes.
    os.nice(10)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_run(flood, asked.kind, asked.count, asked.local))
    print(json.dumps(flood.counts), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
