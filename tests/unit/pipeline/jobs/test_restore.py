"""The state that files bring back, and holding it against a quorum that goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from kraftquorum_pipeline.audit.engine import LocalEngine
from kraftquorum_pipeline.audit.undamaged_log import undamaged_log
from kraftquorum_pipeline.errors import CorruptError, OptionError, UnreachableError
from kraftquorum_pipeline.jobs import restore
from kraftquorum_pipeline.jobs.restore import Held, RunningQuorum, Written, compare, state_of
from proofkit.memoryservice import MemoryService
from proofkit.replicadirs import batches_in, flip, quorum_history, segments
from raftnode.api.server import ApiServer, make_app
from raftnode.api.service import NewRecord
from raftnode.client import QuorumClient
from raftnode.core.types import Endpoint
from raftnode.logformat import Record, encode_data_batch, stamp
from raftnode.runtime.committed_reads import READ_BYTES_MAX


def state(paths: list[Path], end: int | None = None):
    log = undamaged_log(paths, LocalEngine(), end)
    return log, state_of(log)


def expected() -> dict[bytes, Held]:
    return {
        key: Held.of(record.offset, record.value) for key, record in quorum_history().state.items()
    }


def test_the_state_is_that_of_the_log(quorum: list[Path]):
    log, found = state(quorum)
    assert found == expected()
    assert log.base.endswith(".checkpoint")  # from the snapshot on, which is quicker


def test_the_state_at_an_earlier_offset(quorum: list[Path]):
    history = quorum_history()
    [end] = history.states
    _, found = state(quorum, end - 1)
    _, later = state(quorum, end)
    assert later == {one.key: Held.of(one.offset, one.value) for one in history.states[end]}
    assert found != later


def test_a_damaged_replica_is_made_good_by_the_others(quorum: list[Path]):
    for number, path in enumerate(quorum):
        (next(path.rglob("*.checkpoint"))).unlink()
        segment = segments(path)[2 + 2 * number]
        flip(segment, batches_in(segment)[3][0] + 70)
    log, found = state(quorum)
    assert found == expected()
    assert len({one.replica for one in log.stretches}) > 1
    assert log.base is None


def test_a_hole_in_every_replica_is_an_error_that_names_the_offset(quorum: list[Path]):
    for path in quorum:
        (next(path.rglob("*.checkpoint"))).unlink()
        segment = segments(path)[3]
        position, header = batches_in(segment)[2]
        flip(segment, position + 70)
    with pytest.raises(CorruptError, match="no undamaged log leads to offset") as caught:
        state(quorum, int(header.base_offset) + 4)
    assert caught.value.offset == header.base_offset


def test_two_histories_are_an_error(quorum: list[Path]):
    segment = segments(quorum[1])[3]
    position, header = batches_in(segment)[2]
    body = encode_data_batch([Record(b"k", b"v")] * header.record_count, header.base_timestamp_ms)
    data = segment.read_bytes()
    forged = stamp(body, header.base_offset, header.epoch)
    segment.write_bytes(data[:position] + forged + data[position + header.size :])
    with pytest.raises(CorruptError, match="has other bytes here"):
        state(quorum)


def test_an_offset_that_is_not_committed_is_refused(quorum: list[Path]):
    with pytest.raises(OptionError, match="offset 100000 is above"):
        state(quorum, 100_000)


def test_where_nothing_is_proved_to_be_committed_nothing_is_called_the_state(quorum: list[Path]):
    for path in quorum:
        next(path.rglob("*.checkpoint")).unlink()
    with pytest.raises(OptionError, match="give the directories of all voters"):
        state(quorum[:1])


# -- against a running quorum --------------------------------------------------------------

OLD, NEW, NEWER = Held(5, b"a"), Held(12, b"b"), Held(22, b"c")


def living(listed: dict[bytes, Held], *records: Written, began: int = 20, ended: int = 30):
    return RunningQuorum("cluster", records, listed, began, ended)


def test_the_same_is_fine():
    result = compare({b"k": OLD}, 10, living({b"k": OLD}))
    assert (result.ok, result.keys, result.listed, result.changed) == (True, 1, 1, 0)


def test_what_was_written_since_is_taken_into_account():
    assert compare({b"k": OLD}, 10, living({b"k": NEW}, Written(12, b"k", NEW))).ok
    assert compare({}, 10, living({b"k": NEW}, Written(12, b"k", NEW))).ok
    assert compare({b"k": OLD}, 10, living({}, Written(12, b"k", None))).ok


@pytest.mark.parametrize("listed", [{b"k": NEW}, {b"k": NEWER}])
def test_during_the_listing_a_key_may_be_seen_before_or_after_a_write(listed):
    records = Written(12, b"k", NEW), Written(22, b"k", NEWER)
    assert compare({b"k": OLD}, 10, living(listed, *records)).ok


@pytest.mark.parametrize(
    ("listed", "records", "said"),
    [
        ({}, (), "key 'k' is missing, not what offset 5 wrote"),
        ({b"k": Held(5, b"z")}, (), "key 'k' is what offset 5 wrote"),
        ({b"k": OLD}, (Written(12, b"k", NEW),), "what offset 5 wrote, not what offset 12 wrote"),
        ({b"k": OLD, b"x": OLD}, (), "key 'x' is what offset 5 wrote, not missing"),
        ({b"k": OLD}, (Written(12, b"k", None),), "what offset 5 wrote, not missing"),
    ],
    ids=["lost", "other value", "older than it may be", "made up", "deleted and there"],
)
def test_what_does_not_fit_is_told(listed, records, said):
    result = compare({b"k": OLD}, 10, living(listed, *records))
    assert not result.ok
    assert said in result.differences[0]


@asynccontextmanager
async def node(*written: bytes) -> AsyncGenerator[tuple[Endpoint, int]]:
    """A node that has committed this; its address and the end of its log."""
    service = MemoryService()
    server = ApiServer(
        make_app(service, registry=CollectorRegistry(), version="1"), shutdown_grace_ms=0
    )
    try:
        at = await server.start(Endpoint("127.0.0.1", 0))
        for value in written:
            await service.append([NewRecord(b"key", value)], timeout_ms=1000)
        yield at, service.describe_node().high_watermark
    finally:
        await server.stop()


def test_no_more_is_asked_for_in_one_answer_than_a_node_gives():
    assert restore._PAGE_BYTES == READ_BYTES_MAX


async def gather(nodes: list[Endpoint], end: int, patience_s: float) -> list[bytes | None]:
    found = restore._records(nodes, QuorumClient, 0, end, patience_s)
    return [one.value async for one in found if one.key is not None]


async def test_a_node_that_is_behind_for_ever_is_not_waited_for_for_ever():
    """As a follower is that is cut off from its quorum and can be reached all the same."""
    async with node(b"1") as (at, end):
        began = time.monotonic()
        async with asyncio.timeout(100):
            with pytest.raises(UnreachableError, match=f"at offset {end}: .*in time"):
                await gather([at], end + 1, patience_s=1)
        assert time.monotonic() - began >= 1


async def test_another_node_gives_out_what_the_first_has_not_heard_of():
    async with node(b"1") as (behind, _), node(b"1", b"2", b"3") as (ahead, end):
        async with asyncio.timeout(100):
            for _ in range(4):  # whom a client asks first is by chance
                assert await gather([behind, ahead], end, patience_s=60) == [b"1", b"2", b"3"]
