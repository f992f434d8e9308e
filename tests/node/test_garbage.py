"""Random bytes, truncated frames and wrong versions on the ports: never a stopped node."""

import asyncio
import random

import aiohttp
import pytest

pytestmark = pytest.mark.timeout(300)


async def throw_bytes(host: str, port: int, data: bytes) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(3):
            await reader.read(65536)
    except (OSError, TimeoutError):
        pass
    finally:
        writer.close()


async def throw_frames(host: str, port: int, frames: list[bytes]) -> None:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.ws_connect(f"http://{host}:{port}/v1/peer") as socket:
                for frame in frames:
                    await socket.send_bytes(frame)
                async with asyncio.timeout(3):
                    await socket.receive()
        except (aiohttp.ClientError, OSError, TimeoutError):
            pass


async def test_garbage_on_both_ports_stops_nothing(quorum):
    await quorum.form(3)
    rng = random.Random(1)
    target = await quorum.leader()
    for endpoint in (target.peer, target.api):
        for size in (0, 1, 7, 100, 70_000):
            await throw_bytes(endpoint.host, endpoint.port, rng.randbytes(size))
        await throw_bytes(endpoint.host, endpoint.port, b"POST /v1/form HTTP/1.1\r\n\r\n{")
    hello = b'{"replica":"9-AAAAAAAAAAAAAAAAAAAAAQ","versions":[1,1],"incarnation":1}'
    for frames in (
        [rng.randbytes(64)],
        [b""],
        [hello, rng.randbytes(64)],
        [hello, b"", hello, rng.randbytes(3000)],
        [hello.replace(b"[1,1]", b"[7,9]")],
        [hello, rng.randbytes(200_000)],
    ):
        await throw_frames(target.peer.host, target.peer.port, frames)
    await quorum.put("still", b"there")
    for node in quorum.nodes[:3]:
        assert node.process is not None
        assert node.process.poll() is None


async def test_bad_requests_name_what_is_wrong(quorum):
    await quorum.form(1)
    node = quorum.nodes[0]
    async with aiohttp.ClientSession(f"http://{node.api}") as session:
        for path, body, word in (
            ("/v1/form", b"{", "JSON"),
            ("/v1/form", b'{"cluster_id":"-x","voters":[]}', "cluster_id"),
            ("/v1/join", b'{"cluster_id":"x","more":1}', "more"),
            ("/v1/quorum/voters", b'{"voter":{"node_id":-1}}', "node_id"),
        ):
            async with session.post(
                path, data=body, headers={"Content-Type": "application/json"}
            ) as response:
                answer = await response.json()
                assert 400 <= response.status < 500
                assert word in answer["message"]
    await quorum.client.put("still", b"there")
