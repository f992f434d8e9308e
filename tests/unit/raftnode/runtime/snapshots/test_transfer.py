"""Snapshots from a leader's disk to a follower's, its log and its state machine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
import threading
import uuid
from dataclasses import replace

import pytest
from tests.unit.raftnode.runtime.conftest import DIRECTORY, LONG_MS, Storage, until

from proofkit.faultdisk import Fault, FaultDisk
from raftnode.core.effects import ServeSnapshot, StoreSnapshotPiece
from raftnode.core.events import SnapshotPieceStored, SnapshotRefused, SnapshotVerified
from raftnode.core.messages import ErrorCode, FetchSnapshotResponse
from raftnode.core.types import Epoch, LogPosition, NodeId, Offset, ReplicaKey, VoterRecordId
from raftnode.errors import RequestError, StorageFailedError
from raftnode.logformat import SnapshotHead, SnapshotId, StateRecord
from raftnode.runtime.committed_reads import CommittedReads
from raftnode.runtime.snapshots import transfer as transfer_module
from raftnode.runtime.snapshots.transfer import SnapshotTransfer, TransferOutcomes
from raftnode.runtime.writes.applier import Applier
from raftnode.statemachine.kv import KeyValueStore
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, LogSettings
from raftnode.storage.snapshots import snapshot_reader
from raftnode.storage.snapshots.snapshot_store import SnapshotDamage, Snapshots

END = LogPosition(Epoch(3), Offset(100))
ID = SnapshotId.at(END)
HEAD = SnapshotHead(
    raft_version=2, formation_completed=True, voter_record=VoterRecordId(Offset(2), Epoch(1))
)
STATE = [
    StateRecord(b"key %03d" % number, b"v" * 200, Offset(number), Epoch(1)) for number in range(80)
]


class End:
    """One side: a disk with a log, a store and what carries snapshots."""

    def __init__(self, storage: Storage, room: bool = True) -> None:
        self.storage = storage
        self.snapshots = Snapshots(Files(storage.disk), DIRECTORY, 2, lambda: None)
        self.applier = Applier(storage.log, KeyValueStore())
        self.reads = CommittedReads(storage.log, self.applier, barrier=None)
        self.events: list[object] = []
        self.answers: list[FetchSnapshotResponse] = []
        self.errors: list[BaseException] = []
        self.installed: list[SnapshotId] = []
        self.pieces: list[tuple[str, int]] = []
        self.transfer = SnapshotTransfer(
            self.snapshots,
            storage.log,
            self.applier,
            TransferOutcomes(
                post=self.events.append,
                respond=lambda _, response: self.answers.append(response),
                on_error=self.errors.append,
                on_installed=lambda snapshot: self.installed.append(snapshot.snapshot_id),
                on_piece=lambda direction, size: self.pieces.append((direction, size)),
            ),
            room_for=lambda _: room,
        )
        self.applying = asyncio.get_running_loop().create_task(self.applier.run())

    def serve(self, position: int, size: int, snapshot: LogPosition = END) -> None:
        response = FetchSnapshotResponse(
            ErrorCode.NONE, Epoch(3), ReplicaKey(NodeId(1), uuid.UUID(int=7)), snapshot, position
        )
        self.transfer.serve(ServeSnapshot(1, response, size))

    async def ask(self, position: int, size: int, snapshot: LogPosition = END):
        self.serve(position, size, snapshot)
        await until(lambda: bool(self.answers))
        return self.answers.pop()

    async def event(self):
        await until(lambda: bool(self.events or self.errors))
        if self.errors:
            raise self.errors[0]
        return self.events.pop(0)

    async def close(self) -> None:
        self.applying.cancel()
        with contextlib.suppress(asyncio.CancelledError, StorageFailedError):
            await self.applying
        await asyncio.to_thread(self.transfer.close)


def fresh() -> Storage:
    disk = FaultDisk(random.Random(0))
    disk.make_directory(DIRECTORY)
    return Storage(disk, Log.open(Files(disk), DIRECTORY, LogSettings(now_ms=lambda: 5)))


@pytest.fixture
async def ends():
    made = [End(fresh()), End(fresh())]
    made[0].snapshots.write(ID, HEAD, STATE, now_ms=1, pause=lambda: None)
    yield made
    for one in made:
        await one.close()


async def carry(leader: End, follower: End, size: int = 5000) -> object:
    """Piece by piece, until the follower's storage has read it all."""
    position = 0
    while True:
        piece = await leader.ask(position, size)
        assert piece.error is ErrorCode.NONE
        follower.transfer.store(StoreSnapshotPiece(END, position, piece.size, piece.data))
        stored = await follower.event()
        if not isinstance(stored, SnapshotPieceStored):
            return stored
        position = stored.end
        if position == piece.size:
            follower.transfer.verify(END)
            return await follower.event()


async def test_a_snapshot_arrives_and_log_and_state_go_on_from_it(ends):
    leader, follower = ends
    follower.storage.append(b"old", key=b"gone")
    follower.storage.log.flush()
    follower.applier.committed(Offset(1), Offset(1))
    assert await follower.applier.wait_applied(Offset(1), timeout_ms=LONG_MS)
    verified = await carry(leader, follower)
    assert isinstance(verified, SnapshotVerified)
    assert verified.head.position == END
    assert follower.applier.kv.get(b"gone") is not None  # until it is in place
    await follower.transfer.install(verified.head)
    assert follower.installed == [ID]
    log = follower.storage.log
    assert (log.start_offset, log.end_offset) == (100, 100)
    assert follower.applier.kv.next_offset == 100
    assert len(follower.applier.kv) == 80
    assert follower.applier.kv.get(b"gone") is None
    log.append([follower.storage.batch(b"new", key=b"key 000", epoch=3)])
    log.flush()
    follower.applier.committed(Offset(101), Offset(101))
    assert await follower.applier.wait_applied(Offset(101), timeout_ms=LONG_MS)
    assert follower.applier.kv.get(b"key 000").value == b"new"
    content = leader.storage.disk.content(DIRECTORY / ID.file_name)
    assert follower.storage.disk.content(DIRECTORY / ID.file_name) == content
    assert sum(size for what, size in leader.pieces if what == "sent") == len(content)
    assert sum(size for what, size in follower.pieces if what == "fetched") == len(content)
    # It is whole here too: given to others.
    assert (await follower.ask(0, 50)).data == content[:50]


async def test_the_state_before_is_given_back_bit_by_bit_beside_the_loop(ends, monkeypatch):
    """A million entries in one go are a while in which the loop stands still."""
    leader, follower = ends
    for number in range(300):
        follower.storage.append(b"old", key=b"gone %d" % number)
    follower.storage.log.flush()
    follower.applier.committed(Offset(300), Offset(300))
    assert await follower.applier.wait_applied(Offset(300), timeout_ms=LONG_MS)
    before, threads = follower.applier.kv, set[int]()
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        threads.add(threading.get_ident())

    let_go = KeyValueStore.let_go
    monkeypatch.setattr(KeyValueStore, "let_go", lambda store, _: let_go(store, pause))
    verified = await carry(leader, follower)
    await follower.transfer.install(verified.head)
    after = follower.applier.kv
    await until(lambda: len(before) == 0 and before.get(b"gone 299") is None and pauses > 100)
    assert threading.get_ident() not in threads
    assert (len(after), after.get(b"key 000").value) == (80, b"v" * 200)


async def test_errors_of_serving(ends):
    leader, _ = ends
    size = (await leader.ask(0, 1)).size
    assert (await leader.ask(size, 10)).error is ErrorCode.POSITION_OUT_OF_RANGE
    assert (await leader.ask(-1, 10)).error is ErrorCode.POSITION_OUT_OF_RANGE
    other = LogPosition(Epoch(3), Offset(99))
    assert (await leader.ask(0, 10, other)).error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert len((await leader.ask(size - 3, 10)).data) == 3


async def test_damage_on_the_way_is_refused_and_nothing_changes(ends, monkeypatch):
    leader, follower = ends
    real = leader.ask

    async def damaged(position: int, size: int) -> FetchSnapshotResponse:
        piece = await real(position, size)
        if position:
            piece = FetchSnapshotResponse(
                piece.error,
                piece.epoch,
                piece.leader,
                END,
                position,
                None,
                piece.size,
                bytes([piece.data[0] ^ 1]) + piece.data[1:],
            )
        return piece

    monkeypatch.setattr(leader, "ask", damaged)
    refused = await carry(leader, follower)
    assert isinstance(refused, SnapshotRefused)
    assert follower.snapshots.ids() == []
    assert (follower.storage.log.start_offset, follower.applier.kv.next_offset) == (0, 0)
    monkeypatch.undo()
    assert isinstance(await carry(leader, follower), SnapshotVerified)


async def test_without_room_nothing_is_written():
    leader, follower = End(fresh()), End(fresh(), room=False)
    leader.snapshots.write(ID, HEAD, STATE, now_ms=1, pause=lambda: None)
    refused = await carry(leader, follower)
    assert isinstance(refused, SnapshotRefused)
    assert "not enough free space" in refused.reason
    assert not [n for n in follower.storage.disk.listdir(str(DIRECTORY)) if "incoming" in n]
    for one in (leader, follower):
        await one.close()


@pytest.mark.without(
    "runtime.snapshots.transfer:SnapshotTransfer._load",
    "if snapshot_file is None or head is None:",
    "if snapshot_file is None:",
)
@pytest.mark.rule("P25")
async def test_one_that_does_not_name_its_voters_record_is_refused(ends):
    _, follower = ends
    old = End(fresh())
    old.snapshots.write(ID, SnapshotHead(), STATE, now_ms=1, pause=lambda: None)
    refused = await carry(old, follower)
    assert isinstance(refused, SnapshotRefused)
    assert "voters" in refused.reason
    await old.close()


async def test_what_is_dropped_is_gone_and_reading_it_ends(ends, monkeypatch):
    leader, follower = ends
    monkeypatch.setattr(snapshot_reader, "PAUSE_BYTES", 100)
    piece = await leader.ask(0, 1 << 20)
    follower.transfer.store(StoreSnapshotPiece(END, 0, piece.size, piece.data))
    assert isinstance(await follower.event(), SnapshotPieceStored)
    follower.transfer.verify(END)
    follower.transfer.drop(END)
    refused = await follower.event()
    assert isinstance(refused, SnapshotRefused)
    await until(
        lambda: not [n for n in follower.storage.disk.listdir(str(DIRECTORY)) if "incoming" in n]
    )


async def test_a_reader_that_waits_below_the_new_start_is_told_where_to_go_on(ends):
    leader, follower = ends
    reading = asyncio.get_running_loop().create_task(
        follower.reads.read(Offset(5), max_bytes=1000, max_wait_ms=LONG_MS)
    )
    await asyncio.sleep(0)
    verified = await carry(leader, follower)
    await follower.transfer.install(verified.head)
    follower.applier.committed(Offset(100), Offset(100))
    with pytest.raises(RequestError, match="Read on from offset 100") as told:
        await reading
    assert told.value.error == "OFFSET_OUT_OF_RANGE"
    with pytest.raises(RequestError, match="Read on from offset 100"):
        await follower.reads.read(Offset(99), max_bytes=1000, max_wait_ms=0)


async def test_nothing_is_applied_while_it_is_put_in_place(ends):
    leader, follower = ends
    verified = await carry(leader, follower)
    async with follower.applier.paused():
        follower.storage.append(b"x")
        follower.storage.log.flush()
        follower.applier.committed(Offset(1), Offset(1))
        assert not await follower.applier.wait_applied(Offset(1), timeout_ms=30)
    assert await follower.applier.wait_applied(Offset(1), timeout_ms=LONG_MS)
    await follower.transfer.install(verified.head)
    assert follower.applier.kv.next_offset == 100


@pytest.mark.parametrize("call", ["pwrite", "rename", "fsync"])
async def test_a_failing_disk_ends_the_node(ends, call):
    leader, follower = ends
    follower.storage.disk.faults.append(Fault(call, errno.EIO))

    async def all_of_it() -> None:
        verified = await carry(leader, follower)
        await follower.transfer.install(verified.head)

    with pytest.raises(StorageFailedError):
        await all_of_it()


async def test_trimming_beside_the_loop_and_again_is_fine(ends):
    leader, _ = ends
    log = leader.storage.log
    for number in range(10):
        log.append([leader.storage.batch(b"%d" % number * 50)])
    leader.transfer.trim(Offset(0))
    await asyncio.sleep(0.01)
    assert leader.errors == []
    assert log.start_offset == 0


async def test_a_leader_checks_what_it_gives_out_and_says_that_it_is_damaged(ends):
    leader, _ = ends
    damaged: list[SnapshotDamage] = []
    leader.transfer._outcomes = replace(leader.transfer._outcomes, on_damaged=damaged.append)
    await leader.ask(0, 5000)
    await asyncio.to_thread(leader.transfer._checking.submit(lambda: None).result)
    await leader.ask(5000, 5000)
    assert damaged == []
    leader.storage.disk.flip_bit(DIRECTORY / ID.file_name, 9000, 2)
    # Looked at a moment ago: not again for every follower that begins.
    await leader.ask(0, 5000)
    await asyncio.to_thread(leader.transfer._checking.submit(lambda: None).result)
    assert damaged == []
    leader.transfer._checked = ID, leader.transfer._checked[1] - transfer_module.CHECK_AGAIN_S
    await leader.ask(0, 5000)
    await until(lambda: bool(damaged))
    assert damaged[0].snapshot_id == ID
    assert ID.file_name in damaged[0].problem
    leader.snapshots.set_aside(damaged[0], Offset(0))
    assert (await leader.ask(0, 5000)).error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert len(damaged) == 1


@pytest.mark.parametrize("call", ["pread", "open"])
async def test_a_piece_that_cannot_be_read_costs_the_snapshot_and_not_the_node(ends, call):
    leader, _ = ends
    damaged: list[SnapshotDamage] = []
    leader.transfer._outcomes = replace(leader.transfer._outcomes, on_damaged=damaged.append)
    assert (await leader.ask(5000, 5000)).error is ErrorCode.NONE
    leader.storage.disk.faults.append(Fault(call, errno.EIO, path_part=".checkpoint"))
    assert (await leader.ask(10_000, 5000)).error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert [one.snapshot_id for one in damaged] == [ID]
    assert "Input/output error" in damaged[0].problem
    assert leader.errors == []
    # The log goes on.
    leader.storage.append(b"more")
    leader.storage.log.flush()
    await asyncio.to_thread(leader.snapshots.set_aside, damaged[0], Offset(0))
    assert leader.snapshots.newest() is None


async def test_a_piece_of_one_that_is_set_aside_meanwhile_is_no_damage(ends, monkeypatch):
    """It has another name by the time it is opened, which says nothing of its bytes."""
    leader, _ = ends
    damaged: list[SnapshotDamage] = []
    leader.transfer._outcomes = replace(leader.transfer._outcomes, on_damaged=damaged.append)
    disk = leader.storage.disk
    opened = disk.open

    def open_late(path: str, flags: int, mode: int) -> int:
        if path.endswith(ID.file_name):
            found = SnapshotDamage(ID, "rotten", leader.snapshots.now_s())
            assert leader.snapshots.set_aside(found, Offset(0))
        return opened(path, flags, mode)

    monkeypatch.setattr(disk, "open", open_late)
    assert (await leader.ask(5000, 5000)).error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert (damaged, leader.errors) == ([], [])


async def test_a_file_that_has_become_shorter_is_damaged_too(ends):
    leader, _ = ends
    damaged: list[SnapshotDamage] = []
    leader.transfer._outcomes = replace(leader.transfer._outcomes, on_damaged=damaged.append)
    size = (await leader.ask(5000, 5000)).size
    file = Files(leader.storage.disk).open(DIRECTORY / ID.file_name)
    file.truncate(size - 1)
    file.close()
    last = await leader.ask(size - 100, 5000)
    assert last.error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert [one.snapshot_id for one in damaged] == [ID]
    Files(leader.storage.disk).unlink(DIRECTORY / ID.file_name)
    assert (await leader.ask(5000, 10)).error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert [one.snapshot_id for one in damaged] == [ID, ID]


async def test_want_of_descriptors_is_no_damage_and_ends_the_node(ends):
    leader, _ = ends
    damaged: list[SnapshotDamage] = []
    leader.transfer._outcomes = replace(leader.transfer._outcomes, on_damaged=damaged.append)
    leader.storage.disk.faults.append(Fault("open", errno.EMFILE, path_part=".checkpoint"))
    assert leader.snapshots.damage_of(ID, lambda: None) is None
    leader.storage.disk.faults.append(Fault("open", errno.EMFILE, path_part=".checkpoint"))
    leader.serve(5000, 5000)
    await until(lambda: bool(leader.errors))
    await asyncio.sleep(0.02)
    assert [str(one).startswith("open of") for one in leader.errors] == [True]
    assert leader.answers == []
    assert damaged == []
    with pytest.raises(StorageFailedError):
        leader.snapshots.ids()


@pytest.mark.parametrize("call", ["pwrite", "fsync", "create"])
async def test_room_that_goes_on_the_way_costs_the_transfer_alone(ends, call):
    leader, follower = ends
    follower.storage.disk.faults.append(Fault(call, errno.ENOSPC, path_part=".incoming"))
    refused = await carry(leader, follower)
    assert isinstance(refused, SnapshotRefused)
    assert "not enough free space" in refused.reason
    assert follower.storage.disk.faults == []
    assert not [n for n in follower.storage.disk.listdir(str(DIRECTORY)) if "incoming" in n]
    # From its beginning once more, on the same storage.
    assert isinstance(await carry(leader, follower), SnapshotVerified)


async def test_a_failing_disk_on_the_way_ends_it(ends):
    leader, follower = ends
    follower.storage.disk.faults.append(Fault("pwrite", errno.EIO, path_part=".incoming"))
    with pytest.raises(StorageFailedError):
        await carry(leader, follower)
    with pytest.raises(StorageFailedError):
        follower.snapshots.ids()
