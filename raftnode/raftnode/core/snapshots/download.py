"""The progress of a replica that fetches a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.core.types import LogPosition


@dataclass(slots=True)
class Download:
    """One snapshot that is being fetched; the download outlives the leader that it began with.

    Invariant: the storage has the first `position` bytes, or is about to (`storing_to`).
    """

    snapshot: LogPosition
    position: int = 0
    size: int | None = None
    """Of the whole file, bytes; None: no piece has come yet."""
    storing_to: int | None = None
    """Where the piece ends that the storage is writing now."""
    verifying: bool = False
    """The storage reads the whole file."""

    @property
    def busy(self) -> bool:
        """Whether the storage is at work: the replica asks for nothing meanwhile."""
        return self.verifying or self.storing_to is not None

    @property
    def has_begun(self) -> bool:
        """Whether a part of the snapshot is here or on its way to the disk."""
        return self.position > 0 or self.busy
