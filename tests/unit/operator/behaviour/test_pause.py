"""`spec.pause`: the operator changes nothing, and continues to report the true state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.plan.actions import Wait
from kraftquorum_operator.report.conditions import STANDING
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    blank,
    healthy,
    node,
    spec,
    voter,
    with_quorum,
)

LOST = replace(
    healthy(),
    quorum=None,
    nodes=(node(0, "b", blank=True), node(1, "b", blank=True), node(2)),
)
LATE = with_quorum(healthy(), voters=(voter(0), voter(1), voter(2, silent_ms=9_000)))
FORGOTTEN = replace(blank(), remembered_cluster_id="x")


def status(observation: Observation, *, pause: bool) -> QuorumStatus:
    wanted = spec(voters=3, pause=pause)
    decision = decide(wanted, observation, NOW_MS)
    stamp = Stamp("2026-01-01T00:00:00Z", 4)
    return build_status(wanted, observation, decision, current_action=None, before=(), stamp=stamp)


def held(found: QuorumStatus) -> dict[str, str]:
    return {c.type: c.status for c in found.conditions}


@pytest.mark.parametrize(
    "observation",
    [healthy(), LOST, LATE, blank(), FORGOTTEN, replace(blank(), statefulset=None)],
    ids=["well", "lost", "late", "blank", "forgotten", "nothing there"],
)
def test_the_conditions_are_those_of_a_quorum_that_is_not_paused(observation: Observation) -> None:
    paused, running = held(status(observation, pause=True)), held(status(observation, pause=False))
    assert paused.pop("Paused") == "True"
    assert paused.pop("Progressing") == "False"
    running.pop("Progressing")
    assert paused == running
    assert set(paused) >= set(STANDING) - {"Progressing"}


def test_a_lost_quorum_stays_one_while_a_person_works_on_it() -> None:
    found = status(LOST, pause=True)
    assert (found.phase, found.waiting_for, found.doing) == (
        "QuorumLost",
        "not_paused",
        "not_paused",
    )
    assert held(found)["QuorumLost"] == "True"
    assert "a person must decide" in found.message
    assert status(healthy(), pause=True).phase == "Paused"


def test_the_message_says_what_the_pause_holds_back() -> None:
    assert status(healthy(), pause=True).message == "spec.pause is set"
    assert "CreateLatch" in status(blank(), pause=True).message
    assert "node_catches_up" in status(LATE, pause=True).message


def test_a_paused_quorum_is_only_waited_for() -> None:
    for observation in (healthy(), LOST, LATE, blank(), replace(blank(), statefulset=None)):
        decision = decide(spec(voters=5, pause=True), observation, NOW_MS)
        assert isinstance(decision, Wait)
        assert decision.guard == "not_paused"


def test_the_metric_of_a_lost_quorum_is_not_hidden_by_a_pause() -> None:
    metrics = Metrics()

    def lost(observation: Observation) -> float | None:
        metrics.observe(
            observation, spec(voters=3), decide(spec(voters=3, pause=True), observation, NOW_MS), 0
        )
        labels = {"namespace": observation.namespace, "quorum": observation.name}
        return metrics.registry.get_sample_value("kraftquorum_quorum_lost", labels)

    assert lost(LOST) == 1
    assert lost(healthy()) == 0
