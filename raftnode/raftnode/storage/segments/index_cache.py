"""The indexes of the sealed segments that were read last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from raftnode.logformat.index import SegmentIndex


class IndexCache:
    """The offset indexes of the few sealed segments that were read last.

    Each is some 128 KiB for a segment of 64 MiB; a log may have hundreds.
    """

    def __init__(self, limit: int = 16) -> None:
        self._limit = limit
        self._held: OrderedDict[Path, SegmentIndex] = OrderedDict()
        self._lock = Lock()

    def get(self, path: Path, load: Callable[[], SegmentIndex]) -> SegmentIndex:
        """The index of the segment at a path, loaded if it is not in the cache."""
        with self._lock:
            index = self._held.get(path)
            if index is not None:
                self._held.move_to_end(path)
                return index
        index = load()
        self.put(path, index)
        return index

    def put(self, path: Path, index: SegmentIndex) -> None:
        """Hold an index, in place of an earlier index of the same path."""
        with self._lock:
            self._held[path] = index
            self._held.move_to_end(path)
            while len(self._held) > self._limit:
                self._held.popitem(last=False)

    def drop(self, path: Path) -> None:
        """Forget the index of a segment."""
        with self._lock:
            self._held.pop(path, None)
