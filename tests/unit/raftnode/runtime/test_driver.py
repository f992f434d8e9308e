"""Effects are carried out in order, what must be durable is, and after a failure nothing is."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from proofkit.faultdisk import Fault, FaultDisk
from raftnode.api.service import NewRecord
from raftnode.core.effects import (
    AppendAccepted,
    AppendBatches,
    Done,
    Effect,
    Fact,
    Halt,
    HighWatermarkAdvanced,
    LeadershipLost,
    PersistClusterId,
    PersistLatch,
    PersistQuorumState,
    ProveDisk,
    Refused,
    SendRequest,
    SendResponse,
    ServeFetch,
    TruncateLog,
)
from raftnode.core.events import AppendRequested, ConfirmRequested, LogFlushed, TimePassed
from raftnode.core.log_index import LogIndex
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    ErrorCode,
    FetchResponse,
    VoteResponse,
)
from raftnode.core.reasons.halts import (
    StorageFenced,
    TruncationBelowHighWatermark,
    UnknownRaftVersion,
    UnlistedVoterIds,
)
from raftnode.core.reasons.refusals import DiskFull
from raftnode.core.records import Batch
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.errors import ProtocolHaltError, StorageFailedError, StorageStaleError
from raftnode.logformat import Record, encode_data_batch
from raftnode.runtime import driver as driver_module
from raftnode.runtime import reason_sentences
from raftnode.runtime.disk import cold_reads
from raftnode.runtime.disk.cold_reads import OBSERVER_READS, ColdReads
from raftnode.runtime.disk.log_reads import LogReader
from raftnode.runtime.driver import ClientParts, Driver, Parts, PeerParts, StorageParts
from raftnode.runtime.inquiries import Inquiries
from raftnode.runtime.snapshots.transfer import SnapshotTransfer, TransferOutcomes
from raftnode.runtime.writes.appends import Appends
from raftnode.runtime.writes.applier import Applier
from raftnode.runtime.writes.flusher import Flusher
from raftnode.storage.directory.directory import DataDirectory
from raftnode.storage.files import Files
from raftnode.storage.log.log import Log, OffsetOutsideError

from .conftest import LONG_S, until

ROOT = Path("/data")
RECORD = NewRecord(b"k", b"v")
KEY = ReplicaKey(NodeId(1), uuid.UUID(int=1))
VOTE = VoteResponse(ErrorCode.NONE, Epoch(4), None, granted=True)


class ScriptedCore:
    """Returns the effects that the test has written down, whatever the event is."""

    def __init__(self) -> None:
        self.events = []
        self.script: list[Sequence[Effect]] = []
        self.deadline: int | None = None

    def handle(self, event, now_ms):
        self.events.append(event)
        if isinstance(event, TimePassed | LogFlushed):
            return []
        return list(self.script.pop(0)) if self.script else []

    def next_deadline_ms(self):
        return self.deadline


class Post:
    """Remembers what was to be sent, and what the disk held then."""

    def __init__(self, directory: DataDirectory) -> None:
        self.directory = directory
        self.sent = []
        self.epochs_on_disk = []

    def send(self, target, request) -> None:
        self.sent.append((target, request))
        self.epochs_on_disk.append(self.directory.quorum_state.epoch)

    def respond(self, request_id, response) -> None:
        self.sent.append((request_id, response))
        self.epochs_on_disk.append(self.directory.quorum_state.epoch)


class Bench:
    """A driver with a scripted core and all else real, on a disk in memory."""

    def __init__(self) -> None:
        self.disk = FaultDisk(random.Random(0))
        self.disk.make_directory(ROOT)
        self.directory = DataDirectory.open(ROOT, NodeId(1), Files(self.disk))
        self.log = self.directory.open_log()
        self.core = ScriptedCore()
        self.index = LogIndex()
        self.turns = 0
        self.turned = asyncio.Event()
        self.errors = []
        self.driver = Driver(self._turn, self.errors.append)
        self.flusher = Flusher(
            self.log,
            self.index,
            on_flushed=self.driver.post,
            on_error=self.errors.append,
            on_seconds=lambda _: None,
        )
        self.inquiries = Inquiries(self.driver.post, lambda: (None, None))
        self.appends = Appends(
            self.driver.post,
            self.inquiries.next_id,
            self.inquiries.error_of,
            queue_bytes_max=10_000,
            batch_bytes_max=1000,
            linger_ms=0,
            flushing_s=lambda: self.flusher.in_flight_s,
            on_commit=lambda _: None,
        )
        self.applier = Applier(self.log)
        self.voters = set()
        self.cold_reads = ColdReads(self.log, lambda key: key in self.voters, self.errors.append)
        self.post = Post(self.directory)
        self.transfer = SnapshotTransfer(
            self.directory.open_snapshots(2),
            self.log,
            self.applier,
            TransferOutcomes(
                post=self.driver.post,
                respond=self.post.respond,
                on_error=self.errors.append,
                on_installed=lambda _: None,
                on_piece=lambda _direction, _size: None,
            ),
            room_for=lambda _: True,
        )
        self.parts = Parts(
            self.core,
            StorageParts(self.directory, self.log, self.flusher, self.cold_reads),
            ClientParts(self.appends, self.inquiries, self.applier),
            PeerParts(self.post, self.transfer),
        )
        self.task = asyncio.get_running_loop().create_task(self.driver.run(self.parts))

    def _turn(self) -> None:
        self.turns += 1
        self.turned.set()

    async def play(self, *effects: Effect) -> None:
        """Let the core return these effects for one event; wait until they are carried out."""
        self.core.script.append(effects)
        self.driver.post(ConfirmRequested(99, False))
        while self.core.script or ConfirmRequested(99, False) not in self.core.events:
            await self._turn_or_end()
        self.core.events.remove(ConfirmRequested(99, False))
        await asyncio.sleep(0)

    async def _turn_or_end(self) -> None:
        self.turned.clear()
        waiting = asyncio.get_running_loop().create_task(self.turned.wait())
        await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self.task.done():
            self.task.result()
            raise AssertionError("the driver has ended")

    def batch(self, base: int, epoch: int = 4) -> Batch:
        data = encode_data_batch([Record(b"k", b"v")], 1)
        self.index.append(Batch(Offset(base), Offset(base), Epoch(epoch), data))
        return Batch(Offset(base), Offset(base), Epoch(epoch), data)

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await asyncio.to_thread(self.cold_reads.close)
        await asyncio.to_thread(self.flusher.stop)
        await asyncio.to_thread(self.transfer.close)
        self.driver.close()


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    await made.close()


async def test_a_vote_is_on_disk_before_it_is_sent(bench, replica_key):
    state = QuorumState(Epoch(4), None, replica_key)
    await bench.play(PersistQuorumState(state), SendResponse(7, VOTE))
    assert bench.post.sent == [(7, VOTE)]
    assert bench.post.epochs_on_disk == [4]
    bench.disk.crash()
    assert DataDirectory.open(ROOT, NodeId(1), Files(bench.disk)).quorum_state == state


@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename"])
async def test_a_vote_that_could_not_be_written_is_never_sent(bench, replica_key, call):
    bench.disk.faults.append(Fault(call, path_part="quorum-state"))
    state = QuorumState(Epoch(4), None, replica_key)
    with pytest.raises(StorageFailedError):
        await bench.play(PersistQuorumState(state), SendResponse(7, VOTE))
    assert bench.post.sent == []
    assert bench.task.done()


@pytest.mark.rule("S36")
@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename"])
async def test_nothing_follows_a_proof_of_the_disk_that_failed(bench, call):
    bench.disk.faults.append(Fault(call, path_part="quorum-state"))
    with pytest.raises(StorageFailedError):
        await bench.play(ProveDisk(), SendResponse(7, VOTE))
    assert bench.post.sent == []


async def test_a_driver_that_dies_in_the_middle_of_an_event_does_not_finish_it(
    bench, replica_key, monkeypatch
):
    begun, go_on = asyncio.Event(), threading.Event()
    loop, write = asyncio.get_running_loop(), bench.directory.write_quorum_state

    def slow(state: QuorumState) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(LONG_S)
        write(state)

    monkeypatch.setattr(bench.directory, "write_quorum_state", slow)
    state = QuorumState(Epoch(4), None, replica_key)
    bench.core.script.append([PersistQuorumState(state), SendResponse(7, VOTE)])
    bench.driver.post(ConfirmRequested(1, False))
    await begun.wait()
    bench.driver.die()
    go_on.set()
    await bench.task
    assert bench.post.sent == []


@pytest.mark.without(
    "runtime.driver:Driver._handle_and_send",
    "outgoing, self._outgoing = self._outgoing, []",
    "outgoing = [] if barrier else self._outgoing",
)
async def test_what_is_sent_leaves_before_a_barrier_that_follows(bench, replica_key):
    """A disk that hangs must not keep what came before it."""
    before = bench.directory.quorum_state.epoch
    state = QuorumState(Epoch(4), None, replica_key)
    await bench.play(SendResponse(7, VOTE), PersistQuorumState(state), SendResponse(8, VOTE))
    assert bench.post.sent == [(7, VOTE), (8, VOTE)]
    assert bench.post.epochs_on_disk == [before, 4]


async def test_the_events_that_wait_are_one_turn_in_which_clients_hear_before_peers(bench):
    await bench.play()
    heard = []
    bench.post.respond = lambda request_id, _: heard.append(request_id)
    bench.appends.submit([RECORD], heard.append)
    bench.core.script += [
        [AppendAccepted(1, Offset(0), Offset(0), Epoch(4))],
        [SendResponse(7, VOTE)],
        [HighWatermarkAdvanced(Offset(1), Offset(0))],
    ]
    bench.appends.pump()
    for _ in range(2):
        bench.driver.post(ConfirmRequested(1, False))
    turns = bench.turns
    await bench._turn_or_end()
    assert bench.turns == turns + 1
    outcome, answer = heard
    assert (outcome.base_offset, answer) == (0, 7)


async def test_a_turn_that_fails_sends_nothing(bench):
    bench.core.script += [[SendResponse(7, VOTE)], [Halt(StorageFenced(KEY))]]
    for _ in range(2):
        bench.driver.post(ConfirmRequested(1, False))
    with pytest.raises(StorageStaleError):
        await bench.task
    assert bench.driver.dead
    assert bench.post.sent == []


async def test_a_dead_driver_handles_no_event(bench):
    bench.driver.die()
    bench.driver.post(ConfirmRequested(1, False))
    await bench.task
    assert bench.driver.dead
    assert not any(isinstance(event, ConfirmRequested) for event in bench.core.events)


async def test_a_latch_and_a_cluster_id_are_on_disk_before_the_answer(bench):
    latch = Latch("cluster", VoterSet.of([Voter(bench.directory.key, Endpoint("h", 1))]))
    answer = asyncio.get_running_loop().create_task(
        bench.inquiries.ask(
            lambda n: ConfirmRequested(n, False), timeout_ms=5000, late_error="INTERNAL"
        )
    )
    bench.core.script.append([PersistLatch(latch), Done(1)])
    assert await answer == Done(1)
    assert bench.directory.latch == latch
    await bench.play(PersistClusterId("cluster"))  # the same again is fine
    assert bench.directory.cluster_id == "cluster"


async def test_a_client_s_batch_gets_its_place_and_a_fetched_one_keeps_its_bytes(bench):
    await bench.play(AppendBatches((bench.batch(0),)))
    stored = bench.log.read(Offset(0), 1000, Offset(1))
    await bench.play(TruncateLog(Offset(0)))
    assert bench.log.end_offset == 0
    await bench.play(AppendBatches((Batch(Offset(0), Offset(0), Epoch(4), stored),)))
    assert bench.log.read(Offset(0), 1000, Offset(1)) == stored


async def test_an_append_is_flushed_soon_and_that_is_an_event(bench):
    await bench.play(AppendBatches((bench.batch(0),)))
    while not any(isinstance(event, LogFlushed) for event in bench.core.events):
        await bench._turn_or_end()
    assert bench.log.flushed_offset == 1


async def test_an_append_that_begins_an_epoch_or_segment_waits_off_the_loop(bench, monkeypatch):
    threads, append = [], bench.log.append

    def noted(batches) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        append(batches)

    monkeypatch.setattr(bench.log, "append", noted)
    await bench.play(AppendBatches((bench.batch(0),)), SendResponse(1, VOTE))
    await bench.play(AppendBatches((bench.batch(1),)))
    await bench.play(AppendBatches((bench.batch(2, epoch=5),)))
    assert threads == [False, True, False]
    assert bench.log.end_offset == 3


async def test_what_is_served_is_the_log_s_bytes_with_the_response_of_the_core(bench, replica_key):
    await bench.play(AppendBatches((bench.batch(0), bench.batch(1))))
    response = FetchResponse(ErrorCode.NONE, Epoch(4), replica_key, high_watermark=Offset(1))
    await bench.play(ServeFetch(5, response, Offset(0), 10_000, replica_key))
    await bench.play(ServeFetch(6, response, Offset(2), 10_000, replica_key))
    (_, full), (_, empty) = bench.post.sent
    assert b"".join(batch.data for batch in full.batches) == bench.log.read(
        Offset(0), 10_000, Offset(2)
    )
    assert (full.high_watermark, empty.batches) == (1, ())


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.without(
    "runtime.driver:Driver._handle", "and self._served_bytes < TURN_SERVED_BYTES", ""
)
async def test_a_turn_serves_so_many_bytes_and_the_next_goes_on(
    bench, replica_key, monkeypatch, together
):
    """Frames of elections arrive between turns: they must not wait for answers to all replicas."""
    batch = bench.batch(0)
    await bench.play(AppendBatches((batch,)))
    monkeypatch.setattr(driver_module, "TURN_SERVED_BYTES", 2 * len(batch.data))
    effects = [fetch(number, 0, replica_key) for number in range(5)] + [SendResponse(5, VOTE)]
    bench.core.script += [effects] if together else [[effect] for effect in effects]
    for _ in bench.core.script:
        bench.driver.post(ConfirmRequested(1, False))
    counts = [0]
    for _ in range(50):
        await asyncio.sleep(0)
        if len(bench.post.sent) != counts[-1]:
            counts.append(len(bench.post.sent))
    assert counts == [0, 2, 4, 6]
    assert [request_id for request_id, _ in bench.post.sent] == [*range(6)]


class HeldReads:
    """Reads of the disk that wait, one for each start, until the test lets them go on."""

    def __init__(self, log: Log) -> None:
        self.read = log.read
        self.begun: dict[int, threading.Event] = {}
        self.go_on: dict[int, threading.Event] = {}
        self.error: Exception | None = None
        self.starts: list[int] = []

    def hold(self, start: int) -> None:
        self.begun[start], self.go_on[start] = threading.Event(), threading.Event()

    def __call__(self, start: Offset, max_bytes: int, end: Offset) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        self.starts.append(start)
        if start in self.go_on:
            self.begun[start].set()
            assert self.go_on[start].wait(LONG_S)
        if self.error is not None:
            raise self.error
        return self.read(start, max_bytes, end)


@pytest.fixture
async def cold(bench, monkeypatch):
    """Three records that are on the disk alone, and one in memory."""
    for number in range(3):
        await bench.play(AppendBatches((bench.batch(number),)))
    bench.log._recent.clear()
    await bench.play(AppendBatches((bench.batch(3),)))
    reads = HeldReads(bench.log)
    monkeypatch.setattr(bench.log, "read", reads)
    yield reads
    for held in reads.go_on.values():
        held.set()


def fetch(request_id: int, start: int, replica_key: ReplicaKey) -> ServeFetch:
    response = FetchResponse(ErrorCode.NONE, Epoch(4), replica_key, high_watermark=Offset(1))
    return ServeFetch(request_id, response, Offset(start), 10_000, replica_key)


async def answered(bench: Bench, *request_ids: int) -> list[FetchResponse]:
    """Wait until so many have been answered, and no other has."""
    await until(lambda: len(bench.post.sent) >= len(request_ids))
    sent = dict(bench.post.sent)
    assert sorted(sent) == sorted(request_ids)
    return [sent[request_id] for request_id in request_ids]


def other_key(number: int) -> ReplicaKey:
    return ReplicaKey(NodeId(number), uuid.UUID(int=number))


@pytest.mark.rule("S35")
async def test_a_replica_whose_cold_reads_hang_takes_no_thread_of_the_others(
    bench, cold, replica_key
):
    """It asks again after each timeout: at most one read is under way for it."""
    cold.hold(0)
    await bench.play(*(fetch(number, 0, replica_key) for number in range(1, 5)))
    await until(cold.begun[0].is_set)
    await bench.play(fetch(10, 1, other_key(8)), fetch(11, 2, other_key(9)))
    [_, _, one, two] = await answered(bench, 2, 3, 10, 11)
    assert [one.batches[0].base_offset, two.batches[0].base_offset] == [1, 2]
    cold.go_on[0].set()
    await answered(bench, 1, 2, 3, 4, 10, 11)


@pytest.mark.rule("S35")
async def test_of_fetches_for_the_same_records_only_the_last_one_waits(bench, cold, replica_key):
    """A disk that answers again has one read to do, not one for each that was given up."""
    cold.hold(0)
    await bench.play(*(fetch(number, 0, replica_key) for number in range(1, 5)))
    given_up = await answered(bench, 2, 3)
    assert [one.batches for one in given_up] == [(), ()]
    cold.go_on[0].set()
    under_way, _, _, last = await answered(bench, 1, 2, 3, 4)
    assert [one.batches[0].base_offset for one in (under_way, last)] == [0, 0]


@pytest.mark.rule("S35")
async def test_a_read_that_outlasts_its_fetch_answers_the_next_one(bench, cold, replica_key):
    """Else a replica whose reads take longer than its timeout would never get any."""
    cold.hold(0)
    await bench.play(fetch(1, 0, replica_key))
    await until(cold.begun[0].is_set)
    await bench.play(fetch(2, 0, replica_key), fetch(3, 1, replica_key))
    cold.go_on[0].set()
    [_, second, third] = await answered(bench, 1, 2, 3)
    assert [one.batches[0].base_offset for one in (second, third)] == [0, 1]
    assert cold.starts == [0, 1], "no read of its own for the second"


@pytest.mark.rule("S35")
async def test_a_read_from_before_a_truncation_answers_no_later_fetch(bench, cold, replica_key):
    cold.hold(0)
    await bench.play(fetch(1, 0, replica_key))
    await until(cold.begun[0].is_set)
    await bench.play(TruncateLog(Offset(2)))
    bench.index.truncate(Offset(2))
    await bench.play(AppendBatches((bench.batch(2, epoch=9),)), fetch(2, 0, replica_key))
    cold.go_on[0].set()
    assert [one.batches for one in await answered(bench, 1, 2)] == [(), ()]


@pytest.mark.rule("S35")
async def test_only_the_last_fetches_of_a_replica_wait_for_its_read(
    bench, cold, replica_key, monkeypatch
):
    monkeypatch.setattr(cold_reads, "WAITING_MAX", 1)
    cold.hold(0)
    await bench.play(*(fetch(number, number, replica_key) for number in range(3)))
    [given_up] = await answered(bench, 1)
    assert given_up.batches == ()
    cold.go_on[0].set()
    await answered(bench, 0, 1, 2)


@pytest.mark.rule("S35")
async def test_strangers_whose_cold_reads_hang_take_no_thread_of_a_voter(bench, cold, replica_key):
    cold.hold(0)
    bench.voters.add(replica_key)
    strangers = [other_key(number) for number in range(100, 100 + 2 * OBSERVER_READS)]
    await bench.play(*(fetch(key.node_id, 0, key) for key in strangers))
    await until(cold.begun[0].is_set)
    await bench.play(fetch(1, 1, replica_key))
    [voter] = await answered(bench, 1)
    assert voter.batches[0].base_offset == 1
    cold.go_on[0].set()
    await answered(bench, 1, *(key.node_id for key in strangers))


@pytest.mark.rule("S35")
@pytest.mark.without(
    "runtime.disk.cold_reads:ColdReads._serve", "and self._served_bytes < TURN_READ_BYTES", ""
)
async def test_a_turn_serves_so_many_bytes_of_old_records_and_the_next_goes_on(
    bench, cold, monkeypatch
):
    """The threads read on while the loop is busy: frames must not wait for answers to all."""
    keys = [other_key(number) for number in range(100, 120)]
    cold.hold(0)
    size = len(cold.read(Offset(0), 10_000, bench.log.end_offset))
    monkeypatch.setattr(cold_reads, "TURN_READ_BYTES", 2 * size)
    await bench.play(*(fetch(key.node_id, 0, key) for key in keys))
    await until(cold.begun[0].is_set)
    cold.go_on[0].set()
    deadline = time.monotonic() + LONG_S
    while len(cold.starts) < len(keys) and time.monotonic() < deadline:
        time.sleep(0.01)  # noqa: ASYNC251 - the loop is busy, and the threads are not
    time.sleep(0.1)  # noqa: ASYNC251
    counts = [0]
    for _ in range(100):
        await asyncio.sleep(0)
        if len(bench.post.sent) != counts[-1]:
            counts.append(len(bench.post.sent))
    assert counts == [*range(0, len(keys) + 1, 2)]
    assert sorted(dict(bench.post.sent)) == [key.node_id for key in keys]


async def test_a_cold_read_that_hangs_keeps_only_its_own_fetch_waiting(bench, cold, replica_key):
    cold.hold(0)
    await bench.play(fetch(1, 0, replica_key), SendResponse(2, VOTE), fetch(3, 3, replica_key))
    await bench.play(fetch(4, 1, other_key(9)))
    [_, recent, other] = await answered(bench, 2, 3, 4)
    assert recent.batches[0].base_offset == 3
    assert other.batches[0].base_offset == 1
    assert cold.begun[0].is_set()
    cold.go_on[0].set()
    [late, *_] = await answered(bench, 1, 2, 3, 4)
    assert late.batches[0].base_offset == 0


async def test_a_cold_read_brings_nothing_of_what_was_cut_meanwhile(bench, cold, replica_key):
    """Its response says the old epoch: records of a later one must not come with it."""
    cold.hold(0)
    await bench.play(fetch(1, 0, replica_key))
    await until(cold.begun[0].is_set)
    await bench.play(TruncateLog(Offset(2)))
    bench.index.truncate(Offset(2))
    await bench.play(AppendBatches((bench.batch(2, epoch=9),)))
    cold.go_on[0].set()
    [late] = await answered(bench, 1)
    assert (late.error, late.batches) == (ErrorCode.NONE, ())


async def test_what_was_trimmed_during_a_cold_read_is_asked_for_again(bench, cold, replica_key):
    cold.error = OffsetOutsideError(Offset(0), Offset(2), Offset(4))
    await bench.play(fetch(1, 0, replica_key))
    [late] = await answered(bench, 1)
    assert late.batches == ()
    assert bench.errors == []


async def test_a_cold_read_that_fails_ends_the_node_and_answers_no_fetch(bench, cold, replica_key):
    cold.error = StorageFailedError("unreadable")
    await bench.play(fetch(1, 0, replica_key))
    await until(lambda: bool(bench.errors))
    assert bench.errors == [cold.error]
    assert bench.post.sent == []


@pytest.mark.rule("S35")
async def test_a_read_that_cannot_begin_ends_the_node_instead_of_leaving_its_replica_waiting(
    bench, cold, replica_key, monkeypatch
):
    """The operating system may refuse a thread; a callback's error would reach only the journal."""
    cold.hold(0)
    await bench.play(fetch(1, 0, replica_key))
    await until(cold.begun[0].is_set)
    await bench.play(fetch(2, 1, replica_key))
    refused = RuntimeError("can't start new thread")

    def refuse(*_):
        raise refused

    monkeypatch.setattr(LogReader, "read_cold", refuse)
    cold.go_on[0].set()
    await until(lambda: bool(bench.errors))
    assert bench.errors == [refused]
    monkeypatch.undo()
    cold.go_on.clear()
    await bench.play(fetch(3, 1, replica_key))
    await until(lambda: len(bench.post.sent) > 1)
    assert 3 in dict(bench.post.sent)


async def test_writes_are_answered_by_what_the_core_says(bench):
    write = asyncio.get_running_loop().create_task(bench.appends.append([RECORD], 5000))
    bench.core.script.append([AppendAccepted(1, Offset(0), Offset(0), Epoch(4))])
    while not any(isinstance(event, AppendRequested) for event in bench.core.events):
        await bench._turn_or_end()
    await bench.play(HighWatermarkAdvanced(Offset(1), Offset(0)))
    assert (await write).base_offset == 0
    assert (bench.applier.high_watermark, bench.applier.applicable) == (1, 0)


async def test_refusals_and_lost_leadership_reach_their_writes(bench):
    write = asyncio.get_running_loop().create_task(bench.appends.append([RECORD], 5000))
    bench.core.script.append([Refused(1, DiskFull())])
    [outcome] = await asyncio.gather(write, return_exceptions=True)
    assert outcome.error == "STORAGE_FULL"
    other = asyncio.get_running_loop().create_task(bench.appends.append([RECORD], 5000))
    bench.core.script.append(
        [AppendAccepted(2, Offset(0), Offset(0), Epoch(4)), LeadershipLost(Epoch(4))]
    )
    [outcome] = await asyncio.gather(other, return_exceptions=True)
    assert (outcome.error, outcome.outcome) == ("LEADERSHIP_LOST", "unknown")


async def test_requests_are_sent_and_facts_break_nothing(bench, replica_key):
    request = BeginQuorumEpochRequest(Epoch(4), replica_key, replica_key, None)
    await bench.play(Fact("role_changed", (("epoch", 4),)), SendRequest(replica_key, request))
    assert bench.post.sent == [(replica_key, request)]


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (StorageFenced(KEY), StorageStaleError),
        (TruncationBelowHighWatermark(Offset(1), Offset(2)), ProtocolHaltError),
        (UnknownRaftVersion("log", 3, known=2), ProtocolHaltError),
        (UnlistedVoterIds("log", frozenset({NodeId(7)})), ProtocolHaltError),
    ],
)
async def test_a_halt_ends_everything_at_once(bench, reason, error):
    with pytest.raises(error, match=re.escape(reason_sentences.halt(reason))):
        await bench.play(Halt(reason), SendResponse(1, VOTE))
    assert bench.post.sent == []


async def test_a_deadline_brings_time_and_a_past_one_does_not_spin(bench):
    bench.core.deadline = 0
    bench.driver.post(TimePassed())
    for _ in range(3):
        await bench._turn_or_end()
    before = len(bench.core.events)
    await asyncio.sleep(0.05)
    assert len(bench.core.events) - before <= 60


async def test_the_backlog_is_what_waits(bench):
    assert bench.driver.backlog <= 1
    for _ in range(5):
        bench.driver.post(TimePassed())
    assert bench.driver.backlog >= 5
