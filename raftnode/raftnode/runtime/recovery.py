"""The recovery of a core from the content of the disk."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import structlog

from raftnode.core.config import CoreConfig
from raftnode.core.log_index import LogIndex
from raftnode.core.raft import RaftCore
from raftnode.core.reasons.halts import UnknownRaftVersion
from raftnode.core.records import RAFT_VERSION
from raftnode.core.start_state import StartState
from raftnode.core.types import Offset, VoterSet
from raftnode.errors import ProtocolHaltError, StorageCorruptError, StorageIdentityError
from raftnode.runtime import reason_sentences
from raftnode.runtime.process import clock
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots.snapshot_file import SnapshotFile

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings

_log = structlog.get_logger("raftnode")


def recover(
    settings: NodeSettings,
    directory: DataDirectory,
    log: Log,
    loaded: SnapshotFile | None,
    covered: Offset,
) -> RaftCore:
    """Make the core from the content of the disk.

    Args:
        settings: the node's.
        directory: its data directory.
        log: its log, recovered.
        loaded: the snapshot that the state of the store is from; None: there is none.
        covered: the end of the newest snapshot, whether or not it could be read.

    Raises:
        StorageCorruptError: the log was trimmed, and the snapshot has too little of the quorum; or
            the log ends before what a snapshot covers.
        StorageIdentityError: the vote's file is older than the log (S2).
        ProtocolHaltError: the log is at a later raft.version (S12).
    """
    latch = directory.latch
    head = loaded.log_head if loaded else None
    if log.start_offset and head is None:
        raise StorageCorruptError(
            f"the log begins at offset {log.start_offset}, and no snapshot holds the earlier "
            "voters; this replica must be replaced"
        )
    if covered > log.end_offset:
        raise StorageCorruptError(
            f"a snapshot covers committed records up to offset {covered}, but the log ends at "
            f"{log.end_offset}: records were lost; this replica must be replaced"
        )
    index = LogIndex.restore(
        latch.voters if latch else VoterSet(),
        start=log.start_offset,
        end=log.end_offset,
        epochs=[(entry.epoch, entry.start_offset) for entry in log.epochs],
        control=log.recovered,
        head=head,
        base_raft_version=latch.raft_version if latch else RAFT_VERSION,
    )
    state = directory.quorum_state
    if index.last_epoch > state.epoch:
        # S2: every epoch in the log was durable in quorum-state first.
        raise StorageIdentityError(
            f"quorum-state has epoch {state.epoch}, but the log has epoch {index.last_epoch}: "
            "votes were lost; this replica must be replaced"
        )
    if index.raft_version > RAFT_VERSION:
        reason = UnknownRaftVersion("log", index.raft_version, known=RAFT_VERSION)
        raise ProtocolHaltError(reason_sentences.halt(reason))
    if log.rebuilt:
        _log.warning("log_files_rebuilt", files=list(log.rebuilt), log_end=log.end_offset)
    if log.trimmed_from is not None:
        _log.warning("log_trim_finished", trimmed_from=log.trimmed_from, log_start=log.start_offset)
    if log.torn_tail is not None:
        _log.warning("torn_tail_truncated", damage=str(log.torn_tail), log_end=log.end_offset)
    return RaftCore(
        StartState(
            directory.key,
            log=index,
            state=state,
            cluster_id=directory.cluster_id,
            incarnation=directory.incarnation,
            fetch_sequence=clock.fetch_sequence_base(),
            quiet_ms=directory.promised_ms,
            committed_end=covered,
        ),
        rng=random.Random(),  # noqa: S311
        now_ms=clock.now_ms(),
        config=CoreConfig(
            fetch_timeout_ms=settings.fetch_timeout_ms,
            election_timeout_ms=settings.election_timeout_ms,
            election_backoff_max_ms=settings.election_backoff_max_ms,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            retry_backoff_max_ms=settings.retry_backoff_max_ms,
            fetches_in_flight_max=settings.fetches_in_flight_max,
            lease_clock_drift_percent=settings.read_lease_clock_drift_percent,
            max_uncommitted_bytes=settings.max_uncommitted_bytes,
            keeps_every_record=settings.log_retention_bytes < 0,
            announces_blank=bool(settings.first_addresses),
        ),
    )
