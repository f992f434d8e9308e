"""Round trips of all messages, the rules of S5 and S28, and whatever bytes a stranger sends."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

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
    Response,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.records import Batch
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.wire import Codec, ErrorFrame, MessageError, RequestFrame, ResponseFrame
from raftnode.wire.envelope import decode_envelope, encode_envelope

A = ReplicaKey(NodeId(1), uuid.UUID(int=101))
B = ReplicaKey(NodeId(2), uuid.UUID(int=102))
CLUSTER = "jzIrVDQ0QXu0bBSbPcyDpA"


def decode_batches(
    data: bytes | memoryview, *, allow_partial_tail: bool = False
) -> tuple[Batch, ...]:
    """Stands in for storage: batches of u8 length, u8 base, u8 epoch, bytes."""
    found: list[Batch] = []
    rest = bytes(data)
    while rest:
        size = rest[0]
        if size < 3 or size > len(rest):
            raise DecodeError("torn batch")
        found.append(make_batch(rest[:size]))
        rest = rest[size:]
    return tuple(found)


def make_batch(data: bytes) -> Batch:
    return Batch(Offset(data[1]), Offset(data[1]), Epoch(data[2]), data)


CODEC = Codec(decode_batches)

INT32, INT64 = 2**31 - 1, 2**63 - 1
uuids = st.integers(1, 2**128 - 1).map(lambda value: uuid.UUID(int=value))
keys = st.builds(ReplicaKey, st.integers(0, INT32).map(NodeId), uuids)
epochs = st.integers(-1, INT32).map(Epoch)
offsets = st.integers(-1, INT64).map(Offset)
reached = st.integers(0, INT64).map(Offset)
hosts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
endpoints = st.builds(Endpoint, hosts, st.integers(1, 65535))
positions = st.builds(LogPosition, epochs, offsets)
errors = st.sampled_from(ErrorCode)
cluster_ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
batches = st.builds(
    lambda base, epoch, rest: make_batch(bytes((len(rest) + 3, base, epoch)) + rest),
    st.integers(0, 255),
    st.integers(0, 255),
    st.binary(max_size=200),
)

requests = st.one_of(
    st.builds(VoteRequest, epochs, keys, keys, positions, st.booleans()),
    st.builds(BeginQuorumEpochRequest, epochs, keys, keys, st.none() | endpoints),
    st.builds(
        EndQuorumEpochRequest,
        epochs,
        st.none() | keys,
        keys,
        st.lists(keys, max_size=9).map(tuple),
    ),
    st.builds(
        FetchRequest,
        epoch=epochs,
        replica=keys,
        fetch_offset=reached,
        last_fetched_epoch=epochs,
        acknowledged_offset=offsets,
        high_watermark=offsets,
        round_token=st.integers(0, INT64),
        incarnation=st.integers(0, INT64),
        sequence=st.integers(0, INT64),
        max_bytes=st.integers(0, INT32),
        max_wait_ms=st.integers(0, INT32),
        endpoint=st.none() | endpoints,
        raft_version_max=st.integers(0, 2**15 - 1),
        promise_ms=st.integers(0, INT64),
    ),
    st.builds(
        FetchSnapshotRequest,
        epoch=epochs,
        replica=keys,
        snapshot=positions,
        position=st.integers(0, INT64),
        max_bytes=st.integers(0, INT32),
        round_token=st.integers(0, INT64),
        endpoint=st.none() | endpoints,
    ),
)
responses = st.one_of(
    st.builds(VoteResponse, errors, epochs, st.none() | keys, st.just(value=False)),
    st.builds(VoteResponse, st.just(ErrorCode.NONE), epochs, st.none() | keys, st.booleans()),
    st.builds(BeginQuorumEpochResponse, errors, epochs, st.none() | keys),
    st.builds(EndQuorumEpochResponse, errors, epochs, st.none() | keys),
    st.builds(
        FetchResponse,
        error=errors,
        epoch=epochs,
        leader=st.none() | keys,
        leader_endpoint=st.none() | endpoints,
        high_watermark=offsets,
        log_start_offset=offsets,
        diverging=st.none() | st.builds(LogPosition, epochs, reached),
        snapshot=st.none() | st.builds(LogPosition, epochs, reached),
        batches=st.lists(batches, max_size=5).map(tuple),
        round_token=st.integers(0, INT64),
    ),
    st.builds(
        FetchSnapshotResponse,
        error=errors,
        epoch=epochs,
        leader=st.none() | keys,
        snapshot=positions,
        position=st.integers(0, INT64),
        leader_endpoint=st.none() | endpoints,
        size=st.integers(0, INT64),
        data=st.binary(max_size=300),
        round_token=st.integers(0, INT64),
    ),
)


def sender_of(request: Request) -> ReplicaKey:
    match request:
        case VoteRequest():
            return request.candidate
        case BeginQuorumEpochRequest():
            return request.leader
        case EndQuorumEpochRequest():
            return request.leader or A
        case FetchRequest() | FetchSnapshotRequest():
            return request.replica


def request_bytes(
    request: Request, cluster_id: str | None = CLUSTER, *, compact: bool = True
) -> bytes:
    fetches = isinstance(request, FetchRequest | FetchSnapshotRequest)
    target = B if fetches else request.voter
    return CODEC.encode_request(
        request,
        source=sender_of(request),
        target=target,
        cluster_id=cluster_id,
        correlation_id=7,
        compact=compact,
    )


def response_bytes(response: Response, *, compact: bool = True) -> bytes:
    return CODEC.encode_response(
        response,
        source=A,
        target=B,
        cluster_id=CLUSTER,
        correlation_id=2**32 - 1,
        compact=compact,
    )


FETCH = FetchRequest(
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
    endpoint=Endpoint("a.example", 9000),
)
AWAITED = replace(FETCH, wants_high_watermark=True)
VOTE = VoteRequest(Epoch(4), A, B, LogPosition(Epoch(3), Offset(10)), pre_vote=True)
BEGIN = BeginQuorumEpochRequest(Epoch(4), A, B, Endpoint("a.example", 9000))
END = EndQuorumEpochRequest(Epoch(4), A, B, (B, A))
FETCHED = FetchResponse(
    error=ErrorCode.NONE,
    epoch=Epoch(3),
    leader=A,
    leader_endpoint=Endpoint("a.example", 9000),
    high_watermark=Offset(9),
    diverging=LogPosition(Epoch(-1), Offset(0)),
    batches=(make_batch(b"\x05\x01\x02ab"), make_batch(b"\x04\x02\x02c")),
    round_token=5,
)
PIECE = FetchSnapshotRequest(
    Epoch(3), A, LogPosition(Epoch(2), Offset(10)), 4096, 1 << 20, 7, Endpoint("a.example", 9000)
)
PIECED = FetchSnapshotResponse(
    ErrorCode.NONE,
    Epoch(3),
    A,
    LogPosition(Epoch(2), Offset(10)),
    4096,
    Endpoint("a.example", 9000),
    100_000,
    b"bytes of a file",
    7,
)
SAMPLES = (
    request_bytes(FETCH, compact=False),
    request_bytes(AWAITED, compact=False),
    response_bytes(FETCHED, compact=False),
    *(request_bytes(request) for request in (FETCH, AWAITED, VOTE, BEGIN, END, PIECE)),
    *(
        response_bytes(response)
        for response in (
            FETCHED,
            PIECED,
            VoteResponse(ErrorCode.NONE, Epoch(4), None, granted=True),
            BeginQuorumEpochResponse(ErrorCode.NOT_VOTER, Epoch(4), A),
            EndQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(5), B),
        )
    ),
)


@pytest.mark.rule("P1", "P5", "P6", "P12", "P16", "P20")
@given(requests, cluster_ids, st.booleans())
@settings(max_examples=500, deadline=None)
def test_every_request_comes_back_as_it_was(
    request: Request, cluster_id: str, compact: bool
) -> None:
    frame = CODEC.decode(request_bytes(request, cluster_id, compact=compact))
    assert isinstance(frame, RequestFrame)
    assert frame.message == request
    assert frame.envelope.source == sender_of(request)
    assert frame.envelope.cluster_id == cluster_id
    assert frame.envelope.correlation_id == 7


@pytest.mark.rule("P2", "P12", "P20")
@given(responses, st.booleans())
@example(
    FetchSnapshotResponse(
        ErrorCode.NONE,
        Epoch(0),
        ReplicaKey(NodeId(0), uuid.UUID(int=1)),
        LogPosition(Epoch(0), Offset(0)),
        0,
    ),
    True,
)
@settings(max_examples=500, deadline=None)
def test_every_response_comes_back_as_it_was(response: Response, compact: bool) -> None:
    frame = CODEC.decode(response_bytes(response, compact=compact))
    assert isinstance(frame, ResponseFrame)
    assert frame.message == response
    assert (frame.envelope.source, frame.envelope.target) == (A, B)
    assert (frame.envelope.leader, frame.envelope.leader_epoch) == (
        response.leader,
        response.epoch,
    )


@pytest.mark.rule("P56")
@pytest.mark.without("wire.fetch:encode_request", "if request.raft_version_max:", "if False:")
@pytest.mark.without("wire.compact_fetch:encode_request", "request.raft_version_max,", "0,")
def test_a_fetch_carries_the_newest_version_that_its_program_knows() -> None:
    for compact in (True, False):
        frame = CODEC.decode(request_bytes(replace(FETCH, raft_version_max=2), compact=compact))
        assert isinstance(frame, RequestFrame)
        assert isinstance(frame.message, FetchRequest)
        assert frame.message.raft_version_max == 2


@pytest.mark.rule("P20")
@pytest.mark.parametrize("compact", [True, False])
def test_records_of_a_fetch_pass_through_byte_for_byte(compact: bool) -> None:
    raw = b"".join(batch.data for batch in FETCHED.batches)
    assert raw in response_bytes(FETCHED, compact=compact)


@pytest.mark.rule("P4", "S5")
@pytest.mark.parametrize("compact", [True, False])
def test_observers_first_fetch_may_lack_cluster_and_receiver(compact: bool) -> None:
    frame = CODEC.decode(
        CODEC.encode_request(
            FETCH, source=A, target=None, cluster_id=None, correlation_id=0, compact=compact
        )
    )
    assert isinstance(frame, RequestFrame)
    assert frame.envelope.target is None
    assert frame.envelope.cluster_id is None
    assert frame.message == replace(FETCH, blank=True)


@pytest.mark.rule("S5")
@pytest.mark.parametrize("compact", [True, False])
def test_answer_to_a_blank_fetcher_names_the_cluster_that_it_is_to_join(compact: bool) -> None:
    answer = replace(FETCHED, batches=(), join="some-cluster")
    frame = CODEC.decode(response_bytes(answer, compact=compact))
    assert isinstance(frame, ResponseFrame)
    assert frame.message == answer


@pytest.mark.rule("S5")
@pytest.mark.parametrize("cluster_id", ["", "a\nnode.id=5", "a=b", "x" * 65, ".."])
@pytest.mark.parametrize("compact", [True, False])
def test_cluster_to_join_that_a_properties_file_would_misread_is_refused(
    cluster_id: str, compact: bool
) -> None:
    frame = response_bytes(replace(FETCHED, batches=(), join=cluster_id), compact=compact)
    with pytest.raises(DecodeError, match="not a cluster id"):
        CODEC.decode(frame)


@pytest.mark.rule("P4", "S5")
@pytest.mark.parametrize("request_", [VOTE, BEGIN, END, PIECE])
@pytest.mark.without(
    "wire.codec:Codec.encode_request",
    "if cluster_id is None and key not in _FETCHES:",
    "if False:",
)
def test_voters_requests_without_a_cluster_id_are_refused_on_both_sides(request_: Request) -> None:
    with pytest.raises(ValueError, match="needs a cluster id"):
        request_bytes(request_, None)
    envelope, body = decode_envelope(request_bytes(request_))
    with pytest.raises(MessageError) as caught:
        CODEC.decode(encode_envelope(replace(envelope, cluster_id=None)) + bytes(body))
    assert caught.value.error is ErrorCode.INVALID_REQUEST


@pytest.mark.rule("P10", "S5")
@pytest.mark.parametrize("request_", [VOTE, BEGIN, END])
def test_voters_requests_without_a_receiver_are_refused(request_: Request) -> None:
    envelope, body = decode_envelope(request_bytes(request_))
    with pytest.raises(MessageError):
        CODEC.decode(encode_envelope(replace(envelope, target=None)) + bytes(body))


@pytest.mark.rule("S28")
@pytest.mark.parametrize("request_", [FETCH, AWAITED, VOTE, BEGIN, END, PIECE])
def test_sender_in_body_and_envelope_must_be_the_same(request_: Request) -> None:
    envelope, body = decode_envelope(request_bytes(request_, compact=False))
    other = ReplicaKey(NodeId(9), uuid.UUID(int=9))
    with pytest.raises(MessageError):
        CODEC.decode(encode_envelope(replace(envelope, source=other)) + bytes(body))
    with pytest.raises(ValueError, match="cannot send"):
        CODEC.encode_request(
            request_ if request_ is not END else VOTE,
            source=other,
            target=B,
            cluster_id=CLUSTER,
            correlation_id=0,
        )


@pytest.mark.rule("S28")
@pytest.mark.parametrize("request_", [VOTE, BEGIN])
def test_receiver_in_body_and_envelope_must_be_the_same(request_: Request) -> None:
    envelope, body = decode_envelope(request_bytes(request_))
    with pytest.raises(MessageError):
        CODEC.decode(encode_envelope(replace(envelope, target=A)) + bytes(body))


@pytest.mark.rule("P4", "S28")
@pytest.mark.parametrize("request_", [FETCH, VOTE, BEGIN, END, PIECE])
@pytest.mark.without(
    "wire.kafka:check_cluster_id", "if cluster_id != envelope.cluster_id:", "if False:"
)
def test_cluster_in_body_and_envelope_must_be_the_same(request_: Request) -> None:
    envelope, body = decode_envelope(request_bytes(request_, compact=False))
    with pytest.raises(MessageError, match="cluster"):
        CODEC.decode(encode_envelope(replace(envelope, cluster_id="other")) + bytes(body))


@pytest.mark.rule("S1", "S28")
@pytest.mark.without(
    "wire.kafka:check_leader", 'check_id("leader", leader_id, envelope.leader)', "pass"
)
@pytest.mark.without("wire.kafka:check_leader", "if epoch != envelope.leader_epoch:", "if False:")
def test_leader_in_body_and_envelope_must_be_the_same() -> None:
    envelope, body = decode_envelope(response_bytes(FETCHED, compact=False))
    for changed in (
        replace(envelope, leader=B),
        replace(envelope, leader=None),
        replace(envelope, leader_epoch=Epoch(9)),
    ):
        with pytest.raises(MessageError):
            CODEC.decode(encode_envelope(changed) + bytes(body))


@pytest.mark.parametrize(("api_key", "api_version"), [(1, 16), (52, 1), (3, 0), (-1, 2), (999, 0)])
def test_unknown_api_or_version_is_answered_with_unsupported_version(
    api_key: int, api_version: int
) -> None:
    envelope, body = decode_envelope(request_bytes(FETCH))
    unknown = replace(envelope, api_key=api_key, api_version=api_version)
    with pytest.raises(MessageError) as caught:
        CODEC.decode(encode_envelope(unknown) + bytes(body))
    assert caught.value.error is ErrorCode.UNSUPPORTED_VERSION
    answer = CODEC.decode(
        CODEC.encode_error(
            caught.value.envelope,
            caught.value.error,
            str(caught.value),
            source=B,
            cluster_id=CLUSTER,
        )
    )
    assert isinstance(answer, ErrorFrame)
    assert answer.error is ErrorCode.UNSUPPORTED_VERSION
    assert str(api_key) in answer.message
    assert answer.envelope.correlation_id == 7
    assert answer.envelope.target == A


@pytest.mark.rule("S28")
def test_unknown_extensions_are_skipped() -> None:
    envelope, body = decode_envelope(request_bytes(FETCH))
    extended = replace(envelope, extensions={**envelope.extensions, 65535: b"of the future"})
    frame = CODEC.decode(encode_envelope(extended) + bytes(body))
    assert isinstance(frame, RequestFrame)
    assert frame.message == FETCH


@pytest.mark.rule("S28")
def test_unknown_tagged_fields_of_kafka_are_skipped() -> None:
    envelope, body = decode_envelope(request_bytes(VOTE))
    assert body[-1] == 0  # no tagged fields at the end of the message
    later = bytes(body[:-1]) + b"\x01\x09\x03abc"
    frame = CODEC.decode(encode_envelope(envelope) + later)
    assert isinstance(frame, RequestFrame)
    assert frame.message == VOTE


@pytest.mark.rule("P3")
@pytest.mark.without(
    "wire.kafka:decode_error", "else ErrorCode.UNKNOWN_SERVER_ERROR", "else ErrorCode.NONE"
)
def test_error_codes_that_this_version_does_not_know_are_never_success() -> None:
    envelope, body = decode_envelope(
        response_bytes(VoteResponse(ErrorCode.NOT_VOTER, Epoch(4), None, granted=False))
    )
    later = replace(envelope, extensions={1: (32000).to_bytes(2, "big")})
    frame = CODEC.decode(encode_envelope(later) + bytes(body))
    assert isinstance(frame, ResponseFrame)
    assert frame.message.error is ErrorCode.INCONSISTENT_VOTER_SET
    envelope, body = decode_envelope(
        response_bytes(BeginQuorumEpochResponse(ErrorCode.NONE, Epoch(4), None))
    )
    frame = CODEC.decode(encode_envelope(replace(envelope, extensions=later.extensions)) + body)
    assert isinstance(frame, ResponseFrame)
    assert frame.message.error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_frames_beyond_the_limit_are_refused_on_both_sides() -> None:
    small = Codec(decode_batches, frame_bytes_max=100)
    with pytest.raises(DecodeError, match="the limit is 100"):
        small.decode(bytes(101))
    with pytest.raises(ValueError, match="the limit is 100"):
        small.encode_response(FETCHED, source=A, target=B, cluster_id=CLUSTER, correlation_id=1)


def test_values_that_kafka_cannot_carry_are_refused_when_encoding() -> None:
    nowhere = LogPosition(Epoch(-1), Offset(-1))
    for compact in (True, False):
        with pytest.raises(ValueError, match="diverge"):
            response_bytes(replace(FETCHED, diverging=nowhere), compact=compact)
        with pytest.raises(ValueError, match="not a snapshot"):
            response_bytes(replace(FETCHED, snapshot=nowhere), compact=compact)
        with pytest.raises(ValueError, match="cannot carry"):
            request_bytes(replace(FETCH, epoch=Epoch(2**31)), compact=compact)
        with pytest.raises(ValueError, match=r"64-bit|cannot carry"):
            request_bytes(replace(FETCH, round_token=2**63), compact=compact)
    with pytest.raises(ValueError, match="no directory id"):
        request_bytes(
            replace(FETCH, replica=ReplicaKey(NodeId(1), uuid.UUID(int=0))), compact=False
        )
    with pytest.raises(ValueError, match="cannot carry"):
        response_bytes(replace(FETCHED, high_watermark=Offset(2**63)))


def test_damaged_records_are_the_batch_decoders_error() -> None:
    frame = response_bytes(FETCHED).replace(b"\x05\x01\x02ab", b"\xff\x01\x02ab")
    with pytest.raises(MessageError, match="torn batch"):
        CODEC.decode(frame)


def decodes_or_refuses(data: bytes) -> None:
    try:
        frame = CODEC.decode(data)
    except DecodeError:
        return
    assert isinstance(frame, RequestFrame | ResponseFrame | ErrorFrame)


@given(st.binary(max_size=400))
@settings(max_examples=1500, deadline=None)
def test_random_bytes_decode_or_are_refused(data: bytes) -> None:
    decodes_or_refuses(data)


@given(st.sampled_from(SAMPLES), st.data())
@settings(max_examples=800, deadline=None)
def test_truncated_frames_are_refused(frame: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(DecodeError):
        CODEC.decode(frame[:cut])


@given(st.sampled_from(SAMPLES), st.binary(min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_bytes_after_the_end_are_refused(frame: bytes, tail: bytes) -> None:
    with pytest.raises(DecodeError):
        CODEC.decode(frame + tail)


@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6),
)
@settings(max_examples=3000, deadline=None)
@example(SAMPLES[0], [(0, 0)])
def test_flipped_bytes_decode_or_are_refused(frame: bytes, flips: list[tuple[int, int]]) -> None:
    damaged = bytearray(frame)
    for place, value in flips:
        damaged[place % len(damaged)] = value
    decodes_or_refuses(bytes(damaged))


@given(st.sampled_from(SAMPLES), st.binary(max_size=300))
@settings(max_examples=2000, deadline=None)
def test_random_bodies_under_a_sound_envelope_decode_or_are_refused(
    frame: bytes, body: bytes
) -> None:
    envelope, _ = decode_envelope(frame)
    decodes_or_refuses(encode_envelope(envelope) + body)


def test_every_array_with_a_huge_length_is_refused_without_allocating() -> None:
    """The frame on which kio's own reader ends the process: each byte made a large varint."""
    for sample in SAMPLES:
        envelope, body = decode_envelope(sample)
        for place in range(len(body)):
            huge = bytes(body[:place]) + b"\xff\xff\xff\xff\x0f" + bytes(body[place + 1 :])
            decodes_or_refuses(encode_envelope(envelope) + huge)
