"""The judgement whether damage in the last segment is what a crash left of unsynced writes.

A process that was killed leaves a whole prefix of what it wrote, and `flushed-offset` as it was. A
power cut may also take that number back, and leave any of the unsynced sectors, in any order. So
damage above all that is known durable is no proof of a torn tail. The damage is a torn tail if no
whole batch follows it, or if sectors in it never arrived. Such sectors read as zeros, because a
file here only grows into space that nothing was written to.

Whole batches behind bytes that merely changed are corruption, and cutting there could drop
acknowledged records. A batch inside the broken batch does not count as one that follows: clients
may write any bytes. This module only judges; the recovery acts on the result.
"""

from __future__ import annotations

import re

import crc32c

from raftnode.core.types import Epoch, Offset
from raftnode.errors import DecodeError
from raftnode.logformat.batch import CRC_FROM, HEADER_BYTES, BatchHeader, check_crc, read_header
from raftnode.storage.files import File

SECTOR_BYTES = 512
"""The unit that a disk writes whole or not at all."""

_CHUNK_BYTES = 4 << 20
_MAGIC = b"\x02"
_TO_MAGIC = 16
_LENGTH_AT, _LENGTH_END = 8, 12
_NEAR = 1 << 32
"""A batch behind the damage begins within so many offsets of it: a segment holds no more."""


def is_torn(file: File, position: int, offset: Offset, epoch: Epoch) -> bool:
    """Whether the bytes from a position on may be the rest of unsynced writes.

    Args:
        file: the last segment.
        position: where its whole batches end.
        offset: the offset that a batch there would have.
        epoch: of the batch before.

    Raises:
        StorageFailedError: the disk failed.
    """
    behind = _whole_batch_behind(file, position, offset, epoch)
    return behind is None or _lacks_a_sector(file, position, behind, offset)


def _whole_batch_behind(file: File, position: int, offset: Offset, epoch: Epoch) -> int | None:
    """Where the first whole batch of a later offset begins; None: nowhere."""
    tops = {top.to_bytes(4, "big") for top in (offset >> 32, (offset + _NEAR) >> 32)}
    begin = b"|".join(re.escape(top) for top in sorted(tops))
    pattern = re.compile(b"(?=(?:" + begin + b").{12}" + re.escape(_MAGIC) + b")", re.DOTALL)
    broken = _Broken(file, position, offset)
    at = position + 1
    while chunk := file.pread(_CHUNK_BYTES, at):
        for match in pattern.finditer(chunk):
            place = at + match.start()
            header = _batch_at(file, place)
            if header is None or header.base_offset <= offset or header.epoch < epoch:
                continue
            if not broken.holds(place):
                return place
        if len(chunk) < _CHUNK_BYTES:
            return None
        at += len(chunk) - _TO_MAGIC
    return None


class _Broken:
    """The batch that is not whole, and how far it reaches, if its header is there.

    The length in the header may itself be damaged. The checksum does not cover the length, and is
    then the checksum of all bytes up to the next batch.
    """

    def __init__(self, file: File, position: int, offset: Offset) -> None:
        self._file = file
        self._body = self._end = position + HEADER_BYTES
        self._crc = 0
        self._summed = position + CRC_FROM
        self._wanted: int | None = None
        try:
            header = read_header(file.pread(HEADER_BYTES, position))
        except DecodeError:
            return
        if header.base_offset == offset:
            self._end, self._wanted = position + header.size, header.crc

    def holds(self, place: int) -> bool:
        """Whether the bytes at a place are a part of the batch; call it with rising places."""
        if self._wanted is None or place >= self._end:
            return False
        if place < self._body:
            return True
        while self._summed < place:
            data = self._file.pread(min(_CHUNK_BYTES, place - self._summed), self._summed)
            self._crc = crc32c.crc32c(data, self._crc)
            self._summed += len(data)
        return self._crc != self._wanted


def _batch_at(file: File, position: int) -> BatchHeader | None:
    """The batch with a right checksum that begins at a position; None: there is none."""
    try:
        header = read_header(file.pread(HEADER_BYTES, position))
        check_crc(header, file.pread(header.size, position))
    except DecodeError:
        return None
    return header


def _lacks_a_sector(file: File, start: int, end: int, offset: Offset) -> bool:
    """Whether a sector between two places never arrived.

    The first sector counts from where the batch begins: the bytes before it were synced. The last
    sector does not count, because the batch behind the damage stands in it as well.
    """
    stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
    share = file.pread(stop - start, start)
    # A base offset begins with zeros; the length after it has a byte that is not zero.
    wanted = offset.to_bytes(_LENGTH_AT, "big")[: len(share)]
    if not any(share) and (any(wanted) or len(share) >= _LENGTH_END):
        return True
    return any(
        not any(file.pread(SECTOR_BYTES, at))
        for at in range(stop, end - SECTOR_BYTES + 1, SECTOR_BYTES)
    )
