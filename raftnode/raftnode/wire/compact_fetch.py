"""Fetch between nodes of this program: one fixed layout, without Kafka's message (S28).

Kafka's Fetch (`fetch`) spends most of its bytes and time on fields that a quorum of one topic does
not use. Each write costs several Fetches, so nodes that speak version 2 of the transport send this
form. The api key is above all of Kafka's. The envelope has the sender, the cluster id (S5), the
leader and its epoch; a later version adds fields as extensions of the envelope.

    request:  i32 epoch · i64 fetch offset · i32 last fetched epoch · i64 acknowledged offset
              i64 high watermark · i64 round token · i64 incarnation · i64 sequence
              i32 max bytes · i32 max wait in ms · i16 raft.version max · i64 promise in ms
              u8 flags [u8 length + host, u16 port]
    response: i16 error · i64 high watermark · i64 log start offset · i64 round token
              u32 bytes of records · u8 flags
              [i32 epoch, i64 end offset where the logs diverge] [the same of a snapshot]
              [u8 length + cluster id to join] records

Big-endian; a part in brackets is there when its flag says so, and an unknown flag is an error.
"""

from __future__ import annotations

import struct

from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse
from raftnode.core.types import LogPosition, Offset
from raftnode.errors import DecodeError
from raftnode.wire import extensions as ext
from raftnode.wire import kafka
from raftnode.wire.envelope import Envelope, encode_endpoint, read_endpoint
from raftnode.wire.fetch import DecodeBatches
from raftnode.wire.reader import Reader

API_KEY = 1001
VERSION = 0

FLAG_ENDPOINT = 0x01
FLAG_DIVERGING, FLAG_SNAPSHOT, FLAG_JOIN = 0x01, 0x02, 0x04
_REQUEST_FLAGS, _RESPONSE_FLAGS = FLAG_ENDPOINT, FLAG_DIVERGING | FLAG_SNAPSHOT | FLAG_JOIN

_REQUEST = struct.Struct(">iqiqqqqqiihqB")
_RESPONSE = struct.Struct(">hqqqIB")
_POSITION = struct.Struct(">iq")


def encode_request(request: FetchRequest) -> bytes:
    """Encode.

    Raises:
        ValueError: a value that the layout has no room for.
    """
    endpoint = request.endpoint
    try:
        data = _REQUEST.pack(
            request.epoch,
            request.fetch_offset,
            request.last_fetched_epoch,
            request.acknowledged_offset,
            request.high_watermark,
            request.round_token,
            request.incarnation,
            request.sequence,
            request.max_bytes,
            request.max_wait_ms,
            request.raft_version_max,
            request.promise_ms,
            0 if endpoint is None else FLAG_ENDPOINT,
        )
    except struct.error as error:
        raise ValueError(f"a fetch that a frame cannot carry: {error}") from None
    return data if endpoint is None else data + encode_endpoint(endpoint)


def extensions_of(request: FetchRequest) -> dict[int, bytes]:
    """The fields that the envelope carries; mostly none."""
    return {ext.WANTS_HIGH_WATERMARK: b""} if request.wants_high_watermark else {}


def decode_request(envelope: Envelope, reader: Reader) -> FetchRequest:
    """Decode; the replica is the sender."""
    (
        epoch,
        fetch_offset,
        last_fetched_epoch,
        acknowledged_offset,
        high_watermark,
        round_token,
        incarnation,
        sequence,
        max_bytes,
        max_wait_ms,
        raft_version_max,
        promise_ms,
        flags,
    ) = reader.unpack(_REQUEST)
    if flags & ~_REQUEST_FLAGS:
        raise DecodeError(f"a fetch with the unknown flags {flags:#04x}")
    if min(round_token, incarnation, sequence, raft_version_max, promise_ms) < 0:
        raise DecodeError(
            f"a fetch with a negative number: round token {round_token}, incarnation "
            f"{incarnation}, sequence {sequence}, raft.version {raft_version_max}, "
            f"promise {promise_ms} ms"
        )
    if max_bytes < 0 or max_wait_ms < 0:
        raise DecodeError(f"a fetch of {max_bytes} bytes within {max_wait_ms} ms")
    return FetchRequest(
        epoch=kafka.epoch_of(epoch),
        replica=envelope.source,
        fetch_offset=kafka.offset_of(fetch_offset, minimum=0),
        last_fetched_epoch=kafka.epoch_of(last_fetched_epoch),
        acknowledged_offset=kafka.offset_of(acknowledged_offset),
        high_watermark=kafka.offset_of(high_watermark),
        round_token=round_token,
        incarnation=incarnation,
        sequence=sequence,
        max_bytes=max_bytes,
        max_wait_ms=max_wait_ms,
        endpoint=read_endpoint(reader) if flags & FLAG_ENDPOINT else None,
        raft_version_max=raft_version_max,
        promise_ms=promise_ms,
        wants_high_watermark=ext.read_flag(envelope.extensions, ext.WANTS_HIGH_WATERMARK),
        blank=envelope.cluster_id is None,
    )


def encode_response(response: FetchResponse) -> bytes:
    """Encode; leader, epoch and endpoint go into the envelope.

    Raises:
        ValueError: a value that the layout has no room for, or a position without an offset.
    """
    flags, parts = 0, [b""]
    if response.diverging is not None:
        flags |= FLAG_DIVERGING
        parts.append(_position_bytes(response.diverging, "logs cannot diverge at"))
    if response.snapshot is not None:
        flags |= FLAG_SNAPSHOT
        parts.append(_position_bytes(response.snapshot, "not a snapshot:"))
    if response.join is not None:
        flags |= FLAG_JOIN
        cluster_id = ext.cluster_id(response.join)
        parts.append(bytes((len(cluster_id),)) + cluster_id)
    records = [batch.data for batch in response.batches]
    try:
        parts[0] = _RESPONSE.pack(
            response.error,
            response.high_watermark,
            response.log_start_offset,
            response.round_token,
            sum(map(len, records)),
            flags,
        )
    except struct.error as error:
        raise ValueError(f"a fetch's answer that a frame cannot carry: {error}") from None
    return b"".join((*parts, *records))


def decode_response(
    envelope: Envelope, reader: Reader, decode_batches: DecodeBatches
) -> FetchResponse:
    """Decode; records go to `decode_batches` as a view of the frame."""
    error, high_watermark, log_start_offset, round_token, size, flags = reader.unpack(_RESPONSE)
    if flags & ~_RESPONSE_FLAGS:
        raise DecodeError(f"a fetch's answer with the unknown flags {flags:#04x}")
    if round_token < 0:
        raise DecodeError(f"a fetch's answer with the round token {round_token}")
    diverging = _read_position(reader) if flags & FLAG_DIVERGING else None
    snapshot = _read_position(reader) if flags & FLAG_SNAPSHOT else None
    join = ext.checked_cluster_id(reader.raw(reader.u8())) if flags & FLAG_JOIN else None
    records = reader.view(size)
    return FetchResponse(
        error=ErrorCode(error) if error in kafka.CODES else ErrorCode.UNKNOWN_SERVER_ERROR,
        epoch=kafka.epoch_of(envelope.leader_epoch),
        leader=envelope.leader,
        leader_endpoint=envelope.leader_endpoint,
        high_watermark=kafka.offset_of(high_watermark),
        log_start_offset=kafka.offset_of(log_start_offset),
        diverging=diverging,
        snapshot=snapshot,
        batches=decode_batches(records) if records else (),
        round_token=round_token,
        join=join,
    )


def _position_bytes(position: LogPosition, complaint: str) -> bytes:
    if position.end_offset < 0:
        raise ValueError(f"{complaint} {position}")
    return _POSITION.pack(position.epoch, position.end_offset)


def _read_position(reader: Reader) -> LogPosition:
    epoch, end_offset = reader.unpack(_POSITION)
    return LogPosition(kafka.epoch_of(epoch), Offset(kafka.offset_of(end_offset, minimum=0)))
