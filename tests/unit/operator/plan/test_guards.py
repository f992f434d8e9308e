"""Each guard blocks an action of `decide` at least once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.model.access_facts import AccessFacts
from kraftquorum_operator.model.certificates import AuthoritySecret, Certificates
from kraftquorum_operator.model.objects import ObjectRef
from kraftquorum_operator.model.observation import (
    UNKNOWN_OWNER,
    Budget,
    ClaimRecord,
    Deferral,
    GivenUp,
    Observation,
    Progress,
    StatefulSet,
)
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.actions import Wait
from kraftquorum_operator.plan.guards import GUARDS
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    blank,
    claim,
    healthy,
    latch,
    node,
    pod,
    replica,
    spec,
    voter,
    with_claim,
    with_node,
    with_pod,
    with_quorum,
    with_size,
    without_node,
)
from proofkit.operatorworld.tls_observations import certified

NOT_REACHED = {
    "heal_before_shrink": "repair waits for a wanted voter that is late before anything shrinks",
    "leader_can_move": "the step that moves leadership asked before whether a majority stays",
}
"""Guards that an earlier step leaves nothing to; they stay for when the order changes."""

LATE = Progress(replica(1), caught_up=False, silent_since_ms=NOW_MS)


def replacing(second: Progress, third: Progress) -> Observation:
    """Voter 0's disk was lost, and its successor is caught up."""
    observation = with_pod(with_node(healthy(), node(0, "b")), pod(0, voter=False))
    new = Progress(replica(0, "b"), caught_up=True, silent_since_ms=NOW_MS)
    voters = (voter(0, silent_ms=20_000), second, third)
    return with_quorum(observation, voters=voters, observers=(new,), leader=replica(1))


def observer(**changes: object) -> Observation:
    """Three voters and a fourth replica whose node does not answer."""
    observation = without_node(healthy(3, replicas=4), 3)
    return with_pod(observation, replace(pod(3, voter=False), **changes))


def lowered() -> Observation:
    """Pod 3 was scaled away and has not ended."""
    low = replace(healthy().statefulset, replicas=3)
    return replace(healthy(3, replicas=4), statefulset=low)


FOUR, AWAY = spec(voters=4), voter(2, silent_ms=20_000)
FIRST = spec(voters=3, replacement={"order": "RemoveFirst"})
OFF = spec(voters=3, replacement={"policy": "Disabled"})
MANUAL = spec(voters=3, replacement={"policy": "Manual"})
COPIED = ClaimRecord(replica(2).directory_id, "another claim")
LEAVING = with_pod(
    replace(healthy(4), budget=Budget("pdb", counted=4, mark="demo-3:None")), pod(3, voter=False)
)
"""Voter 3 has left the budget, which was touched for that and not counted yet."""
CRASHING = {"ready": False, "running": False, "restarts": 2}
"""Pod 0 has the present template and never started; pod 1 of an older one crashes."""
BOTH_STUCK = with_pod(
    with_pod(
        replace(healthy(), quorum=None, nodes=()),
        replace(pod(0), phase="Pending", ready=False, running=False),
    ),
    replace(pod(1), revision="r0", **CRASHING),
)
FOREIGN_3 = with_node(healthy(3, replicas=4), replace(node(3), cluster_id="other"))
BROKEN_3 = observer(ready=False, exit_code=13, restarts=2)

FAILED_AGAIN = replace(
    BROKEN_3,
    statefulset=replace(BROKEN_3.statefulset, given_up=((3, (GivenUp("claim-x", 9, True),)),)),
)
"""A new volume of replica 3 was given up just now, and so is to be the next one."""
ROLLING = replace(
    with_pod(healthy(), replace(pod(1), revision="r0")), budget=Budget("pdb", counted=3, allowed=0)
)
UNSEEN_TEMPLATE = replace(
    healthy(),
    statefulset=replace(healthy().statefulset, revision=None, deferral=Deferral("r1", "no room")),
)
CASES: dict[str, tuple[Observation, QuorumSpec]] = {
    "budget_allows_eviction": (ROLLING, spec()),
    "replacements_spaced": (FAILED_AGAIN, FOUR),
    "eviction_accepted": (
        replace(
            with_pod(healthy(), replace(pod(1), revision="r0")),
            refused_deletions=(("pod-1", "500"),),
        ),
        spec(),
    ),
    "claim_growth_accepted": (
        replace(with_size(healthy(), 1, 1, 1), refused_growths=(("claim-1", "403"),)),
        spec(storage={"size": "2Gi"}),
    ),
    "volume_has_grown": (
        with_size(healthy(), 1, 2, 1),
        spec(storage={"size": "2Gi"}),
    ),
    "claim_deletion_accepted": (
        replace(
            with_node(healthy(), replace(node(1), damage=("rot",))),
            refused_deletions=(("claim-1", "403"),),
        ),
        spec(),
    ),
    "not_paused": (healthy(), spec(voters=3, pause=True)),
    "objects_are_ours": (
        replace(healthy(), statefulset=StatefulSet("sts-0", "1", 3, owner_uid="resource-0")),
        spec(),
    ),
    "objects_written": (
        replace(healthy(), refused=((ObjectRef("Service", "demo"), "422"),)),
        spec(),
    ),
    "config_accepted": (replace(healthy(), config_faults=("config.x is not a setting",)), spec()),
    "access_file_written": (
        replace(blank(), statefulset=None, access=AccessFacts({})),
        spec(access={"clients": []}),
    ),
    "network_policy_written": (
        replace(blank(), statefulset=None, refused=((ObjectRef("NetworkPolicy", "demo"), "403"),)),
        spec(),
    ),
    "certificates_usable": (
        replace(healthy(), certificates=Certificates(0, unreadable="403 Forbidden")),
        spec(tls={"mode": "Managed"}),
    ),
    "certificates_issued": (
        replace(
            blank(),
            statefulset=None,
            certificates=Certificates(
                0, authority=AuthoritySecret("ca", "1", "uid", "c", issued_pods=3)
            ),
        ),
        spec(tls={"mode": "CertManager", "issuerRef": {"name": "ours"}}),
    ),
    "certificates_presented": (
        certified(blank(), "required", presented=False),
        spec(tls={"mode": "Managed"}),
    ),
    "tls_level_reached": (
        certified(healthy(), "permissive", presented=False),
        spec(tls={"mode": "Managed"}),
    ),
    "kubernetes_version_supported": (
        replace(blank(), statefulset=None, kubernetes=(1, 28)),
        spec(),
    ),
    "claims_are_ours": (
        replace(blank(), claims=(*blank().claims, replace(claim(4), foreign_owner=UNKNOWN_OWNER))),
        spec(),
    ),
    "no_earlier_claims": (with_claim(blank(), replace(claim(2), owner_uid="resource-0")), spec()),
    "all_blank_before_formation": (without_node(blank(), 1), spec()),
    "never_rebootstrap": (replace(blank(), remembered_cluster_id="x"), spec()),
    "earlier_quorum_elects_leader": (with_node(blank(), node(0)), spec()),
    "latch_and_quorum_agree": (with_quorum(healthy(), cluster_id="other"), spec()),
    "formation_complete": (with_quorum(healthy(), formation_completed=False), spec()),
    "majority_reachable": (replace(blank(), latch=latch(), nodes=()), spec()),
    "leader_elected": (replace(healthy(), quorum=None), spec()),
    "confirmed_voters_required": (with_quorum(healthy(), confirmed=False), spec()),
    "epoch_committed": (with_quorum(healthy(), epoch_committed=False), spec()),
    "one_voter_change_at_a_time": (with_quorum(healthy(), record_committed=False), spec()),
    "survivors_caught_up": (replacing(LATE, voter(2)), spec()),
    "majority_survives_removal": (replacing(voter(1), AWAY), FIRST),
    "majority_survives_loss": (
        with_claim(healthy(2), replace(claim(1), terminating=True)),
        spec(voters=2),
    ),
    "majority_survives_addition": (replacing(voter(1), AWAY), spec()),
    "replacement_policy_allows": (replacing(voter(1), voter(2)), OFF),
    "deletion_policy_allows": (
        with_claim(healthy(), replace(claim(1), terminating=True)),
        MANUAL,
    ),
    "replica_silent_for_grace_period": (
        with_quorum(
            replacing(voter(1), voter(2)), voters=(voter(0, silent_ms=9), voter(1), voter(2))
        ),
        spec(),
    ),
    "claim_is_the_recorded_one": (with_claim(healthy(), replace(claim(2), record=COPIED)), MANUAL),
    "storage_undamaged": (with_node(healthy(), replace(node(2), damage=("rot",))), MANUAL),
    "claim_bound_and_unshared": (
        with_claim(replacing(voter(1), voter(2)), replace(claim(0), shared=True)),
        spec(),
    ),
    "new_replica_caught_up": (healthy(3, replicas=4), FOUR),
    "new_replica_survived_probe": (
        with_node(replacing(voter(1), voter(2)), replace(node(0, "b"), durable_end_offset=1)),
        spec(),
    ),
    "no_foreign_data": (FOREIGN_3, FOUR),
    "node_answers": (observer(), FOUR),
    "node_catches_up": (with_quorum(healthy(), voters=(voter(0), LATE, voter(2))), spec()),
    "replicas_never_below_highest_voter": (
        with_quorum(
            healthy(3, replicas=4),
            committed=tuple(replica(n) for n in range(4)),
            record_committed=False,
        ),
        spec(),
    ),
    "pod_uncounted_before_removal": (observer(counted=True, terminating=True), spec()),
    "budget_counts_voters": (LEAVING, spec(voters=3)),
    "pod_gone_before_next_step": (lowered(), spec()),
    "all_voters_caught_up": (
        with_pod(with_pod(healthy(), replace(pod(2), revision="r0")), replace(pod(1), ready=False)),
        spec(),
    ),
    "scale_up_not_deferred": (UNSEEN_TEMPLATE, FOUR),
    "current_template_starts": (BOTH_STUCK, spec()),
    "fresh_claim_uid": (with_claim(BROKEN_3, replace(claim(3), owner_uid="resource-0")), FOUR),
}


@pytest.mark.parametrize("guard", CASES)
def test_a_guard_holds_something_back(guard: str) -> None:
    observation, wanted = CASES[guard]
    decision = decide(wanted, observation, NOW_MS)
    assert isinstance(decision, Wait), decision
    assert decision.guard == guard, decision
    assert decision.why


def test_every_guard_has_a_case_or_a_reason_why_not() -> None:
    assert set(CASES) | set(NOT_REACHED) == set(GUARDS)
    assert not set(CASES) & set(NOT_REACHED)


@pytest.mark.rule("S25")
@pytest.mark.without(
    "kraftquorum_operator.plan.object_guards:replicas_never_below_highest_voter.rule",
    "return",
    "return None  #",
)
def test_no_pod_goes_whose_ordinal_a_voter_has():
    observation, wanted = CASES["replicas_never_below_highest_voter"]
    decision = decide(wanted, observation, NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "replicas_never_below_highest_voter"
