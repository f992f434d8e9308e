"""The lookup of a peer's address: in the hosts file, then in DNS, with one lookup per name."""

from __future__ import annotations

import asyncio
import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

from raftnode.hosts import HostsFile
from raftnode.transport.spawner import TaskSpawner


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
            OSError: neither source knows the name.
        """
        if self._hosts is not None and (addresses := self._hosts.resolve(host, port, family)):
            return addresses
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
            lookup.exception()  # the caller may have gone: then no task takes the error
        finally:
            lookup.cancel()
            del self._lookups[host, port, int(family)]
