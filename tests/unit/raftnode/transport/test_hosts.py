"""The hosts file stands before DNS, and DNS is asked once a name."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver

from raftnode.core.types import Endpoint
from raftnode.hosts import HostsFile
from raftnode.transport import FailureReason, HostsFileResolver

from .conftest import LONG_MS, Tasks, fetch


class NoDns(AbstractResolver):
    """Knows no name; counts who asks."""

    def __init__(self) -> None:
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def resolve(self, host, port=0, family=socket.AF_INET):
        self.asked += 1
        await self.gate.wait()
        raise OSError(f"no such name: {host}")

    async def close(self) -> None:
        self.gate.set()


async def test_file_comes_first_and_dns_next(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.2 kq-0\n::1 kq-0\n")
    dns = NoDns()
    resolver = HostsFileResolver(HostsFile(path), spawn=Tasks(), fallback=dns)
    (found,) = await resolver.resolve("kq-0", 80)
    assert (found["host"], found["port"], found["family"]) == ("127.0.0.2", 80, socket.AF_INET)
    assert len(await resolver.resolve("kq-0", 80, socket.AF_UNSPEC)) == 2
    assert dns.asked == 0
    with pytest.raises(OSError, match="no such name"):
        await resolver.resolve("kq-1")
    assert dns.asked == 1
    await resolver.close()


async def test_lookups_of_one_name_are_shared_and_outlive_who_asked() -> None:
    dns, tasks = NoDns(), Tasks()
    dns.gate.clear()
    resolver = HostsFileResolver(None, spawn=tasks, fallback=dns)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await resolver.resolve("slow")
    assert dns.asked == 1
    dns.gate.set()
    with pytest.raises(OSError, match="no such name"):
        await resolver.resolve("slow")
    await resolver.close()
    await asyncio.sleep(0)
    assert not tasks.running
    assert not tasks.failed


async def test_peers_are_found_as_soon_as_the_file_names_them(replica, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    a = replica(
        1,
        resolver=lambda tasks: HostsFileResolver(HostsFile(path), spawn=tasks, fallback=NoDns()),
    )
    b = replica(2)
    endpoint = await b.listen()
    b.echo()
    a.addresses.learn_hello(b.key, Endpoint("kq-1.kq", endpoint.port))
    a.pool.send(b.key, fetch(a.key), LONG_MS)
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.UNREACHABLE
    path.write_text(f"{b.host} kq-1.kq\n")
    a.pool.send(b.key, fetch(a.key, 6), LONG_MS)
    _, _, response = await a.responses.get()
    assert response.round_token == 6
