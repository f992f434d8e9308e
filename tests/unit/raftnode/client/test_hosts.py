"""The hosts file before DNS."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from raftnode.client.hosts import HostsFileResolver, parse_hosts


class NoDns(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        raise OSError(f"{host} not found")

    async def close(self) -> None:
        pass


def test_first_line_of_a_name_wins_and_comments_are_skipped():
    text = "# c\n127.0.0.2 A b. # x\n\n127.0.0.3 a c\nlonely\n::1 six\n"
    assert parse_hosts(text) == {
        "a": "127.0.0.2",
        "b": "127.0.0.2",
        "c": "127.0.0.3",
        "six": "::1",
    }


async def test_file_that_comes_changes_and_goes_is_followed(tmp_path: Path):
    path = tmp_path / "hosts"
    resolver = HostsFileResolver(path, NoDns())
    with pytest.raises(OSError, match="a not found"):
        await resolver.resolve("a", 1)
    path.write_text("127.0.0.2 a\n")
    assert (await resolver.resolve("A.", 1))[0]["host"] == "127.0.0.2"
    path.write_text("127.0.0.3 a\n")
    os.utime(path, ns=(1, 1))
    (found,) = await resolver.resolve("a", 7)
    assert (found["host"], found["port"], found["family"]) == ("127.0.0.3", 7, socket.AF_INET)
    path.unlink()
    with pytest.raises(OSError, match="a not found"):
        await resolver.resolve("a", 1)
    await resolver.close()
