"""What a log that can be read looks like to those who plan, whatever it lies in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from kraftquorum_pipeline.errors import TrimmedError


class Part(Protocol):
    """What one task reads; a value that can be pickled."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read it, on whatever machine this is.

        Raises:
            SourceError: naming the source and the offset.
        """
        ...


@dataclass(frozen=True, slots=True)
class LogState:
    """A log as it was seen.

    Attributes:
        source: what errors name.
        cluster_id: None: of a quorum that was never formed.
        start: the first offset that is there.
        end: one past the last committed one.
        state_end: where the log was trimmed, up to where the state reaches that stands for what
            is gone: the log is read from there on. 0: nothing was trimmed.
        note: what has to be said with where the log begins.
        sure: nothing behind `end` was committed when it was asked for.
    """

    source: str
    cluster_id: str | None
    start: int
    end: int
    state_end: int = 0
    note: str = ""
    sure: bool = False

    @property
    def gone(self) -> str:
        """Why an offset below the start cannot be read, and what to do."""
        return gone(self.start, self.note)

    def check_start(self, offset: int) -> None:
        """Refuse an offset that is not there any more, save 0: the state stands for what is gone.

        Raises:
            TrimmedError: it lies below the log's start.
        """
        if 0 < offset < self.start:
            raise TrimmedError(self.source, self.gone, offset)

    def check_explicit_start(self, offset: int) -> None:
        """Refuse an offset that was asked for by its number and is not there any more.

        Raises:
            TrimmedError: it lies below the log's start.
        """
        if offset < self.start:
            reason = (
                f"the log begins at {self.start}{self.note}; startingOffset=earliest begins with "
                "the state"
            )
            raise TrimmedError(self.source, reason, offset)


def gone(start: int, note: str = "") -> str:
    """The reason of a TrimmedError: a record below where the log begins."""
    return (
        f"the log begins at {start}{note}: the records before it are gone. Start with the "
        "state before it (startingOffset=earliest, and a new checkpoint)"
    )


class LogSource(Protocol):
    """A quorum's log that can be planned."""

    def look(self, offset: int = 0, *, surely: bool = False) -> LogState:
        """See how far it reaches now.

        Args:
            offset: what is going to be read; if only a node that does not answer can have it,
                that node is waited for.
            surely: wait for a leader that a majority confirms. Others may know of less than was
                committed long ago, a node that has just started of nothing.

        Raises:
            SourceError: it cannot be read, or is another cluster's than the one asked for.
            UnreachableError: with `surely`, there is no such leader in time.
        """
        ...

    def parts(self, start: int, end: int) -> Sequence[Part]:
        """Cut [start, end) of what was seen last into parts, in the order of the log.

        Raises:
            SourceError: some of it is not there.
        """
        ...

    def epoch_of(self, offset: int) -> int | None:
        """The epoch of a committed record; None: it cannot be told any more.

        Raises:
            SourceError: it cannot be read.
        """
        ...
