"""Fetching a snapshot in place of a log that the leader no longer has (KIP-630, P22, P25, P40).

The leader offers a snapshot to a follower whose next record was trimmed away, or whose log is
empty. The follower asks for one piece at a time, each once the last is stored. So it holds no more
than a piece in memory, and the leader serves it like any Fetch. The storage reads the whole file
before the snapshot counts: checksums, footer, the state of the quorum. Only then is the log
replaced, in one step. Until then the log, the vote and the acknowledgements stay as they are.

A new leader that has the same snapshot goes on where the last one was: the same state at the
same offset makes the same bytes. While the storage works, plain Fetches keep the leader known.
"""

from __future__ import annotations

from raftnode.core.effects import (
    DropSnapshot,
    InstallSnapshot,
    StoreSnapshotPiece,
    TrimLog,
    VerifySnapshot,
)
from raftnode.core.events import (
    SnapshotLost,
    SnapshotPieceStored,
    SnapshotRefused,
    SnapshotTaken,
    SnapshotVerified,
)
from raftnode.core.messages import FetchSnapshotRequest, FetchSnapshotResponse
from raftnode.core.reasons.halts import UnknownRaftVersion, UnlistedVoterIds
from raftnode.core.records import RAFT_VERSION
from raftnode.core.replica import Replica
from raftnode.core.roles import Fetching, Follower, Leader
from raftnode.core.snapshots.download import Download
from raftnode.core.types import FIRST_OFFSET, LogPosition


def next_piece(replica: Replica) -> FetchSnapshotRequest | None:
    """The request for the next piece of a snapshot; None: ask for records."""
    download = replica.download
    if download is None or download.busy or not isinstance(replica.role, Follower):
        return None
    return FetchSnapshotRequest(
        epoch=replica.epoch,
        replica=replica.key,
        snapshot=download.snapshot,
        position=download.position,
        max_bytes=replica.config.fetch_max_bytes,
        round_token=replica.round_token,
        endpoint=replica.endpoint,
    )


def offered(replica: Replica, fetching: Fetching, snapshot: LogPosition) -> bool:
    """Take the leader's offer of a snapshot to begin with; False: the offer cannot be right."""
    download = replica.download
    if not _is_ahead(replica, snapshot) or snapshot.epoch > replica.epoch:
        replica.fact("snapshot_offer_rejected", end=snapshot.end_offset, log_end=replica.log.end)
        return False
    if download is None or not (download.snapshot == snapshot or download.has_begun):
        # A download that has begun goes on, even if there is a newer snapshot: the leader keeps
        # the old one while it is read (or says that it is gone). Otherwise a slow disk would
        # never finish any.
        give_up(replica)
        replica.download = Download(snapshot)
        replica.fact(
            "snapshot_fetch_started", end=snapshot.end_offset, snapshot_epoch=snapshot.epoch
        )
    elif download.busy:
        _wait_for_storage(replica, fetching)
    return True


def _is_ahead(replica: Replica, snapshot: LogPosition) -> bool:
    """Whether the snapshot is ahead of the log: else it would replace the log by less.

    A log that holds the snapshot's last record may hold acknowledged records behind it. A log that
    has another epoch there may still be longer, but none of its rest was ever committed.
    """
    return snapshot.end_offset > replica.high_watermark and not replica.log.covers(snapshot)


def _wait_for_storage(replica: Replica, fetching: Fetching) -> None:
    fetching.next_at_ms = replica.now_ms + replica.config.fetch_max_wait_ms


def take_piece(
    replica: Replica,
    fetching: Fetching,
    request: FetchSnapshotRequest,
    response: FetchSnapshotResponse,
) -> bool:
    """Hand a piece to the storage; False: it is not the piece that was asked for."""
    download = replica.download
    asked = (request.snapshot, request.position)
    if download is None or download.busy or asked != (download.snapshot, download.position):
        return True  # given up meanwhile, or begun again
    if (response.snapshot, response.position) != asked:
        return False
    if download.size not in {None, response.size}:
        # Another program wrote the new leader's file: its bytes do not continue these.
        replica.fact("snapshot_fetch_restarted", end=request.snapshot.end_offset)
        give_up(replica)
        replica.download = Download(request.snapshot)
        return True
    end = request.position + len(response.data)
    if not response.data or end > response.size:
        return False
    download.size, download.storing_to = response.size, end
    _wait_for_storage(replica, fetching)
    replica.emit(
        StoreSnapshotPiece(request.snapshot, request.position, response.size, response.data)
    )
    return True


def piece_stored(replica: Replica, event: SnapshotPieceStored) -> bool:
    """Go on behind a stored piece; True: the next request may leave now."""
    download = replica.download
    if download is None or (download.snapshot, download.storing_to) != (event.snapshot, event.end):
        return False
    download.position, download.storing_to = event.end, None
    if download.position == download.size:
        download.verifying = True
        replica.emit(VerifySnapshot(download.snapshot))
        return False
    return True


def verified(replica: Replica, event: SnapshotVerified) -> None:
    """Replace the log by the verified snapshot, if that is ahead of the log."""
    download, head = replica.download, event.head
    if download is None or download.snapshot != head.position or not download.verifying:
        return
    if isinstance(replica.role, Leader) or not _is_ahead(replica, head.position):
        give_up(replica)
        return
    replica.download = None
    if head.raft_version > RAFT_VERSION:
        replica.halt(UnknownRaftVersion("snapshot", head.raft_version, known=RAFT_VERSION))
        return
    known = {key.node_id for key in replica.log.committed_voters(replica.high_watermark).voters}
    unlisted = {key.node_id for key in head.voters} - known
    if head.raft_version == 1 and known and unlisted:
        replica.halt(UnlistedVoterIds("snapshot", frozenset(unlisted)))
        return
    before = replica.log.voter_record
    replica.log.install(head)
    replica.emit(InstallSnapshot(head))
    replica.fact("snapshot_installed", end=replica.log.end)
    if replica.log.voter_record != before:
        replica.fact("voters_changed", voters=str(replica.log.voters), offset=replica.log.end)
    replica.raise_high_watermark(replica.log.end)


def refused(replica: Replica, event: SnapshotRefused) -> bool:
    """Give up a snapshot that the storage cannot use; True: it was the one under way."""
    download = replica.download
    if download is None or download.snapshot != event.snapshot or not download.busy:
        return False
    replica.fact("snapshot_fetch_failed", end=event.snapshot.end_offset, reason=event.reason)
    replica.download = None
    return True


def give_up(replica: Replica) -> None:
    """Give up the download: no snapshot is wanted any more, or another one."""
    if replica.download is not None:
        replica.emit(DropSnapshot(replica.download.snapshot))
        replica.download = None


def taken(replica: Replica, event: SnapshotTaken) -> None:
    """Offer the snapshot that was made here from now on, and trim the log that it covers."""
    log = replica.log
    if log.snapshot is None or event.snapshot.end_offset > log.snapshot.end_offset:
        log.snapshot = event.snapshot
    if log.start < event.trim_to <= min(replica.applicable, log.snapshot.end_offset):
        log.trim(event.trim_to)
        replica.emit(TrimLog(event.trim_to))
        replica.fact("log_trimmed", start=log.start, end=log.end)


def lost(replica: Replica, event: SnapshotLost) -> None:
    """Offer an older snapshot in place of a damaged one, if the log goes on from it.

    If there is none, a log that is whole needs no snapshot. A log that begins later does: the
    damaged snapshot's name stays, and says where a fetcher's log would begin.
    """
    log, old, instead = replica.log, event.snapshot, event.instead
    if log.snapshot != old:
        return
    if instead is None:
        if log.start == FIRST_OFFSET:
            log.snapshot = None
            replica.fact("snapshot_lost", end=old.end_offset)
    elif log.start <= instead.end_offset < old.end_offset:
        log.snapshot = instead
        replica.fact("snapshot_lost", end=old.end_offset, instead=instead.end_offset)
