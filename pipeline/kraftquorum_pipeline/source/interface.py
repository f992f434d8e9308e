"""The interface of a readable log, for files and for nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from kraftquorum_pipeline.errors import TrimmedError


class Part(Protocol):
    """The part that one task reads; a value that can be pickled."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the part, on any machine.

        Raises:
            SourceError: names the source and the offset.
        """
        ...


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of a log at one time.

    Attributes:
        source: the source that errors name.
        cluster_id: the cluster id; None: the quorum was never formed.
        start: the first offset of the log.
        end: one past the last committed offset.
        state_end: the end of the state that stands for the trimmed records; a reader reads the
            log from there on. 0: the log was not trimmed.
        note: what a message about the log's start must add.
        sure: no record after `end` was committed when the state was read.
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
        """Say why an offset below the start cannot be read, and what to do."""
        return gone(self.start, self.note)

    def check_start(self, offset: int) -> None:
        """Refuse a trimmed offset, except 0: the state stands for the trimmed records.

        Raises:
            TrimmedError: the offset is below the log's start.
        """
        if 0 < offset < self.start:
            raise TrimmedError(self.source, self.gone, offset)

    def check_explicit_start(self, offset: int) -> None:
        """Refuse a trimmed offset that the user gave as a number.

        Raises:
            TrimmedError: the offset is below the log's start.
        """
        if offset < self.start:
            reason = (
                f"the log begins at {self.start}{self.note}; startingOffset=earliest begins with "
                "the state"
            )
            raise TrimmedError(self.source, reason, offset)


def gone(start: int, note: str = "") -> str:
    """Return the reason of a TrimmedError: a record is below the log's start."""
    return (
        f"the log begins at {start}{note}: the records before it are gone. Start with the "
        "state before it (startingOffset=earliest, and a new checkpoint)"
    )


class LogSource(Protocol):
    """A quorum's log, for a plan of its parts."""

    def look(self, offset: int = 0, *, surely: bool = False) -> LogState:
        """Read the state of the log now.

        Args:
            offset: the offset to read next; if only a node that does not answer can have it,
                wait for that node.
            surely: wait for a leader that a majority confirms. Another node may know an old end
                of the committed log; a node that has just started knows no end.

        Raises:
            SourceError: the log cannot be read, or is of another cluster than the one asked for.
            UnreachableError: with `surely`, no such leader answers in time.
        """
        ...

    def parts(self, start: int, end: int) -> Sequence[Part]:
        """Cut [start, end) of the last state into parts, in the order of the log.

        Raises:
            SourceError: a part of the range is missing.
        """
        ...

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch of a committed record; None: it is not known any more.

        Raises:
            SourceError: the log cannot be read.
        """
        ...
