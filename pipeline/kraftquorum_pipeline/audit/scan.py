"""Reads one segment from its first byte to its last, damaged or not, into rows.

This module runs on executors, one segment in a task. It decodes no data records: a batch
costs its header, its checksum and one hash. The scan yields few rows: one for each range
of `CHUNK` offsets, each control record, each change of epoch and each damage.

A reader of the node stops at the first damage. The scan continues after it, so that one
audit reports all damage. After a wrong checksum the scan continues with the next batch.
After an invalid header it continues at the next place with a batch of the right checksum.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

from kraftquorum_pipeline.remote import open_files, path_of
from raftnode.errors import DecodeError
from raftnode.logfiles import Window
from raftnode.logformat import (
    HEADER_BYTES,
    BatchHeader,
    EpochIndex,
    EpochStart,
    check_crc,
    describe_control,
    iter_records,
    read_header,
)

from .findings import Check, Finding, Place
from .replica_files import Piece

CHUNK = 4096
"""The number of offsets whose batches one row sums up. A smaller number makes more rows to compare;
a larger number makes the audit read more again where two replicas differ."""

DAMAGE_MAX = 1000
"""The most rows of damage from one segment; the scan stops after so many."""

NO_LIMIT = 1 << 62
_WINDOW_BYTES = 4 << 20
_SEARCH_BYTES = 64 << 20
"""How many bytes after an invalid header the scan searches for the next batch."""
_PREFIX_BYTES = 12
_MAGIC = b"\2"

Kind = Literal["chunk", "control", "epoch", "damage", "tail", "end"]


class Row(NamedTuple):
    """A fact about a segment; the kind says which fields are set.

    Kinds: `chunk` (digest of the whole batches that begin in a range of offsets), `control`
    (a control record), `epoch` (the first batch of an epoch in the segment), `damage`,
    `tail` (an unfinished end, which is no fault), `end` (the segment's sum).

    Attributes:
        position: the byte of the batch; in a chunk, of its first batch.
        offset: of the record or of the batch; in a chunk, of its first batch.
        end_offset: one past the last offset.
        digest_hi: upper half of the digest, signed.
        digest_lo: lower half.
        name: kind of control record, or the check that failed.
        text: fields of a control record as JSON, or what is wrong.
    """

    kind: Kind
    replica: str
    path: str
    position: int = 0
    offset: int = 0
    end_offset: int = 0
    epoch: int = -1
    batches: int = 0
    records: int = 0
    size: int = 0
    digest_hi: int = 0
    digest_lo: int = 0
    name: str = ""
    text: str = ""

    @property
    def chunk(self) -> int:
        """The number of the chunk's range of offsets."""
        return self.offset // CHUNK

    @property
    def place(self) -> Place:
        """The place of the row."""
        return Place(self.offset, self.replica, self.path, self.position)

    def place_holding(self, holds: str) -> Place:
        """The place of the row, with what is there in words."""
        return Place(self.offset, self.replica, self.path, self.position, holds)

    def finding(self) -> Finding:
        """A row of damage as a finding."""
        return Finding(Check(self.name), self.place, self.text)


def digest(data: memoryview) -> tuple[int, int]:
    """128 bits of a hash over a whole batch, base offset and epoch included, as two int64."""
    return _halves(blake2b(data, digest_size=16).digest())


def _halves(value: bytes) -> tuple[int, int]:
    return (
        int.from_bytes(value[:8], "big", signed=True),
        int.from_bytes(value[8:], "big", signed=True),
    )


def scan_segment(piece: Piece) -> Iterator[Row]:
    """Read a segment; yield rows in the order of the file, the `end` last.

    Raises:
        FileOperationError: the disk refuses to read.
    """
    file = open_files().open_to_read(path_of(piece.path))
    try:
        yield from _Scan(piece, Window(file, _WINDOW_BYTES)).rows()
    finally:
        file.close()


def visit_batches(
    piece: Piece,
    visit: Callable[[BatchHeader, int, memoryview], None],
    start: tuple[int, int],
    until: int,
) -> None:
    """Call a function with each whole batch of a range of a segment, and its position.

    Args:
        piece: the segment.
        visit: called with header, position and bytes; these are valid during the call.
        start: position of a batch, and its offset.
        until: the offset at which to stop.
    """
    file = open_files().open_to_read(path_of(piece.path))
    try:
        position, offset = start
        scan = _Scan(piece, Window(file, _WINDOW_BYTES), position, offset, until, watch=visit)
        for _ in scan.rows():
            pass
    finally:
        file.close()


@dataclass(slots=True)
class _Sums:
    """The sums of the current chunk."""

    digest: int = 0
    end_offset: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0


@dataclass(slots=True)
class _Scan:
    piece: Piece
    window: Window
    position: int = 0
    expected: int = -1
    until: int = NO_LIMIT
    epoch: int = -1
    batches: int = 0
    records: int = 0
    first: int = -1
    damages: int = 0
    watch: Callable[[BatchHeader, int, memoryview], None] | None = None
    known: EpochIndex = field(init=False)
    chunk: Row | None = None
    chunk_until: int = -1
    sums: _Sums = field(default_factory=_Sums)

    def __post_init__(self) -> None:
        if self.expected < 0:
            self.expected = self.piece.base_offset
        self.known = EpochIndex(
            tuple(EpochStart(*entry) for entry in self.piece.epochs)  # pyright: ignore[reportArgumentType]
        )

    def _row(self, kind: Kind, position: int, offset: int) -> Row:
        return Row(kind, self.piece.replica, self.piece.path, position, offset)

    def _damage(self, check: Check, offset: int, reason: str, size: int = 0) -> Iterator[Row]:
        self.damages += 1
        if self.damages <= DAMAGE_MAX:
            row = self._row("damage", self.position, offset)
            yield row._replace(name=check.value, text=reason, size=size)

    def rows(self) -> Iterator[Row]:
        while self.position < self.piece.size and self.expected < self.until:
            data = self.window.at(self.position, HEADER_BYTES)
            try:
                header = read_header(data)
            except DecodeError as error:
                if (yield from self._behind_nonsense(_reason(error))):
                    continue
                break
            end = self.position + header.size
            if end > self.piece.size:
                left = self.piece.size - self.position
                reason = f"{left} of a batch's {header.size} bytes are there"
                if (yield from self._behind_nonsense(reason)):
                    continue
                break
            data = self.window.at(self.position, header.size)
            try:
                check_crc(header, data)
            except DecodeError as error:
                # The length lies outside the checksum: it is right if a batch follows.
                following = self._leads_to(header, end)
                if following is not None:
                    yield from self._damage(
                        Check.CRC, self.expected, _reason(error), size=header.size
                    )
                    self.expected = following
                    self.position = end
                    continue
                if (yield from self._behind_nonsense(_reason(error), Check.CRC)):
                    continue
                break
            yield from self._batch(header, data)
            self.position = end
        yield from self._close_chunk()
        yield self._row("end", self.position, max(self.first, -1))._replace(
            end_offset=self.expected,
            epoch=self.epoch,
            batches=self.batches,
            records=self.records,
            size=self.piece.size,
            text=str(self.damages),
        )

    # -- a batch --------------------------------------------------------------------

    def _batch(self, header: BatchHeader, data: memoryview) -> Iterator[Row]:
        base = int(header.base_offset)
        if base != self.expected:
            yield from self._damage(
                Check.OFFSETS, self.expected, self._offset_reason(header), size=header.size
            )
            if self._misnumbered(header):
                self.expected += header.record_count
                return
            if base < self.expected:
                # A repeated batch does not change what follows.
                return
        if self.watch is not None:
            self.watch(header, self.position, data)
        yield from self._epoch(header)
        if self.first < 0:
            self.first = base
        self.expected = int(header.end_offset)
        self.batches += 1
        self.records += header.record_count
        if header.is_control:
            yield from self._control(header, data)
        yield from self._sum_up(header, data)

    def _offset_reason(self, header: BatchHeader) -> str:
        base, end = int(header.base_offset), int(header.end_offset)
        if base > self.expected and not self._misnumbered(header):
            return f"offsets {self.expected} to {base - 1} are missing"
        if end <= self.expected and not self._misnumbered(header):
            return f"offsets {base} to {end - 1} occur a second time"
        return f"a batch has base offset {base}, expected {self.expected}"

    def _misnumbered(self, header: BatchHeader) -> bool:
        """Whether only the offset is wrong: the next batch continues as if it were right."""
        following = self._header_at(self.position + header.size)
        goes_on = self.piece.end_offset if following is None else int(following.base_offset)
        return goes_on == self.expected + header.record_count and goes_on != header.end_offset

    def _header_at(self, position: int) -> BatchHeader | None:
        if position + HEADER_BYTES > self.piece.size:
            return None
        try:
            return read_header(self.window.file.pread(HEADER_BYTES, position))
        except DecodeError:
            return None

    def _epoch(self, header: BatchHeader) -> Iterator[Row]:
        epoch, base = int(header.epoch), int(header.base_offset)
        known = int(self.known.epoch_at(header.base_offset)) if base < self.piece.durable else -1
        following = self._header_at(self.position + header.size) if epoch > self.epoch else None
        reason = ""
        if known >= 0 and epoch != known:
            reason = f"epoch {epoch}, but {known} according to leader-epoch-checkpoint"
        elif epoch < self.epoch:
            reason = f"epoch {epoch} after {self.epoch}"
        elif following is not None and self.epoch <= following.epoch < epoch:
            reason = f"epoch {epoch} before epoch {following.epoch}"
        if reason:
            yield from self._damage(Check.EPOCHS, base, reason, size=header.size)
        elif epoch != self.epoch:
            yield self._row("epoch", self.position, base)._replace(epoch=epoch)
            self.epoch = epoch

    def _control(self, header: BatchHeader, data: memoryview) -> Iterator[Row]:
        base = int(header.base_offset)
        try:
            for record in iter_records(data):
                name, fields = describe_control(record.key, record.value)
                yield self._row("control", self.position, int(record.offset))._replace(
                    end_offset=int(header.end_offset),
                    epoch=int(header.epoch),
                    size=base,
                    name=name,
                    text=json.dumps(fields, separators=(",", ":")),
                )
        except DecodeError as error:
            yield from self._damage(Check.READABLE, base, f"in a control batch: {error}")

    # -- sums -----------------------------------------------------------------------

    def _sum_up(self, header: BatchHeader, data: memoryview) -> Iterator[Row]:
        base = header.base_offset
        if base >= self.chunk_until or self.chunk is None:
            yield from self._close_chunk()
            self.chunk_until = (base // CHUNK + 1) * CHUNK
            row = self._row("chunk", self.position, int(base))
            self.chunk = row._replace(epoch=int(header.epoch))
            self.sums = _Sums()
        sums = self.sums
        sums.digest ^= int.from_bytes(blake2b(data, digest_size=16).digest(), "big")
        sums.end_offset = int(header.end_offset)
        sums.batches += 1
        sums.records += header.record_count
        sums.size += header.size

    def _close_chunk(self) -> Iterator[Row]:
        if self.chunk is not None:
            sums = self.sums
            hi, lo = _halves(sums.digest.to_bytes(16, "big"))
            yield self.chunk._replace(
                end_offset=sums.end_offset,
                batches=sums.batches,
                records=sums.records,
                size=sums.size,
                digest_hi=hi,
                digest_lo=lo,
            )
            self.chunk = None

    # -- behind damage --------------------------------------------------------------

    def _leads_to(self, header: BatchHeader, end: int) -> int | None:
        """Return the offset after a batch with a wrong checksum, if its header is plausible."""
        if end == self.piece.size:
            torn = self.piece.last and self.expected >= self.piece.durable
            return None if torn else max(self.expected, int(header.end_offset))
        following = self._header_at(end)
        if following is None or following.base_offset <= self.expected:
            return None
        return int(following.base_offset)

    def _behind_nonsense(self, reason: str, check: Check = Check.READABLE) -> Iterator[Row]:
        """Report what cannot be read; return whether there is something after it."""
        position = self._search()
        if position is None and self.piece.last and self.expected >= self.piece.durable:
            row = self._row("tail", self.position, self.expected)
            yield row._replace(text=reason, size=self.piece.size - self.position)
            return False
        size = (self.piece.size if position is None else position) - self.position
        yield from self._damage(check, self.expected, reason, size=size)
        if position is None:
            return False
        self.position = position
        header = self._header_at(position)
        if header is not None:
            self.expected = max(self.expected, int(header.base_offset))
        return True

    def _search(self) -> int | None:
        """Find the next whole batch that may follow; None: there is none."""
        limit = min(self.piece.size, self.position + _SEARCH_BYTES)
        data = self.window.file.pread(limit - self.position, self.position)
        view, at = memoryview(data), 0
        while (at := data.find(_MAGIC, at + 1)) >= 0:
            start = at - _PREFIX_BYTES - 4
            if start <= 0:
                continue
            try:
                header = read_header(view, start)
                if header.base_offset < self.expected or header.epoch < self.epoch:
                    continue
                check_crc(header, view, start)
            except DecodeError:
                continue
            return self.position + start
        return None


def _reason(error: DecodeError) -> str:
    """Return the reason of an error without the place, which the finding has."""
    return str(error).split(": ", 1)[-1]
