"""A frozen map stays as it is for who reads it, and is a plain map for everybody else."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.types import Epoch, Offset
from raftnode.statemachine.frozen_map import FreezableMap
from raftnode.statemachine.kv import KeyValueStore

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9), st.integers(0, 99)),
        st.tuples(st.just("remove"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("freeze"), st.just(0), st.just(0)),
        st.tuples(st.just("release"), st.just(0), st.just(0)),
        st.tuples(st.just("merge"), st.integers(1, 3), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_a_map_whatever_is_frozen_in_between(steps: list[tuple[str, int, int]]) -> None:
    tried, model = FreezableMap[int, int](), dict[int, int]()
    frozen: dict[int, int] | None = None
    reading = iter(())
    for what, key, value in steps:
        if what == "put":
            assert tried.put(key, value) == model.get(key)
            model[key] = value
        elif what == "remove":
            assert tried.remove(key) == model.pop(key, None)
        elif what == "freeze" and frozen is None and not tried.unmerged:
            frozen, reading = dict(model), tried.freeze()
        elif what == "release" and frozen is not None:
            assert dict(reading) == frozen
            tried.release()
            frozen = None
        elif what == "merge" and frozen is None:
            before = tried.unmerged
            tried.merge(key)
            assert tried.unmerged == max(before - key, 0)
        assert len(tried) == len(model)
        assert {one: tried.get(one) for one in range(10) if one in tried} == model
    if frozen is not None:
        assert dict(reading) == frozen


def test_it_is_frozen_once_at_a_time() -> None:
    tried = FreezableMap[int, int]()
    tried.freeze()
    with pytest.raises(RuntimeError):
        tried.freeze()
    with pytest.raises(RuntimeError):
        tried.merge(1)
    tried.put(1, 1)
    tried.release()
    with pytest.raises(RuntimeError):
        tried.freeze()
    tried.merge(1)
    assert dict(tried.freeze()) == {1: 1}


def test_what_is_written_after_the_release_is_newer_than_what_is_to_be_merged() -> None:
    tried = FreezableMap[int, int]()
    tried.put(2, 0)
    tried.freeze()
    for key in (1, 2, 3):
        tried.put(key, 10)
    tried.release()
    tried.put(1, 11)
    tried.remove(2)
    assert (tried.get(1), tried.get(2), tried.get(3), len(tried)) == (11, None, 10, 2)
    tried.merge(10)
    assert dict(tried.freeze()) == {1: 11, 3: 10}


def test_a_store_goes_on_while_it_is_frozen_and_is_restored_as_it_was() -> None:
    store = KeyValueStore()
    for offset in range(10):
        store.apply(Offset(offset), b"%d" % (offset % 4), b"old", epoch=Epoch(1))
    as_it_was, size = store.state_hash(), store.size_bytes
    frozen = store.freeze()
    store.apply(Offset(10), b"0", b"newer", epoch=Epoch(1))
    store.apply(Offset(11), b"1", None, epoch=Epoch(1))
    store.apply(Offset(12), b"x", b"y", epoch=Epoch(1))
    assert list(store.scan()) == [b"0", b"2", b"3", b"x"]
    again = KeyValueStore.restore(Offset(10), frozen)
    assert (again.state_hash(), again.size_bytes, again.next_offset) == (as_it_was, size, 10)
    assert list(again.scan()) == [b"0", b"1", b"2", b"3"]
    assert not store.merge(100)
    store.release()
    assert not store.merge(2)
    assert store.merge(1)
    for offset, key, value in ((10, b"0", b"newer"), (11, b"1", None), (12, b"x", b"y")):
        again.apply(Offset(offset), key, value, epoch=Epoch(1))
    assert again.state_hash() == store.state_hash()
    assert (again.size_bytes, len(again)) == (store.size_bytes, len(store))


def test_a_key_that_stands_twice_is_refused() -> None:
    store = KeyValueStore()
    store.apply(Offset(0), b"k", b"v", epoch=Epoch(1))
    (entry,) = store.freeze()
    with pytest.raises(ValueError, match="twice"):
        KeyValueStore.restore(Offset(1), [entry, entry])


def test_the_garbage_collector_does_not_look_into_a_store_or_into_the_order_that_is_made() -> None:
    store = KeyValueStore()
    for offset in range(20_000):
        store.apply(Offset(offset), b"key %d" % offset, b"value", epoch=Epoch(1))
    pauses: list[None] = []
    frozen = store.freeze(lambda: pauses.append(None))
    assert pauses == []
    first, _ = next(frozen)
    assert first == b"key 0"
    assert len(pauses) == 5  # 4096 keys in each run
    holding = [found for found in gc.get_objects() if _keys_in(found) > 50]
    assert holding == []
    assert [key for key, _ in frozen] == sorted(b"key %d" % one for one in range(1, 20_000))
    assert len(pauses) == 10  # they are let go one by one, too
    store.release()
    list(store.scan())
    gc.collect()  # a tuple is seen once
    assert [found for found in gc.get_objects() if _keys_in(found) > 50] == []


def _keys_in(found: object) -> int:
    """How many of the store's keys the collector comes by in an object."""
    if type(found) not in (list, tuple, dict):
        return 0
    return sum(type(one) is bytes and one.startswith(b"key ") for one in gc.get_referents(found))
