"""Two descriptions confirm each other only if a majority acknowledged a younger record."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription, ReplicaState
from kraftquorum_operator.kafka.query import confirms

LEADER, FOLLOWER = (
    ReplicaState(node_id, uuid.UUID(int=1 << 90 | node_id), 40) for node_id in (1, 2)
)
EARLIER = QuorumDescription(0, None, 1, 7, 39, (LEADER, FOLLOWER))
LATER = replace(EARLIER, high_watermark=41)
ANOTHER_DISK = replace(FOLLOWER, directory_id=uuid.UUID(int=9))


def test_a_high_watermark_above_the_earlier_end_confirms() -> None:
    assert confirms(EARLIER, LATER)


@pytest.mark.without(
    "kraftquorum_operator.kafka.query:confirms",
    "latest.high_watermark > end",
    "latest.high_watermark >= end",
)
def test_a_high_watermark_at_the_earlier_end_does_not() -> None:
    """All records of then are committed, perhaps by the majority of then alone."""
    assert not confirms(EARLIER, replace(LATER, high_watermark=40))


@pytest.mark.without(
    "kraftquorum_operator.kafka.query:confirms", "same_epoch_and_voters(earlier, latest) and", ""
)
@pytest.mark.parametrize(
    "latest",
    [
        replace(LATER, leader_epoch=8),
        replace(LATER, leader_id=2),
        replace(LATER, voters=(LEADER, ANOTHER_DISK)),
    ],
    ids=["epoch", "leader", "voters"],
)
def test_another_leader_epoch_or_voter_does_not(latest: QuorumDescription) -> None:
    assert not confirms(EARLIER, latest)


def test_a_leader_that_is_no_voter_confirms_nothing() -> None:
    leaderless = replace(EARLIER, voters=(FOLLOWER,))
    assert not confirms(leaderless, replace(leaderless, high_watermark=41))
