"""Targets for the bytes of a connection."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import assert_never

from proofkit.fuzz.target import Target, same
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.logformat import Record, decode_batches, encode_data_batch, stamp
from raftnode.transport.hello import (
    HELLO_BYTES_MAX,
    Hello,
    Identity,
    Refusal,
    RefusalReason,
    decode_hello,
    encode_hello,
    encode_refusal,
)
from raftnode.wire import compact_fetch
from raftnode.wire.codec import Codec, ErrorFrame, Frame, RequestFrame, ResponseFrame
from raftnode.wire.envelope import Envelope, decode_envelope, encode_envelope

A = ReplicaKey(NodeId(1), uuid.UUID(int=1 << 90 | 1))
B = ReplicaKey(NodeId(2), uuid.UUID(int=1 << 91 | 2))
CLUSTER = "jzIrVDQ0QXu0bBSbPcyDpA"
CODEC = Codec(decode_batches)
BATCH = stamp(encode_data_batch([Record(b"key", b"value")], 1_700_000_000_000), Offset(7), Epoch(3))
ENDPOINT = Endpoint("a.example", 9000)

REQUESTS: tuple[Request, ...] = (
    VoteRequest(Epoch(4), A, B, LogPosition(Epoch(3), Offset(10)), pre_vote=True),
    BeginQuorumEpochRequest(Epoch(4), A, B, ENDPOINT),
    EndQuorumEpochRequest(Epoch(4), A, B, (B, A)),
    FetchRequest(
        epoch=Epoch(3),
        replica=A,
        fetch_offset=Offset(10),
        last_fetched_epoch=Epoch(2),
        acknowledged_offset=Offset(9),
        high_watermark=Offset(8),
        round_token=77,
        incarnation=4,
        max_bytes=1 << 20,
        max_wait_ms=500,
        endpoint=ENDPOINT,
    ),
    FetchSnapshotRequest(
        Epoch(3), A, LogPosition(Epoch(2), Offset(10)), 4096, 1 << 20, 7, ENDPOINT
    ),
)
RESPONSES = (
    VoteResponse(ErrorCode.NONE, Epoch(4), None, granted=True),
    BeginQuorumEpochResponse(ErrorCode.NOT_VOTER, Epoch(4), A),
    EndQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(5), B),
    FetchResponse(
        error=ErrorCode.NONE,
        epoch=Epoch(3),
        leader=A,
        leader_endpoint=ENDPOINT,
        high_watermark=Offset(9),
        diverging=LogPosition(Epoch(2), Offset(5)),
        batches=decode_batches(BATCH),
        round_token=5,
    ),
    FetchSnapshotResponse(
        ErrorCode.NONE,
        Epoch(3),
        A,
        LogPosition(Epoch(2), Offset(10)),
        4096,
        ENDPOINT,
        100_000,
        b"bytes of a file",
        7,
    ),
)


def _forms(message: object) -> tuple[bool, ...]:
    """A Fetch and its answer have two forms, the compact one and Kafka's."""
    return (True, False) if isinstance(message, FetchRequest | FetchResponse) else (True,)


FRAMES = (
    *(
        CODEC.encode_request(
            request,
            source=A,
            target=B,
            cluster_id=CLUSTER,
            correlation_id=7 + number,
            compact=compact,
        )
        for number, request in enumerate(REQUESTS)
        for compact in _forms(request)
    ),
    *(
        CODEC.encode_response(
            response,
            source=A,
            target=B,
            cluster_id=CLUSTER,
            correlation_id=7,
            compact=compact,
        )
        for response in RESPONSES
        for compact in _forms(response)
    ),
)


def frame(data: bytes) -> None:
    """Decode a whole frame; a message must encode to the same message."""
    check(CODEC.decode(data))


def check(frame: Frame) -> None:
    """Encode a decoded frame, and decode it again."""
    envelope = frame.envelope
    compact = envelope.api_key == compact_fetch.API_KEY
    match frame:
        case RequestFrame(_, message):
            again = CODEC.encode_request(
                message,
                source=envelope.source,
                target=envelope.target,
                cluster_id=envelope.cluster_id,
                correlation_id=envelope.correlation_id,
                compact=compact,
            )
            same(message, decoded(again))
        case ResponseFrame(_, message):
            if envelope.target is None:
                return  # no node sends that, and the transport has no use for it
            again = CODEC.encode_response(
                message,
                source=envelope.source,
                target=envelope.target,
                cluster_id=envelope.cluster_id,
                correlation_id=envelope.correlation_id,
                compact=compact,
            )
            same(message, decoded(again))
        case ErrorFrame():
            pass
        case _:
            assert_never(frame)


def decoded(again: bytes) -> object:
    """The message of a frame."""
    frame = CODEC.decode(again)
    return frame.error if isinstance(frame, ErrorFrame) else frame.message


def body(sample: Envelope) -> Target:
    """Return a target for a body alone, in the envelope of the sample: it runs quicker."""
    kind = "response" if sample.is_response else "request"
    head = encode_envelope(sample)
    names = {
        1: "fetch",
        52: "vote",
        53: "begin_quorum_epoch",
        54: "end_quorum_epoch",
        59: "fetch_snapshot",
        1001: "compact_fetch",
    }
    name = names[sample.api_key]
    seeds = tuple(
        bytes(decode_envelope(frame)[1])
        for frame in FRAMES
        if decode_envelope(frame)[0].api_key == sample.api_key
        and decode_envelope(frame)[0].is_response == sample.is_response
    )
    return Target(
        f"body-{name.replace('_', '-')}-{kind}",
        lambda data: check(CODEC.decode(head + data)),
        (DecodeError,),
        seeds,
        (f"wire.{name}.decode_{kind}",),
    )


def envelope(data: bytes) -> None:
    """Decode an envelope; it must encode to the same, unknown extensions included."""
    head, rest = decode_envelope(data)
    same((head, bytes(rest)), _split(encode_envelope(head) + bytes(rest)))


def _split(data: bytes) -> tuple[Envelope, bytes]:
    head, rest = decode_envelope(data)
    return head, bytes(rest)


HELLO = Hello(
    Identity(
        key=A,
        cluster_id=CLUSTER,
        incarnation=3,
        peer_endpoint=ENDPOINT,
        line=("00000000000000aa", "00000000000000bb"),
        log_end=Offset(12),
        epoch=Epoch(4),
    ),
    B,
)
REFUSAL = Refusal(RefusalReason.WRONG_REPLICA, "another disk", A, CLUSTER)


def hello(data: bytes) -> None:
    """Decode a hello or a refusal; it must encode to the same."""
    decoded = decode_hello(data)
    if isinstance(decoded, Refusal):
        short = replace(decoded, detail=decoded.detail[:512])
        same(short, decode_hello(encode_refusal(decoded)))
        return
    again = encode_hello(decoded)
    if len(again) <= HELLO_BYTES_MAX:
        same(decoded, decode_hello(again))


TARGETS = (
    Target("wire-frame", frame, (DecodeError,), FRAMES, ("wire.codec.Codec.decode",)),
    Target(
        "wire-envelope",
        envelope,
        (DecodeError,),
        (*FRAMES[::4], encode_envelope(replace(decode_envelope(FRAMES[0])[0], target=None))),
        ("wire.envelope.decode_envelope",),
    ),
    *(body(decode_envelope(frame)[0]) for frame in FRAMES),
    Target(
        "hello",
        hello,
        (DecodeError,),
        (encode_hello(HELLO), encode_refusal(REFUSAL)),
        ("transport.hello.decode_hello",),
    ),
)
