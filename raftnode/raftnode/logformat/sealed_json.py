"""Small JSON files with a checksum of their own.

A flipped bit in an epoch or a vote would break a promise, and no other file could reveal it. So
the object has one more field with a CRC32C. Kafka's readers skip it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import cast

import crc32c

from raftnode.core.types import NodeId, ReplicaKey, format_directory_id, parse_directory_id

CHECKSUM = "crc32c"

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
Fields = dict[str, JsonValue]


def seal(fields: Mapping[str, JsonValue]) -> bytes:
    """One line of JSON with the checksum in it."""
    sealed = {**fields, CHECKSUM: _checksum(fields)}
    return (json.dumps(sealed, separators=(",", ":")) + "\n").encode()


def _checksum(fields: Mapping[str, JsonValue]) -> int:
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return crc32c.crc32c(text.encode())


def unseal(data: bytes) -> tuple[Fields, bool | None]:
    """Read the fields, and whether the checksum is right; None if there is none.

    Raises:
        ValueError: not one JSON object, or a name in it twice.
    """
    try:
        fields = json.loads(data.decode(), object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  (bytes, not a caller's mistake)
    typed = cast("Fields", fields)
    checksum = typed.pop(CHECKSUM, None)
    return typed, None if checksum is None else checksum == _checksum(typed)


def _without_repeats(pairs: list[tuple[str, JsonValue]]) -> Fields:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name occurs twice")
    return fields


def integer(fields: Fields, name: str, minimum: int) -> int:
    """A required integer field.

    Raises:
        ValueError: missing, not an integer or below the minimum.
    """
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} is {value!r}, not an integer of at least {minimum}")
    return value


def text(fields: Fields, name: str) -> str:
    """A required text field.

    Raises:
        ValueError: missing or not text.
    """
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, not text")  # noqa: TRY004
    return value


def directory_id(fields: Fields, name: str) -> uuid.UUID | None:
    """An optional UUID; Kafka's null UUID counts as none.

    Raises:
        ValueError: it is there and no UUID.
    """
    if fields.get(name) is None:
        return None
    value = parse_directory_id(text(fields, name))
    return value if value.int else None


def replica_fields(key: ReplicaKey | None, id_name: str, uuid_name: str) -> Fields:
    """A replica as two fields in Kafka's manner: -1 and the null UUID for none."""
    if key is None:
        return {id_name: -1, uuid_name: format_directory_id(uuid.UUID(int=0))}
    return {id_name: key.node_id, uuid_name: format_directory_id(key.directory_id)}


def replica(fields: Fields, id_name: str, uuid_name: str) -> ReplicaKey | None:
    """Read what `replica_fields` wrote; a replica without a UUID gets the null UUID.

    Raises:
        ValueError: a field is not what it should be.
    """
    node_id = integer(fields, id_name, -1)
    if node_id < 0:
        return None
    return ReplicaKey(NodeId(node_id), directory_id(fields, uuid_name) or uuid.UUID(int=0))
