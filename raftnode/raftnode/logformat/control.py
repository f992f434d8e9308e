"""Control records as bytes: key, and value in Kafka's flexible encoding.

LeaderChange is Kafka's message (type 2) in version 0, which Kafka 4.1 writes too. Kafka reads the
record as version 0 whatever version it has, so a version 1 would stop Kafka's tools. The directory
ids of each voter and of the leader are our own tagged fields, which Kafka skips. The leader has one
of its own (S1), since a leader outside the set stands in neither list (S8). The decoder reads
version 1 as well.

Types from 1000 on are ours (S27). Newer versions of a record may only append fields, so a decoder
reads the fields it knows and ignores the rest. Unknown types decode to None and stay in the log
untouched.
"""

from __future__ import annotations

import uuid
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
from raftnode.core.types import Endpoint, NodeId, ReplicaKey, Voter
from raftnode.errors import DecodeError
from raftnode.logformat.encoding import (
    Reader,
    compact_string,
    int16,
    int32,
    tagged_fields,
    uvarint,
)

LEADER_CHANGE = 2
RAFT_VERSION = 1000
ADD_VOTER = 1001
REMOVE_VOTER = 1002
FORMATION_COMPLETED = 1003
TARGET_VOTERS = 1004

NO_DIRECTORY_ID = uuid.UUID(int=0)
"""Kafka's null UUID: a replica whose storage is not known."""

_KEY_VERSION = 0
_LEADER_CHANGE_VERSION = 0
_LEADER_CHANGE_KNOWN = 1
_OUR_VERSION = 0
_DIRECTORY_ID_TAG = 10_000  # far from any tag that Kafka may add
_ENDPOINT_TAG = 0
_NO_TAGS = tagged_fields({})


def encode_control_record(record: ControlRecord) -> tuple[bytes, bytes]:
    """Key and value of a control record."""
    match record:
        case LeaderChange():
            kind, value = LEADER_CHANGE, _encode_leader_change(record)
        case RaftVersion():
            kind = RAFT_VERSION
            value = int16(_OUR_VERSION) + int16(record.version) + _NO_TAGS
        case AddVoter():
            kind, value = ADD_VOTER, int16(_OUR_VERSION) + _encode_voter(record.voter)
        case RemoveVoter():
            kind = REMOVE_VOTER
            value = int16(_OUR_VERSION) + _encode_key(record.key) + _NO_TAGS
        case FormationCompleted():
            kind, value = FORMATION_COMPLETED, int16(_OUR_VERSION) + _NO_TAGS
        case TargetVoters(voters):
            count = uvarint(len(voters) + 1)
            value = b"".join((int16(_OUR_VERSION), count, *map(_encode_voter, voters), _NO_TAGS))
            kind = TARGET_VOTERS
        case _:
            assert_never(record)
    return int16(_KEY_VERSION) + int16(kind), value


def decode_control_record(key: bytes | None, value: bytes | None) -> ControlRecord | None:
    """Read a control record; None if its type is not one of those above.

    Raises:
        DecodeError: the bytes are not what their type says.
    """
    if key is None:
        raise DecodeError("control record without a key")
    reader = Reader(key, 0, len(key), "control record key")
    version, kind = reader.int16(), reader.int16()
    if version < 0:
        raise DecodeError(f"control record key of version {version}")
    decode = _DECODERS.get(kind)
    if decode is None:
        return None
    if value is None:
        raise DecodeError(f"control record of type {kind} without a value")
    reader = Reader(value, 0, len(value), f"control record of type {kind}")
    version = reader.int16()
    if version < 0:
        raise reader.error(f"version {version}")
    record = decode(reader, version)
    known = _LEADER_CHANGE_KNOWN if kind == LEADER_CHANGE else _OUR_VERSION
    if version <= known and reader.position != reader.end:
        raise reader.error(f"{reader.end - reader.position} bytes left over")
    return record


def _encode_key(key: ReplicaKey) -> bytes:
    return int32(key.node_id) + key.directory_id.bytes


def _encode_voter(voter: Voter) -> bytes:
    endpoint = voter.endpoint
    tags = {} if endpoint is None else {_ENDPOINT_TAG: _encode_endpoint(endpoint)}
    return _encode_key(voter.key) + tagged_fields(tags)


def _encode_endpoint(endpoint: Endpoint) -> bytes:
    return compact_string(endpoint.host) + endpoint.port.to_bytes(2, "big") + _NO_TAGS


def _encode_replicas(keys: tuple[ReplicaKey, ...]) -> bytes:
    return uvarint(len(keys) + 1) + b"".join(
        int32(key.node_id) + tagged_fields({_DIRECTORY_ID_TAG: key.directory_id.bytes})
        for key in keys
    )


def _encode_leader_change(record: LeaderChange) -> bytes:
    return (
        int16(_LEADER_CHANGE_VERSION)
        + int32(record.leader.node_id)
        + _encode_replicas(record.voters)
        + _encode_replicas(record.granting_voters)
        + tagged_fields({_DIRECTORY_ID_TAG: record.leader.directory_id.bytes})
    )


def _node_id(reader: Reader) -> NodeId:
    value = reader.int32()
    if value < 0:
        raise reader.error(f"node id {value}")
    return NodeId(value)


def _decode_key(reader: Reader) -> ReplicaKey:
    return ReplicaKey(_node_id(reader), reader.uuid())


def _decode_replicas(reader: Reader, version: int) -> tuple[ReplicaKey, ...]:
    keys: list[ReplicaKey] = []
    for _ in range(reader.compact_array_length()):
        node_id = _node_id(reader)
        directory_id = reader.uuid() if version >= 1 else None
        tagged = _tagged_directory_id(reader, reader.tagged_fields())
        keys.append(ReplicaKey(node_id, directory_id or tagged or NO_DIRECTORY_ID))
    return tuple(keys)


def _tagged_directory_id(reader: Reader, tags: dict[int, bytes]) -> uuid.UUID | None:
    data = tags.get(_DIRECTORY_ID_TAG)
    if data is None:
        return None
    if len(data) != 16:
        raise reader.error(f"directory id of {len(data)} bytes")
    return uuid.UUID(bytes=data)


def _decode_leader_change(reader: Reader, version: int) -> LeaderChange:
    leader_id = _node_id(reader)
    voters = _decode_replicas(reader, version)
    granting = _decode_replicas(reader, version)
    tags = reader.tagged_fields() if version <= _LEADER_CHANGE_KNOWN else {}
    directory_id = _tagged_directory_id(reader, tags)
    if directory_id is not None:
        return LeaderChange(ReplicaKey(leader_id, directory_id), voters, granting)
    # Kafka's own record: the leader is the replica with its id, if there is exactly one.
    keys = {key for key in (*voters, *granting) if key.node_id == leader_id}
    leader = keys.pop() if len(keys) == 1 else ReplicaKey(leader_id, NO_DIRECTORY_ID)
    return LeaderChange(leader, voters, granting)


def _decode_raft_version(reader: Reader, version: int) -> RaftVersion:
    record = RaftVersion(reader.int16())
    _skip_tags(reader, version)
    return record


def _decode_add_voter(reader: Reader, version: int) -> AddVoter:
    key = _decode_key(reader)
    tags = reader.tagged_fields() if version <= _OUR_VERSION else {}
    return AddVoter(Voter(key, _tagged_endpoint(reader, tags)))


def _decode_target_voters(reader: Reader, version: int) -> TargetVoters:
    voters: list[Voter] = []
    for _ in range(reader.compact_array_length()):
        key = _decode_key(reader)
        voters.append(Voter(key, _tagged_endpoint(reader, reader.tagged_fields())))
    if len({voter.key for voter in voters}) < len(voters):
        raise reader.error("a voter twice")
    _skip_tags(reader, version)
    return TargetVoters(tuple(voters))


def _tagged_endpoint(reader: Reader, tags: dict[int, bytes]) -> Endpoint | None:
    data = tags.get(_ENDPOINT_TAG)
    if data is None:
        return None
    inner = Reader(data, 0, len(data), "endpoint of a voter")
    host, port = inner.compact_string(), inner.uint16()
    inner.tagged_fields()
    if inner.position != inner.end:
        raise inner.error("bytes left over")
    if not host or not port:
        raise reader.error(f"endpoint {host!r}:{port}")
    return Endpoint(host, port)


def _decode_remove_voter(reader: Reader, version: int) -> RemoveVoter:
    key = _decode_key(reader)
    _skip_tags(reader, version)
    return RemoveVoter(key)


def _decode_formation_completed(reader: Reader, version: int) -> FormationCompleted:
    _skip_tags(reader, version)
    return FormationCompleted()


def _skip_tags(reader: Reader, version: int) -> None:
    if version <= _OUR_VERSION:
        reader.tagged_fields()


_DECODERS = {
    LEADER_CHANGE: _decode_leader_change,
    RAFT_VERSION: _decode_raft_version,
    ADD_VOTER: _decode_add_voter,
    REMOVE_VOTER: _decode_remove_voter,
    FORMATION_COMPLETED: _decode_formation_completed,
    TARGET_VOTERS: _decode_target_voters,
}
