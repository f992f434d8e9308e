"""Each reason for which there is no advice: its exit code, and what its line names."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from kraftquorum_operator.kafka.codec.describe_quorum import (
    NO_DIRECTORY,
    QuorumDescription,
    ReplicaState,
)
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.errors import (
    KafkaAccessError,
    KafkaAuthenticationError,
    KafkaDecodeError,
    KafkaError,
    KafkaTlsError,
    KafkaUnreachableError,
)
from kraftquorum_operator.kafka.exit_codes import MEANINGS, AdviseExitCode
from kraftquorum_operator.kafka.facts import MappedController, NodeFacts, View
from kraftquorum_operator.kafka.refusals import Refusal, refusal_of

A, B = Address("a", 1), Address("b", 1)
ROWS = tuple(
    ReplicaState(node_id, uuid.UUID(int=1 << 90 | node_id), 10, 5, 5) for node_id in (1, 2, 3)
)
QUORUM = QuorumDescription(0, None, 1, 7, 10, ROWS)
NODE = NodeFacts(
    A, 1, 2, changes_voters=True, cluster_id="ours", config={"process.roles": "controller"}
)
LEADER = replace(NODE, quorum=QUORUM, node_id=1)
VIEW = View((LEADER,), {}, QUORUM, QUORUM, confirmed=True)
MAP = tuple(MappedController(node_id, Address("a", node_id)) for node_id in (1, 2, 3))


def view(node: NodeFacts = LEADER, quorum: QuorumDescription = QUORUM) -> View:
    return replace(VIEW, nodes=(replace(node, quorum=quorum),), quorum=quorum)


def failed(*errors: KafkaError) -> View:
    return View((), dict(zip((A, B), errors, strict=False)))


def refused(
    given: View, wanted: tuple[MappedController, ...] = (), cluster_id: str | None = None
) -> Refusal:
    refusal = refusal_of(given, wanted, cluster_id)
    assert refusal is not None
    return refusal


def test_a_sound_view_is_not_refused() -> None:
    assert refusal_of(VIEW, MAP, "ours") is None


UNNAMED = replace(QUORUM, voters=(replace(ROWS[0], directory_id=NO_DIRECTORY), *ROWS[1:]))
CASES: dict[str, tuple[Refusal, AdviseExitCode, str]] = {
    "too old": (
        refused(view(replace(LEADER, quorum_version=1))),
        AdviseExitCode.TOO_OLD,
        "a:1 speaks DescribeQuorum v1",
    ),
    "no voter changes": (
        refused(view(replace(LEADER, changes_voters=False))),
        AdviseExitCode.TOO_OLD,
        "no AddRaftVoter: Kafka 3.9",
    ),
    "static": (
        refused(view(replace(LEADER, kraft_version=0))),
        AdviseExitCode.STATIC_QUORUM,
        "kraft.version is 0",
    ),
    "combined": (
        refused(view(replace(LEADER, config={"process.roles": "broker,controller"}))),
        AdviseExitCode.COMBINED_MODE,
        "process.roles=broker,controller",
    ),
    "another cluster": (
        refused(VIEW, cluster_id="theirs"),
        AdviseExitCode.OTHER_CLUSTER,
        "a:1 belongs to cluster ours: cluster theirs is wanted",
    ),
    "two clusters": (
        refused(replace(VIEW, nodes=(LEADER, replace(NODE, address=B, cluster_id="theirs")))),
        AdviseExitCode.OTHER_CLUSTER,
        "a:1 to ours, b:1 to theirs",
    ),
    "cluster id not readable": (
        refused(view(replace(LEADER, cluster_id=None)), cluster_id="ours"),
        AdviseExitCode.ACCESS_DENIED,
        "Alter on Cluster",
    ),
    "describe not allowed": (
        refused(failed(KafkaAccessError("DescribeQuorum", "Describe on Cluster"))),
        AdviseExitCode.ACCESS_DENIED,
        "needs the permission Describe on Cluster",
    ),
    "directory ids": (
        refused(view(quorum=UNNAMED)),
        AdviseExitCode.DIRECTORY_IDS_UNKNOWN,
        "no directory id of voters [1]",
    ),
    "no-ops off": (
        refused(
            replace(
                view(replace(LEADER, config={"metadata.max.idle.interval.ms": "0"})),
                confirmed=False,
                unconfirmed_reason="the high watermark did not rise",
            )
        ),
        AdviseExitCode.UNCONFIRMED,
        "metadata.max.idle.interval.ms is 0",
    ),
    "wrong credentials": (
        refused(failed(KafkaUnreachableError("b"), KafkaAuthenticationError("no such user"))),
        AdviseExitCode.AUTHENTICATION_FAILED,
        "b:1: no such user",
    ),
    "tls": (refused(failed(KafkaTlsError("x"))), AdviseExitCode.TLS_FAILED, "a:1: x"),
    "not kafka": (
        refused(failed(KafkaDecodeError("x v1", "length", "is -1"))),
        AdviseExitCode.NOT_KAFKA,
        "field length: is -1",
    ),
    "no answer": (
        refused(failed(KafkaUnreachableError("gone"))),
        AdviseExitCode.UNREACHABLE,
        "gone",
    ),
    "no leader": (
        refused(View((replace(NODE, leader_id=3),), {})),
        AdviseExitCode.NO_LEADER,
        "the leader is controller 3",
    ),
    "no leader is known": (
        refused(View((NODE,), {})),
        AdviseExitCode.NO_LEADER,
        "leads or knows a leader",
    ),
    "leader no voter": (
        refused(view(quorum=replace(QUORUM, leader_id=9))),
        AdviseExitCode.UNCONFIRMED,
        "leader 9 is no voter",
    ),
    "a voter is not in the map": (
        refused(VIEW, MAP[:2]),
        AdviseExitCode.ID_MAP_MISMATCH,
        "is not in it; voters are [1, 2, 3]",
    ),
    "another directory than in the map": (
        refused(VIEW, (replace(MAP[0], directory_id=uuid.UUID(int=5)), *MAP[1:])),
        AdviseExitCode.ID_MAP_MISMATCH,
        "voter 1 has directory",
    ),
    "another controller at an address of the map": (
        refused(view(replace(LEADER, misnamed="it is controller 1, not 2")), MAP),
        AdviseExitCode.ID_MAP_MISMATCH,
        "a:1: it is controller 1, not 2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_reason(case: str) -> None:
    refusal, code, text = CASES[case]
    assert refusal.code is code
    assert text in refusal.text


def test_each_code_has_a_meaning_and_a_test() -> None:
    assert set(MEANINGS) == set(AdviseExitCode)
    judged = {
        AdviseExitCode.SAFE,
        AdviseExitCode.ACTION,
        AdviseExitCode.AT_RISK,
        AdviseExitCode.USAGE,
    }
    assert {code for _, code, _ in CASES.values()} | judged == set(AdviseExitCode)
