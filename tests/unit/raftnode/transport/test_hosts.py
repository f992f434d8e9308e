"""The hosts file is followed as it changes, and stands before DNS."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver

from raftnode.core.types import Endpoint
from raftnode.transport import FailureReason, HostsFile, HostsFileResolver
from raftnode.transport.hosts import parse_hosts

from .conftest import Tasks, fetch


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


def test_lines_are_read_as_the_c_library_does() -> None:
    names = parse_hosts(
        "127.0.0.1 localhost # me\n\n# all comment\n10.0.0.1\tkq-0.kq kq-0\n"
        "10.0.0.2 KQ-0.\nnot-an-address kq-1\n::1 localhost\n10.0.0.1 kq-0\n127.0.0.9"
    )
    assert names == {
        "localhost": ("127.0.0.1", "::1"),
        "kq-0.kq": ("10.0.0.1",),
        "kq-0": ("10.0.0.1", "10.0.0.2"),
    }


def test_changes_of_the_file_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    hosts = HostsFile(path)
    assert hosts.lookup("kq-0") == ()
    path.write_text("127.0.0.2 kq-0\n")
    assert hosts.lookup("KQ-0.") == ("127.0.0.2",)
    replacement = tmp_path / "new"
    replacement.write_text("127.0.0.3 kq-0\n")
    replacement.rename(path)
    assert hosts.lookup("kq-0") == ("127.0.0.3",)
    path.unlink()
    assert hosts.lookup("kq-0") == ()
    path.write_bytes(b"\xff\xfe\x00 garbage\n127.0.0.4 kq-0\n")
    assert hosts.lookup("kq-0") == ("127.0.0.4",)


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
    a.pool.send(b.key, fetch(a.key), 2000)
    _, _, failure = await a.failures.get()
    assert failure.reason is FailureReason.UNREACHABLE
    path.write_text("127.0.0.1 kq-1.kq\n")
    a.pool.send(b.key, fetch(a.key, 6), 2000)
    _, _, response = await a.responses.get()
    assert response.round_token == 6
