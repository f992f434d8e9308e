"""The compact form of Fetch: its bytes, field by field, and what a reader of it refuses."""

from __future__ import annotations

import struct
import uuid
from dataclasses import replace

import pytest

from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse
from raftnode.core.records import Batch
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.wire import Codec, MessageError, RequestFrame, ResponseFrame, compact_fetch
from raftnode.wire.envelope import Envelope, decode_envelope, encode_envelope

pytestmark = pytest.mark.rule("P20", "S28")

A = ReplicaKey(NodeId(1), uuid.UUID(int=101))
B = ReplicaKey(NodeId(2), uuid.UUID(int=102))
CODEC = Codec(lambda data, **_: (Batch(Offset(0), Offset(0), Epoch(1), bytes(data)),))
PLACE = "wire.compact_fetch"

REQUEST = FetchRequest(
    epoch=Epoch(1),
    replica=A,
    fetch_offset=Offset(2),
    last_fetched_epoch=Epoch(3),
    acknowledged_offset=Offset(4),
    high_watermark=Offset(5),
    round_token=6,
    incarnation=7,
    sequence=8,
    max_bytes=9,
    max_wait_ms=10,
    raft_version_max=11,
    promise_ms=12,
    endpoint=Endpoint("a.example", 9000),
)
REQUEST_BYTES = (
    b"\0\0\0\1" b"\0\0\0\0\0\0\0\2" b"\0\0\0\3" b"\0\0\0\0\0\0\0\4" b"\0\0\0\0\0\0\0\5"
    b"\0\0\0\0\0\0\0\6" b"\0\0\0\0\0\0\0\7" b"\0\0\0\0\0\0\0\x08" b"\0\0\0\x09" b"\0\0\0\x0a"
    b"\0\x0b" b"\0\0\0\0\0\0\0\x0c" b"\1" b"\x09a.example\x23\x28"
)  # fmt: skip
RESPONSE = FetchResponse(
    error=ErrorCode.FENCED_LEADER_EPOCH,
    epoch=Epoch(3),
    leader=B,
    leader_endpoint=Endpoint("b.example", 9000),
    high_watermark=Offset(4),
    log_start_offset=Offset(5),
    diverging=LogPosition(Epoch(7), Offset(8)),
    snapshot=LogPosition(Epoch(9), Offset(10)),
    batches=(Batch(Offset(0), Offset(0), Epoch(1), b"records"),),
    round_token=6,
    join="cluster",
)
RESPONSE_BYTES = (
    b"\0\x4a" b"\0\0\0\0\0\0\0\4" b"\0\0\0\0\0\0\0\5" b"\0\0\0\0\0\0\0\6" b"\0\0\0\7" b"\7"
    b"\0\0\0\7" b"\0\0\0\0\0\0\0\x08" b"\0\0\0\x09" b"\0\0\0\0\0\0\0\x0a" b"\7cluster" b"records"
)  # fmt: skip

FIELDS = (
    ("epoch", 0, "i", -2),
    ("fetch offset", 4, "q", -1),
    ("last fetched epoch", 12, "i", -2),
    ("acknowledged offset", 16, "q", -2),
    ("high watermark", 24, "q", -2),
    ("round token", 32, "q", -1),
    ("incarnation", 40, "q", -1),
    ("sequence", 48, "q", -1),
    ("max bytes", 56, "i", -1),
    ("max wait", 60, "i", -1),
    ("raft.version", 64, "h", -1),
    ("promise", 66, "q", -1),
)
"""Each number of a request: where it stands, its type and the largest value that is refused."""


def request_frame() -> tuple[Envelope, bytes]:
    frame = CODEC.encode_request(REQUEST, source=A, target=B, cluster_id="c", correlation_id=1)
    envelope, body = decode_envelope(frame)
    return envelope, bytes(body)


def response_frame() -> tuple[Envelope, bytes]:
    frame = CODEC.encode_response(RESPONSE, source=B, target=A, cluster_id="c", correlation_id=1)
    envelope, body = decode_envelope(frame)
    return envelope, bytes(body)


def test_a_request_is_these_bytes_and_an_envelope_without_extensions() -> None:
    envelope, body = request_frame()
    assert body == REQUEST_BYTES
    assert (envelope.api_key, envelope.api_version) == (1001, 0)
    assert (envelope.source, envelope.target, envelope.cluster_id) == (A, B, "c")
    assert not envelope.extensions
    frame = CODEC.decode(encode_envelope(envelope) + body)
    assert isinstance(frame, RequestFrame)
    assert frame.message == REQUEST


def test_a_response_is_these_bytes_and_an_envelope_with_the_leader() -> None:
    envelope, body = response_frame()
    assert body == RESPONSE_BYTES
    assert (envelope.leader, envelope.leader_epoch) == (B, 3)
    assert envelope.leader_endpoint == RESPONSE.leader_endpoint
    frame = CODEC.decode(encode_envelope(envelope) + body)
    assert isinstance(frame, ResponseFrame)
    assert frame.message == RESPONSE


def test_the_replica_of_a_fetch_is_who_the_envelope_names() -> None:
    """One place only: there is no second identity that could contradict the first."""
    envelope, body = request_frame()
    frame = CODEC.decode(encode_envelope(replace(envelope, source=B, target=A)) + body)
    assert isinstance(frame, RequestFrame)
    assert isinstance(frame.message, FetchRequest)
    assert frame.message.replica == B


@pytest.mark.without(
    f"{PLACE}:decode_request",
    "min(round_token, incarnation, sequence, raft_version_max, promise_ms) < 0",
    "False",
)
@pytest.mark.without(f"{PLACE}:decode_request", "if max_bytes < 0 or max_wait_ms < 0:", "if False:")
def test_numbers_below_what_is_allowed_are_refused() -> None:
    envelope, body = request_frame()
    for name, at, kind, value in FIELDS:
        size = struct.calcsize(kind)
        low, least = (struct.pack(f">{kind}", number) for number in (value, value + 1))
        frame = encode_envelope(envelope) + body[:at] + least + body[at + size :]
        assert isinstance(CODEC.decode(frame), RequestFrame), name
        with pytest.raises(MessageError) as caught:
            CODEC.decode(encode_envelope(envelope) + body[:at] + low + body[at + size :])
        assert caught.value.error is ErrorCode.INVALID_REQUEST, name


@pytest.mark.without(f"{PLACE}:decode_request", "flags & ~_REQUEST_FLAGS", "False")
def test_unknown_flags_of_a_request_are_refused() -> None:
    envelope, body = request_frame()
    with pytest.raises(MessageError, match="unknown flags 0x03"):
        CODEC.decode(encode_envelope(envelope) + body[:74] + b"\3" + body[75:])


@pytest.mark.without(f"{PLACE}:decode_response", "flags & ~_RESPONSE_FLAGS", "False")
@pytest.mark.without(f"{PLACE}:decode_response", "if round_token < 0:", "if False:")
def test_a_response_that_is_not_sound_is_refused() -> None:
    envelope, body = response_frame()
    for at, data, complaint in (
        (30, b"\x0f", "unknown flags"),
        (18, b"\xff", "round token"),
        (2, b"\xff", "offset"),
        (31, b"\xff", "epoch"),
        (35, b"\xff", "offset"),
        (29, b"\x08", "expected at"),
        (29, b"\x06", "after the end"),
        (55, b"\6", "after the end"),
    ):
        with pytest.raises(MessageError, match=complaint):
            CODEC.decode(encode_envelope(envelope) + body[:at] + data + body[at + len(data) :])


@pytest.mark.rule("P3")
@pytest.mark.without(
    f"{PLACE}:decode_response", "else ErrorCode.UNKNOWN_SERVER_ERROR", "else ErrorCode.NONE"
)
def test_an_unknown_error_code_is_never_success() -> None:
    envelope, body = response_frame()
    frame = CODEC.decode(encode_envelope(envelope) + b"\x7d\0" + body[2:])
    assert isinstance(frame, ResponseFrame)
    assert frame.message.error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_every_error_code_has_a_number_of_its_own() -> None:
    for error in ErrorCode:
        frame = CODEC.decode(
            CODEC.encode_response(
                replace(RESPONSE, error=error),
                source=B,
                target=A,
                cluster_id="c",
                correlation_id=1,
            )
        )
        assert isinstance(frame, ResponseFrame)
        assert frame.message.error is error


def test_its_api_key_is_above_those_of_kafka() -> None:
    assert compact_fetch.API_KEY > 1000
