"""SaslHandshake and SaslAuthenticate: the frames around a SASL mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraftquorum_operator.kafka.codec import writer
from kraftquorum_operator.kafka.codec.frames import Api
from kraftquorum_operator.kafka.codec.reader import Reader

HANDSHAKE_API: Final = Api(17, "SaslHandshake", (1,), 99)
AUTHENTICATE_API: Final = Api(36, "SaslAuthenticate", (2,), 2)

MECHANISMS_MAX: Final = 32
TOKEN_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Handshake:
    """The answer: Kafka's error code, and the mechanisms that the listener allows."""

    error_code: int
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Authentication:
    """The answer: Kafka's error code, what the controller says of it, the mechanism's bytes."""

    error_code: int
    error_message: str | None
    token: bytes


def encode_handshake(mechanism: str) -> bytes:
    """Encode SaslHandshake of version 1."""
    return writer.old_text(mechanism)


def decode_handshake(reader: Reader) -> Handshake:
    """Decode its answer.

    Raises:
        KafkaDecodeError: not such an answer.
    """
    error_code = reader.i16("error_code")
    mechanisms = tuple(
        reader.text("mechanisms[]") for _ in reader.array("mechanisms", 2, MECHANISMS_MAX)
    )
    reader.finish()
    return Handshake(error_code, mechanisms)


def encode_authenticate(token: bytes) -> bytes:
    """Encode SaslAuthenticate of version 2."""
    return writer.raw(token) + writer.NO_TAGS


def decode_authenticate(reader: Reader) -> Authentication:
    """Decode its answer.

    Raises:
        KafkaDecodeError: not such an answer.
    """
    error_code = reader.i16("error_code")
    error_message = reader.nullable_text("error_message")
    token = reader.raw("auth_bytes", TOKEN_BYTES_MAX) or b""
    reader.i64("session_lifetime_ms")
    reader.tags("body")
    reader.finish()
    return Authentication(error_code, error_message, token)
