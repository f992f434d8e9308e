"""Reads a log from the files of its replicas: chooses the replica, the end and the parts.

The directories may be of running nodes: this module locks and writes nothing. All parts come
from one replica: of those that reach the end, the replica whose log starts earliest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraftquorum_pipeline.audit.replica_files import Piece as ReplicaPiece
from kraftquorum_pipeline.audit.replica_files import ReplicaFiles, find_replicas
from kraftquorum_pipeline.errors import ClusterIdError, CorruptError, OptionError, TrimmedError
from kraftquorum_pipeline.remote import open_files, path_of
from kraftquorum_pipeline.source.committed_end import VoterLog, committed_end
from kraftquorum_pipeline.source.filepart import FilePart, SnapshotPart
from kraftquorum_pipeline.source.interface import LogState, Part
from kraftquorum_pipeline.source.options import Options
from kraftquorum_pipeline.source.voters import voters_of
from raftnode.core.types import NO_EPOCH, Epoch, Offset
from raftnode.errors import ConfigurationError, DecodeError, RaftnodeError
from raftnode.logfiles import Piece, PieceReader, read_index
from raftnode.logformat import (
    HEADER_BYTES,
    BatchHeader,
    EpochIndex,
    EpochStart,
    SegmentIndex,
    read_header,
)

_LOOKS_MAX = 5
"""How often to read running replicas again that changed their epochs during the read."""


@dataclass(frozen=True, slots=True)
class _Scan:
    """The result of the last look at the files."""

    state: LogState
    replica: ReplicaFiles
    epochs: EpochIndex


class FileLog:
    """The log under a path."""

    def __init__(self, options: Options) -> None:
        assert options.path is not None  # noqa: S101 - the caller has checked
        self._options = options
        self._path = options.path
        self._scan: _Scan | None = None
        self._proved = 0

    def look(self, offset: int = 0, *, surely: bool = False) -> LogState:  # noqa: ARG002
        """Read the state of the log now. It never waits, because files either exist or not."""
        replicas = self._replicas()
        cluster_id = self._cluster_id(replicas)
        for _ in range(_LOOKS_MAX):
            end = self._end(replicas)
            if self._options.up_to == "end" or len(replicas) == 1:
                break
            again = self._replicas()
            if _epochs(again) == _epochs(replicas):
                break
            replicas = again  # an election happened between the first read and the last
        else:
            raise CorruptError(
                str(self._path), "the replicas keep changing epochs; try again later"
            )
        if self._options.up_to == "committed":
            # A proven end stays valid; after an election the files may prove less for a while.
            end = self._proved = max(end, self._proved)
        far_enough = [candidate for candidate in replicas if _durable(candidate) >= end]
        replica = min(
            far_enough or replicas, key=lambda candidate: (_start(candidate), candidate.name)
        )
        epochs = EpochIndex(tuple(EpochStart(Epoch(e), Offset(o)) for e, o in replica.epochs))
        first = _start(replica)
        covered = (snapshot for snapshot, _, _ in replica.snapshots if snapshot >= first)
        state_end = next(covered, first) if first else 0
        state = LogState(str(replica.path), cluster_id, first, end, state_end)
        self._scan = _Scan(state, replica, epochs)
        return state

    def parts(self, start: int, end: int) -> Sequence[Part]:
        """Cut [start, end) into parts, at segments and at batches within them."""
        scan = self._scanned()
        scan.state.check_start(start)
        parts: list[Part] = []
        if start < scan.state.start:
            snapshot = self._snapshot(scan, end)
            start = snapshot.end_offset
            parts.append(snapshot)
        parts += self._log_parts(scan, start, end)
        return parts

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch of a record from `leader-epoch-checkpoint`."""
        epoch = int(self._scanned().epochs.epoch_at(Offset(offset)))
        return None if epoch == NO_EPOCH else epoch

    # -- inside ------------------------------------------------------------------------

    def _scanned(self) -> _Scan:
        if self._scan is None:
            self.look()
        assert self._scan is not None  # noqa: S101 - look() sets it or raises
        return self._scan

    def _replicas(self) -> list[ReplicaFiles]:
        try:
            replicas = find_replicas([self._path])
        except (ConfigurationError, OptionError) as error:
            raise OptionError(f"path: {error}") from None
        sound = [replica for replica in replicas if not replica.findings]
        if not sound or (len(sound) < len(replicas) and not self._options.skip_corrupt):
            finding = next(replica.findings[0] for replica in replicas if replica.findings)
            raise CorruptError(finding.place.file, finding.reason)
        return sound

    def _cluster_id(self, replicas: Sequence[ReplicaFiles]) -> str | None:
        wanted = self._options.cluster_id
        for replica in replicas:
            if replica.cluster_id is None:
                continue
            if wanted is None:
                wanted = replica.cluster_id
            if replica.cluster_id != wanted:
                reason = f"the log is of cluster {replica.cluster_id}, not of {wanted}"
                raise ClusterIdError(str(replica.path), reason)
        return wanted

    def _end(self, replicas: Sequence[ReplicaFiles]) -> int:
        if self._options.up_to == "end":
            return max(_whole_end(replica) for replica in replicas)
        snapshots = [end for replica in replicas for end, _, _ in replica.snapshots]
        covered = max(snapshots, default=0)
        newest = max(replicas, key=lambda replica: (_log(replica).last_epoch, _durable(replica)))
        if newest.key is None:
            if covered:
                return covered
            raise OptionError(
                f"{newest.path}: a log directory alone does not say what is committed; give "
                "the replicas' data directories, or set upTo=end"
            )
        try:
            voters = voters_of(newest)
        except RaftnodeError as error:
            raise CorruptError(str(newest.path), str(error)) from error
        logs = {replica.key: _log(replica) for replica in replicas if replica.key in voters}
        committed = committed_end(list(logs.values()), len(voters))
        if committed is not None:
            return max(committed, covered)
        if covered or not _durable(newest):
            return covered
        raise OptionError(
            f"{self._path}: only {len(logs)} directories of {len(voters)} voters are here, "
            "which does not prove what is committed; give those of all, read from the "
            "nodes (bootstrapServers), or set upTo=end"
        )

    def _snapshot(self, scan: _Scan, end: int) -> SnapshotPart:
        replica, first = scan.replica, scan.state.start
        for snapshot_end, _, path in replica.snapshots:
            if snapshot_end >= first:
                if snapshot_end > end:
                    break
                shape = self._options.shape(scan.state.cluster_id)
                return SnapshotPart(path, snapshot_end, shape)
        raise TrimmedError(
            str(replica.path),
            f"the log begins at {first}, and no snapshot covers the records before it and "
            f"ends by {end}",
            0,
        )

    def _log_parts(self, scan: _Scan, start: int, end: int) -> Iterator[FilePart]:
        pieces = scan.replica.pieces
        expected = start
        for number, piece in enumerate(pieces):
            following = pieces[number + 1].base_offset if number + 1 < len(pieces) else end
            low, high = max(start, piece.base_offset), min(end, following)
            if low >= high:
                continue
            if low != expected:
                break
            expected = high
            yield from self._piece_parts(scan, piece, low, high)
        if expected < end:
            raise CorruptError(str(scan.replica.path), "no segment holds it", expected)

    def _piece_parts(
        self, scan: _Scan, piece: ReplicaPiece, low: int, high: int
    ) -> Iterator[FilePart]:
        shape = self._options.shape(scan.state.cluster_id)
        cuts = list(self._cuts(piece, low, high))
        for number, (base, position) in enumerate(cuts):
            end = cuts[number + 1][0] if number + 1 < len(cuts) else high
            known = scan.epochs.truncated(Offset(end)).entries
            keep = max(bisect_left(known, base, key=lambda entry: entry.start_offset) - 1, 0)
            epochs = tuple((int(e.epoch), int(e.start_offset)) for e in known[keep:])
            yield FilePart(piece.path, base, position, max(base, low), end, epochs, shape)

    def _cuts(self, piece: ReplicaPiece, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the batches at which parts of a segment begin: base offset and position."""
        files = open_files()
        path, base = path_of(piece.path), Offset(piece.base_offset)
        try:
            index = read_index(files, path, base, times=False, torn=True)
        except (DecodeError, RaftnodeError):
            index = None
        entry = None if index is None else index.lookup(Offset(low))
        header = None if entry is None else _header(path, entry.position)
        first = (int(base), 0)
        if entry is not None and header is not None and header.last_offset == entry.last_offset:
            first = int(header.base_offset), entry.position
        yield first
        if index is None:
            return
        position = first[1]
        while True:
            number = _first_at(index, position + self._options.partition_bytes)
            if number == len(index) or index.entry(number).last_offset >= high:
                return
            position = index.entry(number).position
            header = _header(path, position)
            if header is None or header.last_offset != index.entry(number).last_offset:
                return  # a wrong index costs parts, not rows
            yield int(header.base_offset), position


def _first_at(index: SegmentIndex, position: int) -> int:
    return bisect_left(range(len(index)), position, key=lambda number: index.entry(number).position)


def _header(path: Path, position: int) -> BatchHeader | None:
    files = open_files()
    try:
        file = files.open_to_read(path)
        try:
            return read_header(file.pread(HEADER_BYTES, position))
        finally:
            file.close()
    except RaftnodeError:
        return None


def _start(replica: ReplicaFiles) -> int:
    return replica.pieces[0].base_offset if replica.pieces else 0


def _durable(replica: ReplicaFiles) -> int:
    return max(replica.durable, _start(replica))


def _log(replica: ReplicaFiles) -> VoterLog:
    epoch = -1 if replica.state is None else int(replica.state.epoch)
    return VoterLog(epoch, replica.epochs, _durable(replica))


def _epochs(replicas: Sequence[ReplicaFiles]) -> list[tuple[str, int]]:
    return [
        (replica.name, -1 if replica.state is None else int(replica.state.epoch))
        for replica in replicas
    ]


def _whole_end(replica: ReplicaFiles) -> int:
    """Return one past the last whole batch."""
    if not replica.pieces:
        return 0
    last = replica.pieces[-1]
    files = open_files()
    piece = Piece(path_of(last.path), Offset(last.base_offset), last.size)
    reader = PieceReader(piece, end_offset=piece.base_offset)
    for _ in reader.batches(files):
        pass
    if reader.damage is not None and reader.end_offset < replica.durable:
        raise CorruptError(last.path, str(reader.damage.reason), int(reader.end_offset))
    return int(reader.end_offset)
