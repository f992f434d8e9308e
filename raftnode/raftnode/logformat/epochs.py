"""Where each epoch starts in the log: Kafka's `leader-epoch-checkpoint`, as bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise

from raftnode.core.types import NO_EPOCH, NO_OFFSET, Epoch, Offset
from raftnode.errors import DecodeError


@dataclass(frozen=True, slots=True, order=True)
class EpochStart:
    """The offset of the first record of an epoch."""

    epoch: Epoch
    start_offset: Offset


def _start_offset(entry: EpochStart) -> Offset:
    return entry.start_offset


class EpochIndex:
    """Epochs in the log in order.

    Invariants: epochs and offsets both grow strictly; in a log that was trimmed or begins with
    a snapshot the first entry is that of the record before its start, and begins where that
    record is or earlier.
    """

    def __init__(self, entries: tuple[EpochStart, ...] = ()) -> None:
        self.entries = entries

    @property
    def last_epoch(self) -> Epoch:
        """Epoch of the last record; -1 in an empty log."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def epoch_at(self, offset: Offset) -> Epoch:
        """Epoch of the record at an offset that is in the log; -1 before the first."""
        place = bisect_right(self.entries, offset, key=_start_offset)
        return self.entries[place - 1].epoch if place else NO_EPOCH

    def with_started(self, epoch: Epoch, start_offset: Offset) -> EpochIndex:
        """The index once a batch of that epoch stands at that offset."""
        if epoch == self.last_epoch:
            return self
        return EpochIndex((*self.entries, EpochStart(epoch, start_offset)))

    def truncated(self, end_offset: Offset) -> EpochIndex:
        """The index of a log that ends there."""
        return EpochIndex(tuple(e for e in self.entries if e.start_offset < end_offset))

    def trimmed(self, start_offset: Offset) -> EpochIndex:
        """The index of a log that begins there: of all below, it keeps only the last epoch."""
        below = bisect_left(self.entries, start_offset, key=_start_offset)
        return EpochIndex(self.entries[max(below - 1, 0) :])


def encode_epochs(index: EpochIndex) -> bytes:
    """Kafka's text form: a version, the number of entries, an epoch and its start per line."""
    lines = ["0", str(len(index.entries))]
    lines += (f"{entry.epoch} {entry.start_offset}" for entry in index.entries)
    return ("\n".join(lines) + "\n").encode()


def decode_epochs(data: bytes) -> EpochIndex:
    """The index that `encode_epochs` wrote.

    Raises:
        DecodeError: it is nothing that `encode_epochs` writes.
    """
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        pairs = [tuple(int(part) for part in line.split(" ")) for line in lines]
        entries = tuple(EpochStart(Epoch(epoch), Offset(start)) for epoch, start in pairs)
        sound = version == "0" and int(count) == len(entries)
    except ValueError as error:
        raise DecodeError(str(error)) from error
    below_first = EpochStart(NO_EPOCH, NO_OFFSET)
    for before, entry in pairwise((below_first, *entries)):
        sound = sound and before.epoch < entry.epoch and before.start_offset < entry.start_offset
    if not sound:
        raise DecodeError(f"{data[:80]!r}")
    return EpochIndex(entries)
