"""A power cut at every modifying call, then a reopen; and random histories against an oracle."""

from __future__ import annotations

import contextlib
import random
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proofkit.faultdisk import FaultDisk, PowerCutError
from raftnode.core.records import AddVoter, Batch, LeaderChange
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.errors import StorageCorruptError
from raftnode.logformat import (
    Record,
    decode_batches,
    encode_control_batch,
    encode_data_batch,
    stamp,
)
from raftnode.storage.directory.directory import DataDirectory, format_storage
from raftnode.storage.files import Files
from raftnode.storage.inspection.log_reader import find_log
from raftnode.storage.inspection.verification import Verification
from raftnode.storage.log.log import Log, LogSettings

ROOT = Path("/data")
ONE = NodeId(1)
KEY = ReplicaKey(ONE, uuid.UUID(int=0x1234))
OTHER = ReplicaKey(NodeId(2), uuid.UUID(int=0x5678))
LATCH = Latch("cluster", VoterSet.of([Voter(KEY, Endpoint("a", 1)), Voter(OTHER)]))
SMALL = LogSettings(segment_bytes=700, now_ms=lambda: 5)
LARGER = LogSettings(segment_bytes=9000, now_ms=lambda: 5)
"""So that indexes have entries within a segment and not at its end only."""


def data_batch(base: int, epoch: int, values: list[bytes]) -> Batch:
    records = [Record(b"k", value) for value in values]
    data = stamp(encode_data_batch(records, 7), Offset(base), Epoch(epoch))
    return Batch(Offset(base), Offset(base + len(values) - 1), Epoch(epoch), data)


def leader_change(base: int, epoch: int) -> Batch:
    record = LeaderChange(KEY, (KEY, OTHER), (KEY,))
    return Batch(Offset(base), Offset(base), Epoch(epoch), b"", (record,))


def new_disk(seed: int) -> FaultDisk:
    disk = FaultDisk(random.Random(seed))
    disk.make_directory(ROOT)
    return disk


def everything(log: Log) -> bytes:
    parts = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset)
        parts.append(data)
        offset = decode_batches(data)[-1].end_offset
    return b"".join(parts)


class Oracle:
    """What was written, and how much of it was acknowledged as durable."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.durable = 0
        self.truncating_to: int | None = None

    @property
    def end(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def check(self, log: Log) -> None:
        """The log is a prefix of what was written, no shorter than what was durable."""
        floor = self.durable
        if self.truncating_to is not None:
            floor = min(floor, self.truncating_to)
        assert floor <= log.end_offset <= self.end
        kept = [batch for batch in self.batches if batch.end_offset <= log.end_offset]
        assert not kept or kept[-1].end_offset == log.end_offset
        assert (kept[-1].end_offset if kept else 0) == log.end_offset
        assert everything(log) == b"".join(batch.data for batch in kept)
        starts: list[tuple[int, int]] = []
        for batch in kept:
            if not starts or starts[-1][0] != batch.epoch:
                starts.append((batch.epoch, batch.base_offset))
        assert [(e.epoch, e.start_offset) for e in log.epochs] == starts
        assert [(b.base_offset, b.control) for b in log.recovered] == [
            (b.base_offset, b.control) for b in kept if b.control
        ]
        self.batches, self.durable = kept, log.end_offset
        self.truncating_to = None


def run_history(oracle: Oracle, log: Log, rng: random.Random, steps: int) -> None:
    """Random appends, flushes and truncations; the oracle knows of each before it begins."""
    epoch = oracle.batches[-1].epoch if oracle.batches else 0
    for _ in range(steps):
        action = rng.choices(["data", "epoch", "flush", "truncate"], [6, 1, 4, 1])[0]
        if action == "data":
            batches = []
            end = oracle.end
            for _ in range(rng.randint(1, 3)):
                values = [
                    rng.randbytes(rng.choice([3, 40, 300, 300, 3000]))
                    for _ in range(rng.randint(1, 3))
                ]
                batch = data_batch(end, epoch, values)
                batches.append(batch)
                end = batch.end_offset
            oracle.batches += batches
            log.append(batches)
        elif action == "epoch":
            epoch += rng.randint(1, 3)
            batch = leader_change(oracle.end, epoch)
            oracle.batches.append(replace(batch, data=encode_control_batch(batch, 5)))
            log.append([batch])
        elif action == "flush":
            oracle.durable = log.flush()
            assert oracle.durable == oracle.end
        elif oracle.batches:
            target = rng.choice(oracle.batches).base_offset
            oracle.truncating_to = target
            log.truncate(target)
            oracle.batches = [b for b in oracle.batches if b.end_offset <= target]
            oracle.durable = min(oracle.durable, target)
            oracle.truncating_to = None


def findings(disk: FaultDisk) -> list[str]:
    """What `raftnode log verify` says: indexes, control places and checkpoints against the log."""
    files = Files(disk)
    return [str(finding) for finding in Verification(files, find_log(files, ROOT)).run()]


def open_log(disk: FaultDisk, settings: LogSettings = SMALL) -> tuple[DataDirectory, Log]:
    directory = DataDirectory.open(ROOT, ONE, Files(disk))
    return directory, directory.open_log(settings)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
@example(seed=22714438)  # `was_written_in_two`
def test_nothing_flushed_is_lost_over_random_histories_and_crashes(seed: int) -> None:
    rng = random.Random(seed)
    disk = new_disk(seed)
    disk.short_writes = rng.random() < 0.2
    sizes = rng.choice([SMALL, LARGER])
    oracle = Oracle()
    for _ in range(4):
        try:
            directory, log = open_log(disk, sizes)
            assert log.rebuilt == ()
            assert findings(disk) == []
            oracle.check(log)
            if rng.random() < 0.8:
                disk.cut_power_at = disk.modifications + rng.randint(0, 80)
            run_history(oracle, log, rng, 25)
            if rng.random() < 0.3:
                log.close()
                directory.close()
                oracle.durable = oracle.end
        except PowerCutError:
            pass
        except StorageCorruptError as error:
            if not was_written_in_two(disk, error):
                raise
            return
        if rng.random() < 0.3:
            disk.kill()
        else:
            disk.crash()
    try:
        oracle.check(open_log(disk, sizes)[1])
    except StorageCorruptError as error:
        if not was_written_in_two(disk, error):
            raise


def was_written_in_two(disk: FaultDisk, error: StorageCorruptError) -> bool:
    """Whether a refused start may be that of a sector of which only the first half arrived.

    A write that came to an end within a sector, its rest lost there by a power cut and whole
    batches behind it kept: nothing tells that from rot, so it is not cut off.
    """
    return disk.short_writes and "it is not a torn tail" in str(error)


def fixed_history(oracle: Oracle, log: Log) -> None:
    run_history(oracle, log, random.Random(3), 30)


def modifications_of(seed: int, sizes: LogSettings) -> tuple[int, int]:
    disk = new_disk(seed)
    _, log = open_log(disk, sizes)
    before = disk.modifications
    fixed_history(Oracle(), log)
    return before, disk.modifications


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("seed", "sizes"),
    [pytest.param(1, SMALL, marks=[pytest.mark.extended, pytest.mark.nightly]), (2, LARGER)],
)
def test_log_survives_a_power_cut_at_every_call(seed: int, sizes: LogSettings) -> None:
    before, after = modifications_of(seed, sizes)
    assert after - before > 100
    for point in range(before, after, 1 if sizes is SMALL else 3):
        disk = new_disk(seed * 10_000 + point)
        oracle = Oracle()
        _, log = open_log(disk, sizes)
        disk.cut_power_at = point
        with pytest.raises(PowerCutError):
            fixed_history(oracle, log)
        disk.crash()
        # Recovery itself is cut too, a few times, before it is let through.
        for extra in range(2):
            disk.cut_power_at = disk.modifications + extra * 2
            with contextlib.suppress(PowerCutError):
                open_log(disk, sizes)
            disk.crash()
        _, log = open_log(disk, sizes)
        assert log.rebuilt == ()
        assert findings(disk) == []
        oracle.check(log)


@pytest.mark.parametrize("seed", range(8))
def test_a_format_that_was_cut_at_any_call_is_finished_by_the_next_open(seed: int) -> None:
    point = 0
    while True:
        disk = new_disk(seed * 1000 + point)
        disk.cut_power_at = point
        try:
            first = DataDirectory.open(ROOT, ONE, Files(disk)).key
        except PowerCutError:
            disk.crash()
            again = DataDirectory.open(ROOT, ONE, Files(disk))
            assert again.quorum_state == QuorumState()
            assert again.key.node_id == ONE
            disk.crash()
            assert DataDirectory.open(ROOT, ONE, Files(disk)).key == again.key
            point += 1
            continue
        disk.crash()
        assert DataDirectory.open(ROOT, ONE, Files(disk)).key == first
        break
    assert point > 30


@pytest.mark.parametrize("seed", range(4))
def test_a_format_with_a_latch_that_was_cut_ends_with_the_latch_or_blank(seed: int) -> None:
    point = 0
    while True:
        disk = new_disk(seed * 1000 + point)
        disk.cut_power_at = point
        try:
            format_storage(ROOT, ONE, files=Files(disk), directory_id=KEY.directory_id, latch=LATCH)
            break
        except PowerCutError:
            disk.crash()
        directory = DataDirectory.open(ROOT, ONE, Files(disk))
        if directory.key == KEY:
            assert directory.latch == LATCH
            assert directory.cluster_id == LATCH.cluster_id
        else:
            assert directory.latch is None
            assert directory.cluster_id is None
        point += 1
    disk.crash()
    assert DataDirectory.open(ROOT, ONE, Files(disk)).latch == LATCH


@pytest.mark.parametrize("seed", range(10))
def test_a_vote_that_was_cut_is_the_old_or_the_new_and_an_answered_one_stays(seed: int) -> None:
    old = QuorumState(Epoch(4), None, OTHER)
    new = QuorumState(Epoch(5), None, KEY)
    point = 0
    while True:
        disk = new_disk(seed * 1000 + point)
        directory = DataDirectory.open(ROOT, ONE, Files(disk))
        directory.write_quorum_state(old)
        disk.cut_power_at = disk.modifications + point
        try:
            directory.write_quorum_state(new)
        except PowerCutError:
            disk.crash()
            assert DataDirectory.open(ROOT, ONE, Files(disk)).quorum_state in (old, new)
            point += 1
            continue
        disk.crash()
        assert DataDirectory.open(ROOT, ONE, Files(disk)).quorum_state == new
        break
    assert point >= 5


@pytest.mark.parametrize("seed", range(10))
def test_a_latch_that_was_cut_is_there_whole_or_not_at_all(seed: int) -> None:
    point = 0
    while True:
        disk = new_disk(seed * 1000 + point)
        directory = DataDirectory.open(ROOT, ONE, Files(disk))
        disk.cut_power_at = disk.modifications + point
        try:
            directory.write_latch(LATCH)
        except PowerCutError:
            disk.crash()
            again = DataDirectory.open(ROOT, ONE, Files(disk))
            assert (again.latch, again.cluster_id) in ((None, None), (LATCH, "cluster"))
            again.write_latch(LATCH)
            point += 1
            continue
        disk.crash()
        assert DataDirectory.open(ROOT, ONE, Files(disk)).latch == LATCH
        break
    assert point >= 10


@pytest.mark.parametrize("seed", range(10))
def test_incarnation_grows_over_every_crash(seed: int) -> None:
    disk = new_disk(seed)
    last = DataDirectory.open(ROOT, ONE, Files(disk)).incarnation
    for point in range(12):
        disk.crash()
        disk.cut_power_at = disk.modifications + point
        try:
            seen = DataDirectory.open(ROOT, ONE, Files(disk)).incarnation
        except PowerCutError:
            continue
        assert seen > last
        last = seen


def test_add_voter_batch_of_formation_survives_recovery() -> None:
    disk = new_disk(1)
    _, log = open_log(disk)
    control = (AddVoter(Voter(KEY, Endpoint("a", 1))), AddVoter(Voter(OTHER)))
    log.append([Batch(Offset(0), Offset(1), Epoch(1), b"", control)])
    log.flush()
    disk.crash()
    assert open_log(disk)[1].recovered[0].control == control
