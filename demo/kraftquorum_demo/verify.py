"""Compares what was read back with the answers that the client got. Pure: no I/O, no clock.

The rules, each with its figure:

- an acknowledged write is in the log, once, at the offset that was acknowledged:
  else it is `lost`, `duplicated` or `out_of_order`;
- a write of unknown outcome is there once or not at all;
- a refused write, and anything that no writer sent, is not there: `unexpected`;
- a write that began after another was acknowledged has a higher offset, epochs never go
  back, and offsets have no holes: `out_of_order`;
- the bytes at an acknowledged offset, and every entry of the key-value store, are what
  was written last: `bytes_mismatched`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raftnode.client import ListingEntry, LogRecord

from .record import Outcome, Write

_SHOWN_MAX = 20
_Content = tuple[str | None, bytes | None]


@dataclass(slots=True)
class Verdict:
    """The figures of a comparison; `ok` if nothing is wrong."""

    acknowledged: int = 0
    unknown: int = 0
    unknown_found: int = 0
    """Unknown writes that turned out to be done."""
    refused: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    bytes_mismatched: int = 0
    unexpected: int = 0
    differences: list[str] = field(default_factory=list[str])
    """The first of them, in words."""

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not (
            self.lost
            + self.duplicated
            + self.out_of_order
            + self.bytes_mismatched
            + self.unexpected
        )

    def say(self, text: str) -> None:
        """Note a difference, unless there are many already."""
        if len(self.differences) < _SHOWN_MAX:
            self.differences.append(text)


def compare(
    writes: Sequence[Write], log: Sequence[LogRecord], kv: Sequence[ListingEntry]
) -> Verdict:
    """Hold the account of all writes against the whole log and the whole store."""
    verdict = Verdict()
    _check_shape(log, verdict)
    places: dict[_Content, list[int]] = defaultdict(list)
    for record in log:
        if record.control is None:
            places[_content(record)].append(record.offset)
    _check_writes(writes, log, places, verdict)
    _check_order(writes, places, verdict)
    _check_store(log, kv, verdict)
    return verdict


def _content(record: LogRecord) -> _Content:
    key = record.key
    return (None if key is None else key.decode("utf-8", "surrogateescape"), record.value)


def _check_shape(log: Sequence[LogRecord], verdict: Verdict) -> None:
    """Offsets from 0 without holes, epochs that never go back."""
    expected, epoch = 0, 0
    for record in log:
        if record.offset != expected:
            verdict.out_of_order += 1
            verdict.say(f"offset {record.offset} follows {expected - 1} in the log")
        if record.epoch < epoch:
            verdict.out_of_order += 1
            verdict.say(f"offset {record.offset}: epoch {record.epoch} after epoch {epoch}")
        expected, epoch = record.offset + 1, record.epoch


def _check_writes(
    writes: Sequence[Write],
    log: Sequence[LogRecord],
    places: Mapping[_Content, Sequence[int]],
    verdict: Verdict,
) -> None:
    contents = {record.offset: _content(record) for record in log if record.control is None}
    known = {(write.key, write.value) for write in writes if write.outcome is not Outcome.REFUSED}
    damaged: set[int] = set()
    for write in writes:
        offsets = places.get((write.key, write.value), ())
        if len(offsets) > 1:
            verdict.duplicated += len(offsets) - 1
            verdict.say(f"{_name(write)} stands at offsets {', '.join(map(str, offsets))}")
        match write.outcome:
            case Outcome.ACKNOWLEDGED:
                verdict.acknowledged += 1
                _check_acknowledged(write, offsets, contents, known, damaged, verdict)
            case Outcome.UNKNOWN | Outcome.PENDING:
                verdict.unknown += 1
                verdict.unknown_found += bool(offsets)
            case Outcome.REFUSED:
                verdict.refused += 1
    for content, offsets in places.items():
        strays = [offset for offset in offsets if offset not in damaged]
        if content not in known and strays:
            verdict.unexpected += len(strays)
            verdict.say(f"offset {strays[0]}: key {content[0]!r}, which no writer sent")


def _check_acknowledged(
    write: Write,
    offsets: Sequence[int],
    contents: Mapping[int, _Content],
    known: set[tuple[str | None, bytes]],
    damaged: set[int],
    verdict: Verdict,
) -> None:
    offset = write.offset
    assert offset is not None, "an acknowledgement names its offset"  # noqa: S101
    if offset in offsets:
        return
    if offsets:
        verdict.out_of_order += 1
        verdict.say(f"{_name(write)} was acknowledged at {offset} and stands at {offsets[0]}")
    elif offset in contents and contents[offset] not in known:
        verdict.bytes_mismatched += 1
        damaged.add(offset)
        verdict.say(f"{_name(write)}: offset {offset} holds other bytes")
    else:
        verdict.lost += 1
        verdict.say(f"{_name(write)}, acknowledged at {offset}, is not in the log")


def _check_order(
    writes: Sequence[Write], places: Mapping[_Content, Sequence[int]], verdict: Verdict
) -> None:
    """A write that began after another was acknowledged must have a higher offset."""
    acknowledged = sorted(
        (write.ended_s, write.offset)
        for write in writes
        if write.outcome is Outcome.ACKNOWLEDGED
        and write.ended_s is not None
        and write.offset is not None
    )
    before, highest = 0, -1
    for write in sorted(writes, key=lambda write: write.started_s):
        while before < len(acknowledged) and acknowledged[before][0] < write.started_s:
            highest = max(highest, acknowledged[before][1])
            before += 1
        offset = write.offset
        if offset is None:
            offset = next(iter(places.get((write.key, write.value), ())), None)
        if offset is not None and offset <= highest:
            verdict.out_of_order += 1
            verdict.say(f"{_name(write)} stands at {offset}, but began after {highest} was there")


def _check_store(log: Sequence[LogRecord], kv: Sequence[ListingEntry], verdict: Verdict) -> None:
    """The store must be what the log comes to: the newest value of each key."""
    expected: dict[str, tuple[bytes, int]] = {}
    for record in log:
        key, value = _content(record)
        if record.control is not None or key is None:
            continue
        if value is None:
            expected.pop(key, None)
        else:
            expected[key] = (value, record.offset)
    for entry in kv:
        wanted = expected.pop(entry.key, None)
        if wanted is None:
            verdict.unexpected += 1
            verdict.say(f"key {entry.key!r} is in the store, but not in the log")
        elif wanted != (entry.value, entry.offset):
            verdict.bytes_mismatched += 1
            verdict.say(f"key {entry.key!r} is not what offset {wanted[1]} wrote")
    for key in expected:
        verdict.lost += 1
        verdict.say(f"key {key!r} is in the log, but not in the store")


def _name(write: Write) -> str:
    key = "a record" if write.key is None else f"key {write.key!r}"
    return f"write {write.number} of {write.writer} ({key})"
