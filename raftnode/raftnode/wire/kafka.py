"""The common parts of all Kafka message bodies: the one topic, error codes, writing by kio.

Only writing uses kio; `reader` says why reading does not.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32
from kio.static.protocol import Entity

from raftnode.core.messages import ErrorCode
from raftnode.core.types import Epoch, Offset, ReplicaKey
from raftnode.errors import DecodeError
from raftnode.wire import extensions as ext
from raftnode.wire.envelope import Envelope
from raftnode.wire.reader import ZERO_UUID, Reader, replica_key

TOPIC = TopicName("__cluster_metadata")
TOPIC_ID = uuid.UUID(int=1)
"""Kafka's fixed id of `__cluster_metadata` (Uuid.METADATA_TOPIC_ID)."""
PARTITION = i32(0)
NO_ERROR = KafkaError.none
LISTENER = "CONTROLLER"
"""Name under which Kafka's messages carry our one peer endpoint."""

CODES_WITHOUT_NUMBER = {
    ErrorCode.NOT_VOTER: KafkaError.inconsistent_voter_set,
    ErrorCode.FENCED_REPLICA: KafkaError.invalid_request,
    ErrorCode.NOT_FOLLOWER: KafkaError.not_leader_or_follower,
}
"""Our own codes and the codes that the body has in their place; the extension has ours."""

CODES = frozenset(int(code) for code in ErrorCode)
"""Every error code that this version knows."""

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class Body:
    """An encoded message: Kafka's bytes, and what goes into the extensions."""

    data: bytes
    extensions: dict[int, bytes] = field(default_factory=dict[int, bytes])


def writer_of(entity_type: type[E]) -> Callable[[E], bytes]:
    """Make the function that encodes one Kafka message."""
    write = entity_writer(entity_type)

    def encode(entity: E) -> bytes:
        buffer = io.BytesIO()
        write(buffer, entity)
        return buffer.getvalue()

    return encode


def broker_id(key: ReplicaKey | None) -> BrokerId:
    """A replica's id as Kafka writes it; -1 for none."""
    return BrokerId(-1 if key is None else key.node_id)


def encode_error(error: ErrorCode) -> tuple[KafkaError, dict[int, bytes]]:
    """The body's code and the extension that holds ours, if Kafka has no number for it."""
    kafka = CODES_WITHOUT_NUMBER.get(error)
    if kafka is None:
        return KafkaError(int(error)), {}
    return kafka, {ext.ERROR_CODE: ext.int16(int(error))}


def decode_error(envelope: Envelope, *codes: int) -> ErrorCode:
    """The error of a response: our extension, else the first code that is not 0.

    A code that this version does not know is UNKNOWN_SERVER_ERROR: never success.
    """
    number = ext.read_int16(envelope.extensions, ext.ERROR_CODE)
    if number is None or (number not in CODES and any(codes)):
        number = next((code for code in codes if code), 0)
    return ErrorCode(number) if number in CODES else ErrorCode.UNKNOWN_SERVER_ERROR


def read_topic(reader: Reader) -> None:
    """Read up to the fields of the one partition (P1).

    Raises:
        DecodeError: another topic, another partition, or not exactly one of each.
    """
    reader.exactly_one("topics")
    if (name := reader.compact_text()) != TOPIC:
        raise DecodeError(f"topic {name!r}, expected {TOPIC!r}")
    read_partition(reader)


def read_partition(reader: Reader) -> None:
    """Read the index of the one partition."""
    reader.exactly_one("partitions")
    if (index := reader.i32()) != PARTITION:
        raise DecodeError(f"partition {index}, expected {PARTITION}")


def read_cluster_id(reader: Reader, envelope: Envelope) -> None:
    """Read the body's cluster id, which must be the envelope's."""
    check_cluster_id(reader.compact_text(), envelope)


def check_cluster_id(cluster_id: str | None, envelope: Envelope) -> None:
    """Raise DecodeError if body and envelope name different clusters."""
    if cluster_id != envelope.cluster_id:
        raise DecodeError(f"cluster {cluster_id!r} in the body, {envelope.cluster_id!r} around it")


def read_key(reader: Reader) -> ReplicaKey:
    """Read an id and a UUID, both mandatory (S5)."""
    return replica_key(reader.i32(), reader.uuid_bytes())


def check_id(what: str, node_id: int, key: ReplicaKey | None) -> None:
    """Raise DecodeError unless a body's bare id is the one that the envelope names in full."""
    if node_id != (-1 if key is None else key.node_id):
        raise DecodeError(f"{what} {node_id} in the body, {key} around it")


def check_leader(envelope: Envelope, leader_id: int, epoch: int) -> None:
    """Raise DecodeError unless a response's body and envelope agree on leader and epoch (S1)."""
    check_id("leader", leader_id, envelope.leader)
    if epoch != envelope.leader_epoch:
        raise DecodeError(f"epoch {epoch} in the body, {envelope.leader_epoch} around it")


def read_epoch_response(envelope: Envelope, reader: Reader) -> ErrorCode:
    """Read the body that BeginQuorumEpoch and EndQuorumEpoch answer with."""
    top_error = reader.i16()
    read_topic(reader)
    error_code = reader.i16()
    check_leader(envelope, reader.i32(), reader.i32())
    for _ in range(3):
        reader.skip_tags()
    epoch_of(envelope.leader_epoch)
    return decode_error(envelope, top_error, error_code)


def target_of(envelope: Envelope) -> ReplicaKey:
    """The receiver that a voter's request must name (S5)."""
    if envelope.target is None:
        raise DecodeError("a request to a voter without a receiver")
    return envelope.target


def epoch_of(value: int) -> Epoch:
    """Check an epoch from a peer."""
    if value < -1:
        raise DecodeError(f"not an epoch: {value}")
    return Epoch(value)


def offset_of(value: int, *, minimum: int = -1) -> Offset:
    """Check an offset from a peer."""
    if value < minimum:
        raise DecodeError(f"not an offset: {value}; at least {minimum} expected")
    return Offset(value)


def uuid_of(key: ReplicaKey) -> uuid.UUID:
    """A replica's UUID as kio takes it.

    Raises:
        ValueError: the zero UUID, which Kafka reads as none.
    """
    if key.directory_id.bytes == ZERO_UUID:
        raise ValueError(f"replica {key} has no directory id")
    return key.directory_id
