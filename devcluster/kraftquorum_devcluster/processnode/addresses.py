"""A loopback address for each pod: stable by name, never shared by two that run."""

import hashlib

_LOWEST = 256
"""Addresses 127.N.0.x belong to the control plane."""
_COUNT = 2**16 - _LOWEST - 1


class AddressBook:
    """Hands out addresses of one 127.N.0.0/16.

    The same namespace and name gets the same address each time, unless another
    pod that hashes to it holds it; then the next free one.
    """

    def __init__(self, subnet_number: int) -> None:
        self._prefix = f"127.{subnet_number}"
        self._held: dict[int, str] = {}

    def take(self, namespace: str, name: str) -> str:
        """The pod's address. Give it back when its processes are gone."""
        holder = f"{namespace}/{name}"
        digest = hashlib.sha256(holder.encode()).digest()
        start = int.from_bytes(digest[:4], "big") % _COUNT
        for step in range(_COUNT):
            number = _LOWEST + (start + step) % _COUNT
            if self._held.setdefault(number, holder) == holder:
                return f"{self._prefix}.{number >> 8}.{number & 255}"
        raise RuntimeError("all pod addresses are taken")

    def give_back(self, namespace: str, name: str) -> None:
        """Free the pod's address."""
        holder = f"{namespace}/{name}"
        for number in [n for n, h in self._held.items() if h == holder]:
            del self._held[number]
