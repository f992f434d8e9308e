"""Names from a hosts file, before DNS: for a machine where pods' names resolve nowhere else."""

from __future__ import annotations

import socket
from pathlib import Path

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver


class HostsFileResolver(AbstractResolver):
    """Resolve by a file in the form of /etc/hosts, then by the system.

    The file is read again when it has changed, since pods come and go under it; while it
    is missing or unreadable, only the system is asked.
    """

    def __init__(self, path: Path, fallback: AbstractResolver | None = None) -> None:
        self._path = path
        self._fallback = fallback or ThreadedResolver()
        self._stamp: tuple[int, int, int] | None = None
        self._addresses: dict[str, str] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See aiohttp's AbstractResolver."""
        self._refresh()
        address = self._addresses.get(host.lower().removesuffix("."))
        if address is None:
            return await self._fallback.resolve(host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Close what is behind it."""
        await self._fallback.close()

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            self._stamp, self._addresses = None, {}
            return
        self._stamp, self._addresses = stamp, parse_hosts(text)


def parse_hosts(text: str) -> dict[str, str]:
    """Read the form of /etc/hosts: an address, then its names; the first line of a name wins."""
    addresses: dict[str, str] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            addresses.setdefault(name.lower().removesuffix("."), address)
    return addresses
