"""The hosts file before DNS."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from raftnode.client.hosts import HostsFileResolver
from raftnode.hosts import HostsFile


class NoDns(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        raise OSError(f"{host} not found")

    async def close(self) -> None:
        pass


async def test_the_file_comes_first_and_dns_next(tmp_path: Path):
    path = tmp_path / "hosts"
    resolver = HostsFileResolver(HostsFile(path), NoDns())
    with pytest.raises(OSError, match="a not found"):
        await resolver.resolve("a", 1)
    path.write_text("127.0.0.2 a\n")
    (found,) = await resolver.resolve("A.", 7)
    assert (found["host"], found["port"], found["family"]) == ("127.0.0.2", 7, socket.AF_INET)
    path.unlink()
    with pytest.raises(OSError, match="a not found"):
        await resolver.resolve("a", 1)
    await resolver.close()
