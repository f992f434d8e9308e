"""Clients' writes and the committed log."""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.api.errors import not_leader
from raftnode.core.roles import Leader
from raftnode.core.types import Offset
from raftnode.runtime.awaited_commit import AwaitedCommit
from raftnode.runtime.builders.base import Base
from raftnode.runtime.committed_reads import CommittedReads
from raftnode.runtime.disk.cold_reads import ColdReads
from raftnode.runtime.inquiries import Inquiries, KnownLeader
from raftnode.runtime.read_barrier import ReadBarrier
from raftnode.runtime.writes.appends import Appends
from raftnode.runtime.writes.applier import Applier
from raftnode.runtime.writes.flusher import Flusher


@dataclass(frozen=True, slots=True)
class Writes:
    """From a client's request to the store.

    Attributes:
        flusher: makes the log durable.
        inquiries: requests to the core that wait for an answer.
        appends: writes, gathered into batches.
        applier: the committed log into the store.
        committed_reads: reads of clients.
        cold_reads: reads of old records for the followers.
    """

    flusher: Flusher
    inquiries: Inquiries
    appends: Appends
    applier: Applier
    committed_reads: CommittedReads
    cold_reads: ColdReads


def build_writes(base: Base, leader: KnownLeader) -> Writes:
    """Build the parts; `leader` names the leader for clients that asked another replica."""
    settings, metrics, post = base.settings, base.metrics.node, base.driver.post
    replica = base.core.replica
    flusher = Flusher(
        base.storage.log,
        replica.log,
        on_flushed=post,
        on_error=base.process.fail,
        on_seconds=metrics.fsync_seconds.observe,
    )
    inquiries = Inquiries(post, leader)
    appends = Appends(
        post,
        inquiries.next_id,
        inquiries.error_of,
        queue_bytes_max=settings.append_queue_bytes,
        batch_bytes_max=settings.max_batch_bytes,
        linger_ms=settings.append_linger_ms,
        flushing_s=lambda: flusher.in_flight_s,
        on_commit=metrics.commit_latency_seconds.observe,
    )
    applier = Applier(base.storage.log, base.restored.store)
    applier.committed(replica.high_watermark, replica.applicable)

    async def confirm_read(timeout_ms: int) -> Offset:
        if not isinstance(replica.role, Leader):
            # The core would say the same, but may wait for a disk that hangs.
            raise not_leader(*leader())
        return await inquiries.confirm(timeout_ms, for_read=True)

    barrier = ReadBarrier(confirm_read, applier, base.process.tasks)

    awaited_commit = AwaitedCommit(replica, post)
    committed_reads = CommittedReads(base.storage.log, applier, barrier, awaited_commit.wait)
    cold_reads = ColdReads(base.storage.log, replica.may_be_voter, base.process.fail)
    return Writes(flusher, inquiries, appends, applier, committed_reads, cold_reads)
