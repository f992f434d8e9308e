"""EndQuorumEpoch (api key 54, version 1) as Kafka writes it (KIP-595, KIP-856).

Kafka's message names no receiver and no leader UUID: both are in the envelope.
"""

from __future__ import annotations

from kio.schema.end_quorum_epoch.v1 import request as kafka_request
from kio.schema.end_quorum_epoch.v1 import response as kafka_response
from kio.static.primitive import i32

from raftnode.core.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from raftnode.core.types import ReplicaKey
from raftnode.wire import kafka
from raftnode.wire.begin_quorum_epoch import read_leader_endpoint
from raftnode.wire.envelope import Envelope
from raftnode.wire.reader import Reader

API_KEY = 54
VERSION = 1

_write_request = kafka.writer_of(kafka_request.EndQuorumEpochRequest)
_write_response = kafka.writer_of(kafka_response.EndQuorumEpochResponse)


def encode_request(request: EndQuorumEpochRequest, cluster_id: str | None) -> kafka.Body:
    """Encode; leader -1 is a candidate that gives up (S17)."""
    successors = tuple(
        kafka_request.ReplicaInfo(
            candidate_id=kafka.broker_id(key), candidate_directory_id=kafka.uuid_of(key)
        )
        for key in request.preferred_successors
    )
    partition = kafka_request.PartitionData(
        partition_index=kafka.PARTITION,
        leader_id=kafka.broker_id(request.leader),
        leader_epoch=i32(request.epoch),
        preferred_candidates=successors,
    )
    message = kafka_request.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=(kafka_request.TopicData(topic_name=kafka.TOPIC, partitions=(partition,)),),
        leader_endpoints=(),
    )
    return kafka.Body(_write_request(message))


def decode_request(envelope: Envelope, reader: Reader) -> EndQuorumEpochRequest:
    """Decode; a leader must be the sender, the voter is the envelope's receiver."""
    kafka.read_cluster_id(reader, envelope)
    kafka.read_topic(reader)
    leader: ReplicaKey | None = None
    if (leader_id := reader.i32()) != -1:
        kafka.check_id("leader", leader_id, envelope.source)
        leader = envelope.source
    epoch = kafka.epoch_of(reader.i32())
    successors: list[ReplicaKey] = []
    for _ in reader.array(item_size_min=21):
        successors.append(kafka.read_key(reader))
        reader.skip_tags()
    reader.skip_tags()
    reader.skip_tags()
    read_leader_endpoint(reader)
    reader.skip_tags()
    return EndQuorumEpochRequest(epoch, leader, kafka.target_of(envelope), tuple(successors))


def encode_response(response: EndQuorumEpochResponse) -> kafka.Body:
    """Encode; the leader's UUID stands in the envelope."""
    error, extensions = kafka.encode_error(response.error)
    partition = kafka_response.PartitionData(
        partition_index=kafka.PARTITION,
        error_code=error,
        leader_id=kafka.broker_id(response.leader),
        leader_epoch=i32(response.epoch),
    )
    topic = kafka_response.TopicData(topic_name=kafka.TOPIC, partitions=(partition,))
    message = kafka_response.EndQuorumEpochResponse(error_code=kafka.NO_ERROR, topics=(topic,))
    return kafka.Body(_write_response(message), extensions)


def decode_response(envelope: Envelope, reader: Reader) -> EndQuorumEpochResponse:
    """Decode; body and envelope must agree on the leader."""
    error = kafka.read_epoch_response(envelope, reader)
    return EndQuorumEpochResponse(error, envelope.leader_epoch, envelope.leader)
