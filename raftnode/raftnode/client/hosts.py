"""How the client finds a node's address: the hosts file first, then DNS."""

from __future__ import annotations

import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from raftnode.hosts import HostsFile


class HostsFileResolver(AbstractResolver):
    """aiohttp's resolver with a hosts file before it."""

    def __init__(self, hosts: HostsFile, fallback: AbstractResolver | None = None) -> None:
        self._hosts = hosts
        self._fallback = fallback or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name.

        Raises:
            OSError: neither source knows the name.
        """
        addresses = self._hosts.resolve(host, port, family)
        return addresses or await self._fallback.resolve(host, port, family)

    async def close(self) -> None:
        """Close what is behind it."""
        await self._fallback.close()
