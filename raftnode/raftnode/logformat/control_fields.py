"""Control records as names and plain values, for people: ours, and all that Kafka writes.

The node itself acts only on the records of `control`. This module also decodes Kafka's snapshot
header and footer, its version and its voters, for the tools, which read Kafka's files too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from raftnode.core.records import (
    AddVoter,
    ControlRecord,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
    RemoveVoter,
    TargetVoters,
)
from raftnode.core.types import Endpoint, ReplicaKey, format_directory_id
from raftnode.errors import DecodeError
from raftnode.logformat.control import decode_control_record
from raftnode.logformat.encoding import Reader
from raftnode.logformat.sealed_json import Fields, JsonValue

SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6


def describe_control(key: bytes | None, value: bytes | None) -> tuple[str, Fields]:
    """Name and fields of a control record; of an unknown type, its number and no fields.

    Raises:
        DecodeError: the bytes are not what their type says.
    """
    record = decode_control_record(key, value)
    if record is not None:
        return type(record).__name__, _own_fields(record)
    reader = Reader(key or b"", 2, len(key or b""), "control record key")
    kind = reader.int16()
    known = _KAFKAS.get(kind)
    if known is None:
        return f"Control{kind}", {}
    if value is None:
        raise DecodeError(f"control record of type {kind} without a value")
    name, decode = known
    reader = Reader(value, 0, len(value), f"control record of type {kind}")
    version = reader.int16()
    fields = decode(reader)
    reader.tagged_fields()
    return name, {"version": version, **fields}


def _replica(key: ReplicaKey) -> str:
    """A replica; the id alone where Kafka's record has no more."""
    return str(key) if key.directory_id.int else str(key.node_id)


def _own_fields(record: ControlRecord) -> Fields:
    match record:
        case LeaderChange(leader, voters, granting):
            return {
                "leader": _replica(leader),
                "voters": [_replica(key) for key in voters],
                "granting_voters": [_replica(key) for key in granting],
            }
        case AddVoter(voter):
            endpoint = None if voter.endpoint is None else str(voter.endpoint)
            return {"voter": str(voter.key), "endpoint": endpoint}
        case RemoveVoter(key):
            return {"voter": str(key)}
        case RaftVersion(version):
            return {"raft_version": version}
        case FormationCompleted():
            return {}
        case TargetVoters(voters):
            return {"target_voters": [str(voter.key) for voter in voters]}
        case _:
            assert_never(record)


def _snapshot_header(reader: Reader) -> Fields:
    return {"last_contained_log_timestamp_ms": int.from_bytes(reader.take(8), "big", signed=True)}


def _snapshot_footer(reader: Reader) -> Fields:
    del reader
    return {}


def _kraft_version(reader: Reader) -> Fields:
    return {"kraft_version": reader.int16()}


def _kraft_voters(reader: Reader) -> Fields:
    voters: list[JsonValue] = []
    for _ in range(reader.compact_array_length()):
        node_id, directory_id = reader.int32(), reader.uuid()
        endpoints: list[JsonValue] = []
        for _ in range(reader.compact_array_length()):
            name, host, port = reader.compact_string(), reader.compact_string(), reader.uint16()
            reader.tagged_fields()
            endpoints.append(f"{name}://{Endpoint(host, port)}")
        minimum, maximum = reader.int16(), reader.int16()
        reader.tagged_fields()
        reader.tagged_fields()
        voters.append(
            {
                "voter": f"{node_id}-{format_directory_id(directory_id)}",
                "endpoints": endpoints,
                "kraft_versions": f"{minimum}-{maximum}",
            }
        )
    return {"voters": voters}


_KAFKAS: dict[int, tuple[str, Callable[[Reader], Fields]]] = {
    SNAPSHOT_HEADER: ("SnapshotHeader", _snapshot_header),
    SNAPSHOT_FOOTER: ("SnapshotFooter", _snapshot_footer),
    KRAFT_VERSION: ("KRaftVersion", _kraft_version),
    KRAFT_VOTERS: ("KRaftVoters", _kraft_voters),
}
