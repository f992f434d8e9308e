"""Names that resolve without DNS: a hosts file that is followed as it changes.

On one machine the pods' names exist only there (devcluster's process nodes).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from pathlib import Path

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

from raftnode.transport.spawner import TaskSpawner

HOSTS_BYTES_MAX = 1024 * 1024


class HostsFile:
    """A file in the format of /etc/hosts, read again when it has changed.

    A file that is absent or unreadable has no names; lines that are not understood
    are skipped, as the C library does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._names: dict[str, tuple[str, ...]] = {}

    def lookup(self, name: str) -> tuple[str, ...]:
        """The addresses of a name; none when the file does not know it."""
        self._refresh()
        return self._names.get(name.rstrip(".").lower(), ())

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen == self._seen:
                return
            with self._path.open(encoding="utf-8", errors="replace") as file:
                self._names = parse_hosts(file.read(HOSTS_BYTES_MAX))
            self._seen = seen
        except OSError:
            self._seen, self._names = None, {}


def parse_hosts(text: str) -> dict[str, tuple[str, ...]]:
    """Read lines of `address name [name…]`; `#` starts a comment."""
    names: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *aliases = line.partition("#")[0].split() or [""]
        try:
            ipaddress.ip_address(address)
        except ValueError:
            continue
        for alias in aliases:
            addresses = names.setdefault(alias.rstrip(".").lower(), [])
            if address not in addresses:
                addresses.append(address)
    return {name: tuple(addresses) for name, addresses in names.items()}


class HostsFileResolver(AbstractResolver):
    """aiohttp's resolver with a hosts file before it.

    Lookups of one name are shared: a DNS server that does not answer holds one
    thread per name, however often its replica is dialled.
    """

    def __init__(
        self,
        hosts: HostsFile | None,
        *,
        spawn: TaskSpawner,
        fallback: AbstractResolver | None = None,
    ) -> None:
        self._hosts = hosts
        self._spawn = spawn
        self._fallback = fallback or DefaultResolver()
        self._lookups: dict[tuple[str, int, int], asyncio.Future[list[ResolveResult]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name.

        Raises:
            OSError: nobody knows it.
        """
        found = [
            result
            for address in (self._hosts.lookup(host) if self._hosts else ())
            if (result := _result(host, address, port, family)) is not None
        ]
        if found:
            return found
        key = (host, port, int(family))
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = asyncio.get_running_loop().create_future()
            task = self._spawn(self._look_up(lookup, host, port, family), name=f"resolve {host}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(lookup)

    async def close(self) -> None:
        """Give up all lookups."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._fallback.close()

    async def _look_up(
        self,
        lookup: asyncio.Future[list[ResolveResult]],
        host: str,
        port: int,
        family: socket.AddressFamily,
    ) -> None:
        try:
            lookup.set_result(await self._fallback.resolve(host, port, family))
        except OSError as error:
            lookup.set_exception(error)
            lookup.exception()  # whoever asked may have gone: that is no one's error
        finally:
            lookup.cancel()
            del self._lookups[host, port, int(family)]


def _result(
    host: str, address: str, port: int, family: socket.AddressFamily
) -> ResolveResult | None:
    version = ipaddress.ip_address(address).version
    actual = socket.AF_INET if version == 4 else socket.AF_INET6
    if family not in (socket.AF_UNSPEC, actual):
        return None
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=actual,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
