"""quorum-state, meta.properties, formation.json and incarnation: what they hold and refuse."""

from __future__ import annotations

import contextlib
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Endpoint, Epoch, NodeId, ReplicaKey, Voter, VoterSet
from raftnode.errors import ConfigurationError, ProtocolHaltError
from raftnode.storage.formation import decode_latch, encode_latch
from raftnode.storage.meta_properties import (
    MetaProperties,
    check_cluster_id,
    decode_meta_properties,
    encode_meta_properties,
)
from raftnode.storage.quorum_state import check_successor, decode_quorum_state, encode_quorum_state
from raftnode.storage.sealed import seal, unseal

OWN = uuid.UUID("f1e2d3c4-0000-4000-8000-000000000001")
ONE = ReplicaKey(NodeId(1), OWN)
TWO = ReplicaKey(NodeId(2), uuid.UUID(int=7))
KEYS = st.builds(
    ReplicaKey, st.integers(0, 1 << 30).map(NodeId), st.uuids().filter(lambda u: u.int)
)
STATES = st.builds(
    QuorumState, st.integers(-1, (1 << 31) - 1).map(Epoch), st.none() | KEYS, st.none() | KEYS
)
LATCH = Latch("c-1", VoterSet.of([Voter(ONE, Endpoint("h", 9)), Voter(TWO)]))


@given(STATES, st.uuids().filter(lambda u: u.int))
def test_quorum_state_comes_back(state: QuorumState, own: uuid.UUID) -> None:
    stored = decode_quorum_state(encode_quorum_state(state, own))
    assert (stored.state, stored.directory_id, stored.intact) == (state, own, True)


def test_quorum_state_is_kafkas_json_v1_with_fields_of_ours() -> None:
    fields = json.loads(encode_quorum_state(QuorumState(Epoch(4), None, TWO), OWN))
    kafkas = {
        name: fields[name]
        for name in ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version")
    }
    assert kafkas == {
        "leaderId": -1,
        "leaderEpoch": 4,
        "votedId": 2,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAABw",
        "data_version": 1,
    }
    assert fields["directoryId"] == "8eLTxAAAQACAAAAAAAAAAQ"


def test_kafkas_v0_is_read_as_far_as_it_is_safe() -> None:
    v0 = b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":3,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    stored = decode_quorum_state(v0)
    assert stored.state == QuorumState(Epoch(2), None, ReplicaKey(NodeId(3), uuid.UUID(int=0)))
    assert stored.directory_id is None
    assert stored.intact


def test_kafkas_v1_is_read() -> None:
    v1 = b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}'
    voted = decode_quorum_state(v1).state.voted
    assert str(voted) == "1-J8aAPcfLQt2bqs1JT_rMgQ"


def test_a_flipped_bit_in_quorum_state_never_passes() -> None:
    data = encode_quorum_state(QuorumState(Epoch(41), ONE, TWO), OWN)
    for byte in range(len(data) - 1):
        for bit in range(8):
            rotten = bytearray(data)
            rotten[byte] ^= 1 << bit
            try:
                stored = decode_quorum_state(bytes(rotten))
            except ValueError:
                continue
            assert not stored.intact or stored.directory_id is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"3",
        b"{",
        b"\xff",
        b'{"leaderEpoch":1,"leaderId":-1,"votedId":-1}',
        b'{"leaderEpoch":1,"leaderId":-1,"votedId":-1,"data_version":2}',
        b'{"leaderEpoch":"1","leaderId":-1,"votedId":-1,"data_version":1}',
        b'{"leaderEpoch":true,"leaderId":-1,"votedId":-1,"data_version":1}',
        b'{"leaderEpoch":2147483648,"leaderId":-1,"votedId":-1,"data_version":1}',
        b'{"leaderEpoch":1,"leaderEpoch":2,"leaderId":-1,"votedId":-1,"data_version":1}',
        b'{"leaderEpoch":1,"leaderId":-1,"votedId":1,"votedDirectoryId":"x","data_version":1}',
        b"[" * 100_000,
    ],
)
def test_other_quorum_states_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        decode_quorum_state(text)


@given(st.binary(max_size=200))
def test_random_bytes_raise_value_error_or_nothing(noise: bytes) -> None:
    for decode in (decode_quorum_state, decode_latch, decode_meta_properties, unseal):
        with contextlib.suppress(ValueError):
            decode(noise)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (QuorumState(Epoch(5)), QuorumState(Epoch(4))),
        (QuorumState(Epoch(5), None, ONE), QuorumState(Epoch(5), None, TWO)),
        (QuorumState(Epoch(5), None, ONE), QuorumState(Epoch(5), TWO, None)),
        (QuorumState(Epoch(5), ONE), QuorumState(Epoch(5), TWO)),
    ],
)
def test_a_promise_is_never_taken_back(before: QuorumState, after: QuorumState) -> None:
    with pytest.raises(ProtocolHaltError):
        check_successor(before, after)


def test_what_a_promise_allows() -> None:
    check_successor(QuorumState(Epoch(5), ONE, ONE), QuorumState(Epoch(6), TWO))
    check_successor(QuorumState(Epoch(5)), QuorumState(Epoch(5), TWO, ONE))
    check_successor(QuorumState(Epoch(5), ONE, ONE), QuorumState(Epoch(5), None, ONE))


def test_meta_properties_are_kafkas_with_storage_id() -> None:
    meta = MetaProperties(NodeId(3), OWN, "cluster-x")
    data = encode_meta_properties(meta)
    assert data == (
        b"version=1\nnode.id=3\ndirectory.id=8eLTxAAAQACAAAAAAAAAAQ\n"
        b"storage.id=8eLTxAAAQACAAAAAAAAAAQ\ncluster.id=cluster-x\n"
    )
    assert decode_meta_properties(b"#\n#Thu\n" + data) == meta
    plain = MetaProperties(NodeId(3), OWN)
    assert decode_meta_properties(encode_meta_properties(plain)) == plain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"version=1", b"version=0"),
        (b"version=1\n", b""),
        (b"node.id=3", b"node.id=-3"),
        (b"node.id=3", b"node.id=9999999999"),
        (b"storage.id=8", b"storage.id=9"),
        (b"storage.id=8eLTxAAAQACAAAAAAAAAAQ\n", b""),
        (b"node.id=3", b"node.id=3\nnode.id=3"),
        (b"node.id=3", b"node.id=3\nunknown=1"),
        (b"node.id=3", b"node.id 3"),
        (b"cluster.id=c", b"cluster.id="),
        (b"version", b"\xff"),
    ],
)
def test_other_meta_properties_are_refused(old: bytes, new: bytes) -> None:
    data = encode_meta_properties(MetaProperties(NodeId(3), OWN, "c"))
    with pytest.raises(ValueError):
        decode_meta_properties(data.replace(old, new))


@pytest.mark.parametrize("name", ["", "a b", "a=b", "ü", "x" * 65, "-a", "a\nb"])
def test_names_that_cannot_be_cluster_ids_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="letters, digits"):
        check_cluster_id(name)


def test_latch_comes_back_and_rot_in_it_is_refused() -> None:
    data = encode_latch(LATCH)
    assert decode_latch(data) == LATCH
    for byte in range(len(data) - 1):
        rotten = bytearray(data)
        rotten[byte] ^= 1
        with pytest.raises(ValueError):
            decode_latch(bytes(rotten))


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 2, "clusterId": "c", "voters": []},
        {"version": 1, "clusterId": "c"},
        {"version": 1, "clusterId": 5, "voters": []},
        {"version": 1, "clusterId": "c", "voters": [1]},
        {
            "version": 1,
            "clusterId": "c",
            "voters": [{"id": -1, "directoryId": "J8aAPcfLQt2bqs1JT_rMgQ"}],
        },
        {"version": 1, "clusterId": "c", "voters": [{"id": 1}]},
        {
            "version": 1,
            "clusterId": "c",
            "voters": [{"id": 1, "directoryId": "J8aAPcfLQt2bqs1JT_rMgQ"}] * 2,
        },
    ],
)
def test_other_latches_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        decode_latch(seal(fields))  # type: ignore[arg-type]
