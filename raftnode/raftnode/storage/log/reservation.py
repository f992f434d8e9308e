"""Whether room is reserved for the segment that grows (`log_preallocate`), and how much.

Only the segment that grows has room beyond its end. The room is given back, durably, before the
next segment is made. So a start checks only the last segment, whatever the setting was before the
crash.

The log does not depend on a reservation, and its refusal is no failure: the segment then takes its
room as it grows. Room is reserved only if that leaves as much free as the caller wants (S30). It is
given back when room runs short: votes and epochs cannot be written into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from raftnode.storage.files import FULL
from raftnode.storage.segments.segment import Segment


class Reservation:
    """Reserves room for one segment after the other.

    Args:
        segment_bytes: up to where; 0: nothing is ever reserved.
        free_bytes_kept: how many bytes are left free on the disk.
        on_refused: called with the reason why nothing is reserved: once, and again only if there
            was room in between.
    """

    def __init__(
        self, segment_bytes: int, free_bytes_kept: int, on_refused: Callable[[str], None]
    ) -> None:
        self._segment_bytes = segment_bytes
        self._free_bytes_kept = free_bytes_kept
        self._on_refused = on_refused
        self._reported = False

    def take(self, segment: Segment) -> None:
        """Reserve the room that the segment lacks (not durable, and it need not be).

        Raises:
            StorageError: the disk failed.
        """
        missing = self._segment_bytes - segment.size
        if missing <= 0:
            return
        free, wanted = segment.file.free_bytes(), missing + self._free_bytes_kept
        # Check first: a file system takes all free room before it reports that it is too little.
        if free < wanted:
            self._no_room(f"{free} bytes are free, {wanted} are needed")
            return
        refused = segment.reserve(self._segment_bytes)
        if refused is None:
            self._reported = False
        elif refused in FULL:
            self._no_room(os.strerror(refused))
        else:
            self._segment_bytes = 0
            self._on_refused(os.strerror(refused))

    def _no_room(self, reason: str) -> None:
        if not self._reported:
            self._reported = True
            self._on_refused(reason)
