"""Our reader and Kafka's generated reader agree on every body that we write."""

from __future__ import annotations

import uuid

import pytest
from kio.schema.begin_quorum_epoch import v1 as begin
from kio.schema.end_quorum_epoch import v1 as end
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.fetch import v17 as fetch
from kio.schema.fetch_snapshot import v1 as fetch_snapshot
from kio.schema.vote import v2 as vote
from kio.serial import entity_reader

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
    VoteRequest,
    VoteResponse,
)
from raftnode.core.records import Batch
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.wire import Codec, MessageError
from raftnode.wire.envelope import decode_envelope
from raftnode.wire.kafka import CODES_WITHOUT_NUMBER, TOPIC_ID

pytestmark = pytest.mark.rule("P1", "P3")

A = ReplicaKey(NodeId(1), uuid.UUID(int=101))
B = ReplicaKey(NodeId(2), uuid.UUID(int=102))
BEGIN = BeginQuorumEpochRequest(Epoch(4), A, B, Endpoint("a.example", 9000))
CODEC = Codec(lambda data, *, allow_partial_tail=False: ())


def kafka_reads(entity_type, frame: bytes):
    _, body = decode_envelope(frame)
    entity, size = entity_reader(entity_type)(body, 0)
    assert size == len(body)
    return entity


def asked(entity_type, request):
    return kafka_reads(
        entity_type,
        CODEC.encode_request(
            request, source=A, target=B, cluster_id="c", correlation_id=1, compact=False
        ),
    )


def answered(entity_type, response):
    return kafka_reads(
        entity_type,
        CODEC.encode_response(
            response, source=B, target=A, cluster_id="c", correlation_id=1, compact=False
        ),
    )


@pytest.mark.rule("P20")
@pytest.mark.without(
    "wire.fetch:encode_request",
    "last_fetched_epoch=i32(request.last_fetched_epoch)",
    "last_fetched_epoch=i32(-1)",
)
@pytest.mark.without("wire.fetch:encode_request", "cluster_id=cluster_id,", "cluster_id=None,")
def test_kafka_reads_our_fetch_request() -> None:
    message = asked(
        fetch.FetchRequest,
        FetchRequest(
            epoch=Epoch(3),
            replica=A,
            fetch_offset=Offset(10),
            last_fetched_epoch=Epoch(2),
            acknowledged_offset=Offset(9),
            high_watermark=Offset(8),
            round_token=1,
            incarnation=1,
            max_bytes=4096,
            max_wait_ms=500,
        ),
    )
    assert message.cluster_id == "c"
    assert message.replica_state.replica_id == 1
    assert message.max_wait.total_seconds() == 0.5
    (topic,) = message.topics
    (partition,) = topic.partitions
    assert topic.topic_id == TOPIC_ID
    assert partition.fetch_offset == 10
    assert partition.last_fetched_epoch == 2
    assert partition.current_leader_epoch == 3
    assert partition.replica_directory_id == A.directory_id


@pytest.mark.rule("P20")
@pytest.mark.without("wire.fetch:encode_response", "response.diverging is not None", "False")
def test_kafka_reads_our_fetch_response() -> None:
    message = answered(
        fetch.FetchResponse,
        FetchResponse(
            error=ErrorCode.NONE,
            epoch=Epoch(3),
            leader=B,
            high_watermark=Offset(8),
            diverging=LogPosition(Epoch(1), Offset(4)),
            batches=(Batch(Offset(0), Offset(0), Epoch(1), b"one"),) * 2,
        ),
    )
    (partition,) = message.responses[0].partitions
    assert partition.records == b"oneone"
    assert partition.high_watermark == 8
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 3)
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (1, 4)


@pytest.mark.rule("P20", "P22")
def test_kafka_reads_where_to_find_the_snapshot() -> None:
    message = answered(
        fetch.FetchResponse,
        FetchResponse(ErrorCode.NONE, Epoch(3), B, snapshot=LogPosition(Epoch(2), Offset(40))),
    )
    (partition,) = message.responses[0].partitions
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (40, 2)
    assert partition.diverging_epoch.end_offset == -1


@pytest.mark.rule("P25")
@pytest.mark.without(
    "wire.fetch_snapshot:encode_request", "position=i64(request.position)", "position=i64(0)"
)
@pytest.mark.without(
    "wire.fetch_snapshot:encode_response", "size=i64(response.size)", "size=i64(0)"
)
def test_kafka_reads_our_fetch_snapshot() -> None:
    snapshot = LogPosition(Epoch(2), Offset(40))
    message = asked(
        fetch_snapshot.FetchSnapshotRequest,
        FetchSnapshotRequest(Epoch(3), A, snapshot, 4096, 1 << 20),
    )
    (partition,) = message.topics[0].partitions
    assert (message.cluster_id, message.replica_id, message.max_bytes) == ("c", 1, 1 << 20)
    assert message.topics[0].name == "__cluster_metadata"
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (40, 2)
    assert (partition.position, partition.current_leader_epoch) == (4096, 3)
    assert partition.replica_directory_id == A.directory_id
    answer = answered(
        fetch_snapshot.FetchSnapshotResponse,
        FetchSnapshotResponse(
            ErrorCode.POSITION_OUT_OF_RANGE, Epoch(3), B, snapshot, 4096, size=99, data=b"abc"
        ),
    )
    (partition,) = answer.topics[0].partitions
    assert partition.error_code is KafkaError.position_out_of_range
    assert (partition.size, partition.position) == (99, 4096)
    assert partition.unaligned_records == b"abc"
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 3)


@pytest.mark.rule("P5", "P6")
@pytest.mark.without(
    "wire.vote:encode_request", "last_offset=i64(request.last.end_offset)", "last_offset=i64(0)"
)
@pytest.mark.without(
    "wire.vote:encode_request", "kafka.uuid_of(request.voter)", "kafka.uuid_of(request.candidate)"
)
def test_kafka_reads_our_vote() -> None:
    last = LogPosition(Epoch(3), Offset(10))
    message = asked(vote.VoteRequest, VoteRequest(Epoch(4), A, B, last, pre_vote=True))
    partition = message.topics[0].partitions[0]
    assert message.voter_id == 2
    assert partition.voter_directory_id == B.directory_id
    assert partition.replica_directory_id == A.directory_id
    assert (partition.last_offset_epoch, partition.last_offset) == (3, 10)
    assert partition.pre_vote
    answer = answered(vote.VoteResponse, VoteResponse(ErrorCode.NONE, Epoch(4), None, granted=True))
    assert answer.topics[0].partitions[0].vote_granted
    assert answer.topics[0].partitions[0].leader_id == -1


@pytest.mark.rule("P12", "P16")
@pytest.mark.without(
    "wire.begin_quorum_epoch:encode_request",
    "endpoints = (kafka_request.LeaderEndpoint(name=kafka.LISTENER, host=host, port=port),)",
    "endpoints = (kafka_request.LeaderEndpoint(name=kafka.LISTENER, host='nowhere', port=port),)",
)
@pytest.mark.without(
    "wire.end_quorum_epoch:encode_request",
    "for key in request.preferred_successors",
    "for key in reversed(request.preferred_successors)",
)
@pytest.mark.without("wire.kafka:encode_error", "KafkaError(int(error)), {}", "NO_ERROR, {}")
def test_kafka_reads_our_begin_and_end_of_an_epoch() -> None:
    message = asked(begin.BeginQuorumEpochRequest, BEGIN)
    assert message.leader_endpoints[0].host == "a.example"
    assert message.topics[0].partitions[0].voter_directory_id == B.directory_id
    ended = asked(end.EndQuorumEpochRequest, EndQuorumEpochRequest(Epoch(4), A, B, (B, A)))
    partition = ended.topics[0].partitions[0]
    assert [info.candidate_id for info in partition.preferred_candidates] == [2, 1]
    for entity_type, response in (
        (begin.BeginQuorumEpochResponse, BeginQuorumEpochResponse),
        (end.EndQuorumEpochResponse, EndQuorumEpochResponse),
    ):
        answer = answered(entity_type, response(ErrorCode.FENCED_LEADER_EPOCH, Epoch(5), B))
        assert answer.topics[0].partitions[0].error_code is KafkaError.fenced_leader_epoch


@pytest.mark.parametrize("error", ErrorCode)
def test_every_error_code_has_a_place_in_kafkas_message(error: ErrorCode) -> None:
    answer = answered(vote.VoteResponse, VoteResponse(error, Epoch(1), None, granted=False))
    code = answer.topics[0].partitions[0].error_code
    assert code is CODES_WITHOUT_NUMBER.get(error, code)
    assert error in CODES_WITHOUT_NUMBER or code.value == error


PLACE = b"\x02\x13__cluster_metadata\x02\0\0\0\0"
"""One topic by its name, and of that one partition, which is the first."""


@pytest.mark.without("wire.kafka:read_topic", "!= TOPIC", "is None")
@pytest.mark.without("wire.kafka:read_partition", "!= PARTITION", "is None")
@pytest.mark.without("wire.reader:Reader.exactly_one", "!= 2", "> 5")
def test_a_request_is_about_one_topic_and_one_partition() -> None:
    frame = CODEC.encode_request(BEGIN, source=A, target=B, cluster_id="c", correlation_id=1)
    assert frame.count(PLACE) == 1
    for place, complaint in (
        (PLACE.replace(b"data", b"datb"), "topic '__cluster_metadatb'"),
        (PLACE.replace(b"\0\0\0\0", b"\0\0\0\1"), "partition 1"),
        (PLACE.replace(b"\x02\x13", b"\x03\x13"), "2 topics, expected exactly one"),
        (PLACE.replace(b"\x02\0", b"\x04\0"), "3 partitions, expected exactly one"),
    ):
        with pytest.raises(MessageError, match=complaint):
            CODEC.decode(frame.replace(PLACE, place))
