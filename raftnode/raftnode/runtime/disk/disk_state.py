"""What the node knows of its disk: `storage` in `GET /v1/node`."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftnode.api.model import StorageInfo
from raftnode.logformat.snapshot import SnapshotId

DAMAGE_SHOWN = 5


@dataclass(slots=True)
class DiskState:
    """Kept current by the watch of the disk and by the scrub.

    Attributes:
        free_bytes: at the last check; None: not checked yet.
        size_bytes: of the disk, likewise.
        low: less than the reserve is free (S30).
        full: less than a quarter of the reserve is free: the node fetches no more records.
        damage: the damage found by the last pass of the scrub that no start can make again.
        scrubbed_ms: when the last pass ended, Unix time; None: none has.
        damaged_snapshots: the snapshots that this process has found damaged and set aside, and
            what was wrong with them.
        snapshot_room_missing_bytes: how much room a due snapshot lacks; 0: none.
    """

    free_bytes: int | None = None
    size_bytes: int | None = None
    low: bool = False
    full: bool = False
    damage: tuple[str, ...] = ()
    scrubbed_ms: int | None = None
    damaged_snapshots: dict[SnapshotId, str] = field(default_factory=dict[SnapshotId, str])
    snapshot_room_missing_bytes: int = 0

    @property
    def all_damage(self) -> tuple[str, ...]:
        """All damage, past damage included: a snapshot is made again, but its disk stays."""
        of_scrub = [
            damage for damage in self.damage if damage not in self.damaged_snapshots.values()
        ]
        return (*of_scrub, *self.damaged_snapshots.values())

    def usage(self, free_bytes: int, size_bytes: int) -> None:
        """Note the result of the last check of the room."""
        self.free_bytes, self.size_bytes = free_bytes, size_bytes

    def info(self) -> StorageInfo:
        """The state as the API shows it."""
        return StorageInfo(
            free_bytes=self.free_bytes,
            size_bytes=self.size_bytes,
            low=self.low or self.full,
            damage=self.all_damage[:DAMAGE_SHOWN],
            scrubbed_ms=self.scrubbed_ms,
            snapshot_room_missing_bytes=self.snapshot_room_missing_bytes,
        )
