"""Identities and small values: they print as they are read, and compare as votes need it."""

import pickle
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.core.types import (
    Endpoint,
    Epoch,
    LogPosition,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterSet,
    format_directory_id,
    parse_directory_id,
)

keys = st.builds(ReplicaKey, st.integers(0, 6).map(NodeId), st.uuids(version=4))
sets = st.lists(keys.map(Voter), max_size=7).map(VoterSet.of)


@given(st.uuids())
def test_directory_id_reads_back_in_both_forms(directory_id: uuid.UUID):
    text = format_directory_id(directory_id)
    assert len(text) == 22
    assert parse_directory_id(text) == directory_id
    assert parse_directory_id(str(directory_id)) == directory_id


@pytest.mark.parametrize("text", ["", "x", "=" * 22, "ä" * 22, "A" * 21, "A" * 23, "1-2"])
def test_what_is_no_directory_id_is_named(text: str):
    with pytest.raises(ValueError, match="not a directory id"):
        parse_directory_id(text)


@given(keys)
def test_replica_reads_back(key: ReplicaKey):
    assert ReplicaKey.parse(str(key)) == key


@pytest.mark.parametrize("text", ["", "1", "-1", "x-AAAAAAAAAAAAAAAAAAAAAA", "1-", "-"])
def test_what_is_no_replica_is_refused(text: str):
    with pytest.raises(ValueError, match="not a"):
        ReplicaKey.parse(text)


@given(keys, keys)
def test_equal_replicas_have_one_hash(one: ReplicaKey, other: ReplicaKey):
    assert hash(one) == hash(ReplicaKey(one.node_id, one.directory_id))
    assert (one == other) == (
        (one.node_id, one.directory_id) == (other.node_id, other.directory_id)
    )
    assert one == one  # noqa: PLR0124
    assert one == ReplicaKey(one.node_id, one.directory_id)
    assert one != ReplicaKey(NodeId(one.node_id + 1), one.directory_id)
    assert one != (one.node_id, one.directory_id)


def test_replicas_have_hashes_of_their_own():
    """All alike would be right too, and slow."""
    assert len({hash(ReplicaKey(NodeId(1), uuid.UUID(int=n))) for n in range(100)}) == 100


@pytest.mark.parametrize("text", ["host:1", "10.0.0.1:65535", "[::1]:9093", "[fd00::7]:1"])
def test_endpoint_reads_back(text: str):
    assert str(Endpoint.parse(text)) == text


def test_an_ipv6_host_stands_in_brackets_in_text_only():
    assert (
        Endpoint.parse("[fd00::7]:9093") == Endpoint("fd00::7", 9093) == Endpoint("[fd00::7]", 9093)
    )
    assert Endpoint("[fd00::7]", 9093).host == "fd00::7"


UNBRACKETED = (
    *("::1:9093", "[::1]", "[::1]:0", "[host]:1"),
    *("[::1:9093", "::1]:9093", "[]:1", "[[::1]]:1"),
)


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":1", "host:0", "host:65536", "host:-1", *UNBRACKETED],
)
def test_what_is_no_endpoint_is_refused(text: str):
    with pytest.raises(ValueError, match="not an endpoint"):
        Endpoint.parse(text)


@given(sets, keys)
def test_adding_and_removing_are_opposites(voters: VoterSet, key: ReplicaKey):
    added = voters.with_added(Voter(key))
    assert key in added
    assert key not in added.without(key)
    if key not in voters:
        assert added.without(key) == voters


@given(sets, keys)
def test_what_a_set_keeps_ready_is_what_its_voters_say(voters: VoterSet, key: ReplicaKey):
    sets_made = (voters, voters.with_added(Voter(key)), voters.without(key))
    for made in (*sets_made, *(pickle.loads(pickle.dumps(made)) for made in sets_made)):
        assert made.keys == tuple(made) == tuple(voter.key for voter in made.voters)
        assert all(voter.key in made for voter in made.voters)
        assert (key in made) == any(voter.key == key for voter in made.voters)
        assert made.majority == len(made) // 2 + 1
        assert made == VoterSet(made.voters)
        assert hash(made) == hash(VoterSet(made.voters))


@pytest.mark.rule("P31")
@given(sets, keys)
def test_majorities_of_adjacent_sets_share_a_voter(voters: VoterSet, key: ReplicaKey):
    """Why one change at a time is enough (P31)."""
    added = voters.with_added(Voter(key))
    if len(voters) and key not in voters:
        assert voters.majority + added.majority > len(added)


@pytest.mark.rule("S27")
@pytest.mark.without(
    "core.types:VoterSet.of",
    "{voter.key: voter for voter in voters}",
    "{voter.key.node_id: voter for voter in voters}",
)
def test_set_with_both_disks_of_a_node_has_four_voters():
    """{1, 2, 3, 3'} (S27)."""
    disks = [ReplicaKey(NodeId(n), uuid.UUID(int=d)) for n, d in ((1, 1), (2, 2), (3, 3), (3, 4))]
    voters = VoterSet.of(Voter(key) for key in disks)
    assert (len(voters), voters.majority) == (4, 3)
    assert voters.with_id(NodeId(3)) == (disks[2], disks[3])


@pytest.mark.rule("P8")
def test_later_epoch_beats_longer_log():
    """P8."""
    assert LogPosition(Epoch(2), Offset(1)) > LogPosition(Epoch(1), Offset(99))
    assert LogPosition(Epoch(2), Offset(2)) > LogPosition(Epoch(2), Offset(1))


@pytest.mark.parametrize(
    "text", ["!!!!!!!!!!!!!!!!!!!!!!", "A" * 21, "A" * 21 + "\n", "AAAAAAAAAAA AAAAAAAAAA"]
)
def test_directory_id_of_other_characters_is_refused(text: str):
    with pytest.raises(ValueError, match="not a directory id"):
        parse_directory_id(text)
