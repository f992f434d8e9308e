"""A map that can be frozen in no time, read by another thread, and written meanwhile.

While the map is frozen, its entries stay as they are, and writes go into an overlay that readers
look at first. After the release, the overlay is merged bit by bit, so that neither end ever copies
the whole map. A map that is not frozen costs nothing extra. In a persistent tree every read and
write is several times slower than in a dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from raftnode.statemachine.sharded_map import SpreadMap

K = TypeVar("K")
V = TypeVar("V")


class FreezableMap(Generic[K, V]):
    """The map; one thread writes.

    Invariant: an overlay entry wins over the base's; None in the overlay: deleted.
    """

    def __init__(self) -> None:
        self._base: SpreadMap[K, V] = SpreadMap()
        self._overlay: dict[K, V | None] = {}
        self._frozen = False
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def get(self, key: K) -> V | None:
        """The newest value, or None."""
        if self._overlay and key in self._overlay:
            return self._overlay[key]
        return self._base.get(key)

    def put(self, key: K, value: V) -> V | None:
        """Set a value; returns the one before."""
        before = self.get(key)
        if before is None:
            self._size += 1
        if self._frozen:
            self._overlay[key] = value
        else:
            self._base.put(key, value)
            if self._overlay:
                self._overlay.pop(key, None)
        return before

    def remove(self, key: K) -> V | None:
        """Delete a value; returns it, or None if there was none."""
        before = self.get(key)
        if before is None:
            return None
        self._size -= 1
        if self._frozen:
            self._overlay[key] = None
        else:
            self._base.discard(key)
            if self._overlay:
                self._overlay.pop(key, None)
        return before

    @property
    def frozen(self) -> bool:
        """Whether a reader still reads the entries as they were."""
        return self._frozen

    @property
    def unmerged(self) -> int:
        """How many entries of the overlay are left to `merge`."""
        return 0 if self._frozen else len(self._overlay)

    def freeze(self) -> Mapping[K, V]:
        """The entries as they are now, for any thread to read until `release`.

        Raises:
            RuntimeError: it is frozen, or not merged since the last time.
        """
        if self._frozen or self._overlay:
            raise RuntimeError("frozen, or not merged yet")
        self._frozen = True
        return MappingProxyType(self._base)

    def drop_parts(self) -> Iterator[None]:
        """Forget everything bit by bit, unless a reader holds it; no write may come meanwhile."""
        if not self._frozen:
            self._size = 0
            yield from self._base.drop_parts()

    def release(self) -> None:
        """Note that no reader reads the frozen entries any more."""
        self._frozen = False

    def merge(self, limit: int) -> None:
        """Move at most `limit` entries of the overlay into the base.

        Raises:
            RuntimeError: a reader still reads the frozen entries.
        """
        if self._frozen:
            raise RuntimeError("frozen")
        for _ in range(min(limit, len(self._overlay))):
            key, value = self._overlay.popitem()
            if value is None:
                self._base.discard(key)
            else:
                self._base.put(key, value)
