"""The figures of a report about one quorum, which do not grow with its log. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Bin(NamedTuple):
    """A span of time, beginning at `at_ms`: records written and their bytes."""

    at_ms: int
    records: int
    size: int


class LatencyBin(NamedTuple):
    """A span of time: how long acknowledged writes took, in milliseconds."""

    at_ms: int
    median_ms: float
    high_ms: float
    """99 of 100 were faster."""
    largest_ms: float


class Span(NamedTuple):
    """A replica in a role; `until_ms` None: to the end of the log."""

    replica: str
    from_ms: int
    until_ms: int | None
    epoch: int = -1


class Change(NamedTuple):
    """A control record: what happened, when and at which offset."""

    at_ms: int
    offset: int
    epoch: int
    what: str
    replica: str


class Repair(NamedTuple):
    """A replica replaced by another of the same node.

    Attributes:
        lost_ms: when the disk was lost, if an event says so; None: not known.
    """

    node_id: int
    old: str
    new: str
    lost_ms: int | None
    added_ms: int
    removed_ms: int | None


class Gap(NamedTuple):
    """A time without a record, before a new leader's first record."""

    from_ms: int
    until_ms: int
    epoch: int

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return (self.until_ms - self.from_ms) / 1000


class Event(NamedTuple):
    """An event from outside the quorum, such as a fault.

    Attributes:
        lost_replica: `<id>-<uuid>` of the replica whose disk was lost; "": none.
    """

    at_ms: int
    title: str
    violent: bool = False
    lost_replica: str = ""


@dataclass(slots=True)
class QuorumFigures:
    """One quorum.

    Attributes:
        name: the name to show.
        bin_ms: width of the bins, milliseconds.
        keys: the number of keys with a value at the end; None: not counted.
        audit: the verdict as `audit --json` wrote it; None: there was none.
        count: the result of `count`; None: there was no account to compare with.
    """

    name: str
    cluster_id: str
    first_ms: int = 0
    last_ms: int = 0
    end_offset: int = 0
    records: int = 0
    size: int = 0
    keys: int | None = None
    bin_ms: int = 1000
    bins: list[Bin] = field(default_factory=list[Bin])
    latency: list[LatencyBin] = field(default_factory=list[LatencyBin])
    leaders: list[Span] = field(default_factory=list[Span])
    voters: list[Span] = field(default_factory=list[Span])
    changes: list[Change] = field(default_factory=list[Change])
    repairs: list[Repair] = field(default_factory=list[Repair])
    gaps: list[Gap] = field(default_factory=list[Gap])
    events: list[Event] = field(default_factory=list[Event])
    audit: dict[str, Any] | None = None
    count: dict[str, Any] | None = None

    @property
    def seconds(self) -> float:
        """The seconds from the first record to the last."""
        return (self.last_ms - self.first_ms) / 1000
