"""Names of pods, as a client on this machine resolves them."""

import asyncio
import sys
from contextlib import suppress

import pytest

from e2elib import reach

NAME = "demo-1.demo-peers.here.svc.cluster.local"


async def test_a_pod_is_asked_for_by_namespace_and_name_and_not_for_each_connection(
    monkeypatch,
):
    monkeypatch.setattr(reach, "_AGE_S", 3600.0)
    asked = []

    def address(namespace, pod):
        asked.append((namespace, pod))
        return "10.77.11.2"

    resolver = reach.PodResolver(address)
    for _ in range(3):
        (found,) = await resolver.resolve(NAME, 9080)
        assert (found["host"], found["port"]) == ("10.77.11.2", 9080)
    assert asked == [("here", "demo-1")]


async def test_a_pod_without_an_address_is_nowhere():
    resolver = reach.PodResolver(lambda namespace, pod: None)
    with pytest.raises(OSError, match="demo-1 has no address"):
        await resolver.resolve(NAME, 9080)


async def test_the_last_address_is_kept_while_no_node_can_be_asked(monkeypatch):
    monkeypatch.setattr(reach, "_AGE_S", 0.0)
    answers = ["10.77.11.2", OSError("away"), "10.77.11.9"]

    def address(namespace, pod):
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    resolver = reach.PodResolver(address)
    found = [(await resolver.resolve(NAME, 9080))[0]["host"] for _ in range(3)]
    assert found == ["10.77.11.2", "10.77.11.2", "10.77.11.9"]


async def test_the_relay_is_told_the_name_and_then_passes_everything_on():
    heads = []

    async def far(reader, writer):
        heads.append(await reader.readline())
        writer.write(b"got " + await reader.readline())
        await writer.drain()
        writer.close()

    forwarded = await asyncio.start_server(far, "127.0.0.1", 0)
    resolver = reach.RelayResolver(lambda: forwarded.sockets[0].getsockname()[1])
    (found,) = await resolver.resolve(NAME, 9080)
    again = await resolver.resolve(NAME, 9080)
    assert again == [found]
    assert found["host"] == "127.0.0.1"
    reader, writer = await asyncio.open_connection(found["host"], found["port"])
    writer.write(b"hello\n")
    assert await reader.read() == b"got hello\n"
    assert heads == [f"{NAME} 9080\n".encode()]
    writer.close()
    await writer.wait_closed()
    await resolver.close()
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(found["host"], found["port"])
    forwarded.close()


async def test_closing_the_relay_ends_what_is_open():
    async def silent(reader, writer):
        await reader.read()
        writer.close()
        await writer.wait_closed()

    forwarded = await asyncio.start_server(silent, "127.0.0.1", 0)
    resolver = reach.RelayResolver(lambda: forwarded.sockets[0].getsockname()[1])
    (found,) = await resolver.resolve(NAME, 9080)
    reader, writer = await asyncio.open_connection(found["host"], found["port"])
    for _ in range(500):
        if resolver._relaying:
            break
        await asyncio.sleep(0.01)
    await resolver.close()
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    forwarded.close()


async def test_the_relay_in_the_cluster_connects_to_what_it_is_told(unused_tcp_port):
    async def far(reader, writer):
        writer.write(b"far: " + await reader.readline())
        await writer.drain()
        writer.close()

    target = await asyncio.start_server(far, "127.0.0.1", 0)
    text = reach.RELAY.replace("1080", str(unused_tcp_port))
    relay = await asyncio.create_subprocess_exec(sys.executable, "-c", text)

    async def connected():
        while True:
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", unused_tcp_port)
            await asyncio.sleep(0.05)

    try:
        async with asyncio.timeout(100):
            reader, writer = await connected()
        port = target.sockets[0].getsockname()[1]
        writer.write(f"127.0.0.1 {port}\nhello\n".encode())
        assert await reader.read() == b"far: hello\n"
        writer.close()
        await writer.wait_closed()
    finally:
        relay.kill()
        await relay.wait()
        target.close()
