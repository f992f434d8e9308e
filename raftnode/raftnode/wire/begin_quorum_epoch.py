"""BeginQuorumEpoch (api key 53, version 1) as Kafka writes it (KIP-595, KIP-856)."""

from __future__ import annotations

from kio.schema.begin_quorum_epoch.v1 import request as kafka_request
from kio.schema.begin_quorum_epoch.v1 import response as kafka_response
from kio.static.primitive import i32, u16

from raftnode.core.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from raftnode.core.types import Endpoint
from raftnode.errors import DecodeError
from raftnode.wire import kafka
from raftnode.wire.envelope import HOST_BYTES_MAX, Envelope
from raftnode.wire.reader import Reader, replica_key

API_KEY = 53
VERSION = 1

_write_request = kafka.writer_of(kafka_request.BeginQuorumEpochRequest)
_write_response = kafka.writer_of(kafka_response.BeginQuorumEpochResponse)


def encode_request(request: BeginQuorumEpochRequest, cluster_id: str | None) -> kafka.Body:
    """Encode; the leader's UUID is the sender's, in the envelope."""
    partition = kafka_request.PartitionData(
        partition_index=kafka.PARTITION,
        voter_directory_id=kafka.uuid_of(request.voter),
        leader_id=kafka.broker_id(request.leader),
        leader_epoch=i32(request.epoch),
    )
    endpoints: tuple[kafka_request.LeaderEndpoint, ...] = ()
    if request.endpoint is not None:
        host, port = request.endpoint.host, u16(request.endpoint.port)
        endpoints = (kafka_request.LeaderEndpoint(name=kafka.LISTENER, host=host, port=port),)
    message = kafka_request.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=kafka.broker_id(request.voter),
        topics=(kafka_request.TopicData(topic_name=kafka.TOPIC, partitions=(partition,)),),
        leader_endpoints=endpoints,
    )
    return kafka.Body(_write_request(message))


def decode_request(envelope: Envelope, reader: Reader) -> BeginQuorumEpochRequest:
    """Decode; the leader must be the sender, the voter the receiver (S16)."""
    kafka.read_cluster_id(reader, envelope)
    voter_id = reader.i32()
    kafka.read_topic(reader)
    voter = replica_key(voter_id, reader.uuid_bytes())
    kafka.check_id("leader", reader.i32(), envelope.source)
    epoch = kafka.epoch_of(reader.i32())
    reader.skip_tags()
    reader.skip_tags()
    endpoint = read_leader_endpoint(reader)
    reader.skip_tags()
    if voter != kafka.target_of(envelope):
        raise DecodeError(f"voter {voter} in the body, {envelope.target} around it")
    return BeginQuorumEpochRequest(epoch, envelope.source, voter, endpoint)


def read_leader_endpoint(reader: Reader) -> Endpoint | None:
    """Read the leader's endpoints: the one under our listener's name, else the first.

    A host that does not fit into our own frame is refused: this replica could not pass it on.
    """
    endpoint: Endpoint | None = None
    for _ in reader.array(item_size_min=5):
        name, host, port = reader.compact_text(), reader.compact_text(), reader.u16()
        reader.skip_tags()
        if not host or len(host.encode()) > HOST_BYTES_MAX or port == 0:
            raise DecodeError(f"not an endpoint: host {host!r:.300}, port {port}")
        if endpoint is None or name == kafka.LISTENER:
            endpoint = Endpoint(host, port)
    return endpoint


def encode_response(response: BeginQuorumEpochResponse) -> kafka.Body:
    """Encode; the leader's UUID stands in the envelope."""
    error, extensions = kafka.encode_error(response.error)
    partition = kafka_response.PartitionData(
        partition_index=kafka.PARTITION,
        error_code=error,
        leader_id=kafka.broker_id(response.leader),
        leader_epoch=i32(response.epoch),
    )
    topic = kafka_response.TopicData(topic_name=kafka.TOPIC, partitions=(partition,))
    message = kafka_response.BeginQuorumEpochResponse(error_code=kafka.NO_ERROR, topics=(topic,))
    return kafka.Body(_write_response(message), extensions)


def decode_response(envelope: Envelope, reader: Reader) -> BeginQuorumEpochResponse:
    """Decode; body and envelope must agree on the leader."""
    error = kafka.read_epoch_response(envelope, reader)
    return BeginQuorumEpochResponse(error, envelope.leader_epoch, envelope.leader)
