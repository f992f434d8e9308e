"""What strangers and the network can cause fills no log: few lines, none of them a traceback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import struct

import pytest

from proofkit.localquorum import LocalNode, LocalQuorum, eventually
from raftnode.core.types import Endpoint

pytestmark = pytest.mark.timeout(300)
MANY = 150
LINES_MAX = 60
"""Of some hundred requests, a part of which is only right to be mentioned."""

UPGRADE = (
    b"GET /v1/peer HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
GOOD = b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n"
MALFORMED = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\r\nno colon here\r\n\r\n",
    b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"PUT /v1/kv/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot-hex\r\n",
    GOOD + b"then garbage\r\n\r\n",
    UPGRADE + b"Sec-WebSocket-Protocol: a-word-of-mine\r\n\r\n",
    UPGRADE.replace(b"AAAA", b"\xfe\xff") + b"\r\n",
    GOOD.replace(b"\r\n\r\n", b"\r\nExpect: \xfe\xff\r\n\r\n"),
    UPGRADE + b"\r\n" + b"\xff" * 64,
    UPGRADE + b"\r\n" + b"\x82\xfe\xff\xff" + b"\x00" * 9,
)


def said_since(node: LocalNode, bytes_before: int) -> str:
    return node.output().encode()[bytes_before:].decode()


async def throw(at: Endpoint, data: bytes) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection(at.host, at.port)
        try:
            writer.write(data)
            writer.write_eof()
            async with asyncio.timeout(10):
                await reader.read()
        finally:
            writer.close()


def dial_and_die(at: Endpoint) -> None:
    """Ask for an upgrade and reset the connection, without waiting for an answer."""
    with socket.create_connection((at.host, at.port)) as dialled:
        dialled.sendall(UPGRADE + b"\r\n")
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def is_served(quorum: LocalQuorum, node: LocalNode) -> None:
    async def look() -> bool | None:
        return (await quorum.info(node)) is not None or None

    await eventually(look, what="the node to answer")


async def test_a_node_that_was_stopped_says_little_of_who_has_gone_meanwhile(quorum):
    await quorum.form(1)
    [node, *_] = quorum.nodes
    before = len(node.output().encode())
    node.signal(signal.SIGSTOP)
    for _ in range(100):  # the listener's backlog has room for 128
        dial_and_die(node.peer)
    node.signal(signal.SIGCONT)
    await quorum.put("after", b"the pause")
    await throw(node.peer, MALFORMED[1])  # behind all that waited
    said = said_since(node, before)
    assert "Traceback" not in said, said[:3000]
    assert len(said.splitlines()) < LINES_MAX, said[:3000]


async def test_malformed_requests_cost_a_few_lines_without_a_traceback(quorum):
    await quorum.form(1)
    [node, *_] = quorum.nodes
    before = len(node.output().encode())
    for at in (node.peer, node.api):
        for data in MALFORMED:
            for _ in range(MANY // 10):
                await asyncio.gather(*(throw(at, data) for _ in range(10)))
    await is_served(quorum, node)
    said = said_since(node, before)
    assert "Traceback" not in said, said[:3000]
    lines = [json.loads(line) for line in said.splitlines()]
    assert len(lines) < LINES_MAX, said[:3000]
    assert len(said) < 30_000
    assert any(line["event"] == "request_malformed" for line in lines), "it is mentioned"
