"""The frame around each message: what it carries, and what is refused."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.types import Endpoint, Epoch, NodeId, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.wire.envelope import (
    EXTENSIONS_MAX,
    Envelope,
    decode_envelope,
    encode_endpoint,
    encode_envelope,
    read_endpoint,
)
from raftnode.wire.reader import Reader

A, B = (ReplicaKey(NodeId(n), uuid.UUID(int=n << 64 | 7)) for n in (1, 2))
BARE = Envelope(api_key=52, api_version=2, correlation_id=9, source=A)
FULL = replace(
    BARE,
    target=B,
    cluster_id="c-1",
    is_response=True,
    leader=B,
    leader_epoch=Epoch(4),
    leader_endpoint=Endpoint("h", 9093),
    extensions={1: b"\x00\x01", 300: b""},
)
FLAGS_AT = 3

KEYS = st.builds(
    ReplicaKey,
    st.integers(0, 2**31 - 1).map(NodeId),
    st.integers(1, 2**128 - 1).map(lambda number: uuid.UUID(int=number)),
)
HOSTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
REQUESTS = st.builds(
    Envelope,
    api_key=st.integers(-(2**15), 2**15 - 1),
    api_version=st.integers(-(2**15), 2**15 - 1),
    correlation_id=st.integers(0, 2**32 - 1),
    source=KEYS,
    target=st.none() | KEYS,
    cluster_id=st.none() | HOSTS,
    extensions=st.dictionaries(st.integers(0, 65535), st.binary(max_size=20), max_size=8),
)
ENVELOPES = REQUESTS | st.builds(
    replace,
    REQUESTS,
    is_response=st.just(True),
    is_error=st.booleans(),
    leader=st.none() | KEYS,
    leader_epoch=st.integers(-(2**31), 2**31 - 1).map(Epoch),
    leader_endpoint=st.none() | st.builds(Endpoint, HOSTS, st.integers(1, 65535)),
)


@given(ENVELOPES, st.binary(max_size=20))
def test_every_envelope_comes_back_with_the_body_behind_it(envelope: Envelope, body: bytes):
    found, rest = decode_envelope(encode_envelope(envelope) + body)
    assert found == envelope
    assert bytes(rest) == body


@pytest.mark.rule("S28")
@pytest.mark.without(
    "wire.envelope:_parts", "MAGIC,\n        ENVELOPE_VERSION,", "MAGIC,\n        0,"
)
def test_the_head_is_laid_out_as_documented():
    assert encode_envelope(BARE).hex(" ", 1) == (
        "4b 51 01 00 00 00 00 09 00 34 00 02 00 00 00 01 "
        "00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 07 00 00"
    )


@pytest.mark.parametrize(
    ("at", "value"), [(0, 0x4C), (1, 0x52), (2, 0), (2, 2), (FLAGS_AT, 0x40), (FLAGS_AT, 0x80)]
)
def test_other_magic_versions_and_flags_are_refused(at: int, value: int):
    frame = bytearray(encode_envelope(BARE))
    frame[at] = value
    with pytest.raises(DecodeError):
        decode_envelope(bytes(frame))


@pytest.mark.parametrize("flag", [0x02, 0x10, 0x20])
@pytest.mark.rule("S28")
@pytest.mark.without(
    "wire.envelope:decode_envelope", "(not is_response and flags & _RESPONSE_FLAGS)", "False"
)
def test_what_only_a_response_has_is_refused_in_a_request(flag: int):
    frame = bytearray(encode_envelope(BARE) + bytes(40))
    frame[FLAGS_AT] = flag
    with pytest.raises(DecodeError, match="contradict"):
        decode_envelope(bytes(frame))


@pytest.mark.parametrize("size", range(len(encode_envelope(FULL))))
def test_a_frame_that_is_cut_anywhere_is_refused(size: int):
    with pytest.raises(DecodeError):
        decode_envelope(encode_envelope(FULL)[:size])


@given(st.binary(max_size=60), st.integers(0, 60))
def test_mutated_frames_are_read_or_refused(noise: bytes, at: int):
    frame = encode_envelope(FULL)
    with contextlib.suppress(DecodeError):
        decode_envelope(frame[:at] + noise + frame[at:])


@pytest.mark.rule("S28")
@pytest.mark.without("wire.envelope:_read_extensions", " or len(extensions) >= EXTENSIONS_MAX", "")
def test_extensions_rise_and_are_not_too_many():
    many = dict.fromkeys(range(EXTENSIONS_MAX), b"")
    assert decode_envelope(encode_envelope(replace(BARE, extensions=many)))[0].extensions == many
    with pytest.raises(DecodeError, match="64 read"):
        decode_envelope(encode_envelope(replace(BARE, extensions={**many, 99: b""})))
    for tags in (b"\x00\x05\x00\x00\x00\x05\x00\x00", b"\x00\x05\x00\x00\x00\x04\x00\x00"):
        frame = encode_envelope(BARE)[:-2] + len(tags).to_bytes(2, "big") + tags
        with pytest.raises(DecodeError, match="after 5"):
            decode_envelope(frame)


@pytest.mark.parametrize(
    "wrong",
    [
        {"correlation_id": 2**32},
        {"correlation_id": -1},
        {"api_key": 2**15},
        {"extensions": {1: bytes(65_536)}},
        {"extensions": {65_536: b""}},
        {"extensions": {1: bytes(40_000), 2: bytes(40_000)}},
        {"is_response": True, "leader_epoch": Epoch(2**31)},
        {"target": ReplicaKey(NodeId(2**31), A.directory_id)},
        {"is_response": True, "leader_endpoint": Endpoint("h" * 256, 1)},
    ],
)
def test_what_a_frame_cannot_carry_is_a_value_error(wrong: dict[str, object]):
    with pytest.raises(ValueError, match="a frame can"):
        encode_envelope(replace(BARE, **wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("cluster_id", ["", "x" * 256, "ü" * 128])
def test_a_cluster_id_has_1_to_255_bytes(cluster_id: str):
    with pytest.raises(ValueError, match="allowed are 1 to 255"):
        encode_envelope(replace(BARE, cluster_id=cluster_id))


@pytest.mark.parametrize("port", [0, 65_536])
def test_an_endpoint_has_a_port(port: int):
    with pytest.raises(ValueError, match="a frame can carry"):
        encode_endpoint(Endpoint("h", port))


@pytest.mark.parametrize(
    "data", [b"\x00\x00\x01", b"\x01h\x00\x00", b"\x02h\x00", b"\x01\xff\x00\x01"]
)
def test_an_endpoint_without_host_port_or_utf8_is_refused(data: bytes):
    with pytest.raises(DecodeError):
        read_endpoint(Reader(memoryview(data)))
