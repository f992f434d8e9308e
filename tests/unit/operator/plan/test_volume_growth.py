"""Larger volumes: which claim grows next, what is waited for, and what stays as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.judge.log_size import why_log_outgrows
from kraftquorum_operator.judge.trust import judge
from kraftquorum_operator.judge.volume_growth import first_size
from kraftquorum_operator.memory.refused_requests import Refusals
from kraftquorum_operator.memory.request_failures import Failure
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.observe.kube import read_claims, read_statefulset
from kraftquorum_operator.plan.actions import DeletePod, Done, GrowClaim, Wait
from kraftquorum_operator.plan.compare import compare
from kraftquorum_operator.plan.decide import reported
from kraftquorum_operator.report.conditions import CONDITIONS, Context
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    UID,
    claim,
    healthy,
    node,
    pod,
    spec,
    voter,
    with_claim,
    with_node,
    with_pod,
    with_quorum,
    with_size,
)

LARGER = spec(storage={"size": "4Gi"})
REASON = "the class must support resize"


def sized(*gib: tuple[int, int], base: Observation | None = None) -> Observation:
    """Healthy voters, each with a claim that asks for a size and has another."""
    observation = base or healthy(len(gib))
    for ordinal, (requested, capacity) in enumerate(gib):
        observation = with_size(observation, ordinal, requested, capacity)
    return observation


def grows(ordinal: int) -> GrowClaim:
    return GrowClaim(f"data-demo-{ordinal}", f"claim-{ordinal}", "4Gi", f"v{ordinal}")


def growing(observation: Observation, decision: object = None) -> tuple[bool, str, str]:
    return CONDITIONS["VolumesGrowing"](Context(observation, 3, decision or Done(""), "4Gi"))  # pyright: ignore[reportArgumentType]


# --- which claim grows ------------------------------------------------------------------------


@pytest.mark.without(
    "kraftquorum_operator.plan.volume_growth:grow_claim", "busy and claim.ordinal in well", "False"
)
def test_claims_grow_one_after_the_other_and_the_leaders_last() -> None:
    assert decide(LARGER, sized((1, 1), (1, 1), (1, 1)), NOW_MS) == grows(1)
    waiting = decide(LARGER, sized((1, 1), (4, 1), (1, 1)), NOW_MS)
    assert isinstance(waiting, Wait)
    assert (waiting.guard, waiting.why) == ("volume_has_grown", "claim data-demo-1 has 1Gi of 4Gi")
    assert decide(LARGER, sized((1, 1), (4, 4), (1, 1)), NOW_MS) == grows(2)
    assert decide(LARGER, sized((1, 1), (4, 4), (4, 4)), NOW_MS) == grows(0)
    assert isinstance(decide(LARGER, sized((4, 4), (4, 4), (4, 4)), NOW_MS), Done)


@pytest.mark.without(
    "kraftquorum_operator.plan.volume_growth:_smaller",
    "asks_for_less(claim, case.spec.storage.size)",
    "True",
)
def test_a_claim_that_is_larger_is_left_alone() -> None:
    decision = decide(LARGER, sized((9, 9), (4, 4), (5, 5)), NOW_MS)
    assert isinstance(decision, Done)


def test_a_claim_whose_size_is_not_known_is_left_alone() -> None:
    assert isinstance(decide(LARGER, healthy(), NOW_MS), Done)


@pytest.mark.parametrize(
    "changes", [{"phase": "Pending"}, {"terminating": True}, {"owner_uid": "resource-0"}]
)
def test_only_bound_claims_of_this_resource_grow(changes: dict[str, object]) -> None:
    observation = sized((4, 4), (1, 1), (4, 4))
    small = observation.claim(1)
    assert small is not None
    decision = decide(LARGER, with_claim(observation, replace(small, **changes)), NOW_MS)  # pyright: ignore[reportArgumentType]
    assert not isinstance(decision, GrowClaim)


def test_a_claim_that_is_kept_of_a_removed_replica_does_not_grow() -> None:
    observation = sized((4, 4), (4, 4), (4, 4))
    kept = replace(claim(3), requested_bytes=1 << 30, capacity_bytes=1 << 30)
    assert isinstance(decide(LARGER, with_claim(observation, kept), NOW_MS), Done)


def stuck(observation: Observation, ordinal: int) -> Observation:
    """A claim that asks for more, whose driver fails."""
    failed = with_size(observation, ordinal, 4, 1).claim(ordinal)
    assert failed is not None
    return with_claim(observation, replace(failed, resize="ControllerResizeError: no room"))


def late(observation: Observation, *ordinals: int) -> Observation:
    """These voters are not caught up."""
    voters = (replace(voter(n), caught_up=n not in ordinals) for n in range(3))
    return with_quorum(observation, voters=tuple(voters))


@pytest.mark.without(
    "kraftquorum_operator.plan.volume_growth:grow_claim", "busy and claim.ordinal in well", "busy"
)
@pytest.mark.parametrize("stuck_one", [0, 1])
def test_a_stuck_growth_delays_no_replica_that_has_to_come_back(stuck_one: int) -> None:
    """A new volume begins with the first size, and may be too small for the data."""
    observation = stuck(sized((1, 1), (1, 1), (1, 1)), stuck_one)
    assert not isinstance(decide(LARGER, observation, NOW_MS), GrowClaim), "they are all well"
    assert decide(LARGER, late(observation, 2), NOW_MS) == grows(2)
    leaderless = replace(observation, quorum=None, nodes=())
    assert not isinstance(decide(LARGER, leaderless, NOW_MS), GrowClaim)
    crashed = with_pod(leaderless, replace(pod(2), ready=False, running=False, restarts=3))
    assert decide(LARGER, crashed, NOW_MS) == grows(2)


@pytest.mark.without(
    "kraftquorum_operator.plan.volume_growth:grow_claim", "if c.ordinal in well)", ")"
)
def test_a_stuck_growth_of_a_replica_that_is_not_well_delays_none() -> None:
    observation = stuck(late(sized((1, 1), (1, 1), (1, 1)), 2), 2)
    assert decide(LARGER, observation, NOW_MS) == grows(1)
    waits = with_pod(
        replace(stuck(sized((1, 1), (1, 1), (1, 1)), 2), quorum=None, nodes=()),
        replace(pod(2), phase="Pending", ready=False, running=False),
    )
    assert decide(LARGER, waits, NOW_MS) == grows(0)


@pytest.mark.without(
    "kraftquorum_operator.plan.volume_growth:_smaller", "c.ordinal not in started", "False"
)
def test_a_volume_that_no_pod_has_mounted_comes_last() -> None:
    observation = late(sized((1, 1), (1, 1), (1, 1)), 1, 2)
    waits = replace(pod(1), phase="Pending", ready=False, running=False)
    assert decide(LARGER, with_pod(observation, waits), NOW_MS) == grows(2)
    leaderless = replace(observation, quorum=None, nodes=())
    waits = replace(waits, name="demo-0", uid="pod-0", ordinal=0)
    assert decide(LARGER, with_pod(leaderless, waits), NOW_MS) == grows(1)


# --- nothing else waits for it, and it waits for nothing else ---------------------------------


@pytest.mark.without(
    "kraftquorum_operator.plan.decide:decide", "prepared or grow_claim(case)", "prepared"
)
def test_a_claim_grows_without_a_leader_and_during_a_repair_that_waits() -> None:
    small = sized((1, 1), (1, 1), (1, 1))
    leaderless = replace(small, quorum=None, nodes=())
    assert decide(LARGER, leaderless, NOW_MS) == grows(0)
    late = replace(voter(2), caught_up=False)
    silent = with_pod(
        with_quorum(small, voters=(voter(0), voter(1), late)),
        replace(pod(2), ready=False, running=False, exit_code=16, restarts=3),
    )
    assert decide(LARGER, silent, NOW_MS) == grows(2), "the full disk first"


@pytest.mark.parametrize("gib", [((1, 1), (1, 1), (1, 1)), ((1, 1), (4, 1), (1, 1))])
def test_a_roll_and_a_repair_do_not_wait_for_volumes(gib: tuple[tuple[int, int], ...]) -> None:
    refused = tuple((f"claim-{n}", REASON) for n in range(3))
    observation = replace(sized(*gib), refused_growths=refused)
    assert isinstance(decide(LARGER, observation, NOW_MS), Wait)
    rolls = with_pod(observation, replace(pod(1), revision="r0"))
    decision = decide(LARGER, rolls, NOW_MS)
    assert not isinstance(decision, Wait | Done), decision
    damaged = with_node(observation, replace(node(1), damage=("rot",)))
    decision = decide(LARGER, damaged, NOW_MS)
    assert not isinstance(decision, Wait | Done | GrowClaim), decision


def test_a_pause_holds_growth_back() -> None:
    paused = spec(storage={"size": "4Gi"}, pause=True)
    decision = decide(paused, sized((1, 1), (1, 1), (1, 1)), NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "not_paused"


# --- what is refused --------------------------------------------------------------------------


def test_a_refusal_names_the_claim_the_class_and_what_to_do_and_others_are_tried() -> None:
    observation = replace(sized((1, 1), (1, 1), (1, 1)), refused_growths=(("claim-1", REASON),))
    assert decide(LARGER, observation, NOW_MS) == grows(2)
    refused = tuple((f"claim-{n}", REASON) for n in range(3))
    observation = replace(observation, refused_growths=refused)
    decision = decide(LARGER, observation, NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "claim_growth_accepted"
    for part in ("data-demo-1", "4Gi", REASON, "StorageClass fast", "allowVolumeExpansion"):
        assert part in decision.why
    holds, reason, message = growing(observation)
    assert (holds, reason) == (True, "Refused")
    assert "StorageClass fast" in message


def test_a_refused_growth_is_retried_after_growing_pauses_and_refuses_no_deletion() -> None:
    refusals, observation = Refusals(), sized((1, 1), (1, 1), (1, 1))
    refused, now_ms = Failure("Forbidden", REASON, refused=True), 1_000
    pauses: list[int] = []
    for _ in range(7):
        refusals.growth_failed(grows(1), refused, observation.generation, now_ms)
        assert refusals.mark(observation, now_ms).refused_deletions == ()
        started = now_ms
        while not (marked := refusals.mark(observation, now_ms)).due_growths:
            assert decide(LARGER, marked, NOW_MS) == grows(2)
            assert growing(marked)[1] == "Refused"
            now_ms += 1_000
        assert decide(LARGER, marked, NOW_MS) == grows(1)
        assert growing(marked)[1] == "Refused", "until it is accepted"
        pauses.append(now_ms - started)
    assert pauses == [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    later = replace(observation, generation=observation.generation + 1)
    refusals.growth_failed(grows(1), refused, observation.generation, now_ms)
    assert refusals.mark(later, now_ms).due_growths, "a changed spec is tried at once"
    refusals.growth_accepted(DeletePod("demo-1", "claim-1", "x"))
    assert refusals.growths
    refusals.growth_accepted(grows(1))
    assert refusals.mark(later, now_ms).refused_growths == ()
    refusals = Refusals()
    refusals.growth_failed(DeletePod("demo-1", "pod-1", "x"), refused, 1, now_ms)
    assert not refusals.growths


@pytest.mark.without(
    "kraftquorum_operator.plan.volume_growth:grow_claim", "or claim.uid in failed", ""
)
@pytest.mark.parametrize("conflict", [True, False])
def test_what_fails_for_another_reason_is_paused_and_is_no_refusal(conflict: bool) -> None:
    """A row of conflicts must not hold back rolls and certificates for ever."""
    refusals, observation = Refusals(), sized((4, 4), (1, 1), (4, 4))
    refusals.growth_failed(grows(1), Failure("x", "no answer", conflict), 1, 1_000)
    marked = refusals.mark(observation, 2_999)
    decision = decide(LARGER, marked, NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "volume_has_grown"
    assert "data-demo-1 asks for 1Gi of 4Gi so far: no answer" in decision.why
    assert growing(marked)[:2] == (True, "Waiting")
    assert decide(LARGER, refusals.mark(observation, 3_000), NOW_MS) == grows(1)
    refusals.growth_failed(grows(1), Failure("x", "forbidden", refused=True), 1, 3_000)
    refusals.growth_failed(grows(1), Failure("x", "no answer"), 1, 8_000)
    marked = refusals.mark(observation, 8_001)
    assert marked.refused_growths == (("claim-1", "forbidden"),)
    assert marked.failed_growths == ()


@pytest.mark.without(
    "kraftquorum_operator.plan.decide:reported",
    "not isinstance(decision, GrowClaim)",
    "True",
)
def test_a_refusal_stays_reported_while_it_is_tried_again() -> None:
    observation = replace(sized((4, 4), (1, 1), (4, 4)), refused_growths=(("claim-1", REASON),))
    due = judge(replace(observation, due_growths=frozenset({"claim-1"})))
    decision = decide(LARGER, due, NOW_MS)
    assert decision == grows(1)
    assert reported(decision, LARGER, due, NOW_MS) == decide(LARGER, observation, NOW_MS)
    first = judge(replace(observation, refused_growths=()))
    assert reported(decision, LARGER, first, NOW_MS) == decision


def test_a_claim_that_grows_or_has_grown_is_not_refused() -> None:
    """It was let grow by another client, or by a request whose answer was lost."""
    for gib in ((4, 1), (4, 4)):
        observation = sized((4, 4), gib, (4, 4))
        observation = replace(observation, refused_growths=(("claim-1", REASON),))
        decision = decide(LARGER, observation, NOW_MS)
        assert (decision.guard if isinstance(decision, Wait) else None) != "claim_growth_accepted"
        assert growing(observation)[1] != "Refused"


@pytest.mark.parametrize(
    ("why", "part"),
    [(REASON, "allowVolumeExpansion"), ("exceeded quota: storage", "Raise the quota"), ("no", "")],
)
def test_the_advice_suits_the_refusal(why: str, part: str) -> None:
    observation = sized((4, 4), (1, 1), (4, 4))
    refused = replace(observation, refused_growths=(("claim-1", why),))
    decision = decide(LARGER, refused, NOW_MS)
    assert isinstance(decision, Wait)
    assert part in decision.why
    assert ("allowVolumeExpansion" in decision.why) is (why == REASON)
    assert ("quota of the namespace" in decision.why) is ("quota" in why)


@pytest.mark.without(
    "kraftquorum_operator.plan.volume_growth:grow_claim",
    "or claim.capacity_bytes is None",
    "",
)
def test_volumes_whose_size_is_not_known_do_not_grow_all_at_once() -> None:
    observation = sized((4, 4), (1, 1), (1, 1))
    asked = observation.claim(0)
    assert asked is not None
    unknown = with_claim(observation, replace(asked, capacity_bytes=None))
    assert not isinstance(decide(LARGER, unknown, NOW_MS), GrowClaim)


def test_volumes_grow_until_the_last_has_the_size() -> None:
    """Also between two claims, so that the timeline says once that all have grown."""
    between = sized((1, 1), (4, 4), (1, 1))
    assert growing(between) == (
        True,
        "Waiting",
        "claim data-demo-0 asks for 1Gi of 4Gi so far; claim data-demo-2 asks for 1Gi of 4Gi so far",
    )
    assert growing(sized((4, 4), (4, 4), (4, 4)))[0] is False


# --- what Kubernetes reports ------------------------------------------------------------------


def claim_body(
    requested: str, capacity: str, *conditions: tuple[str, str, str], phase: str = "Bound"
) -> Body:
    return {
        "metadata": {
            "name": "data-demo-0",
            "uid": "claim-0",
            "resourceVersion": "7",
            "labels": {names.LABEL_OWNER_UID: UID},
        },
        "spec": {
            "storageClassName": "fast",
            "volumeName": "volume-0",
            "resources": {"requests": {"storage": requested}},
        },
        "status": {
            "phase": phase,
            "capacity": {"storage": capacity},
            "conditions": [
                {"type": kind, "status": status, "message": message}
                for kind, status, message in conditions
            ],
        },
    }


def test_the_sizes_of_a_claim_are_read() -> None:
    [read] = read_claims("demo", [claim_body("4Gi", "1073741824")])
    assert (read.requested_bytes, read.capacity_bytes) == (4 << 30, 1 << 30)
    assert (read.storage_class, read.version, read.resize, read.grows) == ("fast", "7", "", True)
    assert not read_claims("demo", [claim_body("4Gi", "4Gi")])[0].grows
    assert not read_claims("demo", [claim_body("4Gi", "1Gi", phase="Pending")])[0].grows
    [other] = read_claims("demo", [claim_body("1x9", "")])
    assert (other.requested_bytes, other.capacity_bytes, other.grows) == (None, None, False)


@pytest.mark.parametrize(
    ("conditions", "resize"),
    [
        ([("Resizing", "True", "")], "Resizing"),
        (
            [("Resizing", "True", ""), ("FileSystemResizePending", "True", "waits for the pod")],
            "FileSystemResizePending: waits for the pod",
        ),
        (
            [
                ("FileSystemResizePending", "True", "x"),
                ("ControllerResizeError", "True", "no room"),
            ],
            "ControllerResizeError: no room",
        ),
        ([("ControllerResizeError", "False", "no room")], ""),
    ],
)
def test_what_kubernetes_reports_of_a_growth_is_reported(
    conditions: list[tuple[str, str, str]], resize: str
) -> None:
    [read] = read_claims("demo", [claim_body("4Gi", "1Gi", *conditions)])
    assert read.resize == resize
    observation = with_claim(healthy(), replace(read, record=claim(0).record))
    decision = decide(LARGER, observation, NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "volume_has_grown"
    holds, reason, message = growing(observation)
    assert (holds, reason) == (True, resize.partition(":")[0] or "Requested")
    assert resize in message
    assert "data-demo-0 has 1Gi of 4Gi" in message


# --- what stays as it is ----------------------------------------------------------------------


def live_statefulset(size: str) -> Body:
    """As the operator creates it for a size, and as it is read back."""
    owner = Owner("test", "demo", UID)
    facts = replace(healthy(), statefulset=None, claims=(), pods=(), nodes=(), quorum=None)
    made = compare(owner, spec(storage={"size": size}), facts, ()).bodies
    body = made[ObjectRef("StatefulSet", "demo")]
    meta = {**body["metadata"], "uid": "sts-1", "resourceVersion": "42"}
    return {**body, "metadata": meta, "spec": {**body["spec"], "replicas": 3}}


@pytest.mark.without(
    "kraftquorum_operator.judge.volume_growth:first_size", "statefulset.claim_size or", ""
)
def test_a_larger_size_changes_no_template_and_no_setting() -> None:
    """The defaults of the log depend on the size: with another one every pod would restart."""
    live = live_statefulset("1Gi")
    statefulset = read_statefulset(live)
    facts = replace(sized((1, 1), (1, 1), (1, 1)), statefulset=statefulset)
    owner, ref = Owner("test", "demo", UID), ObjectRef("StatefulSet", "demo")
    for wanted in ("1Gi", "4Gi"):
        desired = compare(owner, spec(storage={"size": wanted}), facts, (live,))
        assert ref not in desired.outdated
        assert desired.bodies[ref]["spec"] == {
            key: value for key, value in live["spec"].items() if key != "replicas"
        }


def test_a_statefulset_that_was_deleted_comes_back_with_the_size_of_the_smallest_volume() -> None:
    """So no setting suits a volume that has not grown."""
    lost = replace(sized((4, 4), (4, 1), (1, 1)), statefulset=None)
    assert first_size(lost, "4Gi") == "1Gi"
    assert first_size(replace(lost, claims=()), "4Gi") == "4Gi"
    grown = replace(sized((9, 9), (4, 4), (4, 4)), statefulset=None)
    assert first_size(grown, "4Gi") == "4Gi"
    small = grown.claim(2)
    assert small is not None
    small = replace(small, requested_bytes=1 << 30, capacity_bytes=1 << 30)
    for change in ({"terminating": True}, {"owner_uid": "resource-0"}, {"owner_uid": None}):
        left = replace(small, **change)  # pyright: ignore[reportArgumentType]
        assert first_size(with_claim(grown, left), "4Gi") == "4Gi", change


def test_the_reserve_and_the_log_are_judged_by_the_smallest_volume() -> None:
    live = live_statefulset("1Gi")
    owner, statefulset = Owner("test", "demo", UID), read_statefulset(live)
    wanted = spec(storage={"size": "4Gi"}, config={"disk_reserve_bytes": 600 << 20})
    for gib, faults in (((4, 1), 1), ((4, 4), 0)):
        facts = replace(sized((4, 4), gib, (4, 4)), statefulset=statefulset)
        assert len(compare(owner, wanted, facts, (live,)).config_faults) == faults
    assert statefulset is not None
    running = replace(statefulset, settings=(("disk_reserve_bytes", str(600 << 20)),))
    replaced = replace(sized((4, 4), (1, 1), (4, 4)), statefulset=running)
    assert not compare(owner, wanted, replaced, (live,)).config_faults, "the pods have it already"
    large = replace(statefulset, settings=(("log_retention_bytes", str(2 << 30)),))
    for gib, outgrows in (((4, 1), True), ((4, 4), False)):
        facts = replace(sized((4, 4), gib, (4, 4)), statefulset=large)
        assert (why_log_outgrows(facts) is not None) is outgrows
