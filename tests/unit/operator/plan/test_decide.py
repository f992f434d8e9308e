"""Every flow, step by step: an observation and the decision on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftquorum_operator.model.objects import ObjectRef
from kraftquorum_operator.model.observation import (
    Budget,
    PendingChange,
    Progress,
    ReplicaId,
    StatefulSet,
    VoterRecord,
)
from kraftquorum_operator.plan import actions as act
from kraftquorum_operator.plan.actions import Done, Wait, describe
from kraftquorum_operator.plan.guards import GUARDS
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    CLUSTER,
    NOW_MS,
    UID,
    blank,
    claim,
    healthy,
    latch,
    node,
    pod,
    quorum,
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

pytestmark = pytest.mark.rule("S24", "S25")

SPEC = spec(voters=3)
RECORD = VoterRecord(7, 2)
OBSERVER = Progress(replica(2, "b"), caught_up=True, silent_since_ms=NOW_MS)


def decided(observation, wanted=SPEC):
    return decide(wanted, observation, NOW_MS)


def blocked_by(observation, wanted=SPEC) -> str:
    decision = decided(observation, wanted)
    assert isinstance(decision, Wait), decision
    assert decision.guard in GUARDS
    assert decision.why
    return decision.guard


def empty():
    return replace(blank(), statefulset=None, pods=(), claims=(), nodes=())


def replaced(**changes):
    """Voter 2 has lost its disk; a blank one with another UUID runs in its place."""
    observation = with_node(healthy(), node(2, "b", **changes))
    return with_quorum(
        observation, voters=(*healthy().quorum.voters[:2], voter(2, silent_ms=20_000))
    )


def caught_up(**changes):
    """The same once the new replica has caught up."""
    return with_quorum(replaced(), observers=(OBSERVER,), **changes)


# --- formation -----------------------------------------------------------------------------------


def test_a_healthy_quorum_is_done() -> None:
    assert isinstance(decided(healthy()), Done)


def test_missing_objects_come_before_the_statefulset() -> None:
    observation = replace(empty(), outdated=(ObjectRef("Service", "demo"),))
    assert decided(observation) == act.ApplyObjects((ObjectRef("Service", "demo"),))


def test_the_statefulset_starts_with_all_first_voters() -> None:
    assert decided(empty()) == act.CreateStatefulSet(3)


def test_the_statefulset_starts_with_a_pod_for_every_old_claim() -> None:
    assert decided(replace(empty(), claims=(claim(4),))) == act.CreateStatefulSet(5)


def test_replicas_follow_the_spec_before_formation() -> None:
    assert decided(blank(), spec(voters=5)) == act.SetReplicas("sts-1", "42", 5)


def test_the_latch_names_every_blank_first_voter_by_its_storage() -> None:
    decision = decided(blank())
    assert isinstance(decision, act.CreateLatch)
    assert [v.replica for v in decision.voters] == [replica(0), replica(1), replica(2)]


@pytest.mark.rule("S18")
@pytest.mark.without(
    "kraftquorum_operator.plan.formation:send_latch",
    "if not node.blank or not observation.latch.lists(node.replica):",
    "if not node.blank:",
)
def test_the_latch_is_sent_only_to_blank_nodes_that_it_lists() -> None:
    observation = replace(blank(), latch=latch())
    assert decided(observation) == act.SendLatch(replica(0), latch())
    other_disks = replace(observation, nodes=tuple(node(n, "b", blank=True) for n in range(3)))
    assert blocked_by(other_disks) == "never_rebootstrap"


def test_the_latch_is_not_sent_to_a_replica_that_was_removed_since() -> None:
    observation = with_node(healthy(), node(2, blank=True))
    observation = with_quorum(
        observation, voters=healthy().quorum.voters[:2], committed=(replica(0), replica(1))
    )
    assert decided(with_pod(observation, pod(2, voter=False))) == act.JoinNode(replica(2), CLUSTER)


@pytest.mark.rule("S19")
def test_a_disk_lost_after_the_latch_does_not_hang_the_formation() -> None:
    """S19: a majority forms; the blank node with another UUID joins as an observer."""
    formed = [node(0), node(1), node(2, "b", blank=True)]
    observation = replace(healthy(), nodes=tuple(formed))
    observation = replace(
        observation, quorum=quorum([voter(0), voter(1), voter(2, silent_ms=20_000)])
    )
    observation = with_quorum(observation, formation_completed=False)
    assert decided(
        replace(observation, pods=(pod(0), pod(1), pod(2, voter=False)))
    ) == act.JoinNode(replica(2, "b"), CLUSTER)


@pytest.mark.parametrize(
    ("observation", "guard"),
    [
        (without_node(blank(), 1), "all_blank_before_formation"),
        (with_claim(blank(), replace(claim(2), owner_uid="resource-0")), "no_earlier_claims"),
        (with_claim(blank(), replace(claim(0), owner_uid=None)), "no_earlier_claims"),
        (replace(blank(), remembered_cluster_id="x"), "never_rebootstrap"),
        (with_node(blank(), node(0)), "earlier_quorum_elects_leader"),
        (replace(blank(), latch=latch(), nodes=()), "majority_reachable"),
        (replace(healthy(), quorum=None), "leader_elected"),
    ],
)
def test_what_holds_formation_back(observation, guard: str) -> None:
    assert blocked_by(observation) == guard


def test_a_quorum_that_is_there_is_adopted_not_formed_again() -> None:
    old = tuple(replace(claim(n), owner_uid="resource-0") for n in range(3))
    observation = replace(healthy(), latch=None, claims=old)
    decision = decided(observation)
    assert isinstance(decision, act.AdoptQuorum)
    assert decision.cluster_id == CLUSTER
    assert decided(replace(observation, latch=latch())) == act.SetClaimOwner(
        "data-demo-0", "claim-0"
    )


def test_an_unconfirmed_quorum_is_not_adopted() -> None:
    observation = with_quorum(replace(healthy(), latch=None), confirmed=False)
    assert blocked_by(observation) == "confirmed_voters_required"


# --- the order of things -------------------------------------------------------------------------


def test_pause_holds_everything_back() -> None:
    assert blocked_by(empty(), spec(pause=True)) == "not_paused"


def test_a_statefulset_of_an_earlier_resource_is_left_alone() -> None:
    other = StatefulSet("sts-0", "1", 3, owner_uid="resource-0")
    assert blocked_by(replace(blank(), statefulset=other)) == "objects_are_ours"


def test_a_quorum_with_another_cluster_id_is_left_alone() -> None:
    assert blocked_by(with_quorum(healthy(), cluster_id="other")) == "latch_and_quorum_agree"


@pytest.mark.rule("S24")
@pytest.mark.without(
    "kraftquorum_operator.plan.decide:_operate",
    "return repaired or first_block(case, guards.objects_written) or _first(OPERATION, case)",
    "return _first(OPERATION, case) or repaired",
)
def test_repair_comes_before_a_scale_up_that_is_stuck() -> None:
    """S24: the pod of the fourth voter waits for a volume while another disk dies."""
    stuck = replace(pod(3, voter=False), phase="Pending", ready=False)
    observation = with_pod(replaced(blank=True), stuck)
    observation = replace(observation, statefulset=replace(observation.statefulset, replicas=4))
    observation = with_pod(observation, pod(2, voter=False))
    assert decided(observation, spec(voters=5)) == act.JoinNode(replica(2, "b"), CLUSTER)


def test_a_replica_that_is_to_be_removed_is_not_healed_first() -> None:
    observation = with_node(healthy(4), node(3, "b", blank=True))
    observation = with_pod(observation, pod(3, voter=False))
    voters = (*healthy(4).quorum.voters[:3], voter(3, silent_ms=20_000))
    observation = with_quorum(observation, voters=voters)
    assert decided(observation) == act.RemoveVoter(replica(3), RECORD)


def test_a_scale_up_can_be_given_up_before_its_record() -> None:
    observation = healthy(3, replicas=4)
    assert decided(observation) == act.SetReplicas("sts-1", "42", 3)


def listed_and_blank(**changes: object):
    """Voter 2 was listed in the formation, and the latch was lost before it heard of it."""
    voters = (voter(0), voter(1), voter(2, silent_ms=20_000))
    observation = with_quorum(with_node(healthy(), node(2, blank=True)), voters=voters, **changes)
    adopted = replace(latch(), adopted=True)
    return with_pod(replace(observation, latch=adopted), pod(2, voter=False))


def test_a_blank_node_that_is_a_voter_joins_and_is_no_voter_to_the_budget_until_then() -> None:
    observation = listed_and_blank()
    assert replica(2) in observation.quorum.committed
    assert decided(observation) == act.JoinNode(replica(2), CLUSTER)
    counted = with_pod(observation, pod(2, voter=True))
    assert decided(counted) == act.CountPod("demo-2", voter=False)
    joined = with_quorum(with_node(observation, node(2)), voters=healthy().quorum.voters)
    budget = Budget("pdb", counted=2, pods=("demo-0", "demo-1"), version="7")
    decision = decided(replace(joined, budget=budget))
    assert decision == act.CountPod("demo-2", voter=True, version="7")


def test_a_blank_node_that_is_a_voter_joins_a_confirmed_quorum_only() -> None:
    assert blocked_by(listed_and_blank(confirmed=False)) == "confirmed_voters_required"


# --- growing -------------------------------------------------------------------------------------


def test_growing_adds_one_pod_at_a_time() -> None:
    assert decided(healthy(), spec(voters=5)) == act.SetReplicas("sts-1", "42", 4)


def test_a_blank_node_joins_then_becomes_a_voter() -> None:
    four, observation = spec(voters=4), healthy(3, replicas=4)
    new = with_node(observation, node(3, blank=True))
    assert decided(new, four) == act.JoinNode(replica(3), CLUSTER)
    assert blocked_by(observation, four) == "new_replica_caught_up"
    ready = with_quorum(observation, observers=(voter(3),))
    assert decided(ready, four) == act.AddVoter(replica(3), "demo-3.peers:9093", RECORD)


@pytest.mark.parametrize(("epoch", "asked"), [(None, False), (3, False), (4, True)])
def test_an_observer_above_the_leaders_epoch_is_asked_to_be_added(epoch, asked: bool) -> None:
    """It cannot catch up before: the leader goes above its epoch only for what it is to add."""
    late = replace(voter(3), caught_up=False, higher_epoch=epoch)
    observation = with_quorum(healthy(3, replicas=4), observers=(late,))
    assert observation.quorum.epoch == 3
    if asked:
        added = act.AddVoter(replica(3), "demo-3.peers:9093", RECORD)
        assert decided(observation, spec(voters=4)) == added
    else:
        assert blocked_by(observation, spec(voters=4)) == "new_replica_caught_up"


def test_a_committed_voter_is_counted_and_no_other() -> None:
    budget = Budget("pdb", counted=2, pods=("demo-0", "demo-1"), version="7")
    observation = replace(with_pod(healthy(), pod(2, voter=False)), budget=budget)
    assert decided(observation) == act.CountPod("demo-2", voter=True, version="7")
    assert not isinstance(decided(with_quorum(observation, record_committed=False)), act.CountPod)
    observer = with_pod(healthy(3, replicas=4), pod(3, voter=True))
    assert decided(observer) == act.CountPod("demo-3", voter=False)


def test_foreign_data_never_joins() -> None:
    observation = with_node(healthy(3, replicas=4), replace(node(3), cluster_id="other"))
    assert blocked_by(observation, spec(voters=4)) == "no_foreign_data"


# --- shrinking -----------------------------------------------------------------------------------


def test_shrinking_goes_out_of_the_budget_then_remove_then_pod() -> None:
    observation = healthy(5)
    assert decided(observation) == act.CountPod("demo-4", voter=False)
    observation = with_pod(observation, pod(4, voter=False))
    assert decided(observation) == act.RemoveVoter(replica(4), RECORD)
    removed = healthy(3, replicas=5)
    assert decided(removed) == act.SetReplicas("sts-1", "42", 4)


def test_a_leader_that_is_to_go_transfers_leadership_first() -> None:
    observation = with_quorum(healthy(4), leader=replica(3))
    assert decided(observation) == act.MoveLeadership(replica(3), replica(0))


def test_shrinking_waits_for_the_pod_before_the_next() -> None:
    observation = healthy(3, replicas=5)
    observation = replace(observation, statefulset=replace(observation.statefulset, replicas=4))
    assert blocked_by(observation) == "pod_gone_before_next_step"


def test_shrinking_waits_until_the_others_are_healed() -> None:
    observation = with_quorum(
        healthy(5), voters=(voter(0), voter(1, silent_ms=100), voter(2), voter(3))
    )
    assert blocked_by(observation) == "node_catches_up"


def test_a_lost_voter_that_is_not_wanted_goes_before_a_well_one() -> None:
    voters = (voter(0), voter(1, silent_ms=20_000), voter(2))
    observation = with_pod(with_quorum(healthy(), voters=voters), pod(1, voter=False))
    assert decided(observation, spec(voters=1)) == act.RemoveVoter(replica(1), RECORD)


def test_the_last_wanted_voter_is_added_before_the_last_unwanted_goes() -> None:
    observation = replace(healthy(2), quorum=quorum([voter(1)], observers=[voter(0)]))
    observation = with_pod(observation, pod(0, voter=False))
    decision = decided(observation, spec(voters=1))
    assert isinstance(decision, act.AddVoter)


def test_claims_of_replicas_that_are_gone_are_kept_unless_told_otherwise() -> None:
    observation = with_claim(healthy(), claim(3))
    assert isinstance(decided(observation), Done)
    told = spec(voters=3, claimRetention="Delete")
    assert isinstance(decided(observation, told), act.DeleteClaim)
    foreign = with_claim(healthy(), replace(claim(3), owner_uid="resource-0"))
    assert isinstance(decided(foreign, told), Done)


@pytest.mark.rule("S25")
@pytest.mark.without(
    "kraftquorum_operator.plan.formation:raise_replicas",
    "if statefulset.replicas < floor:",
    "if False:",
)
def test_replicas_that_a_person_lowered_are_raised_for_every_voter() -> None:
    low = StatefulSet("sts-1", "42", 1, "r1", UID)
    assert decided(replace(healthy(), statefulset=low)) == act.SetReplicas("sts-1", "42", 3)
    silent = replace(healthy(), statefulset=low, quorum=None, nodes=(), pods=())
    assert decided(silent) == act.SetReplicas("sts-1", "42", 3)


def grown_since(*missing: int, replicas: int = 1):
    """Formed with one voter, grown to three; no leader, and a person lowered the replicas."""
    return replace(
        healthy(),
        statefulset=StatefulSet("sts-1", "42", replicas, "r1", UID),
        latch=latch(1),
        quorum=None,
        nodes=(),
        pods=(),
        claims=tuple(claim(n) for n in range(3) if n not in missing),
    )


def test_every_claim_gets_its_pod_back_when_the_latch_is_older_than_the_voters() -> None:
    assert decided(grown_since()) == act.SetReplicas("sts-1", "42", 3)
    assert decided(grown_since(), spec(voters=1)) == act.SetReplicas("sts-1", "42", 3)
    blank_0 = replace(grown_since(), nodes=(node(0, "b", blank=True),))
    assert decided(blank_0, spec(voters=1)) == act.SetReplicas("sts-1", "42", 3)
    told = replace(grown_since(), nodes=(replace(node(0), voters=(replica(0),)),))
    assert not isinstance(decided(told, spec(voters=1)), act.SetReplicas)


def test_storage_is_not_lost_on_the_word_of_an_older_latch() -> None:
    """Voter 0's disk is gone; what 1 and 2 know is not heard yet."""
    wanted = spec(voters=1)
    assert blocked_by(grown_since(0, replicas=3), wanted) == "majority_reachable"
    wiped = replace(grown_since(replicas=3), nodes=(node(0, "b", blank=True),))
    assert blocked_by(wiped, wanted) == "majority_reachable"
    told = tuple(replace(node(n), voters=(replica(0), replica(1), replica(2))) for n in (1, 2))
    assert blocked_by(replace(wiped, nodes=(*wiped.nodes, *told)), wanted) == "leader_elected"


def test_storage_is_lost_once_no_claim_can_know_better() -> None:
    assert blocked_by(grown_since(0, 1, 2, replicas=3), spec(voters=1)) == "never_rebootstrap"
    blanks = tuple(node(n, "b", blank=True) for n in range(3))
    all_blank = replace(grown_since(replicas=3), nodes=blanks)
    assert blocked_by(all_blank, spec(voters=1)) == "never_rebootstrap"
    unbound = tuple(replace(claim(n), phase="Pending") for n in (1, 2))
    pending = replace(grown_since(replicas=3), claims=unbound)
    assert blocked_by(pending, spec(voters=1)) == "never_rebootstrap"


# --- repair --------------------------------------------------------------------------------------


@pytest.mark.rule("P55", "S23")
@pytest.mark.without("kraftquorum_operator.plan.replacement:admit", "if node.blank:", "if False:")
@pytest.mark.without(
    "kraftquorum_operator.plan.replacement:admit",
    "wait = _probe(case, subject, node) or first_block(",
    "wait = first_block(",
)
def test_a_lost_disk_is_replaced_join_probe_add() -> None:
    uncounted = pod(2, voter=False)
    assert decided(replaced(blank=True)) == act.CountPod("demo-2", voter=False)
    joining = with_pod(replaced(blank=True), uncounted)
    assert decided(joining) == act.JoinNode(replica(2, "b"), CLUSTER)
    assert blocked_by(with_pod(replaced(), uncounted)) == "new_replica_caught_up"
    young = with_node(caught_up(), node(2, "b", incarnation=1))
    decision = decided(with_pod(young, uncounted))
    assert isinstance(decision, act.EvictPod)
    assert "probe" in decision.reason
    ready = with_pod(caught_up(), uncounted)
    assert decided(ready) == act.RecordClaims("sts-1", (("data-demo-2", 2, record(2, "b")),))
    assert decided(recorded(ready, 2, "b")) == act.AddVoter(
        replica(2, "b"), "demo-2.peers:9093", RECORD, replaces=replica(2)
    )


@pytest.mark.rule("S11")
def test_no_pod_is_ended_on_the_word_of_a_leader_that_is_not_confirmed() -> None:
    """S11: a deposed leader's voters are not the voters of today."""
    probe = with_pod(with_node(caught_up(), node(2, "b", incarnation=1)), pod(2, voter=False))
    assert isinstance(decided(probe), act.EvictPod)
    assert blocked_by(with_quorum(probe, confirmed=False)) == "confirmed_voters_required"
    stuck = replace(pod(2), phase="Pending", ready=False, revision="r0")
    for wanted, observation in (
        (SPEC, with_quorum(with_pod(without_node(healthy(), 2), stuck), voters=LATE_VOTERS)),
        (
            spec(voters=4),
            with_pod(
                without_node(healthy(3, replicas=4), 3),
                replace(pod(3, voter=False), phase="Pending", ready=False, revision="r0"),
            ),
        ),
    ):
        assert isinstance(decided(observation, wanted), act.DeletePod)
        unsure = with_quorum(observation, confirmed=False)
        assert blocked_by(unsure, wanted) == "confirmed_voters_required"


def test_remove_first_is_a_setting() -> None:
    wanted = spec(replacement={"order": "RemoveFirst"})
    observation = with_pod(caught_up(), pod(2, voter=False))
    assert decided(observation, wanted) == act.RemoveVoter(replica(2), RECORD)


def removed_first():
    """`order: RemoveFirst` has removed the lost voter 2; its new storage has caught up."""
    left = replace(caught_up(), quorum=quorum([voter(0), voter(1)], observers=[OBSERVER]))
    return with_pod(left, pod(2, voter=False))


@pytest.mark.rule("S24")
@pytest.mark.parametrize("held", ["outdated", "refused", "growing"])
def test_a_replica_that_was_removed_first_is_added_back_whatever_an_operation_waits_for(
    held: str,
) -> None:
    """A refused Service held the third voter back for ever, with no failure to be tolerated."""
    wanted, observation = spec(replacement={"order": "RemoveFirst"}), removed_first()
    if held == "outdated":
        observation = replace(observation, outdated=SERVICE)
    elif held == "refused":
        observation = replace(observation, refused=REFUSED)
    else:
        wanted = spec(voters=4, replacement={"order": "RemoveFirst"})
        observation = replace(observation, refused=REFUSED)
    added = act.AddVoter(replica(2, "b"), "demo-2.peers:9093", RECORD)
    claimed = recorded(observation, 2, "b")
    assert decided(claimed, wanted) == added


@pytest.mark.rule("S24")
def test_a_replica_that_was_removed_first_is_added_back_while_another_one_is_away() -> None:
    wanted = spec(voters=5, replacement={"order": "RemoveFirst"})
    voters = [voter(0), voter(1, silent_ms=100), voter(3), voter(4)]
    observation = with_node(healthy(5), node(2, "b"))
    observation = replace(observation, quorum=quorum(voters, observers=[OBSERVER]))
    observation = recorded(without_node(with_pod(observation, pod(2, voter=False)), 1), 2, "b")
    lost = with_quorum(
        observation, voters=(*observation.quorum.voters[:1], voter(1, silent_ms=9_000), *voters[2:])
    )
    assert decided(lost, wanted) == act.AddVoter(replica(2, "b"), "demo-2.peers:9093", RECORD)
    assert isinstance(decided(observation, wanted), Wait), (
        "a voter that is just away may come back first"
    )


def test_a_voter_that_was_never_there_is_no_repair() -> None:
    """Growing waits for the Services; nothing was lost."""
    observation = removed_first()
    assert observation.statefulset is not None
    fresh = replace(observation.statefulset, records=observation.statefulset.records[:2])
    observation = with_claim(
        replace(observation, statefulset=fresh), replace(claim(2), record=None)
    )
    assert blocked_by(replace(observation, refused=REFUSED)) == "objects_written"


def test_the_old_replica_goes_once_the_new_one_is_a_voter() -> None:
    """When the leader that was asked with `replaces` died before it removed the old one."""
    voters = (voter(0), voter(1), voter(2, silent_ms=20_000), voter(2, "b"))
    observation = with_node(replace(healthy(), quorum=quorum(voters)), node(2, "b"))
    assert decided(observation) == act.RemoveVoter(replica(2), RECORD)


def test_a_replacement_that_lost_its_disk_as_an_observer_changes_no_voter() -> None:
    observation = with_pod(with_node(caught_up(), node(2, "c", blank=True)), pod(2, voter=False))
    assert decided(observation) == act.JoinNode(replica(2, "c"), CLUSTER)


def test_two_lost_storages_of_one_id_are_removed_one_by_one() -> None:
    voters = tuple(voter(n) for n in range(4))
    lost = (voter(4, silent_ms=20_000), voter(4, "b", silent_ms=20_000))
    observation = with_node(replace(healthy(5), quorum=quorum((*voters, *lost))), node(4, "c"))
    observation = with_pod(observation, pod(4, voter=False))
    assert decided(observation, spec(voters=5)) == act.RemoveVoter(replica(4), RECORD)


def broken(exit_code: int, restarts: int):
    """Voter 2's node ends again and again."""
    observation = without_node(healthy(), 2)
    observation = with_quorum(
        observation, voters=(*healthy().quorum.voters[:2], voter(2, silent_ms=20_000))
    )
    ended = replace(pod(2), phase="Running", ready=False, exit_code=exit_code, restarts=restarts)
    return with_pod(observation, ended)


def test_a_node_that_asks_to_be_replaced_loses_its_claim_first_then_its_pod() -> None:
    observation = broken(12, 2)
    decision = decided(observation)
    assert isinstance(decision, act.DeleteClaim)
    assert (decision.claim, decision.uid) == ("data-demo-2", "claim-2")
    decision = decided(with_claim(observation, replace(claim(2), terminating=True)))
    assert isinstance(decision, act.DeletePod)
    assert decision.uid == "pod-2"


def test_a_disk_that_fails_at_three_restarts_is_replaced() -> None:
    assert isinstance(decided(broken(10, 3)), act.DeleteClaim)
    assert isinstance(decided(broken(18, 3)), act.DeleteClaim)


@pytest.mark.rule("S3")
def test_a_node_that_was_told_that_it_is_an_old_copy_loses_its_claim() -> None:
    """S3: content that was put back beneath its claim, told by the other voters."""
    assert blocked_by(broken(17, 1)) == "node_answers"
    decision = decided(broken(17, 2))
    assert isinstance(decision, act.DeleteClaim)
    assert "old copy" in decision.reason


@pytest.mark.parametrize(
    ("observation", "wanted", "guard"),
    [
        (broken(12, 1), SPEC, "node_answers"),
        (broken(1, 500), SPEC, "node_answers"),
        (broken(10, 2), SPEC, "node_answers"),
        (broken(18, 2), SPEC, "node_answers"),
        (broken(13, 2), spec(replacement={"policy": "Manual"}), "deletion_policy_allows"),
        (broken(13, 2), spec(replacement={"policy": "Disabled"}), "deletion_policy_allows"),
        (with_quorum(broken(13, 2), confirmed=False), SPEC, "confirmed_voters_required"),
        (
            with_quorum(broken(13, 2), voters=(voter(0), voter(1), voter(2, silent_ms=4_000))),
            SPEC,
            "replica_silent_for_grace_period",
        ),
        (
            with_quorum(
                broken(13, 2), voters=(voter(0), voter(1, silent_ms=10), voter(2, silent_ms=9_000))
            ),
            SPEC,
            "node_catches_up",
        ),
    ],
)
def test_what_holds_the_deletion_of_a_broken_disk_back(observation, wanted, guard: str) -> None:
    assert blocked_by(observation, wanted) in {guard, "survivors_caught_up"}


@pytest.mark.parametrize(
    ("observation", "wanted", "guard"),
    [
        (with_quorum(caught_up(), confirmed=False), SPEC, "confirmed_voters_required"),
        (caught_up(epoch_committed=False), SPEC, "epoch_committed"),
        (caught_up(record_committed=False), SPEC, "one_voter_change_at_a_time"),
        (
            caught_up(
                pending=PendingChange("add", replica(1), appended=True, waiting_for="commit")
            ),
            SPEC,
            "one_voter_change_at_a_time",
        ),
        (
            caught_up(voters=(voter(0), voter(1), voter(2, silent_ms=4_000))),
            SPEC,
            "replica_silent_for_grace_period",
        ),
        (caught_up(), spec(replacement={"policy": "Disabled"}), "replacement_policy_allows"),
        (
            with_claim(caught_up(), replace(claim(2), phase="Pending")),
            SPEC,
            "claim_bound_and_unshared",
        ),
        (
            with_claim(caught_up(), replace(claim(2), shared=True)),
            SPEC,
            "claim_bound_and_unshared",
        ),
        (
            with_node(caught_up(), replace(node(2, "b"), durable_end_offset=1)),
            SPEC,
            "new_replica_survived_probe",
        ),
    ],
)
def test_what_holds_a_replacement_back(observation, wanted, guard: str) -> None:
    assert blocked_by(with_pod(observation, pod(2, voter=False)), wanted) == guard


def test_survivors_must_be_fresh_before_a_replacement_is_added() -> None:
    five = replace(healthy(5), nodes=(*healthy(5).nodes[:4], node(4, "b")))
    late = (voter(0), voter(1), voter(2), voter(3, silent_ms=100), voter(4, silent_ms=20_000))
    observer = Progress(replica(4, "b"), caught_up=True, silent_since_ms=NOW_MS)
    observation = replace(five, quorum=quorum(late, observers=[observer]))
    assert blocked_by(with_pod(observation, pod(4, voter=False)), spec(voters=5)) in {
        "survivors_caught_up",
        "node_catches_up",
    }


def test_an_addition_that_could_not_commit_is_not_asked_for() -> None:
    gone = 20_000
    voters = (voter(0), voter(1), voter(2, silent_ms=gone), voter(3, silent_ms=gone))
    observer = Progress(replica(3, "b"), caught_up=True, silent_since_ms=NOW_MS)
    observation = replace(healthy(4), quorum=quorum(voters, observers=[observer]))
    observation = with_pod(
        with_node(without_node(observation, 2), node(3, "b")), pod(3, voter=False)
    )
    decision = decided(observation, spec(voters=4))
    assert isinstance(decision, act.AddVoter) is False or decision.replica == replica(3, "b")


def test_a_claim_that_a_person_deletes_under_a_well_voter_is_retired_in_good_order() -> None:
    observation = with_claim(healthy(), replace(claim(1), terminating=True))
    decision = decided(observation)
    assert isinstance(decision, act.EvictPod)
    assert decision.uid == "pod-1"
    leads = with_claim(healthy(), replace(claim(0), terminating=True))
    assert decided(leads) == act.MoveLeadership(replica(0), replica(1))
    two = with_claim(healthy(2), replace(claim(1), terminating=True))
    assert blocked_by(two, spec(voters=2)) == "majority_survives_loss"
    assert decided(two, SPEC) == act.SetReplicas("sts-1", "42", 3)


def test_a_claim_that_is_deleted_under_an_observer_gets_its_pod_a_new_one() -> None:
    observation = with_claim(healthy(3, replicas=4), replace(claim(3), terminating=True))
    assert isinstance(decided(observation, spec(voters=4)), act.EvictPod)


def test_an_observer_with_a_broken_disk_gets_a_new_one() -> None:
    observation = without_node(healthy(3, replicas=4), 3)
    ended = replace(pod(3, voter=False), ready=False, exit_code=13, restarts=2)
    assert isinstance(decided(with_pod(observation, ended), spec(voters=4)), act.DeleteClaim)


def test_a_pod_that_is_just_away_is_waited_for() -> None:
    observation = with_quorum(
        without_node(healthy(), 2),
        voters=(*healthy().quorum.voters[:2], voter(2, silent_ms=600_000)),
    )
    assert blocked_by(observation) == "node_answers"
    assert blocked_by(replace(observation, pods=observation.pods[:2])) == "node_answers"


# --- rolling -------------------------------------------------------------------------------------


def outdated(*ordinals: int):
    observation = healthy()
    for ordinal in ordinals:
        observation = with_pod(observation, replace(pod(ordinal), revision="r0"))
    return observation


def test_outdated_pods_are_restarted_followers_first_the_leader_last() -> None:
    decision = decided(outdated(0, 1, 2))
    assert isinstance(decision, act.EvictPod)
    assert decision.pod == "demo-2"
    assert decided(outdated(0)) == act.MoveLeadership(replica(0), replica(1))


@pytest.mark.rule("S22")
@pytest.mark.without(
    "kraftquorum_operator.plan.restart:restart", "missed_count(subject) or blocked", "blocked"
)
def test_a_restart_has_a_pod_counted_that_the_budget_lacks() -> None:
    """Kubernetes counts one budget of two, and not again when the second is deleted."""
    budget = Budget("pdb", counted=3, healthy=2, allowed=0)
    observation = replace(outdated(1), budget=budget)
    decision = decided(observation)
    assert isinstance(decision, act.RecountBudget)
    waiting = decided(replace(observation, budget=replace(budget, mark=decision.mark)))
    assert isinstance(waiting, Wait)
    assert waiting.guard == "budget_allows_eviction"
    # A pod that is away is missing from the count with good reason.
    away = with_pod(observation, replace(pod(2), ready=False))
    assert not isinstance(decided(away), act.RecountBudget)


@pytest.mark.rule("S22")
@pytest.mark.parametrize(("allowed", "words"), [(0, "allows no eviction now"), (None, "counted")])
def test_a_healthy_pod_is_restarted_only_while_the_budget_lets_one_go(
    allowed: int | None, words: str
) -> None:
    budget = Budget("pdb", counted=3, allowed=allowed)
    observation = replace(outdated(1), budget=budget)
    decision = decided(observation)
    assert isinstance(decision, Wait)
    assert decision.guard == "budget_allows_eviction"
    assert words in decision.why
    assert isinstance(
        decided(replace(observation, budget=replace(budget, allowed=1))), act.EvictPod
    )
    assert isinstance(decided(replace(observation, budget=None)), act.EvictPod), "no budget of ours"
    retired = with_claim(healthy(), replace(claim(1), terminating=True))
    grown = decided(replace(retired, budget=budget), spec(voters=4))
    assert grown == act.SetReplicas("sts-1", "42", 4), "what is waited for holds nothing else back"


def test_voters_that_no_budget_ever_lets_go_are_deleted_for_a_new_template() -> None:
    observation = with_pod(healthy(2), replace(pod(1), revision="r0"))
    assert isinstance(decided(observation, spec(voters=2)), act.DeletePod)


def test_rolling_waits_for_the_last_pod_in_its_own_words_too() -> None:
    """Just after a restart the leader's view is that from before it."""
    not_ready = with_pod(outdated(1), replace(pod(2), ready=False))
    assert blocked_by(not_ready) == "all_voters_caught_up"
    behind = with_node(outdated(1), replace(node(2), caught_up=False))
    assert blocked_by(behind) == "all_voters_caught_up"


LATE_2 = Progress(replica(2), caught_up=False, silent_since_ms=NOW_MS)
LATE_VOTERS = (voter(0), voter(1), LATE_2)


def stuck_on_old_template(*, answers: bool, **changes: Any):
    """Replica 2 is away, its container runs or crashes, and the template has changed since."""
    observation = healthy() if answers else without_node(healthy(), 2)
    observation = with_pod(observation, replace(pod(2), revision="r0", ready=False, **changes))
    return with_quorum(observation, voters=LATE_VOTERS)


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "behind"])
@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_a_pod_that_is_away_is_made_again_of_a_fixed_template(answers: bool, phase: str) -> None:
    decision = decided(stuck_on_old_template(answers=answers, phase=phase))
    assert decision == act.DeletePod(
        "demo-2", "pod-2", "it is not ready and its template is outdated"
    )


def test_it_is_not_ended_while_a_majority_may_lean_on_it() -> None:
    observation = stuck_on_old_template(answers=True)
    lean = with_quorum(observation, voters=(voter(0), voter(1, silent_ms=60_000), LATE_2))
    assert blocked_by(lean) in {"majority_survives_loss", "node_answers", "node_catches_up"}
    counted = with_quorum(observation, voters=(voter(0), voter(1), voter(2)))
    assert not isinstance(decided(counted), act.DeletePod)
    current = with_pod(observation, replace(pod(2), ready=False))
    assert blocked_by(current) == "node_catches_up"
    unsure = with_quorum(observation, confirmed=False)
    assert blocked_by(unsure) == "confirmed_voters_required"


def test_rolling_waits_until_all_are_caught_up() -> None:
    observation = with_quorum(
        outdated(2), voters=(voter(0), voter(1), Progress(replica(2), caught_up=False))
    )
    assert blocked_by(observation) in {"node_catches_up", "all_voters_caught_up"}


# --- the rest ------------------------------------------------------------------------------------


def test_every_action_has_a_description() -> None:
    assert describe(act.AddVoter(ReplicaId(1, "x"), "e:1", RECORD, ReplicaId(1, "y"))) == (
        "AddVoter 1-x replacing 1-y"
    )
    assert describe(act.CreateLatch(())) == "CreateLatch"


# --- objects that are outdated or cannot be written ----------------------------------------------

SERVICE = (ObjectRef("Service", "demo-client"),)
REFUSED = ((ObjectRef("Service", "demo-client"), "422 spec is invalid"),)


def lost_disk():
    return with_pod(replaced(blank=True), pod(2, voter=False))


@pytest.mark.rule("S24")
def test_an_outdated_service_does_not_delay_the_replacement_of_a_disk() -> None:
    """S24."""
    assert decided(replace(lost_disk(), outdated=SERVICE)) == act.JoinNode(replica(2, "b"), CLUSTER)
    retired = with_claim(healthy(), replace(claim(1), terminating=True))
    assert isinstance(decided(replace(retired, outdated=SERVICE)), act.EvictPod)


def test_outdated_objects_come_before_what_repair_waits_for() -> None:
    away = with_quorum(
        without_node(healthy(), 2), voters=(voter(0), voter(1), voter(2, silent_ms=600_000))
    )
    assert blocked_by(away) == "node_answers"
    assert decided(replace(away, outdated=SERVICE)) == act.ApplyObjects(SERVICE)


def test_the_statefulset_comes_before_repair_since_pods_are_made_of_it() -> None:
    observation = replace(lost_disk(), outdated=(*SERVICE, ObjectRef("StatefulSet", "demo")))
    assert decided(observation) == act.ApplyObjects((ObjectRef("StatefulSet", "demo"),))


def test_objects_come_before_growing() -> None:
    observation = replace(healthy(), outdated=(ObjectRef("PodDisruptionBudget", "demo"),))
    assert isinstance(decided(observation, spec(voters=5)), act.ApplyObjects)


@pytest.mark.without(
    "kraftquorum_operator.plan.access_guards:network_policy_written.rule",
    "case.observation.has_formed()",
    "False",
)
@pytest.mark.without(
    "kraftquorum_operator.plan.access_guards:network_policy_written.rule", "is False", "is not True"
)
def test_no_node_of_a_new_quorum_starts_before_its_network_policy() -> None:
    refused = ((ObjectRef("NetworkPolicy", "demo"), "403 exceeded quota"),)
    new = replace(blank(), statefulset=None, nodes=(), claims=(), pods=(), refused=refused)
    assert decided(new) == Wait(
        "network_policy_written",
        "NetworkPolicy/demo: 403 exceeded quota; no node starts until this is fixed",
    )
    unwanted = spec(networkPolicy={"enabled": False})
    assert isinstance(decided(new, unwanted), act.CreateStatefulSet)
    assert isinstance(decided(replace(new, refused=REFUSED)), act.CreateStatefulSet)
    formed = replace(healthy(), statefulset=None, refused=refused)
    assert isinstance(decided(formed), act.CreateStatefulSet), "its pods would stay away"


def test_a_refused_object_holds_back_all_but_formation_and_repair() -> None:
    observation = replace(healthy(), refused=REFUSED)
    assert decided(observation) == Wait(
        "objects_written", "Service/demo-client: 422 spec is invalid"
    )
    assert blocked_by(observation, spec(voters=5)) == "objects_written"
    assert isinstance(decided(replace(blank(), refused=REFUSED)), act.CreateLatch)
    assert isinstance(decided(replace(lost_disk(), refused=REFUSED)), act.JoinNode)
    assert blocked_by(replace(healthy(), quorum=None, refused=REFUSED)) == "objects_written"
    gone = replace(healthy(), quorum=None, nodes=(), claims=(), refused=REFUSED)
    raised = replace(gone, statefulset=StatefulSet("sts-1", "42", 3, "r1", UID))
    assert blocked_by(raised) == "never_rebootstrap"
