"""The store follows what is committed and durable."""

import asyncio
import contextlib

import pytest
from tests.unit.raftnode.runtime.conftest import LONG_MS

from raftnode.core.types import Offset
from raftnode.runtime.writes.applier import Applier


@pytest.fixture
async def applier(storage):
    made = Applier(storage.log)
    task = asyncio.get_running_loop().create_task(made.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_only_what_is_applicable_is_applied_in_order(applier, storage):
    storage.append(b"old", b"new")
    storage.append(b"newer")
    applier.committed(Offset(3), Offset(2))
    assert await applier.wait_applied(Offset(2), timeout_ms=LONG_MS)
    entry = applier.kv.get(b"key")
    assert (entry.value, entry.offset) == (b"new", 1)
    assert not await applier.wait_applied(Offset(3), timeout_ms=5)
    applier.committed(Offset(3), Offset(3))
    assert await applier.wait_applied(Offset(3), timeout_ms=LONG_MS)
    assert applier.kv.get(b"key").value == b"newer"


async def test_control_records_are_skipped_and_deletes_delete(applier, storage, replica_key):
    storage.append_control(replica_key)
    storage.append(b"value", None)
    applier.committed(Offset(3), Offset(3))
    assert await applier.wait_applied(Offset(3), timeout_ms=LONG_MS)
    assert applier.kv.get(b"key") is None


async def test_a_batch_of_many_records_lets_others_have_their_turn(applier, storage):
    storage.append(*([b"x"] * 3000))
    applier.committed(Offset(3000), Offset(3000))
    seen = set()
    while applier.kv.next_offset < 3000:
        seen.add(applier.kv.next_offset)
        await asyncio.sleep(0)
    assert len(seen) >= 3000 // 256


IS_KEYLESS = "runtime.writes.applier:_is_keyless"
STEPS = "runtime.writes.applier:Applier._apply_steps"


@pytest.mark.without(STEPS, "self.last_timestamp_ms = header.base_timestamp_ms", "pass")
async def test_batches_without_keys_change_only_how_far_the_store_is(applier, storage):
    storage.append(*([b"raw"] * 300), key=None)
    applier.committed(Offset(300), Offset(300))
    await asyncio.sleep(0)
    assert await applier.wait_applied(Offset(300), timeout_ms=LONG_MS)
    assert (len(applier.kv), applier.last_timestamp_ms) == (0, 1)
    storage.append(b"value")
    applier.committed(Offset(301), Offset(301))
    assert await applier.wait_applied(Offset(301), timeout_ms=LONG_MS)
    assert applier.kv.get(b"key").offset == 300


@pytest.mark.without(IS_KEYLESS, "header.record_count in _KEYLESS_RECORDS", "True")
async def test_a_batch_of_very_many_records_without_keys_is_applied_in_turns(applier, storage):
    storage.append(*([b"raw"] * 5000), key=None)
    applier.committed(Offset(5000), Offset(5000))
    offsets = set()
    while applier.kv.next_offset < 5000:
        offsets.add(applier.kv.next_offset)
        await asyncio.sleep(0)
    assert len(offsets) >= 5000 // 256
