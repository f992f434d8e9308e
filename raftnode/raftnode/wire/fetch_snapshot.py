"""FetchSnapshot (api key 59, version 1) as Kafka's replicas use it (KIP-630, KIP-853).

The bytes of the file pass through as they are; a piece may begin and end at any byte.
"""

from __future__ import annotations

import datetime as dt
import struct

from kio.schema.fetch_snapshot.v1 import request as kafka_request
from kio.schema.fetch_snapshot.v1 import response as kafka_response
from kio.static.primitive import Records, i32, i32Timedelta, i64

from raftnode.core.messages import FetchSnapshotRequest, FetchSnapshotResponse
from raftnode.core.types import LogPosition
from raftnode.errors import DecodeError
from raftnode.wire import extensions as ext
from raftnode.wire import kafka
from raftnode.wire.envelope import Envelope
from raftnode.wire.reader import ZERO_UUID, Reader, replica_key

API_KEY = 59
VERSION = 1

_CLUSTER_ID_TAG, _DIRECTORY_ID_TAG, _CURRENT_LEADER_TAG = 0, 0, 0
_REQUEST_HEAD = struct.Struct(">ii")
_SNAPSHOT_ID = struct.Struct(">qi")
_LEADER_AND_EPOCH = struct.Struct(">ii")
_RESPONSE_HEAD = struct.Struct(">ih")
_PLACE = struct.Struct(">qq")
_NO_WAIT = i32Timedelta.parse(dt.timedelta(0))

_write_request = kafka.writer_of(kafka_request.FetchSnapshotRequest)
_write_response = kafka.writer_of(kafka_response.FetchSnapshotResponse)


def encode_request(request: FetchSnapshotRequest, cluster_id: str | None) -> kafka.Body:
    """Encode; token and endpoint go into the extensions, as a Fetch's do."""
    partition = kafka_request.PartitionSnapshot(
        partition=kafka.PARTITION,
        current_leader_epoch=i32(request.epoch),
        snapshot_id=kafka_request.SnapshotId(
            end_offset=i64(request.snapshot.end_offset), epoch=i32(request.snapshot.epoch)
        ),
        position=i64(request.position),
        replica_directory_id=kafka.uuid_of(request.replica),
    )
    message = kafka_request.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=kafka.broker_id(request.replica),
        max_bytes=i32(request.max_bytes),
        topics=(kafka_request.TopicSnapshot(name=kafka.TOPIC, partitions=(partition,)),),
    )
    extensions = {ext.ROUND_TOKEN: ext.int64(request.round_token)}
    if request.endpoint is not None:
        extensions[ext.ENDPOINT] = ext.endpoint(request.endpoint)
    return kafka.Body(_write_request(message), extensions)


def decode_request(envelope: Envelope, reader: Reader) -> FetchSnapshotRequest:
    """Decode; the replica must be the sender."""
    replica_id, max_bytes = reader.unpack(_REQUEST_HEAD)
    kafka.read_topic(reader)
    epoch = reader.i32()
    snapshot = _read_snapshot_id(reader)
    position = reader.i64()
    directory_id = ZERO_UUID
    for tag, value in reader.tags():
        if tag == _DIRECTORY_ID_TAG:
            directory_id = value.uuid_bytes()
            value.finish()
    reader.skip_tags()
    cluster_id = None
    for tag, value in reader.tags():
        if tag == _CLUSTER_ID_TAG:
            cluster_id = value.compact_text()
            value.finish()
    kafka.check_cluster_id(cluster_id, envelope)
    replica = replica_key(replica_id, directory_id)
    if replica != envelope.source:
        raise DecodeError(f"a snapshot fetch of {replica} from {envelope.source}")
    if position < 0 or max_bytes < 0:
        raise DecodeError(f"{max_bytes} bytes from {position} of a snapshot")
    return FetchSnapshotRequest(
        epoch=kafka.epoch_of(epoch),
        replica=replica,
        snapshot=snapshot,
        position=position,
        max_bytes=max_bytes,
        round_token=ext.read_int64(envelope.extensions, ext.ROUND_TOKEN, minimum=0),
        endpoint=ext.read_optional_endpoint(envelope.extensions, ext.ENDPOINT),
    )


def encode_response(response: FetchSnapshotResponse) -> kafka.Body:
    """Encode."""
    error, extensions = kafka.encode_error(response.error)
    extensions[ext.ROUND_TOKEN] = ext.int64(response.round_token)
    partition = kafka_response.PartitionSnapshot(
        index=kafka.PARTITION,
        error_code=error,
        snapshot_id=kafka_response.SnapshotId(
            end_offset=i64(response.snapshot.end_offset), epoch=i32(response.snapshot.epoch)
        ),
        current_leader=kafka_response.LeaderIdAndEpoch(
            leader_id=kafka.broker_id(response.leader), leader_epoch=i32(response.epoch)
        ),
        size=i64(response.size),
        position=i64(response.position),
        unaligned_records=Records(response.data),
    )
    topic = kafka_response.TopicSnapshot(name=kafka.TOPIC, partitions=(partition,))
    message = kafka_response.FetchSnapshotResponse(
        throttle_time=_NO_WAIT, error_code=kafka.NO_ERROR, topics=(topic,)
    )
    return kafka.Body(_write_response(message), extensions)


def decode_response(envelope: Envelope, reader: Reader) -> FetchSnapshotResponse:
    """Decode."""
    _, top_error = reader.unpack(_RESPONSE_HEAD)
    kafka.read_topic(reader)
    error_code = reader.i16()
    snapshot = _read_snapshot_id(reader)
    size, position = reader.unpack(_PLACE)
    data = reader.compact_bytes()
    leader_id, leader_epoch = 0, 0  # Kafka's default here, at which it leaves the field out
    for tag, value in reader.tags():
        if tag == _CURRENT_LEADER_TAG:
            leader_id, leader_epoch = value.unpack(_LEADER_AND_EPOCH)
            value.skip_tags()
            value.finish()
    reader.skip_tags()
    reader.skip_tags()
    kafka.check_leader(envelope, leader_id, leader_epoch)
    if size < 0 or position < 0:
        raise DecodeError(f"byte {position} of a snapshot of {size} bytes")
    return FetchSnapshotResponse(
        error=kafka.decode_error(envelope, top_error, error_code),
        epoch=kafka.epoch_of(leader_epoch),
        leader=envelope.leader,
        snapshot=snapshot,
        position=position,
        leader_endpoint=envelope.leader_endpoint,
        size=size,
        data=b"" if data is None else bytes(data),
        round_token=ext.read_int64(envelope.extensions, ext.ROUND_TOKEN, minimum=0),
    )


def _read_snapshot_id(reader: Reader) -> LogPosition:
    end_offset, epoch = reader.unpack(_SNAPSHOT_ID)
    reader.skip_tags()
    return LogPosition(kafka.epoch_of(epoch), kafka.offset_of(end_offset))
