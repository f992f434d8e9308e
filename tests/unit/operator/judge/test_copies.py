"""S3 in the operator: volumes that were restored from a copy, and similar cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.judge.copies import copied_voters
from kraftquorum_operator.judge.trust import judge
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.observation import ClaimRecord, Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan import actions as act
from kraftquorum_operator.plan.actions import Done, Wait
from kraftquorum_operator.report.conditions import conditions, fault_tolerance
from kraftquorum_operator.report.stamp import Stamp
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    claim,
    healthy,
    node,
    pod,
    record,
    recorded,
    replica,
    spec,
    voter,
    with_claim,
    with_node,
    with_pod,
    with_quorum,
    without_node,
)
from proofkit.operatorworld.world import World

pytestmark = pytest.mark.rule("S3")

SPEC = spec(voters=3)


def unrecorded(observation: Observation) -> Observation:
    """As before there were records."""
    assert observation.statefulset is not None
    return replace(
        observation,
        claims=tuple(replace(c, record=None) for c in observation.claims),
        statefulset=replace(observation.statefulset, records=()),
    )


def recreated_claim(ordinal: int = 2) -> Observation:
    """The claim was deleted and recreated, and the old directory copied onto it."""
    return with_claim(healthy(), replace(claim(ordinal), uid="claim-new", record=None))


def copy_of_claim() -> Observation:
    """The claim was restored with its annotations."""
    return with_claim(healthy(), replace(claim(2), uid="claim-restored"))


def swapped() -> Observation:
    """The claim is the recorded one, for another storage than the voter that answers."""
    return with_claim(healthy(), claim(2, "b"))


@pytest.mark.parametrize("observation", [recreated_claim(), copy_of_claim(), swapped()])
def test_a_voter_on_a_copied_volume_is_replaced_claim_first(observation: Observation) -> None:
    assert copied_voters(observation) == (replica(2),)
    decision = decide(SPEC, observation, NOW_MS)
    uid = observation.claims[2].uid
    assert decision == act.DeleteClaim("data-demo-2", uid, "its volume was restored from a copy", 2)
    ending = with_claim(observation, replace(observation.claims[2], terminating=True))
    decision = decide(SPEC, ending, NOW_MS)
    assert isinstance(decision, act.EvictPod)
    assert decision.uid == "pod-2"


@pytest.mark.without(
    "kraftquorum_operator.judge.copies:_why_voter", "if last is None or last == wanted:", "if True:"
)
def test_it_counts_in_no_majority_and_shows() -> None:
    observation = judge(recreated_claim())
    assert fault_tolerance(observation) == 0
    found = {
        c.type: c
        for c in conditions(
            observation, 3, decide(SPEC, observation, NOW_MS), (), Stamp("2026-01-01T00:00:00Z", 1)
        )
    }
    assert found["VolumeFromCopy"].status == "True"
    assert found["VolumeFromCopy"].reason == "ClaimIsTheRecordedOne"
    assert "2-a2" in found["VolumeFromCopy"].message
    metrics = Metrics()
    metrics.observe(observation, spec(voters=3), Done("x"), 0)
    labels = {"namespace": "test", "quorum": "demo"}
    name = "kraftquorum_voters_on_copied_volumes"
    assert metrics.registry.get_sample_value(name, labels) == 1
    metrics.observe(healthy(), spec(voters=3), Done("x"), 0)
    assert metrics.registry.get_sample_value(name, labels) == 0


def test_a_node_that_was_told_that_it_is_stale_shows() -> None:
    """Content that was put back beneath its claim: no record tells, the other voters do."""
    detail = "CrashLoopBackOff: exit code 17: STORAGE_STALE voter 0 has seen more"
    ended = replace(pod(2), ready=False, exit_code=17, restarts=2, detail=detail)
    observation = with_pod(without_node(healthy(), 2), ended)
    [found] = [
        c
        for c in conditions(
            observation, 3, decide(SPEC, observation, NOW_MS), (), Stamp("2026-01-01T00:00:00Z", 1)
        )
        if c.type == "VolumeFromCopy"
    ]
    assert (found.status, found.reason) == ("True", "StorageStale")
    assert detail in found.message


@pytest.mark.parametrize(
    ("wanted", "observation", "held_by"),
    [
        (spec(replacement={"policy": "Manual"}), recreated_claim(), "deletion_policy_allows"),
        (spec(replacement={"policy": "Disabled"}), recreated_claim(), "deletion_policy_allows"),
        (SPEC, with_quorum(recreated_claim(), confirmed=False), "confirmed_voters_required"),
        (
            SPEC,
            with_quorum(recreated_claim(), voters=(voter(0), voter(1, silent_ms=100), voter(2))),
            "survivors_caught_up",
        ),
        (
            SPEC,
            with_claim(recreated_claim(), replace(claim(1), uid="claim-new-1", record=None)),
            "survivors_caught_up",
        ),
        (spec(voters=1), with_claim(healthy(1), replace(claim(0), uid="x")), "majority_survives"),
    ],
)
def test_it_is_not_replaced_unless_the_others_are_well_and_policy_allows(
    wanted: QuorumSpec, observation: Observation, held_by: str
) -> None:
    decision = decide(wanted, observation, NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "claim_is_the_recorded_one"
    assert held_by in decision.why


def test_nothing_relies_on_it_when_another_disk_is_lost() -> None:
    """0 leads, 1 is on a copy, the disk of 2 is lost: a removal would leave no voter to trust."""
    observation = with_node(recreated_claim(1), node(2, "b"))
    voters = (voter(0), voter(1), voter(2, silent_ms=60_000))
    decision = decide(SPEC, with_quorum(observation, voters=voters), NOW_MS)
    assert isinstance(decision, Wait | act.CountPod)
    down = without_node(recreated_claim(1), 2)
    decision = decide(SPEC, with_quorum(down, voters=voters), NOW_MS)
    assert isinstance(decision, Wait)


def test_a_leader_on_a_copied_volume_transfers_leadership_first() -> None:
    observation = recreated_claim(0)
    assert decide(SPEC, observation, NOW_MS) == act.MoveLeadership(replica(0), replica(1))


def test_claims_from_before_there_were_records_are_trusted_once_and_recorded() -> None:
    decision = decide(SPEC, unrecorded(healthy()), NOW_MS)
    assert decision == act.RecordClaims(
        "sts-1", tuple((f"data-demo-{n}", n, record(n)) for n in range(3))
    )


def test_a_voter_that_is_not_caught_up_is_not_recorded_yet() -> None:
    voters = (voter(0), voter(1), voter(2, silent_ms=100))
    decision = decide(SPEC, with_quorum(unrecorded(healthy()), voters=voters), NOW_MS)
    assert isinstance(decision, act.RecordClaims)
    assert [name for name, _, _ in decision.claims] == ["data-demo-0", "data-demo-1"]


@pytest.mark.rule("S18")
def test_a_resource_made_again_over_its_old_claims_finds_them_recorded() -> None:
    """S18: the claims carry their own UIDs; only the new StatefulSet has no records."""
    observation = healthy()
    assert observation.statefulset is not None
    observation = replace(observation, statefulset=replace(observation.statefulset, records=()))
    assert copied_voters(observation) == ()
    assert isinstance(decide(SPEC, observation, NOW_MS), act.RecordClaims)


def test_a_new_claim_with_a_fresh_storage_is_no_copy() -> None:
    observation = with_node(recreated_claim(), node(2, "b"))
    assert copied_voters(observation) == ()


def test_an_emptied_volume_of_the_same_claim_is_no_copy() -> None:
    assert copied_voters(with_node(healthy(), node(2, "b", blank=True))) == ()


def test_annotations_that_a_person_took_off_are_put_back() -> None:
    observation = with_claim(healthy(), replace(claim(2), record=None))
    assert copied_voters(observation) == ()
    decision = decide(SPEC, observation, NOW_MS)
    assert decision == act.RecordClaims("sts-1", (("data-demo-2", 2, record(2)),))


def test_a_person_accepts_a_volume_by_annotating_its_claim() -> None:
    accepted = replace(claim(2), uid="claim-new", record=ClaimRecord("a2", "claim-new"))
    observation = with_claim(healthy(), accepted)
    assert copied_voters(observation) == ()
    assert isinstance(decide(SPEC, observation, NOW_MS), act.RecordClaims)


def test_a_removed_replica_on_a_copied_volume_is_not_added_again() -> None:
    observation = healthy(3, replicas=4)
    recreated = replace(claim(3), uid="claim-new", record=None)
    observer = replace(voter(3), silent_since_ms=NOW_MS)
    observation = with_quorum(with_claim(observation, recreated), observers=(observer,))
    decision = decide(spec(voters=4), observation, NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "claim_is_the_recorded_one"


@pytest.mark.rule("S25")
def test_a_retained_claim_is_used_again() -> None:
    """S25: scaled away and back, on the claim that it was recorded on."""
    observer = replace(voter(3), silent_since_ms=NOW_MS)
    observation = with_quorum(recorded(healthy(3, replicas=4), 3, "a"), observers=(observer,))
    assert isinstance(decide(spec(voters=4), observation, NOW_MS), act.AddVoter)


def test_the_model_gets_rid_of_a_volume_that_was_put_back() -> None:
    """The model asserts that the copy is neither recorded nor leaned on."""
    world = World(spec(voters=3))
    for _ in range(60):
        world.step()
        world.tick()
    before = world.voters[1]
    copy = replace(world.disks[1])
    world.delete_claim(1)
    world.crash(1, ticks=4)
    world.delete_pod(1)
    world.tick()
    world.tick()
    assert world.disks[1].cluster_id is None
    world.put_back(1, copy)
    decision = None
    for _ in range(400):
        decision = world.step()
        world.tick()
    assert isinstance(decision, Done)
    assert [voter.node_id for voter in world.voters] == [0, 1, 2]
    assert before not in world.voters
    assert any("restored from a copy" in change for change in world.changes)
