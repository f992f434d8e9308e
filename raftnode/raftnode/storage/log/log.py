"""The log of `__cluster_metadata-0`: append, flush, read, truncate, and recovery on start.

Threads: one thread appends and truncates (the driver), another flushes, a third trims; any thread
may read or give back reserved room. Only `recent` reads no disk, so the event loop may call it;
`read` is for other threads. Only the records below the offset that `flush` returned are durable.

Recovery: only the last segment can have a torn tail, because a segment is synced before the next
one is made. Recovery cuts damage there if it lies above everything that was ever known durable
(`checkpoints`) and if a crash can have left it (`torn_tail`). With damage anywhere else the node
must not start. Recovery cannot detect damage to the very last of the flushed records after a power
cut that took `flushed-offset` away: a leader then fences the replica for fetching below what it
acknowledged (S3).

A process that exited after a failed fsync may find its bytes in the page cache after its restart,
though they never reached the disk and are no longer marked for it (the kernel forgets them). So
recovery writes the tail again before it syncs.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from raftnode.core.records import Batch
from raftnode.core.types import LogPosition, Offset
from raftnode.errors import RaftnodeError, StorageError, StorageLostError
from raftnode.logformat.batch import BatchHeader, encode_control_batch, read_header
from raftnode.logformat.epochs import EpochIndex, EpochStart
from raftnode.logformat.snapshot import SnapshotId
from raftnode.storage.files import Files
from raftnode.storage.log import control_places
from raftnode.storage.log.checkpoints import (
    FLUSHED_OFFSET_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    FlushedMark,
    write_log_start,
    write_recovery_point,
)
from raftnode.storage.log.control_places import ControlPlace, write_control_places
from raftnode.storage.log.epoch_file import FILE_NAME as EPOCHS_FILE
from raftnode.storage.log.epoch_file import write_epochs
from raftnode.storage.log.log_recovery import Recovered, recover
from raftnode.storage.log.log_settings import LogSettings
from raftnode.storage.log.recent_batches import RecentBatches
from raftnode.storage.log.reservation import Reservation
from raftnode.storage.segments.segment import Damage, Segment
from raftnode.storage.snapshots.installation import (
    empty_log,
    finish_install,
)

__all__ = ["Log", "LogSettings", "OffsetOutsideError"]


class OffsetOutsideError(RaftnodeError, ValueError):
    """An offset that the log does not hold: trimmed away, or not written yet.

    Attributes:
        start_offset: the first offset that the log holds.
    """

    def __init__(self, offset: Offset, start_offset: Offset, end_offset: Offset) -> None:
        super().__init__(f"offset {offset} is outside {start_offset}..{end_offset}")
        self.start_offset = start_offset


class Log:
    """An open log. After any error of the disk every method raises it again."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        settings: LogSettings,
        mark: FlushedMark,
        recovered: Recovered,
    ) -> None:
        self._files = files
        self._directory = directory
        self._settings = settings
        self._mark = mark
        self._reservation = Reservation(
            settings.segment_bytes if settings.preallocate else 0,
            settings.free_bytes_kept,
            settings.on_not_reserved,
        )
        self._generation = 0
        self._recent = RecentBatches(settings.recent_bytes)
        self._dropped: list[Segment] = []
        """Segments removed but open until their last reader has gone, or the log is closed."""
        self._take_over(recovered)
        # Taken in this order. The kernel reports a failed writeback to only one fsync of a
        # descriptor, so two threads must never sync the same descriptor at once.
        self._identity_lock = threading.Lock()
        self._trim_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self.recovered: tuple[Batch, ...] = recovered.control
        """Control batches of the whole log as it was found, without their bytes."""
        self.torn_tail: Damage | None = recovered.torn_tail
        """What recovery cut off, for the journal; None after a clean stop."""
        self.rebuilt: tuple[str, ...] = recovered.rebuilt
        """Files that recovery had to make again, for the journal."""
        self.trimmed_from: Offset | None = recovered.trimmed_from
        """Where the log began before recovery finished a trim, for the journal; or None."""

    def _take_over(self, recovered: Recovered) -> None:
        self._cache = recovered.cache
        self._segments = recovered.segments
        self._epochs = recovered.epochs
        self._end_offset = recovered.segments[-1].end_offset
        self._flushed_offset = self._end_offset
        self._recovery_point = recovered.recovery_point
        self._places = list(recovered.places)
        self._places_stored = len(recovered.places)

    @classmethod
    def open(cls, files: Files, directory: Path, settings: LogSettings | None = None) -> Log:
        """Recover the log in a partition directory, or begin an empty one.

        It first finishes an install of a snapshot that a crash interrupted. Everything that the
        log then holds is durable.

        Raises:
            StorageCorruptError: damage that a crash cannot explain; the caller must not start.
            StorageFailedError: the disk failed.
        """
        mark = FlushedMark.open(files, directory / FLUSHED_OFFSET_FILE)
        finish_install(files, directory, mark)
        recovered = recover(files, directory, mark)
        log = cls(files, directory, settings or LogSettings(), mark, recovered)
        log._reservation.take(log._segments[-1])
        return log

    @property
    def start_offset(self) -> Offset:
        """First offset that the log holds."""
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> Offset:
        """One past the last record written, durable or not."""
        return self._end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments, without reserved room."""
        return sum(segment.size for segment in tuple(self._segments))

    @property
    def segments(self) -> int:
        """How many segments the log has."""
        return len(self._segments)

    @property
    def flushed_offset(self) -> Offset:
        """One past the last record known to be durable."""
        return self._flushed_offset

    @property
    def position(self) -> LogPosition:
        """Epoch of the last record and the end offset."""
        return LogPosition(self._epochs.last_epoch, self._end_offset)

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """Where each epoch starts."""
        return self._epochs.entries

    def append_syncs(self, batches: Sequence[Batch]) -> bool:
        """Whether `append` will wait for the disk: it begins an epoch or perhaps a segment."""
        size = sum(len(batch.data) for batch in batches)
        full = self._segments[-1].size + size > self._settings.segment_bytes
        return (
            full
            or any(batch.epoch != self._epochs.last_epoch for batch in batches)
            or any(batch.data and self._is_old(read_header(batch.data)) for batch in batches)
        )

    def _is_old(self, header: BatchHeader) -> bool:
        """Whether the active segment is too old for a batch, by the batches' own times."""
        first_ms = self._segments[-1].first_timestamp_ms
        return first_ms is not None and (
            header.max_timestamp_ms - first_ms > self._settings.segment_ms
        )

    def append(self, batches: Sequence[Batch]) -> None:
        """Write batches at the end; `flush` makes them durable.

        Control batches without bytes are encoded here; all others are written as they are.

        Raises:
            ValueError: a batch does not follow the end of the log, or its bytes differ from its
                fields; nothing of it was written.
            DecodeError: a batch has no bytes, or they are no batch; nothing of it was written.
            StorageError: the disk failed, or the directory is not the one that was opened.
        """
        with self._write_lock:
            self._files.check()
            pending: list[bytes] = []
            headers: list[BatchHeader] = []
            size, end = 0, self._end_offset
            epochs = self._epochs
            for batch in batches:
                data, header = self._data_of(batch, end, epochs)
                full = self._segments[-1].size + size
                too_big = full and full + len(data) > self._settings.segment_bytes
                if too_big or self._is_old(header):
                    self._write(pending, headers, epochs)
                    pending, headers, size = [], [], 0
                    self._roll()
                epochs = epochs.with_started(batch.epoch, batch.base_offset)
                pending.append(data)
                headers.append(header)
                size += len(data)
                end = batch.end_offset
            self._write(pending, headers, epochs)

    def _data_of(self, batch: Batch, end: Offset, epochs: EpochIndex) -> tuple[bytes, BatchHeader]:
        if batch.base_offset != end or batch.epoch < max(epochs.last_epoch, 0):
            raise ValueError(
                f"batch at {batch.base_offset} of epoch {batch.epoch} does not follow "
                f"a log that ends at {end} in epoch {epochs.last_epoch}"
            )
        if not batch.data and batch.control:
            data = encode_control_batch(batch, self._settings.now_ms())
            return data, read_header(data)
        header = read_header(batch.data)
        written = (header.base_offset, header.last_offset, header.epoch, header.size)
        if written != (batch.base_offset, batch.last_offset, batch.epoch, len(batch.data)):
            raise ValueError(f"bytes of a batch say {header}, its fields {batch.base_offset}")
        return batch.data, header

    def _write(self, pending: list[bytes], headers: list[BatchHeader], epochs: EpochIndex) -> None:
        if not pending:
            return
        if epochs is not self._epochs:
            write_epochs(self._files, self._directory / EPOCHS_FILE, epochs)
            self._epochs = epochs
        data = pending[0] if len(pending) == 1 else b"".join(pending)
        position = self._segments[-1].size
        self._segments[-1].append(data, headers)
        for header in headers:
            if header.is_control:
                self._places.append(ControlPlace(header.base_offset, position))
            position += header.size
        with self._state_lock:
            for batch, header in zip(pending, headers, strict=True):
                self._recent.add(header.base_offset, header.end_offset, batch)
            self._end_offset = headers[-1].end_offset

    def _roll(self) -> None:
        if self._settings.before_roll is not None:
            self._settings.before_roll()
        with self._sync_lock:
            self._flush_locked()
            # Its indexes are whole before there is a next segment, which says that this is full.
            self._segments[-1].seal()
            segment = Segment.create(self._files, self._directory, self._end_offset, self._cache)
            self._reservation.take(segment)
            with self._state_lock:
                self._segments = [*self._segments, segment]
            self._raise_recovery_point()

    def _raise_recovery_point(self) -> None:
        """Raise the recovery point to the end: the log and its indexes are durable up to there."""
        self._set_recovery_point(self._end_offset)

    def _store_places(self, recovery_point: Offset) -> None:
        """Store the places for the present recovery point and the next one."""
        path = self._directory / control_places.FILE_NAME
        points = {self._recovery_point, recovery_point}
        write_control_places(self._files, path, self._places, points)
        self._places_stored = len(self._places)

    def _set_recovery_point(self, offset: Offset) -> None:
        self._store_places(offset)
        write_recovery_point(self._files, self._directory / RECOVERY_POINT_FILE, offset)
        self._recovery_point = offset

    def flush(self) -> Offset:
        """Make durable what was written before this call; from any thread.

        Returns:
            One past the last record that is now durable.

        Raises:
            StorageFailedError: the sync failed; the process must end (never retried).
        """
        with self._sync_lock:
            return self._flush_locked()

    def _flush_locked(self) -> Offset:
        with self._state_lock:
            segment, end = self._segments[-1], self._end_offset
        self._files.check()
        if end > self._flushed_offset:
            # Earlier segments were synced when they were rolled.
            segment.file.fdatasync()
            self._flushed_offset = end
            self._mark.raise_to(end)
        return end

    def truncate(self, end_offset: Offset) -> Offset:
        """Drop the records from `end_offset` on, durably, back to a batch boundary.

        Waits for a flush that is under way.

        Returns:
            The end of the log now: lower than asked if that was inside a batch.

        Raises:
            ValueError: that would be below the start of the log.
            StorageError: the disk failed.
        """
        # While the active segment is removed, no check may look for it.
        with self._identity_lock, self._write_lock, self._sync_lock:
            self._files.check()
            if end_offset >= self._end_offset:
                return self._end_offset
            if end_offset < self.start_offset:
                raise ValueError(
                    f"truncation to offset {end_offset}, below the log start {self.start_offset}"
                )
            place = self._segment_at(end_offset)
            end, position = self._segments[place].boundary(end_offset)
            kept, dropped = self._segments[: place + 1], self._segments[place + 1 :]
            with self._state_lock:
                self._generation += 1
                self._recent.cut(end)
                self._end_offset = end
                self._segments = kept
                self._dropped += dropped
            # First the flushed mark is lowered, then the records go, then their epochs: at
            # every crash in between, each file is still true.
            self._mark.lower_to(end)
            self._flushed_offset = min(self._flushed_offset, end)
            if self._recovery_point > end:
                self._set_recovery_point(end)
            self._drop_places(end)
            for segment in reversed(dropped):
                segment.remove()
            kept[-1].truncate(end, position)
            epochs = self._epochs.truncated(end)
            if epochs.entries != self._epochs.entries:
                write_epochs(self._files, self._directory / EPOCHS_FILE, epochs)
            self._epochs = epochs
            self._close_unread()
            self._reservation.take(kept[-1])
            return end

    def _drop_places(self, end: Offset) -> None:
        kept = [place for place in self._places if place.offset < end]
        stored = self._places_stored
        self._places = kept
        if stored > len(kept):
            self._store_places(self._recovery_point)

    def _segment_at(self, offset: Offset) -> int:
        segments = self._segments
        return bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1

    @property
    def generation(self) -> int:
        """How often records were dropped from the end: until the next time all below stays."""
        return self._generation

    def recent(self, start_offset: Offset, max_bytes: int, end_offset: Offset) -> bytes | None:
        """As `read`, for the newest batches, without the disk; None: they are not in memory.

        Raises:
            OffsetOutsideError: `start_offset` is not in the log.
            StorageError: the disk has failed.
        """
        self._files.check()
        with self._state_lock:
            limit = min(end_offset, self._end_offset)
            if not self.start_offset <= start_offset <= self._end_offset:
                raise OffsetOutsideError(start_offset, self.start_offset, self._end_offset)
            if start_offset >= limit:
                return b""
            return self._recent.read(start_offset, max_bytes, limit)

    def read(self, start_offset: Offset, max_bytes: int, end_offset: Offset) -> bytes:
        """Whole batches from the one that holds `start_offset`, never past `end_offset`.

        At least one batch even if it is larger than `max_bytes`; perhaps fewer than
        would fit (one call reads one segment). Empty if `start_offset` is at the end.

        Checksums, offsets and epochs are checked, so that a read returns what was written.

        Raises:
            OffsetOutsideError: `start_offset` is not in the log.
            StorageError: the disk failed or holds something else.
        """
        while True:
            self._files.check()
            with self._state_lock:
                generation = self._generation
                limit = min(end_offset, self._end_offset)
                if not self.start_offset <= start_offset <= self._end_offset:
                    raise OffsetOutsideError(start_offset, self.start_offset, self._end_offset)
                segment = self._segments[self._segment_at(start_offset)]
                epochs = self._epochs
                if start_offset >= limit:
                    return b""
                segment.readers += 1
            try:
                with self._reading(segment):
                    data = segment.read(start_offset, max_bytes, limit, epochs)
            except StorageError:
                # A truncation may have pulled the file from under the read.
                with self._state_lock:
                    if generation == self._generation:
                        raise
                continue
            with self._state_lock:
                if generation == self._generation:
                    return data

    @contextmanager
    def _reading(self, segment: Segment) -> Generator[None]:
        """Read a segment that is counted already; a removed segment's last reader closes it."""
        try:
            yield
        finally:
            with self._state_lock:
                segment.readers -= 1
            self._close_unread()

    def _close_unread(self) -> None:
        """Close the removed segments without a reader: until then they take their room."""
        if not self._dropped:
            return
        with self._state_lock:
            unread = [segment for segment in self._dropped if not segment.readers]
            self._dropped = [segment for segment in self._dropped if segment.readers]
        for segment in unread:
            segment.close()

    # -- behind a snapshot -----------------------------------------------------------

    def trim_target(self, covered: Offset, keep_bytes: int) -> Offset:
        """Up to where the log may be trimmed: the start of a segment, or of the log.

        Args:
            covered: the offset up to which whole snapshots have everything.
            keep_bytes: how much of the log's end stays at least.
        """
        kept = 0
        for segment in reversed(self._segments):
            kept += segment.size
            if segment.base_offset <= covered and kept >= keep_bytes:
                return segment.base_offset
        return self.start_offset

    def trim(self, start_offset: Offset) -> None:
        """Remove the segments below an offset, durably; whole snapshots cover them.

        The caller knows that no reader asks for records there any more. The trim writes and syncs
        without keeping appends and flushes waiting.

        Raises:
            ValueError: no segment begins there.
            StorageError: the disk failed.
        """
        with self._trim_lock:
            self._files.check()
            bases = [segment.base_offset for segment in self._segments]
            if start_offset not in bases:
                raise ValueError(f"no segment begins at offset {start_offset}")
            if start_offset == bases[0]:
                return
            if self._settings.before_roll is not None:
                self._settings.before_roll()
            # From here on a start removes the segments that are left below.
            write_log_start(self._files, self._directory / LOG_START_FILE, start_offset)
            with self._write_lock, self._state_lock:
                place = bisect_left(bases, start_offset)
                removed, self._segments = self._segments[:place], self._segments[place:]
                self._epochs = self._epochs.trimmed(start_offset)
                gone = bisect_left(
                    self._places, start_offset, key=lambda control_place: control_place.offset
                )
                del self._places[:gone]
                self._places_stored = max(self._places_stored - gone, 0)
                self._dropped += removed
            for segment in removed:
                segment.remove()
            self._close_unread()

    def reset(self, snapshot_id: SnapshotId) -> None:
        """Let the log begin, without records, at a snapshot's end, durably.

        Called while the marker exists (`installation`): the next start finishes what a crash
        interrupted. Waits for a flush that is under way.

        Raises:
            StorageError: the disk failed.
        """
        # Meanwhile the names of the open files lead nowhere, as is intended.
        with self._identity_lock, self._trim_lock, self._write_lock, self._sync_lock:
            self._files.check()
            empty_log(self._files, self._directory, self._mark, snapshot_id)
            recovered = recover(self._files, self._directory, self._mark)
            with self._state_lock:
                self._generation += 1
                self._recent.clear()
                self._dropped += self._segments
                self._take_over(recovered)
            self._close_unread()
            self._reservation.take(self._segments[-1])

    def give_back(self) -> bool:
        """Give back the room that is reserved for future records; from any thread.

        The segment then takes its room as it grows. The next segment reserves again if there is
        enough room.

        Returns:
            False: none was reserved.

        Raises:
            StorageError: the disk failed.
        """
        self._files.check()
        if not self._segments[-1].reserved:
            return False  # Nor need it wait for an append.
        with self._write_lock:
            return self._segments[-1].give_back()

    @property
    def active_path(self) -> Path:
        """The segment that is being written."""
        return self._segments[-1].file.path

    def check_identity(self) -> None:
        """Check that the active segment's name still leads to the open file (S4).

        Raises:
            StorageLostError: it does not; every later operation is refused.
        """
        with self._identity_lock:
            file = self._segments[-1].file
            there = self._files.stat(file.path)
            if there is None or there.identity != file.stat().identity:
                error = StorageLostError(f"{file.path} is gone or is another file")
                self._files.fail(error)
                raise error

    def close(self) -> None:
        """Flush, so that the next start need not check anything, and close the files.

        After a failure nothing is flushed. Raises as `flush` does.
        """
        with self._write_lock, self._sync_lock:
            try:
                if self._files.failure is None:
                    self._flush_locked()
                    self._segments[-1].give_back_durably()
                    if self._recovery_point != self._end_offset:
                        self._segments[-1].sync_index()
                        self._raise_recovery_point()
            finally:
                self._mark.close()
                for segment in (*self._segments, *self._dropped):
                    segment.close()
