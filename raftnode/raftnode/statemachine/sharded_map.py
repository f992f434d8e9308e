"""A map that is made of many small maps, so that none of its writes takes long.

A dict that outgrows its table moves into a larger one within a single write, and the whole
interpreter waits: some 70 ms at a million entries, and twice as long at each doubling. This map
spreads its entries over some hundred dicts by the hash of the key, so that a write moves only a
small part of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_PARTS = 256
_MASK = _PARTS - 1


class SpreadMap(Mapping[K, V]):
    """The map. Its order is that of the hashes: do not rely on it.

    If the garbage collector need not look into the keys and values, such as bytes, it looks at
    256 dicts at most, however many entries they hold, and soon at none of them.
    """

    def __init__(self) -> None:
        self._parts: list[dict[K, V]] = [{} for _ in range(_PARTS)]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[K]:
        for part in self._parts:
            yield from part

    def __contains__(self, key: object) -> bool:
        return key in self._parts[hash(key) & _MASK]

    def __getitem__(self, key: K) -> V:
        return self._parts[hash(key) & _MASK][key]

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...
    def get(self, key: K, default: D | None = None, /) -> V | D | None:
        """The value of a key, or the default."""
        return self._parts[hash(key) & _MASK].get(key, default)

    def put(self, key: K, value: V) -> None:
        """Set a value."""
        self._parts[hash(key) & _MASK][key] = value

    def discard(self, key: K) -> None:
        """Delete a key, if it is there."""
        self._parts[hash(key) & _MASK].pop(key, None)

    def drop_parts(self) -> Iterator[None]:
        """Forget everything, a 256th at each step of the iterator."""
        for number, part in enumerate(self._parts):
            if part:
                self._parts[number] = part = {}  # noqa: PLW2901 - nothing else holds the old one
                yield
