"""The status of a KafkaQuorum: conditions for each outcome, and no write while nothing changes."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from kraftquorum_operator.kafka.advice import Limits
from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription, ReplicaState
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.errors import KafkaAccessError, KafkaUnreachableError
from kraftquorum_operator.kafka.exit_codes import AdviseExitCode
from kraftquorum_operator.kafka.facts import NodeFacts, View
from kraftquorum_operator.kafka.judgement import Judgement, judge
from kraftquorum_operator.kafka.refusals import Refusal
from kraftquorum_operator.kafka.status import CONDITIONS, Obstacle, events_of, status_of
from kraftquorum_operator.model.kafka_status import KafkaQuorumStatus
from kraftquorum_operator.report.stamp import Stamp

NOW_MS, END = 1_700_000_000_000, 1_000
STAMP, LATER = Stamp("2026-01-01T00:00:00Z", 3), Stamp("2026-01-01T00:01:00Z", 3)


def row(node_id: int, *, age_ms: int = 100, disk: int = 0, end: int = END) -> ReplicaState:
    at_ms = NOW_MS - age_ms
    return ReplicaState(node_id, uuid.UUID(int=1 << 90 | node_id * 10 + disk), end, at_ms, at_ms)


def quorum(*voters: ReplicaState, observers: tuple[ReplicaState, ...] = ()) -> QuorumDescription:
    return QuorumDescription(0, None, 1, 7, END, (row(1, age_ms=0), *voters), observers)


def judged(description: QuorumDescription, earlier: QuorumDescription | None = None) -> Judgement:
    node = NodeFacts(
        Address("a", 1),
        1,
        2,
        changes_voters=True,
        cluster_id="ours",
        config={"process.roles": "controller"},
        quorum=description,
    )
    view = View((node,), {}, description, earlier or description, confirmed=True)
    return judge(view, (), None, Limits())


HEALTHY = judged(quorum(row(2), row(3)))
SILENT = judged(quorum(row(2), row(3, age_ms=400_000)))
REPLACE = judged(quorum(row(2), row(3, age_ms=400_000), observers=(row(3, disk=1),)))
TWINS = judged(quorum(row(2), row(3), observers=(row(3, disk=1),)))


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def test_a_healthy_quorum_is_ready_and_safe() -> None:
    status = status_of(HEALTHY, {}, STAMP)
    assert conditions(status) == {
        "Ready": ("True", "Confirmed"),
        "Safe": ("True", "VotersToSpare"),
        "ActionAdvised": ("False", "Nothing"),
    }
    assert (status["voters"], status["spareVoters"], status["leaderId"]) == (3, 1, 1)
    assert [replica["role"] for replica in status["replicas"]] == ["leader", "voter", "voter"]
    assert status["clusterId"] == "ours"
    assert list(CONDITIONS) == list(conditions(status))
    KafkaQuorumStatus.model_validate(status)


def test_a_replacement_names_both_replicas() -> None:
    status = status_of(REPLACE, {}, STAMP)
    assert conditions(status)["Safe"] == ("False", "NoVoterToSpare")
    assert conditions(status)["ActionAdvised"] == ("True", "Replace")
    assert status["advice"]["kind"] == "Replace"
    assert status["advice"]["remove"]["nodeId"] == status["advice"]["add"]["nodeId"] == 3
    assert status["advice"]["remove"] != status["advice"]["add"]


@pytest.mark.without(
    "kraftquorum_operator.kafka.status:_verdicts", "advice.kind is Kind.DECISION_NEEDED", "False"
)
def test_nothing_is_safe_while_a_person_must_decide() -> None:
    """A directory that forgot its log still counts as fresh."""
    assert conditions(status_of(TWINS, {}, STAMP))["Safe"] == ("False", "DecisionNeeded")


@pytest.mark.parametrize("code", AdviseExitCode)
def test_each_refusal_is_a_reason_and_leaves_nothing_of_before(code: AdviseExitCode) -> None:
    before = status_of(HEALTHY, {}, STAMP)
    refused = Judgement(HEALTHY.view, Refusal(code, "why"))
    status = status_of(refused, before, LATER)
    reason = "".join(part.capitalize() for part in code.name.split("_"))
    assert conditions(status) == {
        "Ready": ("False", reason),
        "Safe": ("Unknown", "NoAdvice"),
        "ActionAdvised": ("Unknown", "NoAdvice"),
    }
    assert not {"advice", "replicas", "spareVoters", "leaderId", "epoch"} & set(status)


def test_a_refused_permission_is_named() -> None:
    view = View((), {Address("a", 1): KafkaAccessError("DescribeQuorum", "Describe on Cluster")})
    status = status_of(judge(view, (), None, Limits()), {}, STAMP)
    (ready, *_) = status["conditions"]
    assert ready["reason"] == "AccessDenied"
    assert "Describe on Cluster" in ready["message"]
    assert any("Describe on Cluster" in note for note in status["notes"])


def test_an_obstacle_is_a_reason() -> None:
    status = status_of(Obstacle("SecretMissing", "Secret x is not there"), {}, STAMP)
    assert conditions(status)["Ready"] == ("False", "SecretMissing")
    assert "notes" not in status


def test_the_same_quorum_has_the_same_status_whatever_its_offsets_and_ages() -> None:
    """The operator writes a status only if it changed."""
    first = status_of(HEALTHY, {}, STAMP)
    moved = quorum(row(2, age_ms=300, end=END - 2), row(3, age_ms=250))
    again = status_of(judged(replace(moved, high_watermark=2_000)), first, LATER)
    assert again == first


@pytest.mark.without(
    "kraftquorum_operator.kafka.status:status_of", "last = conditions_of(before)", "last = ()"
)
def test_a_condition_keeps_the_time_of_its_status() -> None:
    first = status_of(HEALTHY, {}, STAMP)
    later = status_of(SILENT, first, LATER)
    times = {one["type"]: one["lastTransitionTime"] for one in later["conditions"]}
    assert times == {"Ready": STAMP.now, "Safe": LATER.now, "ActionAdvised": LATER.now}


def test_events_tell_what_changed_alone() -> None:
    first = status_of(HEALTHY, {}, STAMP)
    assert {event.type for event in events_of({}, first)} == {"Normal"}
    assert events_of(first, first) == []
    silent = status_of(SILENT, first, LATER)
    assert [(event.type, event.reason) for event in events_of(first, silent)] == [
        ("Warning", "NoVoterToSpare"),
        ("Warning", "Provide"),
    ]
    gone = View((), {Address("a", 1): KafkaUnreachableError("a:1 cannot be reached")})
    unreachable = status_of(judge(gone, (), None, Limits()), silent, LATER)
    (event,) = events_of(silent, unreachable)
    assert (event.type, event.reason) == ("Warning", "Unreachable")
    assert events_of(unreachable, unreachable) == []
