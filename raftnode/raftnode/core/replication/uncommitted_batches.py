"""The bytes that a leader has appended ahead of its majority.

Without a limit, a leader whose voters fetch but do not keep up would accept more and more writes
that it may have to take back, and that it cannot acknowledge for a long time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raftnode.core.types import Offset


@dataclass(slots=True)
class Uncommitted:
    """Sizes of the clients' batches that this leader appended and that are not committed.

    Control records do not count: the leader never refuses one for its size. Batches of earlier
    leaders do not count either: only their extent is known, and it cannot grow.

    Invariant: `size` is the sum over `batches`, whose end offsets rise.
    """

    batches: list[tuple[Offset, int]] = field(default_factory=list[tuple[Offset, int]])
    size: int = 0

    def has_room(self, size: int, limit: int) -> bool:
        """Whether a batch of so many bytes may be appended; one always may, however large."""
        return not self.batches or self.size + size <= limit

    def appended(self, end: Offset, size: int) -> None:
        """Count a batch that ends below `end`."""
        if size:
            self.batches.append((end, size))
            self.size += size

    def committed(self, high_watermark: Offset) -> None:
        """Remove the batches that the high watermark has passed."""
        passed = 0
        for end, size in self.batches:
            if end > high_watermark:
                break
            self.size -= size
            passed += 1
        del self.batches[:passed]
