"""The key-value store is a fold of the log: same records, same state."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raftnode.core.types import Epoch, Offset
from raftnode.logformat import LogRecord
from raftnode.statemachine.errors import OffsetGapError
from raftnode.statemachine.kv import Entry, KeyValueStore

KEYS = st.binary(min_size=1, max_size=3)
RECORDS = st.lists(
    st.tuples(st.none() | KEYS, st.none() | st.binary(max_size=3), st.booleans()), max_size=60
)


def applied(*records: tuple[bytes | None, bytes | None]) -> KeyValueStore:
    store = KeyValueStore()
    for offset, (key, value) in enumerate(records):
        assert store.apply(Offset(offset), key, value, epoch=Epoch(1))
    return store


def test_newest_record_of_a_key_wins_and_its_offset_is_the_version():
    store = applied((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    assert store.get(b"a") == Entry(b"3", Offset(2), Epoch(1))
    assert store.next_offset == 3
    assert len(store) == 2


def test_null_value_deletes_and_empty_value_does_not():
    store = applied((b"a", b"1"), (b"b", b""), (b"a", None), (b"c", None))
    assert store.get(b"a") is None
    assert store.get(b"b") == Entry(b"", Offset(1), Epoch(1))
    assert len(store) == 1


def test_record_without_key_changes_only_the_offset():
    store = applied((None, b"raw"))
    assert len(store) == 0
    assert store.next_offset == 1


def test_record_applied_before_changes_nothing():
    store = applied((b"a", b"1"), (b"a", b"2"))
    before = store.state_hash()
    assert not store.apply(Offset(0), b"a", b"1", epoch=Epoch(1))
    assert not store.skip(Offset(0), Offset(1))
    assert store.state_hash() == before
    assert store.get(b"a") == Entry(b"2", Offset(1), Epoch(1))


def test_gap_is_refused_and_names_both_offsets():
    store = applied((b"a", b"1"))
    with pytest.raises(OffsetGapError, match="offset 1 next, but got offset 2") as caught:
        store.apply(Offset(2), b"a", b"2", epoch=Epoch(1))
    assert (caught.value.expected, caught.value.offered) == (1, 2)
    with pytest.raises(OffsetGapError):
        store.skip(Offset(5), Offset(9))
    assert store.next_offset == 1


def test_control_batch_is_skipped_whole():
    store = applied((b"a", b"1"))
    assert store.skip(Offset(1), Offset(4))
    assert store.next_offset == 5
    assert store.apply(Offset(5), b"b", b"2", epoch=Epoch(2))


def test_scan_is_in_byte_order_by_prefix_and_after():
    store = applied(*((key, b"v") for key in (b"z", b"a/2", b"a/1", b"a", b"b", b"a/1/x")))
    assert list(store.scan(prefix=b"a/")) == [b"a/1", b"a/1/x", b"a/2"]
    assert list(store.scan(prefix=b"a/", after=b"a/1")) == [b"a/1/x", b"a/2"]
    assert list(store.scan(after=b"a/2")) == [b"b", b"z"]
    assert list(store.scan(prefix=b"b", after=b"a")) == [b"b"]
    assert list(store.scan(prefix=b"nothing")) == []


def test_state_hash_tells_value_offset_epoch_and_position_apart():
    hashes = {
        applied((b"a", b"1")).state_hash(),
        applied((b"a", b"2")).state_hash(),
        applied((b"a1", b"")).state_hash(),
        applied((None, b""), (b"a", b"1")).state_hash(),
        applied((b"a", b"1"), (None, b"")).state_hash(),
        KeyValueStore().state_hash(),
    }
    assert len(hashes) == 6


@given(RECORDS)
def test_store_agrees_with_a_plain_dict_at_every_offset(
    records: list[tuple[bytes | None, bytes | None, bool]],
):
    store, other, model = KeyValueStore(), KeyValueStore(), dict[bytes, bytes]()
    for offset, (key, value, look) in enumerate(records):
        store.apply(Offset(offset), key, value, epoch=Epoch(1))
        other.apply(Offset(offset), key, value, epoch=Epoch(1))
        if key is not None and value is None:
            model.pop(key, None)
        elif key is not None and value is not None:
            model[key] = value
        if look:  # the order is kept lazily: looking must not change what is seen
            assert list(store.scan()) == sorted(model)
    assert list(store.scan()) == list(other.scan()) == sorted(model)
    found = {key: store.get(key) for key in store.scan()}
    assert {key: entry.value for key, entry in found.items() if entry is not None} == model
    assert store.state_hash() == other.state_hash()


@pytest.mark.without("statemachine.kv:KeyValueStore.apply_all", "and not record.is_control", "")
@pytest.mark.without("statemachine.kv:KeyValueStore.apply_all", "continue", "pass")
@example(records=[(b"k", b"1", False), (b"k", b"2", False)], cuts=set())
@example(records=[(b"k", b"1", True)], cuts=set())
@given(records=RECORDS, cuts=st.sets(st.integers(0, 60)))
def test_records_applied_by_the_batch_give_the_state_of_one_after_another(
    records: list[tuple[bytes | None, bytes | None, bool]], cuts: set[int]
):
    run = [
        LogRecord(Offset(offset), Epoch(1), 5, key, value, (), None, is_control)
        for offset, (key, value, is_control) in enumerate(records)
    ]
    single, batched = KeyValueStore(), KeyValueStore()
    for record in run:
        if record.is_control:
            single.skip(record.offset, record.offset)
        else:
            single.apply(record.offset, record.key, record.value, epoch=record.epoch)
    for start, end in pairwise([0, *sorted(cuts), len(run)]):
        # Each batch begins with what was applied before, as a read of a whole batch may.
        batched.apply_all(run[max(start - 3, 0) : end])
    batched.apply_all(run[: len(run) // 2])
    assert batched.state_hash() == single.state_hash()
    assert list(batched.scan()) == list(single.scan())
    assert batched.size_bytes == single.size_bytes


def test_a_gap_in_a_batch_is_refused_after_the_records_before_it():
    store = KeyValueStore()
    run = [
        LogRecord(Offset(offset), Epoch(1), 5, b"k", b"%d" % offset, (), None, is_control=False)
        for offset in (0, 1, 3)
    ]
    with pytest.raises(OffsetGapError, match="offset 2 next, but got offset 3"):
        store.apply_all(run)
    assert store.get(b"k") == Entry(b"1", Offset(1), Epoch(1))
    assert store.next_offset == 2


def test_store_that_is_restored_is_in_order_whatever_order_it_came_in():
    entries = [(key, Entry(b"v", Offset(0), Epoch(1))) for key in (b"c", b"a", b"b")]
    store = KeyValueStore.restore(Offset(9), entries)
    assert list(store.scan()) == [b"a", b"b", b"c"]
    store.apply(Offset(9), b"b", None, epoch=Epoch(1))
    store.apply(Offset(10), b"aa", b"v", epoch=Epoch(1))
    assert list(store.scan()) == [b"a", b"aa", b"c"]


def test_keys_that_come_and_go_between_two_scans_leave_nothing_behind():
    store = applied((b"stays", b"v"))
    assert list(store.scan()) == [b"stays"]
    for offset in range(1, 2001, 2):
        store.apply(Offset(offset), b"%d" % offset, b"v", epoch=Epoch(1))
        store.apply(Offset(offset + 1), b"%d" % offset, None, epoch=Epoch(1))
    assert (len(store._added), len(store._removed)) == (0, 0)
    store.apply(Offset(2001), b"stays", None, epoch=Epoch(1))
    store.apply(Offset(2002), b"stays", b"again", epoch=Epoch(1))
    assert list(store.scan()) == [b"stays"]


def test_it_is_let_go_bit_by_bit_but_not_what_a_reader_holds() -> None:
    store = KeyValueStore()
    for number in range(1000):
        store.apply(Offset(number), b"key %d" % number, b"value", epoch=Epoch(1))
    list(store.scan())
    read = store.freeze()
    first = next(read)
    store.let_go(lambda: None)
    assert len([first, *read]) == 1000
    store.release()
    left: list[int] = []

    def pause() -> None:
        left.append(sum(store.get(b"key %d" % number) is not None for number in range(1000)))

    store.let_go(pause)
    assert left[-1] == len(store) == 0
    assert max(before - after for before, after in pairwise([1000, *left])) < 30
