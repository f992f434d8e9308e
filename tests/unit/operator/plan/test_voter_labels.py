"""The voter label is on the pods of committed voters and on no other (S22)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.model.observation import Budget, Observation
from kraftquorum_operator.plan.actions import (
    Decision,
    Done,
    RecountBudget,
    RemoveVoter,
    SetReplicas,
    SetVoterLabel,
    Wait,
)
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    healthy,
    pod,
    replica,
    spec,
    voter,
    with_pod,
    with_quorum,
    without_node,
)

pytestmark = pytest.mark.rule("S22")

OFF_3 = SetVoterLabel("demo-3", "pod-3", voter=False)


def decided(observation: Observation, voters: int = 3) -> Decision:
    return decide(spec(voters=voters), observation, NOW_MS)


def silent_fourth(*, voters: int = 3) -> Observation:
    """Pod 3 has the label and does not answer."""
    observation = without_node(healthy(voters, replicas=4), 3)
    return with_pod(observation, replace(pod(3), ready=False))


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.scaling:voter_labels",
    "if known and not voter and pod.voter_label:",
    "if False:",
)
def test_a_silent_pod_whose_id_is_no_voter_loses_the_label_and_then_its_place() -> None:
    observation = silent_fourth()
    assert decided(observation) == decided(observation, 4) == OFF_3
    bare = with_pod(observation, replace(pod(3, voter=False), ready=False))
    decision = decided(bare)
    assert isinstance(decision, SetReplicas)
    assert decision.replicas == 3


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.scaling:voter_labels",
    "node is not None or pod.ordinal not in ids",
    "True",
)
def test_a_silent_voter_keeps_it() -> None:
    away = with_quorum(
        silent_fourth(voters=4),
        voters=(voter(0), voter(1), voter(2), voter(3, silent_ms=60_000)),
    )
    assert not isinstance(decided(away, 4), SetVoterLabel)
    # Nor does it go while the removal, or the addition, may yet be taken back.
    four = tuple(replica(n) for n in range(4))
    for changing in (
        with_quorum(silent_fourth(), committed=four, record_committed=False),
        with_quorum(silent_fourth(), committed=four),
        with_quorum(silent_fourth(), confirmed=False),
    ):
        assert not isinstance(decided(changing), SetVoterLabel)


def test_a_pod_that_is_ending_is_left_alone() -> None:
    observation = with_pod(silent_fourth(), replace(pod(3), terminating=True))
    assert not isinstance(decided(observation), SetVoterLabel)


def leaving(**budget: object) -> Observation:
    """Voter 3 of four is to be removed; its pod has just left the budget."""
    observation = with_pod(healthy(4), replace(pod(3, voter=False), version="77"))
    return replace(observation, budget=replace(Budget("pdb", counted=4), **budget))


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.budget:budget_count",
    "budget.counted > case.observation.labelled",
    "False",
)
def test_the_budget_is_counted_anew_before_a_voter_is_removed() -> None:
    """Kubernetes does not count when a pod leaves it, and would let one too many go."""
    assert decided(leaving()) == RecountBudget("pdb", "demo-3:77")
    # Touched once: then it is waited for, and another departure is another mark.
    waiting = decided(leaving(mark="demo-3:77"))
    assert isinstance(waiting, Wait)
    assert waiting.guard == "budget_counts_voters"
    assert isinstance(decided(leaving(mark="demo-3:76")), RecountBudget)
    assert isinstance(decided(leaving(counted=3)), RemoveVoter)


def test_a_budget_whose_spec_was_not_seen_yet_allows_nothing_and_is_waited_for() -> None:
    decision = decided(leaving(counted=None))
    assert isinstance(decision, Wait)
    assert decision.guard == "budget_counts_voters"


def test_a_removal_does_not_wait_for_a_budget_that_cannot_be_written() -> None:
    assert isinstance(decided(replace(leaving(), budget=None)), RemoveVoter)


def test_a_pod_that_joins_the_budget_is_counted_by_kubernetes_itself() -> None:
    observation = replace(healthy(), budget=Budget("pdb", counted=2))
    assert isinstance(decided(observation), Done)


@pytest.mark.rule("S22")
@pytest.mark.without("kraftquorum_operator.plan.budget:budget_count", "away and ", "False and ")
def test_a_voter_that_is_not_ready_for_long_is_counted_as_such() -> None:
    """While a second budget selects the pods, Kubernetes counts only one of the two."""
    away = with_pod(healthy(), replace(pod(2), ready=False, unready_ms=6_000, version="9"))
    high = Budget("pdb", counted=3, healthy=3, allowed=1)
    assert decided(replace(away, budget=high)) == RecountBudget("pdb", "demo-2:9")
    counted = replace(high, healthy=2, allowed=0)
    assert not isinstance(decided(replace(away, budget=counted)), RecountBudget)
    # The count of a moment ago needs no help, and one mark is written once.
    just = with_pod(healthy(), replace(pod(2), ready=False, unready_ms=1_000, version="9"))
    assert not isinstance(decided(replace(just, budget=high)), RecountBudget)
    marked = replace(high, mark="demo-2:9")
    assert not isinstance(decided(replace(away, budget=marked)), RecountBudget)


@pytest.mark.without(
    "kraftquorum_operator.plan.scaling:_remove_voter",
    "missed_count(subject) or uncounted",
    "uncounted",
)
def test_a_removal_has_a_pod_counted_that_the_budget_lacks() -> None:
    lacking = leaving(counted=2, healthy=2)
    mark = "demo-0:None demo-1:None demo-2:None"
    assert decided(lacking) == RecountBudget("pdb", mark)
    waiting = decided(leaving(counted=2, healthy=2, mark=mark))
    assert isinstance(waiting, Wait)
    assert waiting.guard == "budget_counts_voters"
