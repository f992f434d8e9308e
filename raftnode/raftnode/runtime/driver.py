"""The owner of the core: takes events in order, carries effects out in order.

The events that wait are handled in one synchronous turn of the loop. Only a barrier, an effect
that waits for the disk, ends a turn early: `run` waits for the barrier, and the next turn goes on
after it. So the duties that `core.effects` names are kept: each effect is finished before the
next one begins.

Messages to peers are collected and sent at the end of the turn, after the outcomes of the
clients' requests, and before any barrier. A turn that fails sends nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
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
from raftnode.core.reasons.halts import (
    HaltReason,
    StorageFenced,
    TruncationBelowHighWatermark,
    UnknownRaftVersion,
    UnlistedVoterIds,
)
from raftnode.core.records import Batch
from raftnode.core.types import Offset, ReplicaKey
from raftnode.errors import ProtocolHaltError, StorageStaleError
from raftnode.logformat.batch import read_header, stamp
from raftnode.runtime import reason_sentences
from raftnode.runtime.disk.cold_reads import ColdFetch, ColdReads, Read
from raftnode.runtime.inquiries import Inquiries
from raftnode.runtime.process import clock
from raftnode.runtime.process.turn_schedule import TurnSchedule
from raftnode.runtime.snapshots.transfer import SnapshotTransfer
from raftnode.runtime.writes.appends import Appends
from raftnode.runtime.writes.applier import Applier
from raftnode.runtime.writes.flusher import Flusher
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.log.log import Log, OffsetOutsideError

_log = structlog.get_logger("raftnode")

TURN_EVENTS_MAX = 64
"""Events handled before other tasks have their turn on the loop."""

TURN_SERVED_BYTES = 4 << 20
"""Bytes of the log served before other tasks have their turn: frames of elections must not wait
until answers are encoded for all replicas that have caught up at once. One answer may pass it."""


class Post(Protocol):
    """Where requests and responses to peers go."""

    def send(self, target: ReplicaKey | None, request: Request) -> None:
        """Ask a replica, or with None any bootstrap server."""
        ...

    def respond(self, request_id: int, response: Response) -> None:
        """Answer a peer's request."""
        ...


@dataclass(frozen=True, slots=True)
class StorageParts:
    """What the driver writes to the disk with, and reads from it."""

    directory: DataDirectory
    log: Log
    flusher: Flusher
    cold_reads: ColdReads


@dataclass(frozen=True, slots=True)
class ClientParts:
    """What waits for the core's outcomes: clients' requests and the state machine."""

    appends: Appends
    inquiries: Inquiries
    applier: Applier


@dataclass(frozen=True, slots=True)
class PeerParts:
    """What passes messages and snapshots on to the other replicas."""

    post: Post
    transfer: SnapshotTransfer


@dataclass(frozen=True, slots=True)
class Parts:
    """What the driver works on; put together by the builders."""

    core: RaftCore
    storage: StorageParts
    clients: ClientParts
    peers: PeerParts


Barrier = Callable[[], Awaitable[None]]
"""Carries out an effect that must be finished before the next one begins."""


class Driver:
    """Owns the core.

    Args:
        on_changed: called after each turn in which anything happened.
        on_error: called with the error of a failed read for a Fetch.

    Attributes:
        on_fact: called with each fact that the core tells, and its fields.
    """

    def __init__(
        self, on_changed: Callable[[], None], on_error: Callable[[BaseException], None]
    ) -> None:
        self._on_changed = on_changed
        self._on_error = on_error
        self._events: deque[Event] = deque()
        self._event: Event | None = None
        """The event whose effects are being carried out."""
        self._effects: deque[Effect] = deque()
        """What is left of them."""
        self._outgoing: list[Callable[[], None]] = []
        """What is left to send to peers."""
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self._served_bytes = 0
        """Bytes of the log that this turn has served."""
        self._dead = False
        self._in_turn = False
        self._turns: TurnSchedule[Barrier] | None = None
        self.on_fact: Callable[[str, Mapping[str, object]], None] = lambda _name, _fields: None

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
        self._want_turn()

    def begin_with(self, event: Event) -> None:
        """Queue an event before all that wait: peers may have asked something already."""
        self._events.appendleft(event)
        self._want_turn()

    def _want_turn(self) -> None:
        # A turn sees at its end whether events are left.
        if self._turns is not None and not self._in_turn:
            self._turns.want()

    async def run(self, parts: Parts) -> None:
        """Run until cancelled or until the storage or the core gives up.

        Raises:
            StorageError: the disk; the process must end and never answer again.
            ProtocolHaltError: the core refuses to go on.
        """
        turns = self._turns = TurnSchedule[Barrier](partial(self._turn, parts))
        self._events.append(TimePassed())
        try:
            while not self._dead:
                barrier = await turns.until_result()
                if barrier is not None and not self._dead:
                    await barrier()
        except Exception:
            self._dead = True
            raise
        finally:
            self._turns = None

    def _turn(self, parts: Parts) -> Barrier | None:
        """Handle the events that wait, up to the first barrier; return it."""
        self._in_turn = True
        try:
            if self._events or self._event or self._add_time(parts.core):
                return self._handle_and_send(parts)
        except Exception:
            self._dead = True
            raise
        finally:
            self._in_turn = False
        return None

    def _handle_and_send(self, parts: Parts) -> Barrier | None:
        barrier = self._handle(parts)
        if self._dead:
            return None
        outgoing, self._outgoing = self._outgoing, []
        for send in outgoing:
            send()
        if barrier is None:
            if self._event is None:
                self._on_changed()
            self._plan_next_turn(parts.core)
        return barrier

    def _add_time(self, core: RaftCore) -> bool:
        """Queue the event that says that time has passed, if any is due; else wait for more."""
        deadline_ms = core.next_deadline_ms()
        if deadline_ms is None or deadline_ms > clock.now_ms():
            self._plan_next_turn(core)
            return False
        self._events.append(TimePassed())
        return True

    def _handle(self, parts: Parts) -> Barrier | None:
        """Carry out what is left of the last event, then what the events that wait bring."""
        events, effects, handled = self._events, self._effects, 0
        self._served_bytes = 0
        while not self._dead and self._served_bytes < TURN_SERVED_BYTES:
            if effects:
                barrier = self._carry_out(parts, effects.popleft())
                if barrier is not None:
                    return barrier
            elif self._event is not None:
                event, self._event = self._event, None
                if isinstance(event, LogFlushed):
                    parts.clients.appends.pump()
            elif not events or handled == TURN_EVENTS_MAX:
                break
            else:
                self._event = events.popleft()
                handled += 1
                effects.extend(parts.core.handle(self._event, clock.now_ms()))
        return None

    def _plan_next_turn(self, core: RaftCore) -> None:
        turns = self._turns
        if turns is None:
            return
        if self._events or self._event is not None:
            turns.want()
            return
        deadline_ms = core.next_deadline_ms()
        if deadline_ms is not None:
            # A deadline may turn out to be conditional: never spin on one.
            turns.want_within(max(deadline_ms - clock.now_ms(), 1) / 1000)

    async def _on_disk(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._disk, work)

    async def _append_on_disk(self, storage: StorageParts, batches: list[Batch]) -> None:
        await self._on_disk(lambda: storage.log.append(batches))
        storage.flusher.flush_if_needed()

    async def _truncate(self, storage: StorageParts, end: Offset) -> None:
        await self._on_disk(lambda: storage.log.truncate(end))
        storage.flusher.flush_if_needed()

    def _carry_out(self, parts: Parts, effect: Effect) -> Barrier | None:
        """Carry an effect out, or return the barrier that does."""
        storage, clients, peers = parts.storage, parts.clients, parts.peers
        directory, outgoing = storage.directory, self._outgoing
        match effect:
            case SendResponse(request_id, response):
                outgoing.append(partial(peers.post.respond, request_id, response))
            case ServeFetch():
                self._serve(parts, effect)
            case SendRequest(target, request):
                outgoing.append(partial(peers.post.send, target, request))
            case AppendBatches(batches):
                stamped = [_stamped(batch) for batch in batches]
                if storage.log.append_syncs(stamped):
                    return partial(self._append_on_disk, storage, stamped)
                storage.log.append(stamped)
                storage.flusher.flush_if_needed()
            case HighWatermarkAdvanced(high_watermark, applicable):
                clients.applier.committed(high_watermark, applicable)
                clients.appends.committed(high_watermark)
            case AppendAccepted():
                clients.appends.accepted(effect)
            case PersistQuorumState(state):
                return partial(self._on_disk, lambda: directory.write_quorum_state(state))
            case ProveDisk():
                return partial(self._on_disk, directory.prove)
            case PersistLatch(latch):
                return partial(self._on_disk, lambda: directory.write_latch(latch))
            case PersistClusterId(cluster_id):
                return partial(self._on_disk, lambda: directory.set_cluster_id(cluster_id))
            case TruncateLog(end):
                return partial(self._truncate, storage, end)
            case InstallSnapshot(head):
                return partial(peers.transfer.install, head)
            case ServeSnapshot():
                peers.transfer.serve(effect)
            case StoreSnapshotPiece():
                peers.transfer.store(effect)
            case VerifySnapshot(snapshot):
                peers.transfer.verify(snapshot)
            case DropSnapshot(snapshot):
                peers.transfer.drop(snapshot)
            case TrimLog(start):
                peers.transfer.trim(start)
            case Refused():
                if not clients.appends.refused(effect):
                    clients.inquiries.refused(effect)
            case VoterChangeCompleted() | Confirmed() | Done():
                clients.inquiries.answered(effect)
            case LeadershipLost():
                clients.appends.leadership_lost()
            case Fact(name, fields):
                _log.info(name, **dict(fields))
                self.on_fact(name, dict(fields))
            case Halt(reason):
                _halt(reason)
            case _:
                assert_never(effect)
        return None

    def _serve(self, parts: Parts, effect: ServeFetch) -> None:
        """Answer a Fetch: at once with what is recent, else once a thread has read it."""
        log, post = parts.storage.log, parts.peers.post
        end = log.end_offset
        recent = log.recent(effect.start_offset, effect.max_bytes, end)
        if recent is not None:
            self._served_bytes += len(recent)
            filled = _filled(effect, recent)
            self._outgoing.append(partial(post.respond, effect.request_id, filled))
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
            post.respond(effect.request_id, filled)

        parts.storage.cold_reads.ask(
            ColdFetch(
                effect.fetcher,
                effect.start_offset,
                effect.max_bytes,
                log.generation,
                begin=lambda reader: reader.read_cold(effect.start_offset, effect.max_bytes, end),
                answer=answer,
                skip=lambda: post.respond(effect.request_id, effect.response),
            )
        )

    def die(self) -> None:
        """Handle no further event: something failed, and the node may answer no client any more."""
        self._dead = True
        if self._turns is not None:
            self._turns.end()

    def close(self) -> None:
        """Wait for the disk's thread to end."""
        self._disk.shutdown(wait=True)


def _halt(reason: HaltReason) -> None:
    match reason:
        case TruncationBelowHighWatermark() | UnknownRaftVersion() | UnlistedVoterIds():
            raise ProtocolHaltError(reason_sentences.halt(reason))
        case StorageFenced():
            raise StorageStaleError(reason_sentences.halt(reason))


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
