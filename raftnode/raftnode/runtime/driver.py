"""The one task that owns the core: takes events in order, carries effects out in order.

The duties that `core.effects` names are kept here: what must be durable is, before
anything later is begun, because each effect is finished before the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

import structlog

from raftnode.core.effects import (
    AppendAccepted,
    AppendBatches,
    Confirmed,
    Done,
    DropSnapshot,
    Effect,
    Fact,
    Halt,
    HaltReason,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LeadershipLost,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    ProveDisk,
    Refused,
    SendRequest,
    SendResponse,
    ServeFetch,
    ServeSnapshot,
    StoreSnapshotPiece,
    TrimLog,
    TruncateLog,
    VerifySnapshot,
    VoterChangeCompleted,
)
from raftnode.core.events import Event, LogFlushed, TimePassed
from raftnode.core.messages import FetchResponse, Request, Response
from raftnode.core.raft import RaftCore
from raftnode.core.records import Batch
from raftnode.core.types import ReplicaKey
from raftnode.errors import ProtocolHaltError, StorageStaleError
from raftnode.logformat.batch import read_header, stamp
from raftnode.runtime.disk.cold_reads import ColdFetch, ColdReads, Read
from raftnode.runtime.inquiries import Inquiries
from raftnode.runtime.process import clock
from raftnode.runtime.snapshots.transfer import SnapshotTransfer
from raftnode.runtime.writes.appends import Appends
from raftnode.runtime.writes.applier import Applier
from raftnode.runtime.writes.flusher import Flusher
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log, OffsetOutsideError

_log = structlog.get_logger("raftnode")

TURN_EVENTS_MAX = 64
"""Events handled before other tasks have their turn on the loop."""


class Post(Protocol):
    """Where requests and responses to peers go."""

    def send(self, target: ReplicaKey | None, request: Request) -> None:
        """Ask a replica, or with None any bootstrap server."""
        ...

    def respond(self, request_id: int, response: Response) -> None:
        """Answer a peer's request."""
        ...


@dataclass(slots=True)
class Parts:
    """What the driver works on; put together by the builders."""

    core: RaftCore
    directory: DataDirectory
    log: Log
    flusher: Flusher
    appends: Appends
    inquiries: Inquiries
    applier: Applier
    cold_reads: ColdReads
    post: Post
    transfer: SnapshotTransfer


class Driver:
    """Owns the core.

    Args:
        on_changed: called after each turn in which anything happened.
        on_error: called with the error of a failed read for a Fetch.
    """

    def __init__(
        self, on_changed: Callable[[], None], on_error: Callable[[BaseException], None]
    ) -> None:
        self._on_changed = on_changed
        self._on_error = on_error
        self._events: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self._dead = False

    @property
    def dead(self) -> bool:
        """Whether the driver handles no further event."""
        return self._dead

    @property
    def backlog(self) -> int:
        """How many events wait."""
        return len(self._events)

    def post(self, event: Event) -> None:
        """Queue an event; from the loop's thread."""
        self._events.append(event)
        self._wake.set()

    def begin_with(self, event: Event) -> None:
        """Queue an event before all that wait: peers may have asked something already."""
        self._events.appendleft(event)
        self._wake.set()

    async def run(self, parts: Parts) -> None:
        """Run until cancelled or until the storage or the core gives up.

        Raises:
            StorageError: the disk; the process must end and never answer again.
            ProtocolHaltError: the core refuses to go on.
        """
        self.post(TimePassed())
        while not self._dead:
            await self._wait(parts.core)
            for _ in range(TURN_EVENTS_MAX):
                if self._dead:
                    return
                event = self._events.popleft() if self._events else TimePassed()
                for effect in parts.core.handle(event, clock.now_ms()):
                    if self._dead:  # an effect may wait for the disk
                        return
                    await self._carry_out(parts, effect)
                if isinstance(event, LogFlushed):
                    parts.appends.pump()
                if not self._events:
                    break
            self._on_changed()

    async def _wait(self, core: RaftCore) -> None:
        if self._events:
            await asyncio.sleep(0)
            return
        self._wake.clear()
        deadline = core.next_deadline_ms()
        # A deadline may turn out to be conditional: never spin on one.
        timeout = None if deadline is None else max(deadline - clock.now_ms(), 1) / 1000
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _on_disk(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._disk, work)

    async def _carry_out(self, parts: Parts, effect: Effect) -> None:
        directory = parts.directory
        match effect:
            case PersistQuorumState(state):
                await self._on_disk(lambda: directory.write_quorum_state(state))
            case ProveDisk():
                await self._on_disk(directory.prove)
            case PersistLatch(latch):
                await self._on_disk(lambda: directory.write_latch(latch))
            case PersistClusterId(cluster_id):
                await self._on_disk(lambda: directory.set_cluster_id(cluster_id))
            case AppendBatches(batches):
                stamped = [_stamped(batch) for batch in batches]
                if parts.log.append_syncs(stamped):
                    await self._on_disk(lambda: parts.log.append(stamped))
                else:
                    parts.log.append(stamped)
                parts.flusher.flush_if_needed()
            case TruncateLog(end):
                await self._on_disk(lambda: parts.log.truncate(end))
                parts.flusher.flush_if_needed()
            case SendRequest(target, request):
                parts.post.send(target, request)
            case SendResponse(request_id, response):
                parts.post.respond(request_id, response)
            case ServeFetch():
                self._serve(parts, effect)
            case ServeSnapshot():
                parts.transfer.serve(effect)
            case StoreSnapshotPiece():
                parts.transfer.store(effect)
            case VerifySnapshot(snapshot):
                parts.transfer.verify(snapshot)
            case InstallSnapshot(head):
                await parts.transfer.install(head)
            case DropSnapshot(snapshot):
                parts.transfer.drop(snapshot)
            case TrimLog(start):
                parts.transfer.trim(start)
            case HighWatermarkAdvanced(high_watermark, applicable):
                parts.applier.committed(high_watermark, applicable)
                parts.appends.committed(high_watermark)
            case AppendAccepted():
                parts.appends.accepted(effect)
            case Refused():
                if not parts.appends.refused(effect):
                    parts.inquiries.refused(effect)
            case VoterChangeCompleted() | Confirmed() | Done():
                parts.inquiries.answered(effect)
            case LeadershipLost():
                parts.appends.leadership_lost()
            case Fact(name, fields):
                _log.info(name, **dict(fields))
            case Halt(reason, message):
                _halt(reason, message)
            case _:
                assert_never(effect)

    def _serve(self, parts: Parts, effect: ServeFetch) -> None:
        """Answer a Fetch: at once with what is recent, else once a thread has read it."""
        log, end = parts.log, parts.log.end_offset
        recent = log.recent(effect.start_offset, effect.max_bytes, end)
        if recent is not None:
            parts.post.respond(effect.request_id, _filled(effect, recent))
            return

        def answer(read: Read, is_current: bool) -> None:  # noqa: FBT001
            if self._dead or read.cancelled():
                return
            error = read.exception()
            if error is not None and not isinstance(error, OffsetOutsideError):
                self._on_error(error)
                return
            # Below the end of then, nothing changes but by a truncation: the answer is one that
            # has been on its way for a while. Else it brings nothing, and is asked for again.
            filled = _filled(effect, read.result() if error is None and is_current else b"")
            parts.post.respond(effect.request_id, filled)

        parts.cold_reads.ask(
            ColdFetch(
                effect.fetcher,
                effect.start_offset,
                effect.max_bytes,
                log.generation,
                begin=lambda reader: reader.read_cold(effect.start_offset, effect.max_bytes, end),
                answer=answer,
                skip=lambda: parts.post.respond(effect.request_id, effect.response),
            )
        )

    def die(self) -> None:
        """Handle no further event: something failed, and the node may answer no client any more."""
        self._dead = True
        self._wake.set()

    def close(self) -> None:
        """Wait for the disk's thread to end."""
        self._disk.shutdown(wait=True)


def _halt(reason: HaltReason, message: str) -> None:
    match reason:
        case (
            HaltReason.TRUNCATION_BELOW_HIGH_WATERMARK
            | HaltReason.UNSUPPORTED_RAFT_VERSION
            | HaltReason.UNLISTED_VOTER_ID
        ):
            raise ProtocolHaltError(message)
        case HaltReason.FENCED_STORAGE:
            raise StorageStaleError(message)


def _stamped(batch: Batch) -> Batch:
    """Give a client's batch the place that the core chose; fetched ones have theirs."""
    if not batch.data:
        return batch
    if read_header(batch.data).epoch >= 0:
        return batch
    return replace(batch, data=stamp(batch.data, batch.base_offset, batch.epoch))


def _filled(effect: ServeFetch, data: bytes) -> FetchResponse:
    """Put the log's bytes into a response, as they are: one run, not split into batches."""
    if not data:
        return effect.response
    run = Batch(effect.start_offset, effect.start_offset, effect.response.epoch, data)
    return replace(effect.response, batches=(run,))
