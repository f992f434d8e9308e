"""Hellos come back as they were; whatever else comes is a DecodeError."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftnode.core.types import Endpoint, NodeId, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.transport.hello import (
    Hello,
    Identity,
    Refusal,
    RefusalReason,
    decode_hello,
    encode_hello,
    encode_refusal,
    refusal_of,
)

A = ReplicaKey(NodeId(1), uuid.UUID(int=1))
B = ReplicaKey(NodeId(2), uuid.UUID(int=2))
FULL = Hello(
    Identity(A, "cluster", 3, Endpoint("a", 1), Endpoint("::1", 2)), wants=B, version_max=4
)


@pytest.mark.parametrize("hello", [FULL, Hello(Identity(A, None, 0))])
def test_hello_comes_back_as_it_was(hello: Hello) -> None:
    assert decode_hello(encode_hello(hello)) == hello


@pytest.mark.parametrize("reason", RefusalReason)
def test_refusal_comes_back_as_it_was(reason: RefusalReason) -> None:
    refusal = Refusal(reason, "why", A)
    assert decode_hello(encode_refusal(refusal)) == refusal


def test_unknown_fields_are_skipped() -> None:
    later = encode_hello(FULL)[:-1] + b',"of_the_future":[1,{}]}'
    assert decode_hello(later) == FULL


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"replica":"1-AAAAAAAAAAAAAAAAAAAAAQ"}',
        '{"replica":"1-AAAAAAAAAAAAAAAAAAAAAA","versions":[1,1]}',
        '{"replica":"9999999999-AAAAAAAAAAAAAAAAAAAAAQ","versions":[1,1]}',
        '{"replica":"1-AAAAAAAAAAAAAAAAAAAAAQ","versions":[1]}',
        '{"replica":"1-AAAAAAAAAAAAAAAAAAAAAQ","versions":[1,1],"cluster_id":""}',
        '{"replica":"1-AAAAAAAAAAAAAAAAAAAAAQ","versions":[1,1],"peer_endpoint":"x:0"}',
        '{"refused":"no such reason"}',
        '{"replica":"' + "9" * 4500 + '"}',
    ],
)
def test_incomplete_or_impossible_hello_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_hello(text.encode())


@given(st.binary(max_size=300))
@settings(max_examples=500, deadline=None)
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_hello(data)


@given(st.integers(0, 500), st.integers(0, 255))
@settings(max_examples=1000, deadline=None)
def test_changed_byte_decodes_or_is_refused(place: int, value: int) -> None:
    data = bytearray(encode_hello(FULL))
    data[place % len(data)] = value
    try:
        decode_hello(bytes(data))
    except DecodeError:
        return


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"version_min": 1, "version_max": 5}, None),
        ({"version_min": 2, "version_max": 5}, RefusalReason.UNSUPPORTED_VERSION),
        ({"identity": Identity(B, "c", 1)}, RefusalReason.OWN_KEY),
        ({"identity": Identity(A, "other", 1)}, RefusalReason.WRONG_CLUSTER),
        ({"identity": Identity(A, None, 1)}, None),
        ({"wants": A}, RefusalReason.WRONG_REPLICA),
    ],
)
def test_who_is_refused(change: dict, expected: RefusalReason | None) -> None:
    own = Identity(B, "c", 1)
    theirs = replace(Hello(Identity(A, "c", 1), wants=B), **change)
    refusal = refusal_of(own, theirs, wanted=theirs.wants, found=own.key)
    assert (refusal.reason if refusal else None) == expected
