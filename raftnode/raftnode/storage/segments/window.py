"""Reading a file forward in large pieces."""

from __future__ import annotations

from raftnode.storage.files import File

_PIECE_BYTES = 256 << 10


class Window:
    """The part of a file that was read last."""

    def __init__(self, file: File, piece_bytes: int = _PIECE_BYTES) -> None:
        self.file = file
        self._piece_bytes = piece_bytes
        self._start = 0
        self._data = b""

    def at(self, position: int, length: int) -> memoryview:
        """Bytes from a position on; fewer than `length` only at the end of the file."""
        skip = position - self._start
        if skip < 0 or skip + length > len(self._data):
            self._data = self.file.pread(max(length, self._piece_bytes), position)
            self._start, skip = position, 0
        return memoryview(self._data)[skip : skip + length]
