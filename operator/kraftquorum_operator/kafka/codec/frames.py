"""Requests and answers with their length and header, as they go over the connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraftquorum_operator.kafka.codec import writer
from kraftquorum_operator.kafka.codec.reader import Reader
from kraftquorum_operator.kafka.errors import KafkaDecodeError

CLIENT_ID: Final = "kraftquorum-operator"

FRAME_BYTES_MAX: Final = 1 << 18
"""Limit of an answer. The largest, DescribeQuorum with a thousand observers, has about 50 KiB."""

FRAME_BYTES_MIN: Final = 4
"""The correlation id."""


@dataclass(frozen=True, slots=True)
class Api:
    """One of Kafka's APIs, as far as it is used here.

    Attributes:
        key: Kafka's number.
        name: Kafka's name.
        versions: those that this package encodes and decodes, in rising order.
        flexible_from: the first version with tagged fields.
        permission: what the principal needs for it; empty: nothing.
        old_answer_header: the answer has the header of version 0 in every version.
    """

    key: int
    name: str
    versions: tuple[int, ...]
    flexible_from: int
    permission: str = ""
    old_answer_header: bool = False

    def flexible(self, version: int) -> bool:
        """Whether that version has tagged fields."""
        return version >= self.flexible_from

    def message(self, version: int) -> str:
        """Name a message of that version, for errors."""
        return f"{self.name} v{version}"


def encode_frame(api: Api, version: int, correlation_id: int, body: bytes) -> bytes:
    """Encode a request with its header and length."""
    head = writer.i16(api.key) + writer.i16(version) + writer.i32(correlation_id)
    head += writer.old_text(CLIENT_ID)
    if api.flexible(version):
        head += writer.NO_TAGS
    return writer.i32(len(head) + len(body)) + head + body


def decode_length(data: bytes) -> int:
    """Read the length of an answer from its first four bytes.

    Raises:
        KafkaDecodeError: not a length that is allowed; the text names the protocol, if it is known.
    """
    length = int.from_bytes(data, "big", signed=True)
    if FRAME_BYTES_MIN <= length <= FRAME_BYTES_MAX:
        return length
    problem = f"is {length}: {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} are allowed"
    if data[:2] == b"\x15\x03":
        problem += "; the listener speaks TLS: set security.protocol=SSL or SASL_SSL"
    elif data == b"HTTP":
        problem += "; the listener speaks HTTP: give a controller's address"
    raise KafkaDecodeError("any request", "length", problem)


def decode_header(api: Api, version: int, correlation_id: int, data: bytes) -> Reader:
    """Read the header of an answer; returns a reader of the body.

    Raises:
        KafkaDecodeError: too short, or the answer to another request.
    """
    flexible = api.flexible(version)
    reader = Reader(api.message(version), memoryview(data), flexible=flexible)
    if (answered := reader.i32("correlation_id")) != correlation_id:
        raise reader.error("correlation_id", f"is {answered}: {correlation_id} was asked")
    if flexible and not api.old_answer_header:
        reader.tags("header")
    return reader
