"""The disruption budget counts the pods of committed voters and no other (S22)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.model.observation import Budget, Observation
from kraftquorum_operator.plan.actions import (
    CountPod,
    Decision,
    Done,
    RecountBudget,
    RemoveVoter,
    SetReplicas,
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

OFF_3 = CountPod("demo-3", voter=False)


def decided(observation: Observation, voters: int = 3) -> Decision:
    return decide(spec(voters=voters), observation, NOW_MS)


def silent_fourth(*, voters: int = 3) -> Observation:
    """Pod 3 is counted and does not answer."""
    observation = without_node(healthy(voters, replicas=4), 3)
    return with_pod(observation, replace(pod(3), ready=False))


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.scaling:voters_counted",
    "if known and not voter and pod.counted:",
    "if False:",
)
def test_a_silent_pod_whose_id_is_no_voter_leaves_the_budget_and_then_goes() -> None:
    observation = silent_fourth()
    assert decided(observation) == decided(observation, 4) == OFF_3
    bare = with_pod(observation, replace(pod(3, voter=False), ready=False))
    decision = decided(bare)
    assert isinstance(decision, SetReplicas)
    assert decision.replicas == 3


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.scaling:voters_counted",
    "node is not None or pod.ordinal not in ids",
    "True",
)
def test_a_silent_voter_stays_in_the_budget() -> None:
    away = with_quorum(
        silent_fourth(voters=4),
        voters=(voter(0), voter(1), voter(2), voter(3, silent_ms=60_000)),
    )
    assert not isinstance(decided(away, 4), CountPod)
    # Nor does it go while the removal, or the addition, may yet be taken back.
    four = tuple(replica(n) for n in range(4))
    for changing in (
        with_quorum(silent_fourth(), committed=four, record_committed=False),
        with_quorum(silent_fourth(), committed=four),
        with_quorum(silent_fourth(), confirmed=False),
    ):
        assert not isinstance(decided(changing), CountPod)


def test_a_pod_that_is_ending_is_left_alone() -> None:
    observation = with_pod(silent_fourth(), replace(pod(3), terminating=True))
    assert not isinstance(decided(observation), CountPod)


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.scaling:voters_counted", "if left else None", "if False else None"
)
def test_a_name_without_a_pod_and_a_voter_leaves_the_budget() -> None:
    """A pod that gets the name later would be counted before it is a voter's."""
    budget = Budget("pdb", 3, pods=("demo-0", "demo-1", "demo-2", "demo-7"), version="5")
    assert decided(replace(healthy(), budget=budget)) == CountPod("demo-7", False, "5")
    kept = replace(budget, pods=("demo-0", "demo-1", "demo-2"))
    assert isinstance(decided(replace(healthy(), budget=kept)), Done)
    # The pod of a voter that is away comes back as what it was.
    away = replace(healthy(), pods=(pod(0), pod(1)))
    away = without_node(with_quorum(away, voters=(voter(0), voter(1), voter(2, silent_ms=1))), 2)
    assert not isinstance(decided(replace(away, budget=kept)), CountPod)


def test_a_budget_that_selects_by_something_else_is_written_as_a_whole() -> None:
    observation = with_pod(healthy(), pod(2, voter=False))
    assert not isinstance(decided(replace(observation, budget=Budget("pdb"))), CountPod)


def leaving(**budget: object) -> Observation:
    """Voter 3 of four is to be removed; its pod has just left the budget."""
    observation = with_pod(healthy(4), replace(pod(3, voter=False), version="77"))
    return replace(observation, budget=replace(Budget("pdb", counted=4), **budget))


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.budget:budget_count",
    "budget.counted > case.observation.counted",
    "False",
)
def test_the_budget_is_counted_again_before_a_voter_is_removed() -> None:
    """One that counts a pod too many would let one too many go."""
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
