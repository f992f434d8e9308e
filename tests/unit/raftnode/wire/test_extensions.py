"""The envelope's tagged fields are of their own size, or refused."""

from __future__ import annotations

import pytest

from raftnode.core.types import Endpoint
from raftnode.errors import DecodeError
from raftnode.wire import extensions as ext


@pytest.mark.parametrize("value", [0, 1, 2**63 - 1])
def test_integers_come_back(value: int):
    assert ext.read_int64({16: ext.int64(value)}, 16, minimum=0) == value
    assert ext.read_int16({1: ext.int16(-5)}, 1) == -5


@pytest.mark.parametrize("found", [{}, {16: b""}, {16: bytes(7)}, {16: bytes(9)}, {17: bytes(8)}])
def test_an_integer_that_must_be_there_is(found: dict[int, bytes]):
    with pytest.raises(DecodeError, match="extension 16 is absent or not of 8 bytes"):
        ext.read_int64(found, 16, minimum=0)


def test_an_integer_below_its_least_value_is_refused():
    assert ext.read_int64({16: ext.int64(-1)}, 16, minimum=-1) == -1
    with pytest.raises(DecodeError, match="is -2, at least -1 expected"):
        ext.read_int64({16: ext.int64(-2)}, 16, minimum=-1)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_what_does_not_fit_is_not_written(value: int):
    with pytest.raises(ValueError, match="not a 64-bit integer"):
        ext.int64(value)


def test_optional_fields_may_be_absent_but_not_of_another_size():
    assert ext.read_int16({}, 1) is None
    assert ext.read_optional_endpoint({}, ext.ENDPOINT) is None
    with pytest.raises(DecodeError, match="has 3 bytes, 2 expected"):
        ext.read_int16({1: b"abc"}, 1)
    raw = ext.endpoint(Endpoint("h", 9))
    assert ext.read_optional_endpoint({20: raw}, ext.ENDPOINT) == Endpoint("h", 9)
    with pytest.raises(DecodeError, match="after the end"):
        ext.read_optional_endpoint({20: raw + b"!"}, ext.ENDPOINT)


def test_no_tag_means_two_things():
    tags = [value for name, value in vars(ext).items() if name.isupper() and isinstance(value, int)]
    assert len(tags) == len(set(tags)) >= 8
