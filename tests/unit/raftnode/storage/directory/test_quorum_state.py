from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, NodeId, ReplicaKey
from raftnode.errors import ProtocolHaltError
from raftnode.storage.directory.quorum_state import (
    check_successor,
    decode_quorum_state,
    encode_quorum_state,
)

pytestmark = pytest.mark.rule("P46")

OWN = uuid.UUID("f1e2d3c4-0000-4000-8000-000000000001")


ONE = ReplicaKey(NodeId(1), OWN)


TWO = ReplicaKey(NodeId(2), uuid.UUID(int=7))


KEYS = st.builds(
    ReplicaKey, st.integers(0, 1 << 30).map(NodeId), st.uuids().filter(lambda u: u.int)
)


STATES = st.builds(
    QuorumState, st.integers(-1, (1 << 31) - 1).map(Epoch), st.none() | KEYS, st.none() | KEYS
)


@given(STATES, st.uuids().filter(lambda u: u.int))
def test_quorum_state_comes_back(state: QuorumState, own: uuid.UUID) -> None:
    stored = decode_quorum_state(encode_quorum_state(state, own))
    assert (stored.state, stored.directory_id, stored.intact) == (state, own, True)


@pytest.mark.without(
    "storage.directory.quorum_state:encode_quorum_state",
    '"leaderEpoch": state.epoch',
    '"leaderEpoch": 0',
)
@pytest.mark.without(
    "storage.directory.quorum_state:encode_quorum_state",
    "replica_fields(state.voted",
    "replica_fields(state.leader",
)
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (QuorumState(Epoch(5)), QuorumState(Epoch(4))),
        (QuorumState(Epoch(5), None, ONE), QuorumState(Epoch(5), None, TWO)),
        (QuorumState(Epoch(5), None, ONE), QuorumState(Epoch(5), TWO, None)),
        (QuorumState(Epoch(5), ONE), QuorumState(Epoch(5), TWO)),
    ],
)
@pytest.mark.without(
    "storage.directory.quorum_state:check_successor",
    "if after.epoch < before.epoch:",
    "if False:",
    "storage.directory.quorum_state:check_successor",
    "if before.voted not in (None, after.voted):",
    "if False:",
    "storage.directory.quorum_state:check_successor",
    "if _differ(before.leader, after.leader):",
    "if False:",
)
def test_a_promise_is_never_taken_back(before: QuorumState, after: QuorumState) -> None:
    with pytest.raises(ProtocolHaltError):
        check_successor(before, after)


def test_what_a_promise_allows() -> None:
    check_successor(QuorumState(Epoch(5), ONE, ONE), QuorumState(Epoch(6), TWO))
    check_successor(QuorumState(Epoch(5)), QuorumState(Epoch(5), TWO, ONE))
    check_successor(QuorumState(Epoch(5), ONE, ONE), QuorumState(Epoch(5), None, ONE))
