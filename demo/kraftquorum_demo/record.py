"""The client's own account of every write: what it sent, the answer, and when.

Pure accounting: no clock and no I/O; times are seconds since the demo began and
come as arguments. `verify` holds this account against what is read back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Outcome(StrEnum):
    """What the client knows of a write."""

    PENDING = "pending"
    """Sent, not answered yet."""
    ACKNOWLEDGED = "acknowledged"
    """Committed, at the offset that the answer named."""
    REFUSED = "refused"
    """Certainly not done."""
    UNKNOWN = "unknown"
    """Sent, and its outcome cannot be known; the writer never sends it again."""


@dataclass(slots=True)
class Write:
    """One write. Invariant: no two writes that may have been done share key and value.

    Attributes:
        number: Its place in the account.
        writer: Who sent it; a writer sends one at a time.
        key: None for a raw record.
        offset: Where it was acknowledged.
        reason: Why it was refused, or why its outcome is unknown.
    """

    number: int
    writer: str
    key: str | None
    value: bytes
    started_s: float
    ended_s: float | None = None
    outcome: Outcome = Outcome.PENDING
    offset: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stall:
    """A stretch of time in which writers ran and nothing was acknowledged."""

    from_s: float
    until_s: float

    @property
    def seconds(self) -> float:
        """How long."""
        return self.until_s - self.from_s


class Record:
    """The account of all writers together."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self._done: set[tuple[str | None, bytes]] = set()
        self._counts = dict.fromkeys(Outcome, 0)
        self._began_s: float | None = None
        self._ended_s: float | None = None
        self._last_s = 0.0
        self._longest = Stall(0.0, 0.0)

    def begin(self, writer: str, key: str | None, value: bytes, now_s: float) -> Write:
        """Note a write before it is sent.

        Raises:
            ValueError: A write with this key and value may already have been done: the
                account could not tell the two apart.
        """
        if (key, value) in self._done:
            raise ValueError(f"{writer} writes {key!r} with the same value twice")
        self._done.add((key, value))
        if self._began_s is None:
            self._began_s = self._last_s = now_s
        write = Write(len(self.writes), writer, key, value, now_s)
        self.writes.append(write)
        self._counts[Outcome.PENDING] += 1
        return write

    def acknowledge(self, write: Write, offset: int, now_s: float) -> None:
        """Note that a write is committed."""
        write.offset = offset
        self._end(write, Outcome.ACKNOWLEDGED, "", now_s)
        self._longest = self._longest_until(now_s)
        self._last_s = now_s

    def refuse(self, write: Write, reason: str, now_s: float) -> None:
        """Note that a write was certainly not done; the same may be written again."""
        self._end(write, Outcome.REFUSED, reason, now_s)
        self._done.discard((write.key, write.value))

    def lose_sight(self, write: Write, reason: str, now_s: float) -> None:
        """Note that the outcome of a write is unknown."""
        self._end(write, Outcome.UNKNOWN, reason, now_s)

    def close(self, now_s: float) -> None:
        """End the account: what is still open is unknown."""
        for write in self.writes:
            if write.outcome is Outcome.PENDING:
                self.lose_sight(write, "the client was stopped", now_s)
        if self._ended_s is None and self._began_s is not None:
            self._longest = self._longest_until(now_s)
            self._ended_s = now_s

    def _end(self, write: Write, outcome: Outcome, reason: str, now_s: float) -> None:
        if write.outcome is not Outcome.PENDING:
            raise ValueError(f"write {write.number} has already ended as {write.outcome}")
        write.outcome, write.reason, write.ended_s = outcome, reason, now_s
        self._counts[Outcome.PENDING] -= 1
        self._counts[outcome] += 1

    # -- what it comes to -----------------------------------------------------------------------

    def count(self, outcome: Outcome) -> int:
        """How many writes ended so."""
        return self._counts[outcome]

    def stalled_s(self, now_s: float) -> float:
        """Since when nothing has been acknowledged."""
        if self._began_s is None or self._ended_s is not None:
            return 0.0
        return now_s - self._last_s

    def longest_stall(self, now_s: float) -> Stall:
        """The longest stretch without an acknowledgement, the one going on included."""
        return self._longest if self._ended_s is not None else self._longest_until(now_s)

    def longest_within(self, from_s: float, until_s: float) -> Stall:
        """The longest stretch without an acknowledgement that has a part in a time.

        All of it counts: one that outlasts the time, or comes with its end, belongs to it too.
        """
        return _longest([gap for gap in self.stalls(0.0) if _shares(gap, from_s, until_s)])

    def longest_outside(self, from_s: float, until_s: float) -> Stall:
        """The longest of all other stretches without an acknowledgement."""
        return _longest([gap for gap in self.stalls(0.0) if not _shares(gap, from_s, until_s)])

    def _longest_until(self, now_s: float) -> Stall:
        if self._began_s is None:
            return self._longest
        going_on = Stall(self._last_s, now_s)
        return max(self._longest, going_on, key=lambda stall: stall.seconds)

    def acknowledged_at(self) -> list[float]:
        """When each acknowledged write was acknowledged, in order of time."""
        acknowledged = (w for w in self.writes if w.outcome is Outcome.ACKNOWLEDGED)
        return sorted(w.ended_s for w in acknowledged if w.ended_s is not None)

    def stalls(self, longer_than_s: float) -> list[Stall]:
        """All stretches without an acknowledgement that were longer than this."""
        if self._began_s is None:
            return []
        ends = [self._began_s, *self.acknowledged_at()]
        if self._ended_s is not None:
            ends.append(self._ended_s)
        gaps = (Stall(begin, end) for begin, end in pairwise(ends))
        return [gap for gap in gaps if gap.seconds > longer_than_s]


def _shares(stall: Stall, from_s: float, until_s: float) -> bool:
    return stall.until_s > from_s and stall.from_s < until_s


def _longest(stalls: Iterable[Stall]) -> Stall:
    return max(stalls, key=lambda stall: stall.seconds, default=Stall(0.0, 0.0))
