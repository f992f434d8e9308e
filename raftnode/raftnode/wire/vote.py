"""Vote (api key 52, version 2) as Kafka writes it (KIP-595, KIP-856; pre-vote of KIP-996)."""

from __future__ import annotations

import struct

from kio.schema.vote.v2 import request as kafka_request
from kio.schema.vote.v2 import response as kafka_response
from kio.static.primitive import i32, i64

from raftnode.core.messages import VoteRequest, VoteResponse
from raftnode.core.types import LogPosition
from raftnode.errors import DecodeError
from raftnode.wire import kafka
from raftnode.wire.envelope import Envelope
from raftnode.wire.reader import Reader, replica_key

API_KEY = 52
VERSION = 2

_PARTITION = struct.Struct(">ii16s16siq")
_write_request = kafka.writer_of(kafka_request.VoteRequest)
_write_response = kafka.writer_of(kafka_response.VoteResponse)


def encode_request(request: VoteRequest, cluster_id: str | None) -> kafka.Body:
    """Encode; every field has its place in Kafka's message."""
    partition = kafka_request.PartitionData(
        partition_index=kafka.PARTITION,
        replica_epoch=i32(request.epoch),
        replica_id=kafka.broker_id(request.candidate),
        replica_directory_id=kafka.uuid_of(request.candidate),
        voter_directory_id=kafka.uuid_of(request.voter),
        last_offset_epoch=i32(request.last.epoch),
        last_offset=i64(request.last.end_offset),
        pre_vote=request.pre_vote,
    )
    topic = kafka_request.TopicData(topic_name=kafka.TOPIC, partitions=(partition,))
    message = kafka_request.VoteRequest(
        cluster_id=cluster_id, voter_id=kafka.broker_id(request.voter), topics=(topic,)
    )
    return kafka.Body(_write_request(message))


def decode_request(envelope: Envelope, reader: Reader) -> VoteRequest:
    """Decode; the candidate must be the sender, the voter the receiver."""
    kafka.read_cluster_id(reader, envelope)
    voter_id = reader.i32()
    kafka.read_topic(reader)
    start = reader.view(_PARTITION.size)
    epoch, candidate_id, candidate_uuid, voter_uuid, last_epoch, last_offset = _PARTITION.unpack(
        start
    )
    pre_vote = reader.boolean()
    for _ in range(3):
        reader.skip_tags()
    candidate = replica_key(candidate_id, candidate_uuid)
    voter = replica_key(voter_id, voter_uuid)
    if candidate != envelope.source or voter != kafka.target_of(envelope):
        raise DecodeError(
            f"a vote of {candidate} to {voter} from {envelope.source} to {envelope.target}"
        )
    return VoteRequest(
        epoch=kafka.epoch_of(epoch),
        candidate=candidate,
        voter=voter,
        last=LogPosition(kafka.epoch_of(last_epoch), kafka.offset_of(last_offset)),
        pre_vote=pre_vote,
    )


def encode_response(response: VoteResponse) -> kafka.Body:
    """Encode; the leader's UUID stands in the envelope."""
    error, extensions = kafka.encode_error(response.error)
    partition = kafka_response.PartitionData(
        partition_index=kafka.PARTITION,
        error_code=error,
        leader_id=kafka.broker_id(response.leader),
        leader_epoch=i32(response.epoch),
        vote_granted=response.granted,
    )
    topic = kafka_response.TopicData(topic_name=kafka.TOPIC, partitions=(partition,))
    message = kafka_response.VoteResponse(error_code=kafka.NO_ERROR, topics=(topic,))
    return kafka.Body(_write_response(message), extensions)


def decode_response(envelope: Envelope, reader: Reader) -> VoteResponse:
    """Decode; refuse a vote that is granted together with an error."""
    top_error = reader.i16()
    kafka.read_topic(reader)
    error_code = reader.i16()
    kafka.check_leader(envelope, reader.i32(), reader.i32())
    granted = reader.boolean()
    for _ in range(3):
        reader.skip_tags()
    error = kafka.decode_error(envelope, top_error, error_code)
    if granted and error:
        raise DecodeError(f"a vote granted with error {error.name}")
    return VoteResponse(error, kafka.epoch_of(envelope.leader_epoch), envelope.leader, granted)
