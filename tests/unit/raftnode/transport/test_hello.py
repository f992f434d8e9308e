"""Hellos come back as they were; whatever else comes is a DecodeError."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftnode.core.replication.peer_memory import LINE_MAX, Start
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.transport.hello import (
    INCARNATION_MAX,
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
LINE = ("0123456789abcdef", "fedcba9876543210")
FULL = Hello(
    Identity(A, "cluster", 3, Endpoint("a", 1), Endpoint("::1", 2), LINE, Offset(2**62), Epoch(7)),
    wants=B,
    version_max=4,
)
LONGEST = Hello(
    Identity(
        ReplicaKey(NodeId(2**31 - 1), uuid.UUID(int=2**128 - 1)),
        "c" * 255,
        INCARNATION_MAX,
        Endpoint("h" * 255, 65535),
        Endpoint("h" * 255, 65535),
        ("f" * 16,) * LINE_MAX,
        Offset(2**63 - 1),
        Epoch(2**31 - 1),
    ),
    wants=B,
)


@pytest.mark.parametrize("hello", [FULL, LONGEST, Hello(Identity(A, None, 0))])
def test_hello_comes_back_as_it_was(hello: Hello) -> None:
    assert decode_hello(encode_hello(hello)) == hello


@pytest.mark.parametrize("reason", RefusalReason)
def test_refusal_comes_back_as_it_was(reason: RefusalReason) -> None:
    refusal = Refusal(reason, "why", A, "cluster")
    assert decode_hello(encode_refusal(refusal)) == refusal


def test_unknown_fields_are_skipped() -> None:
    later = encode_hello(FULL)[:-1] + b',"of_the_future":[1,{}]}'
    assert decode_hello(later) == FULL


def test_hello_of_an_earlier_program_tells_no_line() -> None:
    early = b'{"replica":"1-AAAAAAAAAAAAAAAAAAAAAQ","versions":[1,1],"incarnation":3}'
    hello = decode_hello(early)
    assert isinstance(hello, Hello)
    assert hello.identity.start == Start(3)


@pytest.mark.parametrize(
    "start",
    [
        '"incarnation":-1',
        '"incarnation":2147483648',
        '"incarnation":"1"',
        '"incarnation":0,"starts":["0123456789abcdef"]',
        '"incarnation":99,"starts":["0123456789ABCDEF"]',
        '"incarnation":99,"starts":["0123456789abcde"]',
        '"incarnation":99,"starts":[7]',
        '"incarnation":99,"starts":[' + ",".join(['"0123456789abcdef"'] * (LINE_MAX + 1)) + "]",
        '"incarnation":1,"start_end":-1',
        '"incarnation":1,"start_end":9223372036854775808',
        '"incarnation":1,"start_epoch":-2',
        '"incarnation":1,"start_epoch":2147483648',
    ],
)
def test_impossible_start_is_refused(start: str) -> None:
    text = '{"replica":"1-AAAAAAAAAAAAAAAAAAAAAQ","versions":[1,1],' + start + "}"
    with pytest.raises(DecodeError):
        decode_hello(text.encode())


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
        '{"x":' + "[" * 4000,
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


@given(st.integers(0, 1000), st.integers(0, 255))
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
        ({"version_min": 3, "version_max": 5}, RefusalReason.UNSUPPORTED_VERSION),
        ({"identity": Identity(B, "c", 1)}, RefusalReason.OWN_KEY),
        ({"identity": Identity(A, "other", 1)}, RefusalReason.WRONG_CLUSTER),
        ({"identity": Identity(A, None, 1)}, None),
        ({"wants": A}, RefusalReason.WRONG_REPLICA),
    ],
)
def test_who_is_refused(change: dict, expected: RefusalReason | None) -> None:
    own = Identity(B, "c", 1)
    theirs = replace(Hello(Identity(A, "c", 1), wants=B), **change)
    refusal = refusal_of(own, theirs, wanted=theirs.wants, dialled=own.key)
    assert (refusal.reason if refusal else None) == expected


@pytest.mark.rule("S6")
@pytest.mark.without(
    "transport.hello:refusal_of", "if wanted is not None and wanted != dialled:", "if False:"
)
def test_address_is_advice_and_the_replica_that_listens_there_must_be_the_one_that_is_wanted() -> (
    None
):
    old = ReplicaKey(B.node_id, A.directory_id)
    called, dialler = Identity(B, "c", 1), Hello(Identity(A, "c", 1), wants=old)
    refusal = refusal_of(called, dialler, wanted=old, dialled=B)
    assert refusal is not None
    assert refusal.reason is RefusalReason.WRONG_REPLICA
