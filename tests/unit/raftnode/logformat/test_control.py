from __future__ import annotations

import contextlib
import io
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.leader_change_message.v0 import LeaderChangeMessage as MessageV0
from kio.schema.leader_change_message.v0.data import Voter as V0Voter
from kio.schema.leader_change_message.v1 import LeaderChangeMessage as MessageV1
from kio.schema.leader_change_message.v1.data import Voter as V1Voter
from kio.schema.types import BrokerId
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from raftnode.core.records import (
    AddVoter,
    ControlRecord,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
    RemoveVoter,
)
from raftnode.core.types import Endpoint, NodeId, ReplicaKey, Voter
from raftnode.errors import DecodeError
from raftnode.logformat.control import NO_DIRECTORY_ID, decode_control_record, encode_control_record

pytestmark = pytest.mark.rule("P49", "S27")

KEYS = st.builds(ReplicaKey, st.integers(0, (1 << 31) - 1).map(NodeId), st.uuids())
ENDPOINTS = st.builds(
    Endpoint, st.text(st.characters(codec="utf-8"), min_size=1), st.integers(1, 65535)
)
RECORDS: st.SearchStrategy[ControlRecord] = st.one_of(
    st.builds(
        LeaderChange,
        KEYS,
        st.lists(KEYS, max_size=5).map(tuple),
        st.lists(KEYS, max_size=5).map(tuple),
    ),
    st.builds(AddVoter, st.builds(Voter, KEYS, st.none() | ENDPOINTS)),
    st.builds(RemoveVoter, KEYS),
    st.builds(RaftVersion, st.integers(0, 32767)),
    st.just(FormationCompleted()),
)
A, B = uuid.UUID(int=10), uuid.UUID(int=11)


@given(RECORDS)
def test_every_control_record_comes_back(record: ControlRecord) -> None:
    assert decode_control_record(*encode_control_record(record)) == record


@given(RECORDS, st.binary(min_size=1, max_size=4), st.data())
def test_mutated_records_raise_decode_error_or_nothing(
    record: ControlRecord, noise: bytes, data: st.DataObject
) -> None:
    key, value = encode_control_record(record)
    place = data.draw(st.integers(0, len(value)))
    cut = data.draw(st.integers(0, 4))
    for mutated in (value[:place] + noise + value[place + cut :], value[:place]):
        with contextlib.suppress(DecodeError):
            decode_control_record(key, mutated)


@given(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=60))
def test_random_bytes_raise_decode_error_or_nothing(key: bytes | None, value: bytes | None) -> None:
    for k in (key, b"\0\0\0\2", b"\0\0\x03\xe9"):
        with contextlib.suppress(DecodeError):
            decode_control_record(k, value)


def kafka(message: MessageV0 | MessageV1) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


THREE_LEADS = LeaderChange(
    ReplicaKey(NodeId(3), B),
    (ReplicaKey(NodeId(1), A), ReplicaKey(NodeId(3), B)),
    (ReplicaKey(NodeId(3), B),),
)


@pytest.mark.rule("P50")
@pytest.mark.without(
    "logformat.control:_encode_leader_change",
    "_encode_replicas(record.granting_voters)",
    "_encode_replicas(record.voters)",
)
def test_leader_change_is_kafkas_v0_with_directory_ids_in_tagged_fields_more() -> None:
    theirs = kafka(
        MessageV0(
            version=i16(0),
            leader_id=BrokerId(3),
            voters=(V0Voter(voter_id=i32(1)), V0Voter(voter_id=i32(3))),
            granting_voters=(V0Voter(voter_id=i32(3)),),
        )
    )
    key, ours = encode_control_record(THREE_LEADS)
    assert key == b"\0\0\0\2"
    tag = b"\1\x90\x4e\x10"  # one field: 10000, 16 bytes
    stripped = ours
    for directory_id in (A, B):
        stripped = stripped.replace(tag + directory_id.bytes, b"\0")
    assert stripped == theirs


def test_leader_change_of_version_1_is_read() -> None:
    message = MessageV1(
        version=i16(1),
        leader_id=BrokerId(3),
        voters=(
            V1Voter(voter_id=i32(1), voter_directory_id=A),
            V1Voter(voter_id=i32(3), voter_directory_id=B),
        ),
        granting_voters=(V1Voter(voter_id=i32(3), voter_directory_id=B),),
    )
    assert decode_control_record(b"\0\0\0\2", kafka(message)) == THREE_LEADS


def test_leader_change_of_kafka_v0_has_no_directory_ids() -> None:
    message = MessageV0(
        version=i16(0),
        leader_id=BrokerId(1),
        voters=(V0Voter(voter_id=i32(1)),),
        granting_voters=(),
    )
    one = ReplicaKey(NodeId(1), NO_DIRECTORY_ID)
    assert decode_control_record(b"\0\0\0\2", kafka(message)) == LeaderChange(one, (one,), ())


def test_a_leader_of_ambiguous_id_without_our_field_has_no_directory_id() -> None:
    voters = tuple(V1Voter(voter_id=i32(3), voter_directory_id=u) for u in (A, B))
    message = MessageV1(version=i16(1), leader_id=BrokerId(3), voters=voters, granting_voters=())
    record = decode_control_record(b"\0\0\0\2", kafka(message))
    assert isinstance(record, LeaderChange)
    assert record.leader == ReplicaKey(NodeId(3), NO_DIRECTORY_ID)


@pytest.mark.without(
    "logformat.control:decode_control_record",
    "decode = _DECODERS.get(kind)",
    "decode = _DECODERS.get(kind, _decode_raft_version)",
)
def test_unknown_types_are_none_and_unknown_tags_are_skipped() -> None:
    assert decode_control_record(b"\0\0\0\6", b"whatever") is None
    key, value = encode_control_record(RemoveVoter(ReplicaKey(NodeId(1), A)))
    assert decode_control_record(key, value[:-1] + b"\1\x63\2hi") == RemoveVoter(
        ReplicaKey(NodeId(1), A)
    )


@pytest.mark.without("logformat.control:_decode_key", "reader.uuid()", "NO_DIRECTORY_ID")
def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    key, value = encode_control_record(AddVoter(Voter(ReplicaKey(NodeId(1), A))))
    newer = b"\0\1" + value[2:-1] + b"more than we know"
    assert decode_control_record(key, newer) == AddVoter(Voter(ReplicaKey(NodeId(1), A)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0", b""),
        (b"\xff\xff\0\2", b""),
        (b"\0\0\x03\xe8", None),
        (b"\0\0\x03\xe8", b"\xff\xff\0\1\0"),
        (b"\0\0\x03\xe8", b"\0\0\0\1\0left over"),
        (b"\0\0\x03\xea", b"\0\0\xff\xff\xff\xff" + bytes(16) + b"\0"),
    ],
)
def test_malformed_control_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_control_record(key, value)
