"""Reading a log without owning it: for the tools, on a copy or beside a running node.

The reader locks nothing, opens nothing for writing and makes no file. A running node goes on
meanwhile, so the reader reads the durable offset before the segments. Below it everything must be
whole. Above it, an unfinished batch at the end is just being written, or is a torn batch that the
next start cuts off. The reader also reads Kafka's own directories and snapshot files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from raftnode.core.types import FIRST_OFFSET, NO_EPOCH, Offset
from raftnode.errors import ConfigurationError, DecodeError, StorageCorruptError
from raftnode.logformat.batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from raftnode.logformat.epochs import EpochIndex
from raftnode.logformat.snapshot import SNAPSHOT_SUFFIX
from raftnode.storage.directory.identity import LOG_DIRECTORY
from raftnode.storage.files import Files
from raftnode.storage.log.checkpoints import (
    FLUSHED_OFFSET_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    read_flushed_offset,
    read_log_start,
    read_recovery_point,
)
from raftnode.storage.log.epoch_file import FILE_NAME as EPOCHS_FILE
from raftnode.storage.log.torn_tail import is_torn
from raftnode.storage.segments.segment import SUFFIX, Damage, segment_base_offset

_WINDOW_BYTES = 4 << 20
_REPORT_BYTES = 8 << 20
_PLACE = re.compile(r"^batch at byte \d+( \(offset \d+\))?:? ")
"""A batch's place in the bytes read at once; the damage has its place in the file."""


class Piece(NamedTuple):
    """A file of batches: a segment or a snapshot."""

    path: Path
    base_offset: Offset
    size: int
    """Bytes when the reader found the file; a running node may have added some since."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a log, or one of them."""

    directory: Path
    pieces: tuple[Piece, ...]
    durable: Offset
    """Below this offset, neither a crash nor a node that is writing can explain damage."""
    recovery_point: Offset | None
    """The recovery point in the log's directory; None for Kafka's directories and a lone file."""
    whole: bool
    """Whether this is a whole directory and not one file of it."""

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return sum(piece.size for piece in self.pieces)


def find_log(files: Files, path: Path) -> LogFiles:
    """Find the log that a path names.

    Args:
        files: the file layer.
        path: a data directory, the log's directory in it, a segment or a snapshot.

    Raises:
        ConfigurationError: it is none of them.
        StorageCorruptError: the recovery point cannot be read.
    """
    there = files.stat(path)
    if there is None:
        raise ConfigurationError(f"{path} does not exist; give a data directory or a segment")
    if not there.is_directory:
        if path.suffix not in {SUFFIX, SNAPSHOT_SUFFIX}:
            raise ConfigurationError(
                f"{path} is neither a segment ({SUFFIX}) nor a snapshot ({SNAPSHOT_SUFFIX})"
            )
        base = segment_base_offset(path.name)
        # A snapshot counts its batches from 0, whatever offset its name says.
        piece = Piece(path, FIRST_OFFSET if base is None else base, there.size)
        return LogFiles(path.parent, (piece,), FIRST_OFFSET, None, whole=False)
    directory = path
    if not _segments(files, path):
        directory = path / LOG_DIRECTORY
        if files.stat(directory) is None or not _segments(files, directory):
            raise ConfigurationError(
                f"{path} holds no log: neither segments ({'0' * 20}{SUFFIX}) nor {LOG_DIRECTORY}"
            )
    recovery_point = read_recovery_point(files, directory / RECOVERY_POINT_FILE)
    flushed = read_flushed_offset(files, directory / FLUSHED_OFFSET_FILE)
    pieces: list[Piece] = []
    for base, segment in _segments(files, directory):
        status = files.stat(segment)
        if status is not None:
            pieces.append(Piece(segment, base, status.size))
    durable = max(recovery_point or FIRST_OFFSET, flushed)
    return LogFiles(directory, tuple(pieces), durable, recovery_point, whole=True)


def _segments(files: Files, directory: Path) -> list[tuple[Offset, Path]]:
    paths = ((segment_base_offset(name), directory / name) for name in files.listdir(directory))
    return sorted((base, path) for base, path in paths if base is not None)


class FoundBatch(NamedTuple):
    """A batch of a piece, with a right checksum."""

    header: BatchHeader
    position: int
    data: memoryview
    """The batch's bytes, valid until the next batch is asked for."""


@dataclass(slots=True)
class PieceReader:
    """Reads the batches of one piece in order.

    Attributes:
        piece: what is read.
        epoch: the epoch of the batch before the piece; then of the last batch read.
        damage: why the reader stopped before the end of the piece; None: it did not.
        epochs: the epochs that durable batches must have; None: not known.
        durable: the offset up to which `epochs` holds.
        on_bytes: called with the number of bytes read since the last call.
    """

    piece: Piece
    epoch: int = NO_EPOCH
    end_offset: Offset = FIRST_OFFSET
    position: int = 0
    epochs: EpochIndex | None = None
    durable: Offset = FIRST_OFFSET
    damage: Damage | None = field(default=None, init=False)
    on_bytes: Callable[[int], None] = lambda _count: None

    def batches(self, files: Files) -> Iterator[FoundBatch]:
        """Yield the batches; after the last, check `damage`."""
        piece = self.piece
        file = files.open_to_read(piece.path)
        reported_position = self.position
        start, held = self.position, memoryview(b"")
        try:
            while self.position < piece.size:
                # Headers and bodies are read in place: a batch costs no copy.
                at = self.position - start
                try:
                    if len(held) - at < HEADER_BYTES:
                        start, at = self.position, 0
                        held = memoryview(file.pread(_WINDOW_BYTES, start))
                    header = read_header(held, at)
                    self._check(header)
                    if len(held) - at < header.size:
                        start, at = self.position, 0
                        held = memoryview(file.pread(max(header.size, _WINDOW_BYTES), start))
                    check_crc(header, held, at)
                except DecodeError as error:
                    reason = _PLACE.sub("", str(error))
                    self.damage = Damage(piece.path, self.position, self.end_offset, reason)
                    return
                self.epoch, self.end_offset = header.epoch, header.end_offset
                yield FoundBatch(header, self.position, held[at : at + header.size])
                self.position += header.size
                if self.position - reported_position >= _REPORT_BYTES:
                    self.on_bytes(self.position - reported_position)
                    reported_position = self.position
        finally:
            file.close()
            self.on_bytes(self.position - reported_position)  # which may raise

    def _check(self, header: BatchHeader) -> None:
        """Check that a header may follow the batches read so far."""
        if header.base_offset != self.end_offset:
            raise DecodeError(f"base offset {header.base_offset}, expected {self.end_offset}")
        if header.epoch < self.epoch:
            raise DecodeError(f"epoch {header.epoch} after {self.epoch}")
        if self.epochs is not None and header.base_offset < self.durable:
            known = self.epochs.epoch_at(header.base_offset)
            if header.epoch != known:
                raise DecodeError(f"epoch {header.epoch}, but {known} according to {EPOCHS_FILE}")
        if self.position + header.size > self.piece.size:
            left = self.piece.size - self.position
            raise DecodeError(f"{left} of {header.size} bytes are there")


@dataclass(slots=True)
class LogReader:
    """Reads a log from a piece to its end; stops at the first damage."""

    files: Files
    log: LogFiles
    on_bytes: Callable[[int], None] = lambda _count: None
    tail: Damage | None = field(default=None, init=False)
    """The bytes after the last whole batch, if any: a batch being written, or a torn one."""

    def batches(self, start_offset: Offset = FIRST_OFFSET) -> Iterator[tuple[Piece, FoundBatch]]:
        """Yield the batches from the one that holds an offset.

        Raises:
            StorageCorruptError: damage, naming file, position and offset.
        """
        before: PieceReader | None = None
        for number, piece in enumerate(self.log.pieces):
            following = self.log.pieces[number + 1 :]
            if following and following[0].base_offset <= start_offset:
                self.on_bytes(piece.size)
                continue
            if self.log.whole and self.files.stat(piece.path) is None:
                if piece.base_offset < read_log_start(
                    self.files, self.log.directory / LOG_START_FILE
                ):
                    before = None  # trimmed away by a running node since the files were listed
                    continue
                if before is not None:
                    return  # truncated away likewise
            if before is not None and before.end_offset != piece.base_offset:
                raise StorageCorruptError(
                    f"{before.piece.path} ends at offset {before.end_offset}, "
                    f"the next segment is {piece.base_offset}"
                )
            epoch = NO_EPOCH if before is None else before.epoch
            reader = PieceReader(piece, epoch, piece.base_offset, on_bytes=self.on_bytes)
            for batch in reader.batches(self.files):
                if batch.header.end_offset > start_offset:
                    yield piece, batch
            if reader.damage is not None:
                if not is_tail(self.files, self.log, reader.damage, following):
                    raise StorageCorruptError(str(reader.damage))
                self.tail = reader.damage
                return
            before = reader


def is_tail(files: Files, log: LogFiles, damage: Damage, following: tuple[Piece, ...] = ()) -> bool:
    """Whether a crash, or a node that is writing, explains the damage.

    Args:
        files: the file layer.
        log: as it was found.
        damage: the damage found.
        following: the pieces after the damaged one; a truncation may have removed them since.
    """
    if not log.whole or any(files.stat(piece.path) is not None for piece in following):
        return False
    if damage.offset >= log.durable:
        return _is_torn(files, damage) or _is_gone(files, damage)
    # A running node may have truncated since, which lowers both first.
    recovery_point = read_recovery_point(files, log.directory / RECOVERY_POINT_FILE)
    flushed = read_flushed_offset(files, log.directory / FLUSHED_OFFSET_FILE)
    if damage.offset >= max(recovery_point or FIRST_OFFSET, flushed):
        return True
    return not damage.reason.startswith("epoch ") and _is_gone(files, damage)


def _is_torn(files: Files, damage: Damage) -> bool:
    file = files.open_to_read(damage.path)
    try:
        return is_torn(file, damage.position, damage.offset, NO_EPOCH)
    finally:
        file.close()


def _is_gone(files: Files, damage: Damage) -> bool:
    """Whether a second read finds no damage: then a running node changed the file meanwhile."""
    there = files.stat(damage.path)
    if there is None:
        return True
    piece = Piece(damage.path, damage.offset, there.size)
    again = PieceReader(piece, end_offset=damage.offset, position=damage.position)
    for _ in again.batches(files):
        return True
    return again.damage is None
