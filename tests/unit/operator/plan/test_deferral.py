"""A scale-up that the cluster has no room for, and a roll that goes before it (S24)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.judge.scale_up import STUCK_MS, lacks_room
from kraftquorum_operator.model.objects import ObjectRef, Owner
from kraftquorum_operator.model.observation import (
    Budget,
    Deferral,
    Observation,
    PendingChange,
    Trouble,
)
from kraftquorum_operator.plan.actions import (
    DeletePod,
    Done,
    EvictPod,
    MoveLeadership,
    RecordClaims,
    SetReplicas,
    Wait,
    describe,
)
from kraftquorum_operator.plan.compare import compare
from kraftquorum_operator.report.conditions import conditions
from kraftquorum_operator.report.stamp import Stamp
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    UID,
    claim,
    healthy,
    node,
    pod,
    replica,
    spec,
    voter,
    with_claim,
    with_node,
    with_pod,
    with_quorum,
    without_node,
)

pytestmark = pytest.mark.rule("S24")

PLAN = "kraftquorum_operator.plan.deferral:_defer"
JUDGE = "kraftquorum_operator.judge.scale_up"
NO_ROOM = Trouble(3, "pod demo-3", "Unschedulable", "0/3 nodes are available", STUCK_MS)
NOTE = Deferral("r1", str(NO_ROOM))
PENDING = replace(pod(3, voter=False), phase="Pending", ready=False, running=False)


def outdated(observation: Observation, *ordinals: int) -> Observation:
    for ordinal in ordinals:
        seen = observation.pod(ordinal)
        assert seen is not None
        observation = with_pod(observation, replace(seen, revision="r0"))
    return observation


def stuck(voters: int = 3, trouble: Trouble | None = NO_ROOM) -> Observation:
    """The next pod waits for room, and the voters' pods have an older template."""
    observation = without_node(healthy(voters, replicas=voters + 1), voters)
    statefulset = healthy(voters).statefulset
    assert statefulset is not None
    observation = replace(
        with_claim(observation, replace(claim(voters), record=None)),
        statefulset=replace(statefulset, replicas=voters + 1),
    )
    waiting = replace(PENDING, name=f"demo-{voters}", ordinal=voters)
    observation = outdated(with_pod(observation, waiting), *range(voters))
    at = replace(trouble, ordinal=voters) if trouble is not None else None
    return replace(observation, troubles=(at,) if at is not None else ())


def deferred(voters: int = 3, note: Deferral | None = NOTE, **changes: object) -> Observation:
    """The pod is gone, and the roll has not begun."""
    observation = outdated(healthy(voters), *range(voters))
    assert observation.statefulset is not None
    return replace(
        observation, statefulset=replace(observation.statefulset, deferral=note, **changes)
    )


def decided(observation: Observation, voters: int = 5):
    return decide(spec(voters=voters), observation, NOW_MS)


def waits(observation: Observation, voters: int = 5) -> Wait:
    decision = decided(observation, voters)
    assert isinstance(decision, Wait), decision
    return decision


def test_a_stuck_scale_up_is_deferred_for_the_roll_and_its_pod_taken_away() -> None:
    decision = decided(stuck())
    assert decision == SetReplicas("sts-1", "42", 3, NOTE)
    assert "0/3 nodes are available" in describe(decision)


@pytest.mark.without(f"{JUDGE}:why_stuck", "trouble.lasts_ms >= STUCK_MS", "True")
def test_a_scale_up_that_has_just_begun_comes_before_the_roll() -> None:
    for trouble in (None, replace(NO_ROOM, lasts_ms=STUCK_MS - 1)):
        assert waits(stuck(trouble=trouble)).guard == "node_answers"


@pytest.mark.without(f"{JUDGE}:why_stuck", " or observation.node(ordinal) is not None", "")
def test_a_new_replica_that_answers_comes_before_the_roll() -> None:
    observer = replace(voter(3), caught_up=False, lag=9)
    observation = with_quorum(with_node(stuck(), node(3)), observers=(observer,))
    assert waits(observation).guard == "new_replica_caught_up"
    caught_up = with_quorum(with_node(stuck(), node(3)), observers=(voter(3),))
    assert isinstance(decided(caught_up), RecordClaims)


def test_a_stuck_scale_up_with_nothing_to_roll_waits_as_before() -> None:
    observation = stuck()
    for ordinal in range(3):
        observation = with_pod(observation, pod(ordinal))
    decision = waits(observation)
    assert decision.guard == "node_answers"
    assert "no pod is restarted" not in decision.why


@pytest.mark.without(PLAN, "not isinstance(scale_up, Wait) or ", "")
def test_the_new_pod_gets_the_new_template_first() -> None:
    """It may start with that, and no vote depends on it."""
    decision = decided(outdated(stuck(), 3))
    assert isinstance(decision, DeletePod)
    assert decision.pod == "demo-3"


HELD_BACK = {
    "not caught up": with_pod(stuck(), replace(pod(1), revision="r0", ready=False)),
    "no majority has confirmed": with_quorum(stuck(), confirmed=False),
    "is pending": with_quorum(stuck(), pending=PendingChange("add", replica(3), True, "commit")),
    "is not committed yet": with_quorum(stuck(), record_committed=False),
    "not all first voters": with_quorum(stuck(), formation_completed=False),
    "1 of 2 voters": stuck(2),
    "0 of 1 voters": stuck(1),
    "segment_ms is 0": replace(stuck(), config_faults=("segment_ms is 0",)),
    "not start: pod demo-3: ImagePullBackOff": stuck(
        trouble=replace(NO_ROOM, reason="ImagePullBackOff")
    ),
    "not start: pod demo-3: FailedCreate": stuck(
        trouble=replace(NO_ROOM, reason="FailedCreate", message="violates PodSecurity")
    ),
}
"""By what the status says: a scale-up that stays before the roll."""


@pytest.mark.without(PLAN, "*TEMPLATE,", "")
@pytest.mark.without(PLAN, "*RESTART,", "")
@pytest.mark.without(PLAN, "guards.majority_survives_loss,", "")
@pytest.mark.without(PLAN, "if not lacks_room(stuck):", "if False:")
def test_what_keeps_a_stuck_scale_up_before_the_roll() -> None:
    """The status has both: what keeps the scale-up, and why no other pod is restarted."""
    for why, observation in HELD_BACK.items():
        decision = decided(observation)
        assert isinstance(decision, Wait), why
        assert "no pod is restarted meanwhile" in decision.why
        assert why in decision.why


def test_which_troubles_are_of_room() -> None:
    quota = "create Pod demo-3 in StatefulSet demo failed error: exceeded quota: few"
    assert lacks_room(replace(NO_ROOM, reason="FailedCreate", message=quota))
    assert lacks_room(replace(NO_ROOM, reason="ProvisioningFailed"))
    assert not lacks_room(replace(NO_ROOM, reason="FailedCreate", message="denied"))
    assert not lacks_room(replace(NO_ROOM, reason="ErrImagePull"))


@pytest.mark.without(PLAN, "guards.replicas_never_below_highest_voter,", "")
def test_a_replica_in_between_that_is_missing_is_not_deferred() -> None:
    """A voter above it would lose its pod."""
    observation = without_node(outdated(healthy(4), 0, 1, 3), 2)
    observation = with_quorum(
        with_pod(observation, replace(PENDING, name="demo-2", ordinal=2)),
        voters=(voter(0), voter(1), voter(3)),
        committed=(replica(0), replica(1), replica(3)),
    )
    observation = replace(observation, troubles=(replace(NO_ROOM, ordinal=2),))
    assert "cannot be 2" in waits(observation, 4).why


# --- while it is deferred ------------------------------------------------------------------------


@pytest.mark.without(f"{JUDGE}:why_deferred", "observation.rolls", "False")
@pytest.mark.without(
    "kraftquorum_operator.plan.deferral:roll_before_scale_up", "if waiting is None:", "if True:"
)
def test_the_roll_goes_one_by_one_the_leader_last_and_then_the_scale_up_goes_on() -> None:
    observation = deferred()
    for ordinal in (2, 1):
        decision = decided(observation)
        assert isinstance(decision, EvictPod)
        assert decision.pod == f"demo-{ordinal}"
        observation = with_pod(observation, pod(ordinal))
    assert decided(observation) == MoveLeadership(replica(0), replica(1))
    rolled = with_pod(observation, pod(0))
    assert decided(rolled) == SetReplicas("sts-1", "42", 4)


@pytest.mark.without(
    "kraftquorum_operator.plan.deferral:roll_before_scale_up", "_leaving_pod(case) or ", ""
)
def test_no_pod_is_restarted_before_the_one_that_was_taken_away_is_gone() -> None:
    """It would take the room that the other one leaves."""
    decision = waits(with_pod(deferred(), PENDING))
    assert decision.guard == "pod_gone_before_next_step"
    assert "0/3 nodes are available" in decision.why


@pytest.mark.without(
    "kraftquorum_operator.plan.deferral:roll_before_scale_up", "; {waiting.why}", ""
)
def test_a_roll_that_waits_names_the_scale_up_as_well() -> None:
    observation = replace(deferred(), budget=Budget("pdb", counted=3, allowed=0, healthy=3))
    decision = waits(observation)
    assert decision.guard == "budget_allows_eviction"
    assert "replica 3 is added after" in decision.why
    assert "0/3 nodes are available" in decision.why
    unconfirmed = waits(with_quorum(deferred(), confirmed=False))
    assert unconfirmed.guard == "confirmed_voters_required"


@pytest.mark.without(f"{JUDGE}:why_deferred", "if revision is not None and not", "if not")
def test_the_scale_up_waits_until_it_is_known_who_has_the_template() -> None:
    decision = waits(deferred(revision=None))
    assert decision.guard == "scale_up_not_deferred"


@pytest.mark.without(f"{JUDGE}:why_deferred", "noted.revision == revision and ", "")
def test_another_template_or_no_note_has_the_scale_up_tried_first() -> None:
    for note in (None, Deferral("r-1", "no room")):
        assert decided(deferred(note=note)) == SetReplicas("sts-1", "42", 4)


@pytest.mark.without(
    f"{JUDGE}:why_deferred", "noted is None or statefulset.replicas > ordinal", "noted is None"
)
def test_a_pod_that_is_there_again_is_a_scale_up_again() -> None:
    observation = stuck(trouble=None)
    assert observation.statefulset is not None
    again = replace(observation.statefulset, deferral=NOTE)
    assert waits(replace(observation, statefulset=again)).guard == "node_answers"


def test_a_scale_up_that_is_cancelled_meanwhile_is_no_longer_deferred() -> None:
    observation = deferred()
    assert isinstance(decided(observation, 3), EvictPod)
    for ordinal in range(3):
        observation = with_pod(observation, pod(ordinal))
    assert isinstance(decided(observation, 3), Done)


# --- what goes with it --------------------------------------------------------------------------


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.compare:compare",
    "grows=why_deferred(facts, spec.voters) is None,",
    "",
)
def test_the_budget_lets_one_pod_go_while_the_scale_up_is_deferred_and_not_later() -> None:
    """The budget of a larger set to come would refuse every eviction of the roll."""

    def least(observation: Observation) -> int:
        bodies = compare(Owner("test", "demo", UID), spec(voters=5), observation, []).bodies
        return bodies[ObjectRef("PodDisruptionBudget", "demo")]["spec"]["minAvailable"]

    assert least(deferred()) == 2
    rolled = deferred()
    for ordinal in range(3):
        rolled = with_pod(rolled, pod(ordinal))
    assert least(rolled) == least(deferred(note=None)) == least(stuck()) == 3


@pytest.mark.without(
    "kraftquorum_operator.report.conditions:_progressing", 'why = f"{why}; {deferral}"', "pass"
)
def test_the_condition_has_the_roll_and_the_scale_up() -> None:
    observation, stamp = deferred(), Stamp("2026-01-01T00:00:00Z", 1)
    found = conditions(observation, 5, decided(observation), (), stamp)
    progressing = next(condition for condition in found if condition.type == "Progressing")
    assert (progressing.status, progressing.reason) == ("True", "EvictPod")
    assert "its template is outdated" in progressing.message
    assert "0/3 nodes are available" in progressing.message
