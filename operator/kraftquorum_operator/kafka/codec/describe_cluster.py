"""DescribeCluster: the cluster id and the controllers' endpoints, asked of a controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraftquorum_operator.kafka.codec import writer
from kraftquorum_operator.kafka.codec.frames import Api
from kraftquorum_operator.kafka.codec.reader import Reader

API: Final = Api(60, "DescribeCluster", (0, 1, 2), 0, "Alter on Cluster")

NODES_MAX: Final = 4096

_CONTROLLERS = 2


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node of the answer: its id, and where it listens."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The answer.

    Attributes:
        error_code: Kafka's.
        error_message: what the controller says of it.
        cluster_id: of the cluster.
        controller_id: the leader, or -1.
        nodes: the controllers; with version 0 or of a broker, the brokers.
    """

    error_code: int
    error_message: str | None
    cluster_id: str
    controller_id: int
    nodes: tuple[ClusterNode, ...]


def encode_request(version: int) -> bytes:
    """Encode the request of version 0 to 2; versions from 1 on ask for controllers."""
    body = writer.boolean(value=False)
    if version >= 1:
        body += writer.i8(_CONTROLLERS)
    if version >= 2:
        body += writer.boolean(value=False)
    return body + writer.NO_TAGS


def decode_answer(reader: Reader, version: int) -> ClusterDescription:
    """Decode the answer of version 0 to 2.

    Raises:
        KafkaDecodeError: not such an answer.
    """
    reader.i32("throttle_time_ms")
    error_code = reader.i16("error_code")
    error_message = reader.nullable_text("error_message")
    if version >= 1:
        reader.i8("endpoint_type")
    cluster_id = reader.text("cluster_id")
    controller_id = reader.i32("controller_id")
    nodes: list[ClusterNode] = []
    for _ in reader.array("brokers", 11, NODES_MAX):
        node_id = reader.i32("brokers[].broker_id")
        host = reader.text("brokers[].host")
        nodes.append(ClusterNode(node_id, host, reader.i32("brokers[].port")))
        reader.nullable_text("brokers[].rack")
        if version >= 2:
            reader.boolean("brokers[].is_fenced")
        reader.tags("brokers[]")
    reader.i32("cluster_authorized_operations")
    reader.tags("body")
    reader.finish()
    return ClusterDescription(error_code, error_message, cluster_id, controller_id, tuple(nodes))
