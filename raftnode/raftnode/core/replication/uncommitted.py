"""How far a leader runs ahead of its majority, in bytes.

Without a limit a leader whose voters fetch but do not keep up would take on more and more
of what it may have to take back, and what it cannot acknowledge for a long time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raftnode.core.types import Offset


@dataclass(slots=True)
class Uncommitted:
    """Sizes of the clients' batches that this leader appended and that are not committed.

    Control records are not among them: what must be said is never refused for its size.
    Neither is what earlier leaders left: of that only the extent is known, and it cannot grow.

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
        """Count what the high watermark has passed no more."""
        passed = 0
        for end, size in self.batches:
            if end > high_watermark:
                break
            self.size -= size
            passed += 1
        del self.batches[:passed]
