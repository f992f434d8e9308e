"""Hosts files in place of DNS: one for each namespace, rewritten when pods come and go."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kraftquorum_devcluster.files import write_atomically
from kraftquorum_devcluster.paths import private_dir


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A pod that has an address.

    Attributes:
        subdomain: Its headless Service, "" if it has none.
    """

    namespace: str
    hostname: str
    subdomain: str
    address: str

    def names(self, seen_from: str) -> list[str]:
        """Names that resolve for a pod in namespace ``seen_from``."""
        if not self.subdomain:
            return []
        base = f"{self.hostname}.{self.subdomain}"
        names = [
            f"{base}.{self.namespace}.svc.cluster.local",
            f"{base}.{self.namespace}.svc",
            f"{base}.{self.namespace}",
        ]
        return [*names, base] if seen_from == self.namespace else names


def render(entries: Iterable[HostEntry], seen_from: str) -> str:
    """Text in the format of /etc/hosts."""
    ordered = sorted(entries, key=lambda e: (e.namespace, e.subdomain, e.hostname))
    lines = [
        f"{entry.address}\t{' '.join(names)}\n"
        for entry in ordered
        if (names := entry.names(seen_from))
    ]
    return "127.0.0.1\tlocalhost\n" + "".join(lines)


class HostsFiles:
    """The files under one directory; `all` is for programs outside the cluster."""

    OUTSIDE = "all"

    def __init__(self, directory: Path) -> None:
        self._directory = private_dir(directory)
        self._entries: dict[tuple[str, str], HostEntry] = {}
        self._namespaces = {""}
        self._write()

    def path(self, namespace: str) -> Path:
        """The file for pods of a namespace; it exists from now on."""
        if namespace not in self._namespaces:
            self._namespaces.add(namespace)
            self._write()
        return self._directory / (namespace or self.OUTSIDE)

    def set(self, pod: str, entry: HostEntry) -> None:
        """Add or change a pod's entry."""
        if self._entries.get((entry.namespace, pod)) != entry:
            self._entries[entry.namespace, pod] = entry
            self._write()

    def drop(self, namespace: str, pod: str) -> None:
        """Remove a pod's entry."""
        if self._entries.pop((namespace, pod), None):
            self._write()

    def _write(self) -> None:
        for namespace in self._namespaces:
            path = self._directory / (namespace or self.OUTSIDE)
            write_atomically(path, render(self._entries.values(), namespace))
