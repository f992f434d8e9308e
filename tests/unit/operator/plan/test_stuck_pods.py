"""Pods that cannot start on an outdated template, without a leader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.model.observation import Observation, Pod
from kraftquorum_operator.plan import actions as act
from kraftquorum_operator.plan.actions import Wait
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    blank,
    healthy,
    node,
    pod,
    spec,
    with_pod,
    without_node,
)

OLD = {"revision": "r0", "version": "77", "ready": False, "running": False}


def never_started(ordinal: int) -> Pod:
    return replace(pod(ordinal, voter=False), phase="Pending", **OLD)


def crashing(ordinal: int) -> Pod:
    return replace(pod(ordinal, voter=False), restarts=2, exit_code=1, **OLD)


def silent(observation: Observation, *pods: Pod) -> Observation:
    """Those pods are as given and their nodes do not answer; there is no leader."""
    observation = replace(observation, quorum=None)
    for changed in pods:
        observation = with_pod(without_node(observation, changed.ordinal), changed)
    return observation


def decided(observation: Observation) -> act.Decision:
    return decide(spec(voters=3), observation, NOW_MS)


@pytest.mark.parametrize("stuck", [never_started(1), crashing(1)], ids=["never", "crashing"])
@pytest.mark.parametrize("observation", [blank(), healthy()], ids=["before formation", "after it"])
def test_an_outdated_pod_that_cannot_start_is_recreated_as_it_was_seen(
    observation: Observation, stuck: Pod
) -> None:
    decision = decided(silent(observation, stuck))
    assert isinstance(decision, act.DeletePod)
    assert (decision.pod, decision.uid, decision.version) == ("demo-1", "pod-1", "77")


@pytest.mark.parametrize(
    "spared",
    [
        replace(never_started(1), revision="r1"),
        replace(never_started(1), terminating=True),
        replace(crashing(1), running=True),
        replace(crashing(1), restarts=1),
        replace(crashing(1), running=True, ready=True),
    ],
    ids=["present template", "ending", "runs", "crashed once", "ready"],
)
def test_no_other_pod_is(spared: Pod) -> None:
    assert isinstance(decided(silent(blank(), spared)), Wait)
    assert isinstance(decided(silent(healthy(), spared, never_started(1), spared)), Wait)


def test_a_pod_that_answers_is_not() -> None:
    assert isinstance(decided(with_pod(silent(healthy()), crashing(1))), Wait)


def test_a_pod_that_crashes_is_spared_while_the_present_template_does_not_start_either() -> None:
    fresh = replace(never_started(0), revision="r1", detail="ImagePullBackOff")
    decision = decided(silent(healthy(), fresh, crashing(1)))
    assert isinstance(decision, Wait)
    assert decision.guard == "current_template_starts"
    assert "demo-0" in decision.why
    assert "ImagePullBackOff" in decision.why
    # One that has never run has nothing to lose.
    assert isinstance(decided(silent(healthy(), fresh, never_started(1))), act.DeletePod)


def test_nothing_is_touched_once_the_storage_of_a_majority_is_gone() -> None:
    lost = replace(
        healthy(), quorum=None, nodes=(node(0, "b", blank=True), node(1, "b", blank=True))
    )
    decision = decided(with_pod(lost, never_started(2)))
    assert isinstance(decision, Wait)
    assert decision.guard == "never_rebootstrap"


def test_old_claims_under_a_wrong_image_are_adopted_once_it_is_fixed() -> None:
    """One replica of an earlier resource answers, the others need the fixed template."""
    observation = replace(healthy(), latch=None)
    decision = decided(silent(observation, never_started(0), never_started(1)))
    assert isinstance(decision, act.DeletePod)
