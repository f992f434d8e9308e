"""Snapshots between the wire, the disk and the state machine, all of it beside the loop.

On a leader, one thread reads the pieces. On a follower, another thread writes the fetched pieces,
reads the whole file and installs it, one step after the other. The loop holds one piece at a time
of each. The state is made while the whole file is read, so that the installation takes no time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import structlog

from raftnode.core.effects import ServeSnapshot, StoreSnapshotPiece
from raftnode.core.events import (
    Event,
    SnapshotPieceStored,
    SnapshotRefused,
    SnapshotVerified,
)
from raftnode.core.log_head import LogHead
from raftnode.core.messages import FetchSnapshotResponse
from raftnode.core.types import LogPosition, Offset
from raftnode.logformat.snapshot import SnapshotId
from raftnode.runtime.process.pause import Pause, StoppedError
from raftnode.runtime.writes.applier import Applier
from raftnode.statemachine.kv import Entry, KeyValueStore
from raftnode.storage.log.log import Log
from raftnode.storage.snapshots.snapshot_file import SnapshotDamagedError, SnapshotFile
from raftnode.storage.snapshots.snapshot_reader import with_pauses
from raftnode.storage.snapshots.snapshot_store import SnapshotDamage, Snapshots

_log = structlog.get_logger("raftnode")

CHECK_AGAIN_S = 30.0
"""The shortest time between two checks of a snapshot that is fetched."""

T = TypeVar("T")


@dataclass(slots=True)
class _Loaded:
    store: KeyValueStore
    snapshot: SnapshotFile


@dataclass(frozen=True, slots=True)
class TransferOutcomes:
    """Where the outcomes of a transfer go; each call comes from the loop's thread.

    Attributes:
        post: gives the core an event.
        respond: answers a peer's request.
        on_error: called with the first failure of the disk.
        on_installed: called with each snapshot that was installed.
        on_piece: called with the bytes of a piece that was sent ("sent") or fetched ("fetched").
        on_damaged: called with a snapshot that a follower fetches and that is damaged here.
    """

    post: Callable[[Event], None]
    respond: Callable[[int, FetchSnapshotResponse], None]
    on_error: Callable[[BaseException], None]
    on_installed: Callable[[SnapshotFile], None]
    on_piece: Callable[[str, int], None]
    on_damaged: Callable[[SnapshotDamage], None] = lambda _: None


class SnapshotTransfer:
    """Carries out the core's effects for snapshots.

    Args:
        snapshots: the snapshots beside the log.
        log: the log that a snapshot may replace.
        applier: gets the state of an installed snapshot.
        outcomes: where the outcomes go.
        room_for: whether the disk has room for so many bytes; it may block.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        log: Log,
        applier: Applier,
        outcomes: TransferOutcomes,
        *,
        room_for: Callable[[int], bool],
    ) -> None:
        self._snapshots = snapshots
        self._log = log
        self._applier = applier
        self._outcomes = outcomes
        self._room_for = room_for
        self._checking = ThreadPoolExecutor(1, thread_name_prefix="snapshot-check")
        self._checked: tuple[SnapshotId, float] | None = None
        """The snapshot that was checked last, and when that check began."""
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="snapshot-serve")
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="snapshot-fetch")
        self._loaded: _Loaded | None = None
        self._wanted: LogPosition | None = None
        """The snapshot that is being fetched; another thread checks that it still is."""
        self._pause = Pause()

    # -- on a leader -------------------------------------------------------------------

    def serve(self, effect: ServeSnapshot) -> None:
        """Answer with a piece."""
        response = effect.response
        which = SnapshotId.at(response.snapshot)

        def read() -> tuple[FetchSnapshotResponse, SnapshotDamage | None]:
            since_s = self._snapshots.now_s()
            try:
                piece = self._snapshots.read_piece(which, response.position, effect.max_bytes)
            except SnapshotDamagedError as error:
                return effect.with_piece(None, b""), SnapshotDamage(which, str(error), since_s)
            if piece is None:
                return effect.with_piece(None, b""), None
            return effect.with_piece(piece.size, piece.data), None

        def answer(piece_and_damage: tuple[FetchSnapshotResponse, SnapshotDamage | None]) -> None:
            piece, damage = piece_and_damage
            if damage is not None:
                self._outcomes.on_damaged(damage)
            self._outcomes.on_piece("sent", len(piece.data))
            self._outcomes.respond(effect.request_id, piece)

        self._beside(self._reading, read, answer)
        if response.position == 0:
            self._check(which)

    def _check(self, which: SnapshotId) -> None:
        """Read a snapshot once, beside, and check its checksums: a follower begins to fetch it.

        The follower would find the damage only at the end, and then begin again for ever.
        """
        now = time.monotonic()
        last = self._checked
        if last is not None and last[0] == which and now - last[1] < CHECK_AGAIN_S:
            return
        self._checked = which, now

        def check() -> SnapshotDamage | None:
            try:
                return self._snapshots.damage_of(which, self._pause)
            except StoppedError:
                return None

        def tell(damage: SnapshotDamage | None) -> None:
            if damage is not None:
                self._outcomes.on_damaged(damage)

        self._beside(self._checking, check, tell)

    def trim(self, start: Offset) -> None:
        """Remove the log below `start`; the leader serves no Fetch from there any more."""

        def trim() -> None:
            # Another snapshot may have been put in place since this was wanted.
            if start > self._log.start_offset:
                self._log.trim(start)

        self._beside(self._writing, trim, lambda _: None)

    # -- on the replica that fetches a snapshot ------------------------------------------

    def store(self, effect: StoreSnapshotPiece) -> None:
        """Write a piece; the first one only if the disk has room for all."""
        which, snapshot = SnapshotId.at(effect.snapshot), effect.snapshot
        self._wanted = snapshot

        def write() -> Event:
            if effect.position == 0:
                self._forget()
                if not self._room_for(effect.size):
                    return SnapshotRefused(
                        snapshot, f"not enough free space for its {effect.size} bytes"
                    )
            try:
                end = self._snapshots.incoming.store(which, effect.position, effect.data)
            except ValueError as error:
                return SnapshotRefused(snapshot, str(error))
            return SnapshotPieceStored(snapshot, end)

        def tell(event: Event) -> None:
            if isinstance(event, SnapshotPieceStored):
                self._outcomes.on_piece("fetched", len(effect.data))
            self._outcomes.post(event)

        self._beside(self._writing, write, tell)

    def verify(self, snapshot: LogPosition) -> None:
        """Read the whole file, make the state from it, and report the result to the core."""
        self._wanted = snapshot
        self._beside(self._writing, lambda: self._load(snapshot), self._outcomes.post)

    def _load(self, snapshot: LogPosition) -> Event:
        self._forget()

        def pause() -> None:
            self._pause()
            if self._wanted != snapshot:
                raise ValueError("no longer needed")

        try:
            reader = self._snapshots.incoming.reader(SnapshotId.at(snapshot))
            entries = (
                (record.key, Entry(record.value, record.offset, record.epoch))
                for record in with_pauses(reader.records(), pause)
            )
            store = KeyValueStore.restore(snapshot.end_offset, entries)
        except StoppedError:
            return SnapshotRefused(snapshot, "the node is stopping")
        except (SnapshotDamagedError, ValueError) as error:
            return SnapshotRefused(snapshot, str(error))
        snapshot_file = reader.snapshot
        head = snapshot_file.log_head if snapshot_file is not None else None
        if snapshot_file is None or head is None:
            return SnapshotRefused(
                snapshot, "it does not name the record that its voters come from"
            )
        self._loaded = _Loaded(store, snapshot_file)
        return SnapshotVerified(head)

    async def install(self, head: LogHead) -> None:
        """Replace log and state by the snapshot that was verified last, durably.

        Raises:
            StorageError: the disk failed.
        """
        loaded, self._loaded, self._wanted = self._loaded, None, None
        assert loaded is not None  # noqa: S101
        assert loaded.snapshot.log_head == head, head  # noqa: S101
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        async with self._applier.paused():
            await loop.run_in_executor(
                self._writing, self._snapshots.install, self._log, loaded.snapshot
            )
            before = self._applier.kv
            self._applier.replace(loaded.store)
        self._beside(self._writing, lambda: self._let_go(before), lambda _: None)
        self._outcomes.on_installed(loaded.snapshot)
        _log.info(
            "snapshot_file_installed",
            snapshot=str(loaded.snapshot.snapshot_id),
            entries=loaded.snapshot.records,
            bytes=loaded.snapshot.size,
            seconds=round(time.monotonic() - started, 3),
        )

    def drop(self, snapshot: LogPosition) -> None:
        """Remove what was fetched."""
        if self._wanted == snapshot:
            self._wanted = None

        def drop() -> None:
            self._forget()
            self._snapshots.incoming.drop()

        self._beside(self._writing, drop, lambda _: None)

    def _forget(self) -> None:
        """Drop the state that was made from the fetched snapshot."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            self._let_go(loaded.store)

    def _let_go(self, store: KeyValueStore) -> None:
        with contextlib.suppress(StoppedError):
            store.let_go(self._pause)

    # -- inside --------------------------------------------------------------------------

    def _beside(
        self, thread: ThreadPoolExecutor, work: Callable[[], T], done: Callable[[T], None]
    ) -> None:
        if self._pause.stopped:
            return
        future = asyncio.get_running_loop().run_in_executor(thread, work)

        def finished(finished: asyncio.Future[T]) -> None:
            if self._pause.stopped or finished.cancelled():
                return
            error = finished.exception()
            if error is not None:
                self._outcomes.on_error(error)
            else:
                done(finished.result())

        future.add_done_callback(finished)

    def close(self) -> None:
        """Begin no further work and wait for the threads; blocks."""
        self._pause.stop()
        self._reading.shutdown(wait=True, cancel_futures=True)
        self._checking.shutdown(wait=True, cancel_futures=True)
        self._writing.shutdown(wait=True, cancel_futures=True)
        self._snapshots.incoming.close()
