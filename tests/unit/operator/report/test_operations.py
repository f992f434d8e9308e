"""The operations in progress, and their steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.status import Operation
from kraftquorum_operator.report.operations import STEPS, operations
from proofkit.operatorworld.observations import (
    blank,
    healthy,
    latch,
    node,
    pod,
    quorum,
    spec,
    voter,
    with_claim,
    with_node,
    with_pod,
    with_quorum,
    without_node,
)

NOW, EARLIER = "2026-01-01T00:00:10Z", "2026-01-01T00:00:00Z"


def found(observation: Observation, voters: int = 3) -> list[tuple[str, str, str]]:
    return [(o.kind, o.pod, o.step) for o in operations(spec(voters=voters), observation, (), NOW)]


def without_claim(observation: Observation, ordinal: int) -> Observation:
    return replace(observation, claims=tuple(c for c in observation.claims if c.ordinal != ordinal))


def observed(observation: Observation, ordinal: int, disk: str, *, fresh: bool) -> Observation:
    """The leader knows this replica as an observer."""
    answer = voter(ordinal, disk) if fresh else voter(ordinal, disk, silent_ms=0)
    return with_quorum(observation, observers=(answer,))


def test_nothing_is_under_way_in_a_well_quorum() -> None:
    assert found(healthy()) == []


def test_a_voter_that_is_only_away_is_not_being_replaced() -> None:
    assert found(without_node(healthy(), 1)) == []


def test_the_steps_of_a_formation() -> None:
    observation = blank()
    assert found(without_node(observation, 2)) == [("Formation", "", "StartPods")]
    assert found(observation) == [("Formation", "", "WriteLatch")]
    assert found(replace(observation, latch=latch())) == [("Formation", "", "ElectLeader")]
    begun = with_quorum(healthy(), formation_completed=False)
    assert found(begun) == [("Formation", "", "FirstRecords")]


def test_a_quorum_that_has_lost_its_leader_is_not_being_formed() -> None:
    assert found(replace(healthy(), quorum=None)) == []
    assert found(replace(blank(), remembered_cluster_id="cluster-a")) == []


def test_the_steps_of_a_replacement() -> None:
    observation = healthy()
    assert found(without_claim(without_node(observation, 1), 1)) == [
        ("Replacement", "demo-1", "EmptyDisk")
    ]
    for code in (11, 12):
        ended = with_pod(without_node(observation, 1), replace(pod(1), ready=False, exit_code=code))
        assert found(ended) == [("Replacement", "demo-1", "EmptyDisk")]
    empty = with_node(observation, node(1, "b", blank=True))
    assert found(empty) == [("Replacement", "demo-1", "Join")]
    joined = with_node(observation, node(1, "b"))
    assert found(joined) == [("Replacement", "demo-1", "CatchUp")]
    assert found(observed(joined, 1, "b", fresh=False)) == [("Replacement", "demo-1", "CatchUp")]
    assert found(observed(joined, 1, "b", fresh=True)) == [("Replacement", "demo-1", "AddVoter")]
    both = replace(joined, quorum=quorum([voter(0), voter(1), voter(1, "b"), voter(2)]))
    assert found(both) == [("Replacement", "demo-1", "RemoveVoter")]


def test_a_new_claim_without_a_record_is_an_empty_disk() -> None:
    observation = without_node(healthy(), 1)
    claim = observation.claim(1)
    assert claim is not None
    fresh = with_claim(observation, replace(claim, uid="claim-new", record=None))
    assert found(fresh) == [("Replacement", "demo-1", "EmptyDisk")]


def test_a_replacement_goes_on_while_its_replica_is_restarted() -> None:
    observation = with_node(healthy(), node(1, "b"))
    before = operations(spec(), observation, (), EARLIER)
    lost = replace(healthy(), quorum=quorum([voter(0), voter(1, silent_ms=9), voter(2)]))
    away = without_node(lost, 1)
    (still,) = operations(spec(), away, before, NOW)
    assert (still.kind, still.step, still.since) == ("Replacement", "CatchUp", EARLIER)
    assert operations(spec(), away, (), NOW) == []
    assert operations(spec(), healthy(), before, NOW) == []


def test_a_replacement_does_not_step_back_while_its_replica_is_restarted() -> None:
    before = operations(spec(), with_node(healthy(), node(1, "b")), (), EARLIER)
    lost = replace(healthy(), quorum=quorum([voter(0), voter(1, silent_ms=9), voter(2)]))
    away = with_pod(without_node(lost, 1), replace(pod(1), ready=False, exit_code=12))
    (still,) = operations(spec(), away, before, NOW)
    assert (still.step, still.number) == ("CatchUp", 3)
    (again,) = operations(spec(), without_claim(away, 1), before, NOW)
    assert (again.step, again.number) == ("EmptyDisk", 1)


def test_one_voter_more_and_one_less() -> None:
    grown = replace(healthy(3, replicas=4))
    assert found(without_node(grown, 3), 4) == [("Addition", "demo-3", "StartPod")]
    assert found(with_node(grown, node(3, blank=True)), 4) == [("Addition", "demo-3", "Join")]
    assert found(grown, 4) == [("Addition", "demo-3", "CatchUp")]
    assert found(observed(grown, 3, "a", fresh=True), 4) == [("Addition", "demo-3", "AddVoter")]
    assert found(healthy(4), 3) == [("Removal", "demo-3", "RemoveVoter")]
    assert found(grown, 3) == [("Removal", "demo-3", "EndPod")]


def test_pods_of_an_old_template_are_restarted() -> None:
    observation = with_pod(healthy(), replace(pod(2), revision="r0"))
    assert found(observation) == [("Restart", "demo-2", "RestartPod")]


def test_since_when_is_kept_and_the_step_s_time_turns_with_the_step() -> None:
    before = [
        Operation(
            kind="Replacement",
            pod="demo-1",
            step="Join",
            number=2,
            steps=5,
            since=EARLIER,
            step_since=EARLIER,
        )
    ]
    observation = with_node(healthy(), node(1, "b", blank=True))
    (same,) = operations(spec(), observation, before, NOW)
    assert (same.since, same.step_since) == (EARLIER, EARLIER)
    (moved,) = operations(spec(), with_node(healthy(), node(1, "b")), before, NOW)
    assert (moved.since, moved.step_since, moved.number, moved.steps) == (EARLIER, NOW, 3, 5)


@pytest.mark.parametrize("kind", STEPS)
def test_no_step_is_named_twice(kind: str) -> None:
    assert len(set(STEPS[kind])) == len(STEPS[kind])
