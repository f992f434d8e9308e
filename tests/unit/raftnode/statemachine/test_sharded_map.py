"""A map of many small dicts is a map, and none of its parts grows large."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from raftnode.statemachine.sharded_map import SpreadMap

KEYS = st.integers(0, 9) | st.sampled_from([0, 256, 512, 768])


@given(st.lists(st.tuples(st.booleans(), KEYS, st.integers())))
def test_it_agrees_with_a_dict(steps) -> None:
    tried, model = SpreadMap[int, int](), dict[int, int]()
    for put, key, value in steps:
        if put:
            tried.put(key, value)
            model[key] = value
        else:
            tried.discard(key)
            model.pop(key, None)
        assert tried.get(key) == model.get(key)
        assert tried.get(key, "none") == model.get(key, "none")
        assert (key in tried) == (key in model)
        assert len(tried) == len(model)
        assert bool(tried) == bool(model)
    assert dict(tried) == model


def test_no_write_moves_more_than_a_hundredth_of_it() -> None:
    tried = SpreadMap[bytes, None]()
    for number in range(50_000):
        tried.put(b"key %012d" % number, None)
    sizes = [sys.getsizeof(part) for part in tried._parts]
    assert max(sizes) < sum(sizes) / 100
