"""Fetch (api key 1, version 17) as Kafka's replicas use it (KIP-595, KIP-853; sessions unused).

Our extensions carry what Kafka's message lacks, and the envelope carries the leader's UUID and
endpoint. Records pass through byte for byte.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable

from kio.schema.fetch.v17 import request as kafka_request
from kio.schema.fetch.v17 import response as kafka_response
from kio.static.primitive import Records, i32, i32Timedelta, i64

from raftnode.core.messages import FetchRequest, FetchResponse
from raftnode.core.records import Batch
from raftnode.core.types import LogPosition, Offset
from raftnode.errors import DecodeError
from raftnode.wire import extensions as ext
from raftnode.wire import kafka
from raftnode.wire.envelope import Envelope
from raftnode.wire.reader import ZERO_UUID, Reader, replica_key

API_KEY = 1
VERSION = 17

DecodeBatches = Callable[[memoryview], tuple[Batch, ...]]
"""Splits records into batches and checks them; raises DecodeError (raftnode.logformat.batch)."""

_CLUSTER_ID_TAG, _REPLICA_STATE_TAG = 0, 1
_DIRECTORY_ID_TAG = 0
_DIVERGING_TAG, _CURRENT_LEADER_TAG, _SNAPSHOT_ID_TAG = 0, 1, 2

_REQUEST_HEAD = struct.Struct(">iiibii")
_REQUEST_PARTITION = struct.Struct(">iqiqi")
_RESPONSE_HEAD = struct.Struct(">ihi")
_RESPONSE_PARTITION = struct.Struct(">hqqq")
_EPOCH_END_OFFSET = struct.Struct(">iq")
_SNAPSHOT_ID = struct.Struct(">qi")
_LEADER_AND_EPOCH = struct.Struct(">ii")
_REPLICA_STATE = struct.Struct(">iq")
_NO_WAIT = i32Timedelta.parse(dt.timedelta(0))

_write_request = kafka.writer_of(kafka_request.FetchRequest)
_write_response = kafka.writer_of(kafka_response.FetchResponse)


def encode_request(request: FetchRequest, cluster_id: str | None) -> kafka.Body:
    """Encode; the sender's own progress goes into the extensions."""
    partition = kafka_request.FetchPartition(
        partition=kafka.PARTITION,
        current_leader_epoch=i32(request.epoch),
        fetch_offset=i64(request.fetch_offset),
        last_fetched_epoch=i32(request.last_fetched_epoch),
        partition_max_bytes=i32(request.max_bytes),
        replica_directory_id=kafka.uuid_of(request.replica),
    )
    message = kafka_request.FetchRequest(
        cluster_id=cluster_id,
        replica_state=kafka_request.ReplicaState(replica_id=kafka.broker_id(request.replica)),
        max_wait=i32Timedelta.parse(dt.timedelta(milliseconds=request.max_wait_ms)),
        min_bytes=i32(0),
        max_bytes=i32(request.max_bytes),
        topics=(kafka_request.FetchTopic(topic_id=kafka.TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )
    extensions = {
        ext.ACKNOWLEDGED_OFFSET: ext.int64(request.acknowledged_offset),
        ext.ROUND_TOKEN: ext.int64(request.round_token),
        ext.INCARNATION: ext.int64(request.incarnation),
        ext.SEQUENCE: ext.int64(request.sequence),
        ext.HIGH_WATERMARK: ext.int64(request.high_watermark),
    }
    if request.raft_version_max:
        extensions[ext.RAFT_VERSION_MAX] = ext.int16(request.raft_version_max)
    if request.promise_ms:
        extensions[ext.PROMISE_MS] = ext.int64(request.promise_ms)
    if request.wants_high_watermark:
        extensions[ext.WANTS_HIGH_WATERMARK] = b""
    if request.endpoint is not None:
        extensions[ext.ENDPOINT] = ext.endpoint(request.endpoint)
    return kafka.Body(_write_request(message), extensions)


def decode_request(envelope: Envelope, reader: Reader) -> FetchRequest:
    """Decode; the replica must be the sender."""
    max_wait_ms, _, max_bytes, _, _, _ = reader.unpack(_REQUEST_HEAD)
    _read_topic_id(reader)
    kafka.read_partition(reader)
    epoch, fetch_offset, last_fetched_epoch, _, partition_max_bytes = reader.unpack(
        _REQUEST_PARTITION
    )
    directory_id = ZERO_UUID
    for tag, value in reader.tags():
        if tag == _DIRECTORY_ID_TAG:
            directory_id = value.uuid_bytes()
            value.finish()
    reader.skip_tags()
    if reader.array(item_size_min=1):
        raise DecodeError("fetch sessions are not used")
    reader.compact_text()
    cluster_id, replica_id = None, -1
    for tag, value in reader.tags():
        if tag == _CLUSTER_ID_TAG:
            cluster_id = value.compact_text()
            value.finish()
        elif tag == _REPLICA_STATE_TAG:
            replica_id, _ = value.unpack(_REPLICA_STATE)
            value.skip_tags()
            value.finish()
    kafka.check_cluster_id(cluster_id, envelope)
    replica = replica_key(replica_id, directory_id)
    if replica != envelope.source:
        raise DecodeError(f"a fetch of {replica} from {envelope.source}")
    if max_bytes < 0 or partition_max_bytes < 0 or max_wait_ms < 0:
        raise DecodeError(f"a fetch of {max_bytes} bytes within {max_wait_ms} ms")
    extensions = envelope.extensions
    return FetchRequest(
        epoch=kafka.epoch_of(epoch),
        replica=replica,
        fetch_offset=kafka.offset_of(fetch_offset, minimum=0),
        last_fetched_epoch=kafka.epoch_of(last_fetched_epoch),
        acknowledged_offset=Offset(ext.read_int64(extensions, ext.ACKNOWLEDGED_OFFSET, minimum=-1)),
        high_watermark=Offset(ext.read_int64(extensions, ext.HIGH_WATERMARK, minimum=-1)),
        round_token=ext.read_int64(extensions, ext.ROUND_TOKEN, minimum=0),
        incarnation=ext.read_int64(extensions, ext.INCARNATION, minimum=0),
        sequence=ext.read_int64(extensions, ext.SEQUENCE, minimum=0),
        max_bytes=min(max_bytes, partition_max_bytes),
        max_wait_ms=max_wait_ms,
        endpoint=ext.read_optional_endpoint(extensions, ext.ENDPOINT),
        raft_version_max=max(ext.read_int16(extensions, ext.RAFT_VERSION_MAX) or 0, 0),
        promise_ms=ext.read_optional_int64(extensions, ext.PROMISE_MS, minimum=0) or 0,
        wants_high_watermark=ext.read_flag(extensions, ext.WANTS_HIGH_WATERMARK),
        blank=envelope.cluster_id is None,
    )


def encode_response(response: FetchResponse) -> kafka.Body:
    """Encode; a diverging position of (-1, -1) looks like none and is refused.

    Raises:
        ValueError: a value that Kafka's message cannot carry.
    """
    error, extensions = kafka.encode_error(response.error)
    extensions[ext.ROUND_TOKEN] = ext.int64(response.round_token)
    if response.join is not None:
        extensions[ext.JOIN_CLUSTER] = ext.cluster_id(response.join)
    diverging = kafka_response.EpochEndOffset()
    if response.diverging is not None:
        if response.diverging.end_offset < 0:
            raise ValueError(f"logs cannot diverge at {response.diverging}")
        diverging = kafka_response.EpochEndOffset(
            epoch=i32(response.diverging.epoch), end_offset=i64(response.diverging.end_offset)
        )
    snapshot = kafka_response.SnapshotId()
    if response.snapshot is not None:
        if response.snapshot.end_offset < 0:
            raise ValueError(f"not a snapshot: {response.snapshot}")
        snapshot = kafka_response.SnapshotId(
            epoch=i32(response.snapshot.epoch), end_offset=i64(response.snapshot.end_offset)
        )
    records = b"".join(batch.data for batch in response.batches)
    partition = kafka_response.PartitionData(
        partition_index=kafka.PARTITION,
        error_code=error,
        high_watermark=i64(response.high_watermark),
        log_start_offset=i64(response.log_start_offset),
        diverging_epoch=diverging,
        current_leader=kafka_response.LeaderIdAndEpoch(
            leader_id=kafka.broker_id(response.leader), leader_epoch=i32(response.epoch)
        ),
        snapshot_id=snapshot,
        aborted_transactions=None,
        records=Records(records) if records else None,
    )
    topic = kafka_response.FetchableTopicResponse(topic_id=kafka.TOPIC_ID, partitions=(partition,))
    message = kafka_response.FetchResponse(
        throttle_time=_NO_WAIT, error_code=kafka.NO_ERROR, responses=(topic,)
    )
    return kafka.Body(_write_response(message), extensions)


def decode_response(
    envelope: Envelope, reader: Reader, decode_batches: DecodeBatches
) -> FetchResponse:
    """Decode; records go to `decode_batches` as a view of the frame."""
    _, top_error, _ = reader.unpack(_RESPONSE_HEAD)
    _read_topic_id(reader)
    kafka.read_partition(reader)
    error_code, high_watermark, _, log_start_offset = reader.unpack(_RESPONSE_PARTITION)
    if reader.array(item_size_min=1):
        raise DecodeError("transactions are not used")
    reader.i32()
    records = reader.compact_bytes()
    diverging, snapshot, leader_id, leader_epoch = None, None, -1, -1
    for tag, value in reader.tags():
        if tag == _DIVERGING_TAG:
            epoch, end_offset = value.unpack(_EPOCH_END_OFFSET)
            diverging = LogPosition(kafka.epoch_of(epoch), kafka.offset_of(end_offset, minimum=0))
        elif tag == _CURRENT_LEADER_TAG:
            leader_id, leader_epoch = value.unpack(_LEADER_AND_EPOCH)
        elif tag == _SNAPSHOT_ID_TAG:
            end_offset, epoch = value.unpack(_SNAPSHOT_ID)
            snapshot = LogPosition(kafka.epoch_of(epoch), kafka.offset_of(end_offset, minimum=0))
        else:
            continue
        value.skip_tags()
        value.finish()
    reader.skip_tags()
    reader.skip_tags()
    kafka.check_leader(envelope, leader_id, leader_epoch)
    return FetchResponse(
        error=kafka.decode_error(envelope, top_error, error_code),
        epoch=kafka.epoch_of(leader_epoch),
        leader=envelope.leader,
        leader_endpoint=envelope.leader_endpoint,
        high_watermark=kafka.offset_of(high_watermark),
        log_start_offset=kafka.offset_of(log_start_offset),
        diverging=diverging,
        snapshot=snapshot,
        batches=decode_batches(records) if records else (),
        round_token=ext.read_int64(envelope.extensions, ext.ROUND_TOKEN, minimum=0),
        join=ext.read_optional_cluster_id(envelope.extensions, ext.JOIN_CLUSTER),
    )


def _read_topic_id(reader: Reader) -> None:
    reader.exactly_one("topics")
    if (topic_id := reader.uuid_bytes()) != kafka.TOPIC_ID.bytes:
        raise DecodeError(f"topic {topic_id.hex()}, expected {kafka.TOPIC_ID.hex}")
