"""DescribeQuorum: the voters and observers of the metadata log, as the leader knows them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kraftquorum_operator.kafka.codec import writer
from kraftquorum_operator.kafka.codec.frames import Api
from kraftquorum_operator.kafka.codec.reader import Reader

API: Final = Api(55, "DescribeQuorum", (0, 1, 2), 0, "Describe on Cluster")

TOPIC: Final = "__cluster_metadata"
REPLICAS_MAX: Final = 4096
LISTENERS_MAX: Final = 64
NO_DIRECTORY: Final = uuid.UUID(int=0)
"""What Kafka reports where it knows no directory id."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A row: a voter or an observer.

    Attributes:
        node_id: its id.
        directory_id: of its storage; NO_DIRECTORY before version 2, or where Kafka knows none.
        log_end_offset: up to which it has fetched; -1: unknown.
        last_fetch_ms: of the leader's clock, in ms since 1970; -1: unknown. For the leader: now.
        last_caught_up_ms: likewise.
    """

    node_id: int
    directory_id: uuid.UUID
    log_end_offset: int
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1

    @property
    def key(self) -> tuple[int, uuid.UUID]:
        """Id and directory: what a replica is known by."""
        return self.node_id, self.directory_id


@dataclass(frozen=True, slots=True)
class Listener:
    """An endpoint of a voter."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The answer about the one partition.

    Attributes:
        error_code: Kafka's, of the whole or of the partition.
        error_message: what the controller says of it.
        leader_id: -1: none is known.
        leader_epoch: its epoch; -1: none.
        high_watermark: below it the log is committed; -1: unknown.
        voters: those in force, possibly not committed yet.
        observers: replicas that fetch and do not vote.
        listeners: of each voter, by its id; empty before version 2.
    """

    error_code: int
    error_message: str | None = None
    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()
    listeners: Mapping[int, tuple[Listener, ...]] = field(
        default_factory=dict[int, tuple[Listener, ...]]
    )


def encode_request() -> bytes:
    """Encode the request, which is the same in versions 0 to 2."""
    partition = writer.i32(0) + writer.NO_TAGS
    topic = writer.text(TOPIC) + writer.array([partition]) + writer.NO_TAGS
    return writer.array([topic]) + writer.NO_TAGS


def decode_answer(reader: Reader, version: int) -> QuorumDescription:
    """Decode the answer of version 0 to 2.

    Raises:
        KafkaDecodeError: not such an answer, or about another partition.
    """
    error_code = reader.i16("error_code")
    error_message = reader.nullable_text("error_message") if version >= 2 else None
    description = QuorumDescription(error_code, error_message)
    topics = len(reader.array("topics", 3, 1))
    if topics:
        description = _topic(reader, version, description)
    elif not error_code:
        raise reader.error("topics", f"is empty: {TOPIC} was asked")
    listeners: dict[int, tuple[Listener, ...]] = {}
    if version >= 2:
        for _ in reader.array("nodes", 6, REPLICAS_MAX):
            node_id = reader.i32("nodes[].node_id")
            listeners[node_id] = _listeners(reader)
            reader.tags("nodes[]")
    reader.tags("body")
    reader.finish()
    return QuorumDescription(
        description.error_code,
        description.error_message,
        description.leader_id,
        description.leader_epoch,
        description.high_watermark,
        description.voters,
        description.observers,
        listeners,
    )


def _topic(reader: Reader, version: int, whole: QuorumDescription) -> QuorumDescription:
    if (name := reader.text("topics[].name")) != TOPIC:
        raise reader.error("topics[].name", f"is {name!r}: {TOPIC!r} was asked")
    if len(reader.array("partitions", 23, 1)) != 1:
        raise reader.error("partitions", "is empty: partition 0 was asked")
    if (index := reader.i32("partitions[].index")) != 0:
        raise reader.error("partitions[].index", f"is {index}: 0 was asked")
    error_code = reader.i16("partitions[].error_code")
    message = reader.nullable_text("partitions[].error_message") if version >= 2 else None
    description = QuorumDescription(
        whole.error_code or error_code,
        whole.error_message or message,
        reader.i32("leader_id"),
        reader.i32("leader_epoch"),
        reader.i64("high_watermark"),
        _replicas(reader, version, "voters"),
        _replicas(reader, version, "observers"),
    )
    reader.tags("partitions[]")
    reader.tags("topics[]")
    return description


def _replicas(reader: Reader, version: int, field_name: str) -> tuple[ReplicaState, ...]:
    size_min = 13 + (16 if version >= 1 else 0) + (16 if version >= 2 else 0)
    replicas: list[ReplicaState] = []
    for _ in reader.array(field_name, size_min, REPLICAS_MAX):
        node_id = reader.i32(f"{field_name}[].replica_id")
        directory_id = (
            reader.directory_id(f"{field_name}[].replica_directory_id")
            if version >= 2
            else NO_DIRECTORY
        )
        end = reader.i64(f"{field_name}[].log_end_offset")
        times = (-1, -1)
        if version >= 1:
            times = (
                reader.i64(f"{field_name}[].last_fetch_timestamp"),
                reader.i64(f"{field_name}[].last_caught_up_timestamp"),
            )
        replicas.append(ReplicaState(node_id, directory_id, end, *times))
        reader.tags(f"{field_name}[]")
    return tuple(replicas)


def _listeners(reader: Reader) -> tuple[Listener, ...]:
    listeners: list[Listener] = []
    for _ in reader.array("nodes[].listeners", 5, LISTENERS_MAX):
        name = reader.text("nodes[].listeners[].name")
        host = reader.text("nodes[].listeners[].host")
        listeners.append(Listener(name, host, reader.u16("nodes[].listeners[].port")))
        reader.tags("nodes[].listeners[]")
    return tuple(listeners)
