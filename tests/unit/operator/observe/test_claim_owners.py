"""The owner of a claim follows from labels, records and references, never from its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.model.observation import Claim, ClaimRecord, Observation, StatefulSet
from kraftquorum_operator.observe.kube import read_claims
from kraftquorum_operator.plan.actions import (
    AddVoter,
    CreateLatch,
    CreateStatefulSet,
    Decision,
    SetReplicas,
    Wait,
)
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    UID,
    blank,
    healthy,
    latch,
    spec,
)

SELECTOR = {names.LABEL_APP: names.APP, names.LABEL_INSTANCE: "demo"}
OURS = SELECTOR | {names.LABEL_OWNER_UID: UID}
WEB = {"kind": "StatefulSet", "name": "web", "uid": "w", "controller": True}


def body(ordinal: int, labels: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    named = {"name": f"data-demo-{ordinal}", "uid": f"claim-{ordinal}", "labels": labels or {}}
    return {"metadata": named | meta, "spec": {}, "status": {"phase": "Bound"}}


def begun(*bodies: dict[str, Any]) -> Decision:
    """What is decided on a new resource with these claims under its name."""
    observation = replace(
        blank(), statefulset=None, pods=(), nodes=(), claims=read_claims("demo", bodies)
    )
    return decide(spec(voters=3), observation, NOW_MS)


def blocked(decision: Decision) -> str:
    assert isinstance(decision, Wait), decision
    assert decision.guard == "claims_are_ours"
    assert "delete" not in decision.why
    return decision.why


def test_a_claim_whose_name_alone_is_like_ours_makes_no_replicas() -> None:
    """`data-demo-57` made a quorum of 58 replicas; no replica ever had such an id."""
    assert begun(body(57)) == CreateStatefulSet(3)
    assert begun(body(9, {"app": "web"})) == CreateStatefulSet(3)
    assert begun(body(57, OURS)) == CreateStatefulSet(names.NODES_MAX)


@pytest.mark.rule("S18", "S25")
@pytest.mark.parametrize(
    "known",
    [
        body(4, SELECTOR),
        body(4, {names.LABEL_OWNER_UID: "resource-0"}),
        body(4, annotations={names.ANNOTATION_DIRECTORY_ID: "x", names.ANNOTATION_CLAIM_UID: "y"}),
    ],
)
def test_every_claim_of_an_earlier_quorum_of_the_name_gets_its_pod(known: dict[str, Any]) -> None:
    assert begun(known) == CreateStatefulSet(5)


@pytest.mark.parametrize("ordinal", [0, 2, 4])
def test_a_claim_that_says_nothing_is_waited_for_before_a_pod_is_put_on_it(ordinal: int) -> None:
    """It may hold a voter of an earlier quorum, or anything else."""
    why = blocked(begun(body(ordinal)))
    assert f"data-demo-{ordinal}" in why
    assert f"{names.LABEL_INSTANCE}=demo" in why
    assert "another name" in why


def test_a_stranger_s_claim_where_a_pod_would_be_put_on_it_is_named() -> None:
    why = blocked(begun(body(1, ownerReferences=[WEB])))
    assert "StatefulSet web" in why
    assert "other" in blocked(begun(body(1, SELECTOR | {names.LABEL_INSTANCE: "other"})))
    assert begun(body(4, ownerReferences=[WEB])) == CreateStatefulSet(3)


def test_growing_puts_no_pod_on_a_stranger_s_claim() -> None:
    observation = healthy(3)
    claims = (*observation.claims, *read_claims("demo", [body(3, ownerReferences=[WEB])]))
    assert "StatefulSet web" in blocked(
        decide(spec(voters=4), replace(observation, claims=claims), NOW_MS)
    )
    labelled = (*observation.claims, *read_claims("demo", [body(3, OURS)]))
    grown = decide(spec(voters=4), replace(observation, claims=labelled), NOW_MS)
    assert isinstance(grown, SetReplicas)


def statefulset(**changes: Any) -> StatefulSet:
    known = ((4, ClaimRecord("d4", "claim-4")),)
    return replace(StatefulSet("sts-1", "42", 3, "r1", UID, records=known), **changes)


@pytest.mark.rule("S25")
def test_a_claim_of_ours_that_lost_its_labels_is_known_by_what_is_left() -> None:
    """By its pod, or by the record on the StatefulSet: then it gets its pod without a leader."""
    by_pod, by_record, by_nothing = read_claims(
        "demo", [body(2), body(4), body(5)], statefulset=statefulset()
    )
    assert by_pod.foreign_owner == by_record.foreign_owner == ""
    assert by_nothing.doubtful
    lost = replace(
        healthy(),
        statefulset=statefulset(),
        claims=(by_pod, by_record),
        quorum=None,
        nodes=(),
        latch=latch(3),
    )
    assert decide(spec(voters=3), lost, NOW_MS) == SetReplicas("sts-1", "42", 5)
    unsure = replace(lost, claims=(*lost.claims, by_nothing))
    assert decide(spec(voters=3), unsure, NOW_MS) == SetReplicas("sts-1", "42", 5)
    raised = replace(unsure, statefulset=statefulset(replicas=5))
    waited = decide(spec(voters=3), raised, NOW_MS)
    assert isinstance(waited, Wait)
    assert "data-demo-5" in waited.why, "what may hold the missing voter is named"


def test_a_quorum_that_was_formed_is_held_up_by_no_claim_without_an_owner() -> None:
    """A person deleted its StatefulSet; its claims have lost all that was said on them."""
    bare = read_claims("demo", [body(0), body(1), body(2), body(7)])
    observation = replace(
        healthy(), statefulset=None, pods=(), nodes=(), quorum=None, claims=bare, latch=latch(3)
    )
    assert decide(spec(voters=3), observation, NOW_MS) == CreateStatefulSet(3)
    assert "data-demo-3" in blocked(
        decide(
            spec(voters=4),
            replace(observation, claims=(*bare, *read_claims("demo", [body(3)]))),
            NOW_MS,
        )
    )


def test_no_quorum_is_formed_beside_a_claim_that_says_nothing() -> None:
    def formed(*extra: Claim) -> Decision:
        observation: Observation = blank()
        return decide(
            spec(voters=3), replace(observation, claims=(*observation.claims, *extra)), NOW_MS
        )

    assert isinstance(formed(), CreateLatch)
    blocked(formed(*read_claims("demo", [body(5)])))
    assert isinstance(formed(*read_claims("demo", [body(5, ownerReferences=[WEB])])), CreateLatch)
    assert not isinstance(formed(), AddVoter)
