"""The tagged fields of our envelope: what Kafka's message of the same API lacks.

A tag is never used again for something else.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from raftnode.core.types import Endpoint
from raftnode.errors import DecodeError
from raftnode.wire.envelope import encode_endpoint, read_endpoint
from raftnode.wire.reader import Reader

ERROR_CODE = 1
"""i16: an error code of ours, or that of an error frame; wins over the body's."""
ERROR_MESSAGE = 2
"""UTF-8: why, for people; in error frames."""
ACKNOWLEDGED_OFFSET = 16
"""i64, Fetch request: the fetcher's durable end (S10)."""
ROUND_TOKEN = 17
"""i64, Fetch request and response: which round a fetch confirms (S11)."""
INCARNATION = 18
"""i64, Fetch request: starts of the fetcher's storage (S3)."""
HIGH_WATERMARK = 19
"""i64, Fetch request: the fetcher's high watermark (Kafka has it from v18 on)."""
ENDPOINT = 20
"""Endpoint, Fetch request: where the fetcher listens."""
SEQUENCE = 21
"""i64, Fetch request: rises with each Fetch, so that a delayed one is recognised (S3)."""
RAFT_VERSION_MAX = 22
"""i16, Fetch request: the newest raft.version that the fetcher's program knows (P56)."""
PROMISE_MS = 23
"""i64, Fetch request: for how long the fetcher does not vote since that token came (S33)."""

JOIN_CLUSTER = 24
"""UTF-8, Fetch response: the cluster that a blank fetcher is to join (S5)."""

WANTS_HIGH_WATERMARK = 25
"""No bytes, Fetch request: the leader is not to hold the next high watermark back."""

_CLUSTER_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""As in the API: without characters that have a meaning in `meta.properties`."""

_I16 = struct.Struct(">h")
_I64 = struct.Struct(">q")


def int64(value: int) -> bytes:
    """Write a 64-bit integer.

    Raises:
        ValueError: it does not fit.
    """
    try:
        return _I64.pack(value)
    except struct.error:
        raise ValueError(f"not a 64-bit integer: {value}") from None


def int16(value: int) -> bytes:
    """Write a 16-bit integer."""
    return _I16.pack(value)


def endpoint(value: Endpoint) -> bytes:
    """Write an endpoint."""
    return encode_endpoint(value)


def read_int64(extensions: Mapping[int, bytes], tag: int, *, minimum: int) -> int:
    """Read a 64-bit integer that must be there.

    Raises:
        DecodeError: absent, of another length, or below `minimum`.
    """
    raw = extensions.get(tag)
    if raw is None or len(raw) != 8:
        raise DecodeError(f"extension {tag} is absent or not of 8 bytes")
    value: int = _I64.unpack(raw)[0]
    if value < minimum:
        raise DecodeError(f"extension {tag} is {value}, at least {minimum} expected")
    return value


def read_optional_int64(extensions: Mapping[int, bytes], tag: int, *, minimum: int) -> int | None:
    """Read a 64-bit integer; None when it is absent.

    Raises:
        DecodeError: of another length, or below `minimum`.
    """
    return read_int64(extensions, tag, minimum=minimum) if tag in extensions else None


def read_flag(extensions: Mapping[int, bytes], tag: int) -> bool:
    """Read whether an extension without bytes is there.

    Raises:
        DecodeError: it has bytes.
    """
    raw = extensions.get(tag)
    if raw:
        raise DecodeError(f"extension {tag} has {len(raw)} bytes, none expected")
    return raw is not None


def read_int16(extensions: Mapping[int, bytes], tag: int) -> int | None:
    """Read a 16-bit integer; None when it is absent.

    Raises:
        DecodeError: of another length.
    """
    raw = extensions.get(tag)
    if raw is None:
        return None
    if len(raw) != 2:
        raise DecodeError(f"extension {tag} has {len(raw)} bytes, 2 expected")
    value: int = _I16.unpack(raw)[0]
    return value


def cluster_id(value: str) -> bytes:
    """Write a cluster id."""
    return value.encode()


def read_optional_cluster_id(extensions: Mapping[int, bytes], tag: int) -> str | None:
    """Read a cluster id; None when it is absent.

    Raises:
        DecodeError: it is not one.
    """
    raw = extensions.get(tag)
    return None if raw is None else checked_cluster_id(raw)


def checked_cluster_id(raw: bytes) -> str:
    """Check the bytes of a cluster id.

    Raises:
        DecodeError: it is not one.
    """
    if _CLUSTER_ID.fullmatch(raw) is None:
        raise DecodeError(f"not a cluster id: {raw[:80]!r}")
    return raw.decode()


def read_optional_endpoint(extensions: Mapping[int, bytes], tag: int) -> Endpoint | None:
    """Read an endpoint; None when it is absent.

    Raises:
        DecodeError: it is not one.
    """
    raw = extensions.get(tag)
    if raw is None:
        return None
    reader = Reader(memoryview(raw))
    value = read_endpoint(reader)
    reader.finish()
    return value
