"""DescribeConfigs: a controller's own configuration, as far as advice depends on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kraftquorum_operator.kafka.codec import writer
from kraftquorum_operator.kafka.codec.frames import Api
from kraftquorum_operator.kafka.codec.reader import Reader

API: Final = Api(32, "DescribeConfigs", (4,), 4, "DescribeConfigs on Cluster")

ENTRIES_MAX: Final = 256
SYNONYMS_MAX: Final = 64

_BROKER = 4
"""Kafka's resource type of a node of any role."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The answer.

    Attributes:
        error_code: Kafka's; INVALID_REQUEST where the node has another id than was asked.
        error_message: what the controller says of it.
        values: by the setting's name; without a sensitive value, and without one that is not set.
    """

    error_code: int
    error_message: str | None
    values: Mapping[str, str] = field(default_factory=dict[str, str])


def encode_request(node_id: int, names: Sequence[str]) -> bytes:
    """Encode the request for these settings of the node itself."""
    resource = writer.i8(_BROKER) + writer.text(str(node_id))
    resource += writer.array(writer.text(name) for name in names) + writer.NO_TAGS
    flags = writer.boolean(value=False) + writer.boolean(value=False)
    return writer.array([resource]) + flags + writer.NO_TAGS


def decode_answer(reader: Reader) -> NodeConfig:
    """Decode the answer of version 4.

    Raises:
        KafkaDecodeError: not such an answer, or not about one resource.
    """
    reader.i32("throttle_time_ms")
    if len(reader.array("results", 7, 1)) != 1:
        raise reader.error("results", "is empty: one resource was asked")
    error_code = reader.i16("results[].error_code")
    error_message = reader.nullable_text("results[].error_message")
    reader.i8("results[].resource_type")
    reader.text("results[].resource_name")
    values: dict[str, str] = {}
    for _ in reader.array("configs", 8, ENTRIES_MAX):
        name = reader.text("configs[].name")
        value = reader.nullable_text("configs[].value")
        _skip_rest(reader)
        if value is not None:
            values[name] = value
    reader.tags("results[]")
    reader.tags("body")
    reader.finish()
    return NodeConfig(error_code, error_message, values)


def _skip_rest(reader: Reader) -> None:
    reader.boolean("configs[].read_only")
    reader.i8("configs[].config_source")
    reader.boolean("configs[].is_sensitive")
    for _ in reader.array("configs[].synonyms", 4, SYNONYMS_MAX):
        reader.text("configs[].synonyms[].name")
        reader.nullable_text("configs[].synonyms[].value")
        reader.i8("configs[].synonyms[].source")
        reader.tags("configs[].synonyms[]")
    reader.i8("configs[].config_type")
    reader.nullable_text("configs[].documentation")
    reader.tags("configs[]")
