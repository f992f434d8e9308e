"""Targets for the answers of Kafka's controllers, which the operator decodes.

The operator encodes no answers, so there is nothing to come back: each target checks instead that
what was decoded is bounded as the decoder promises. kio wrote the largest seed; the others are
short enough to be read here.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from typing import Any, cast

from kio.schema.describe_quorum.v2 import response as kio
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32, i64, u16

from kraftquorum_operator.kafka.codec import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_quorum,
    frames,
    sasl,
    voter_changes,
)
from kraftquorum_operator.kafka.codec.reader import TEXT_BYTES_MAX, Reader
from kraftquorum_operator.kafka.errors import KafkaDecodeError
from proofkit.fuzz.target import FuzzError, Target

_PLACE = "kraftquorum_operator.kafka.codec"
_NO_ERROR = b"\0\0"


def bounded(message: object) -> None:
    """Check that no string and no array of a message is larger than a decoder may make it."""
    for value in _values(message):
        if isinstance(value, str) and len(value.encode()) > TEXT_BYTES_MAX:
            raise FuzzError(f"a string of {len(value)} characters")
        if isinstance(value, tuple | dict):
            size = len(cast("tuple[object, ...] | dict[object, object]", value))
            if size > describe_quorum.REPLICAS_MAX:
                raise FuzzError(f"{size} items")


def _values(message: object) -> list[Any]:
    names: tuple[str, ...] = getattr(type(message), "__slots__", ())
    return [getattr(message, name) for name in names]


def flexible(decode: Callable[[Reader], object]) -> Callable[[bytes], object]:
    """Decode the bytes as a body of a flexible version."""
    return lambda data: bounded(decode(Reader("fuzz", memoryview(data), flexible=True)))


def old(decode: Callable[[Reader], object]) -> Callable[[bytes], object]:
    """Decode the bytes as a body from before flexible versions."""
    return lambda data: bounded(decode(Reader("fuzz", memoryview(data), flexible=False)))


def header(data: bytes) -> None:
    """Decode the length and header of an answer to request 7."""
    if frames.decode_length(data[:4]) != len(data) - 4:
        raise KafkaDecodeError("fuzz", "length", "is not that of the bytes")
    frames.decode_header(describe_quorum.API, 2, 7, data[4:])


def quorum_seed() -> bytes:
    """An answer of DescribeQuorum v2 with a voter, an observer and a listener."""
    states = tuple(
        kio.ReplicaState(
            replica_id=BrokerId(number),
            replica_directory_id=uuid.UUID(int=1 << 90 | number),
            log_end_offset=i64(40),
            last_fetch_timestamp=i64(1_700_000_000_000),
            last_caught_up_timestamp=i64(1_700_000_000_000),
        )
        for number in (1, 2)
    )
    partition = kio.PartitionData(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        error_message=None,
        leader_id=BrokerId(1),
        leader_epoch=i32(3),
        high_watermark=i64(40),
        current_voters=states[:1],
        observers=states[1:],
    )
    topic = kio.TopicData(topic_name=TopicName(describe_quorum.TOPIC), partitions=(partition,))
    listener = kio.Listener(name="CONTROLLER", host="a.example", port=u16(9093))
    node = kio.Node(node_id=BrokerId(1), listeners=(listener,))
    buffer = io.BytesIO()
    entity_writer(kio.DescribeQuorumResponse)(
        buffer,
        kio.DescribeQuorumResponse(
            error_code=ErrorCode.none, error_message=None, topics=(topic,), nodes=(node,)
        ),
    )
    return buffer.getvalue()


def target(name: str, decode: Callable[[bytes], object], covers: str, *seeds: bytes) -> Target:
    """A target of this package."""
    return Target(f"kafka-{name}", decode, (KafkaDecodeError,), seeds, (f"{_PLACE}.{covers}",))


_KEYS = b"\2\0\x12\0\0\0\4\0"
_FEATURES = b"\1\2\x14\2\x0ekraft.version\0\1\0\1\0"
_NODE = b"\2\0\0\0\3\x0ac.example\0\0\x23\x85\0\0"
_CONFIG = b"\2\x0eprocess.roles\x0bcontroller\1\4\0\1\2\0\0"

TARGETS = (
    Target(
        "kafka-header",
        header,
        (KafkaDecodeError,),
        (b"\0\0\0\5\0\0\0\7\0", b"\0\0\0\x08\0\0\0\7\1\5\1x"),
        (f"{_PLACE}.frames.decode_length", f"{_PLACE}.frames.decode_header"),
    ),
    target(
        "api-versions",
        flexible(api_versions.decode_answer),
        "api_versions.decode_answer",
        _NO_ERROR + _KEYS + b"\0\0\0\0\0",
        _NO_ERROR + _KEYS + b"\0\0\0\0" + _FEATURES,
    ),
    target(
        "api-versions-old",
        old(api_versions.decode_answer),
        "api_versions.decode_answer",
        b"\0\x23\0\0\0\1\0\x12\0\0\0\4",
    ),
    target(
        "describe-quorum",
        flexible(lambda reader: describe_quorum.decode_answer(reader, 2)),
        "describe_quorum.decode_answer",
        quorum_seed(),
    ),
    target(
        "describe-cluster",
        flexible(lambda reader: describe_cluster.decode_answer(reader, 1)),
        "describe_cluster.decode_answer",
        b"\0\0\0\0\0\0\0\2\x0acluster-1\0\0\0\3" + _NODE + b"\x80\0\0\0\0",
    ),
    target(
        "describe-configs",
        flexible(describe_configs.decode_answer),
        "describe_configs.decode_answer",
        b"\0\0\0\0\2\0\0\0\4\2" + b"3" + _CONFIG + b"\0\0",
    ),
    target(
        "voter-change",
        flexible(voter_changes.decode_answer),
        "voter_changes.decode_answer",
        b"\0\0\0\0\0\x7e\6twice\0",
    ),
    target(
        "sasl-handshake",
        old(sasl.decode_handshake),
        "sasl.decode_handshake",
        b"\0\x21\0\0\0\1\0\5PLAIN",
    ),
    target(
        "sasl-authenticate",
        flexible(sasl.decode_authenticate),
        "sasl.decode_authenticate",
        b"\0\0\0\6bytes\0\0\0\0\0\0\0\0\0",
    ),
)
