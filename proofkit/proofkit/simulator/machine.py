"""The state machine of a simulated replica, which applies its committed records in order."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace

from raftnode.core.records import Batch
from raftnode.core.types import FIRST_OFFSET, Offset

KEYS = 3
"""Few, so that each is written and read often."""
_VALUE = b"write-"


def key_of(number: int) -> bytes:
    """Return the key of the write with a number."""
    return b"key-%d" % (number % KEYS)


@dataclass(slots=True)
class Machine:
    """The newest value of each key, and a digest of all that was applied."""

    end: Offset = FIRST_OFFSET
    """One past the last record applied."""
    digest: int = 0
    values: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])

    @classmethod
    def of(cls, batches: tuple[Batch, ...]) -> Machine:
        """Return the state after some batches, from the first on."""
        machine = cls()
        for batch in batches:
            machine.apply(batch)
        return machine

    def apply(self, batch: Batch) -> None:
        """Apply the next batch."""
        assert batch.base_offset == self.end, f"{batch} does not follow {self.end}"
        self.end = batch.end_offset
        if batch.data.startswith(_VALUE):
            key = key_of(int(batch.data.removeprefix(_VALUE)))
            self.values[key] = batch.data
        text = b"%d %d %s" % (batch.base_offset, batch.epoch, batch.data)
        self.digest = zlib.crc32(text, self.digest)

    def copy(self) -> Machine:
        """Return a copy of the present state."""
        return replace(self, values=dict(self.values))
