"""Admits or refuses peers, by what is remembered of their storages (S3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import structlog

from raftnode.core.replica import Replica
from raftnode.core.replication.peer_memory import (
    Mark,
    PeerMemory,
    is_believed,
    remember_acknowledgements,
)
from raftnode.core.types import Epoch, ReplicaKey
from raftnode.log_limit import LineBudget
from raftnode.runtime import reason_sentences
from raftnode.transport import Identity, RefusalReason
from raftnode.transport.hello import Refusal
from raftnode.transport.spawner import TaskSpawner

_log = structlog.get_logger("raftnode")


class Gatekeeper:
    """The node's gate; use it on the running loop.

    Args:
        replica: the core's state, with this replica's key and its voters.
        marks: the starts that were remembered durably.
        write: makes the remembered starts durable; blocks.
        on_stale: called once if a voter has seen more of this storage than it now holds.
        spawn: for writes that go on though the connection that caused them has ended.
    """

    def __init__(
        self,
        replica: Replica,
        marks: Mapping[ReplicaKey, Mark],
        *,
        write: Callable[[Mapping[ReplicaKey, Mark]], None],
        on_stale: Callable[[str], None],
        spawn: TaskSpawner,
    ) -> None:
        self._replica = replica
        self._memory = PeerMemory.restore(marks)
        self._write = write
        self._on_stale = on_stale
        self._spawn = spawn
        self._lock = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="peer-starts")
        self._reported = False
        self._lines = LineBudget()

    # -- the transport's gate --------------------------------------------------------------

    async def admit(self, peer: Identity) -> Refusal | None:
        """Judge a peer; a new start is durable here before this returns.

        Raises:
            StorageError: the disk failed; the process exits.
        """
        stale = self._memory.why_stale(peer.key, peer.start)
        if stale is None and self._is_worth_remembering(peer):
            if self._memory.mark_of(peer.key) == peer.start.mark:
                return None
            remembering = self._spawn(self._remember(peer), name=f"remember {peer.key}")
            await asyncio.shield(remembering)
            # Another start of the peer may have been admitted while this one waited.
            stale = self._memory.why_stale(peer.key, peer.start)
        if stale is None:
            return None
        reason = reason_sentences.staleness(stale)
        self._lines.say(_log.warning, "stale_peer_refused", peer=str(peer.key), reason=reason)
        own = self._replica
        return Refusal(RefusalReason.STALE_STORAGE, reason, own.key, own.cluster_id)

    def is_current(self, peer: Identity) -> bool:
        """Whether no later start of the peer's storage was admitted since."""
        return self._memory.is_current(peer.key, peer.start)

    def refused(self, refusal: Refusal) -> None:
        """Take a peer's refusal; only some peers are believed that this storage is stale."""
        if refusal.reason is not RefusalReason.STALE_STORAGE or self._reported:
            return
        own, teller = self._replica, refusal.replica
        same_cluster = own.cluster_id is not None and refusal.cluster_id == own.cluster_id
        if teller is None or not same_cluster or not is_believed(own, teller):
            self._lines.say(
                _log.warning,
                "stale_claim_ignored",
                peer=str(teller),
                reason=refusal.detail,
            )
            return
        self._reported = True
        self._on_stale(
            f"replica {teller} has seen more of this storage than it holds now: "
            f"{refusal.detail}. The storage was restored from an old copy, so its votes "
            "and acknowledgements are not reliable; give this replica an empty disk"
        )

    # -- what the peers show ---------------------------------------------------------------

    def note_acknowledgements(self) -> None:
        """Note what is committed and acknowledged, if this replica leads."""
        remember_acknowledgements(self._memory, self._replica)

    def note_epoch(self, key: ReplicaKey, epoch: Epoch) -> None:
        """Note the epoch of a peer's message.

        An epoch above the own is not noted: it may be damage, and if it is not, this replica will
        soon know it, too.
        """
        if epoch <= self._replica.epoch:
            self._memory.showed(key, epoch)

    def close(self) -> None:
        """Wait for the last write."""
        self._thread.shutdown(wait=True)

    # -- inside ----------------------------------------------------------------------------

    def _is_worth_remembering(self, peer: Identity) -> bool:
        """Whether to remember a peer: a stranger without a cluster has promised nothing yet."""
        own = self._replica.cluster_id
        return own in {None, peer.cluster_id} or peer.key in self._replica.log.voters

    async def _remember(self, peer: Identity) -> None:
        async with self._lock:
            start, memory = peer.start, self._memory
            if memory.why_stale(peer.key, start) is not None:
                return
            marks = memory.marks_with(peer.key, start, set(self._replica.log.voters))
            if marks is not None:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._thread, self._write, marks)
                memory.admit(marks)
