"""Names that resolve without DNS: a file in the form of /etc/hosts, followed as it changes.

On one machine the pods' names exist only there (devcluster's process nodes). The client
and the transport, which know nothing of each other, both ask it before DNS; how they ask
DNS is their own.
"""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

from aiohttp.abc import ResolveResult

HOSTS_BYTES_MAX = 1024 * 1024


class HostsFile:
    """A file in the format of /etc/hosts, read again when it has changed.

    A file that is absent or unreadable has no names; lines that are not understood
    are skipped, as the C library does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._names: dict[str, tuple[str, ...]] = {}

    def lookup(self, name: str) -> tuple[str, ...]:
        """The addresses of a name; none when the file does not know it."""
        self._refresh()
        return self._names.get(name.rstrip(".").lower(), ())

    def resolve(self, name: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        """The addresses of a name that are of that family, as aiohttp wants them; maybe none."""
        return [
            result
            for address in self.lookup(name)
            if (result := _result(name, address, port, family)) is not None
        ]

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp == self._stamp:
                return
            with self._path.open(encoding="utf-8", errors="replace") as file:
                self._names = parse_hosts(file.read(HOSTS_BYTES_MAX))
            self._stamp = stamp
        except OSError:
            self._stamp, self._names = None, {}


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


def _result(
    name: str, address: str, port: int, family: socket.AddressFamily
) -> ResolveResult | None:
    version = ipaddress.ip_address(address).version
    actual = socket.AF_INET if version == 4 else socket.AF_INET6
    if family not in (socket.AF_UNSPEC, actual):
        return None
    return ResolveResult(
        hostname=name,
        host=address,
        port=port,
        family=actual,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
