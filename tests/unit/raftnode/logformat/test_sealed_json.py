from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.logformat.sealed_json import integer, seal, unseal
from raftnode.storage.directory.formation import decode_latch
from raftnode.storage.directory.meta_properties import (
    decode_meta_properties,
)
from raftnode.storage.directory.quorum_state import decode_quorum_state


@given(st.binary(max_size=200))
def test_random_bytes_raise_value_error_or_nothing(noise: bytes) -> None:
    for decode in (decode_quorum_state, decode_latch, decode_meta_properties, unseal):
        with contextlib.suppress(ValueError):
            decode(noise)


def test_what_is_sealed_is_unsealed_and_a_missing_seal_is_told() -> None:
    assert unseal(seal({"a": 1, "b": "x"})) == ({"a": 1, "b": "x"}, True)
    assert unseal(b'{"a":1}') == ({"a": 1}, None)
    assert unseal(seal({"a": 1}).replace(b'"a":1', b'"a":2'))[1] is False


@pytest.mark.parametrize("value", [None, True, "1", 1.0, -1])
def test_integers_are_strict(value: object) -> None:
    with pytest.raises(ValueError, match="not an integer of at least 0"):
        integer({"n": value}, "n", 0)  # type: ignore[dict-item]
