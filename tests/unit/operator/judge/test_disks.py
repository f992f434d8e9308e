"""Damaged storage and full disks: how they are reported, and which replica is replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.judge.disks import damaged_voters, disk_alarms
from kraftquorum_operator.judge.trust import judge
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import Condition
from kraftquorum_operator.plan import actions as act
from kraftquorum_operator.plan.actions import Done, Wait
from kraftquorum_operator.report.conditions import conditions, fault_tolerance
from kraftquorum_operator.report.events import EventLog
from kraftquorum_operator.report.stamp import Stamp
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    healthy,
    node,
    pod,
    replica,
    spec,
    voter,
    with_node,
    with_pod,
    with_quorum,
    without_node,
)
from proofkit.operatorworld.world import World

SPEC = spec(voters=3)
ROT = "00000000000000000000.log at byte 61 (offset 4): checksum"
VOLUME = "pod demo-2, claim data-demo-2, volume volume-2"


def rotten(ordinal: int = 2, observation: Observation | None = None) -> Observation:
    return with_node(observation or healthy(), replace(node(ordinal), damage=(ROT,)))


def full(ordinal: int = 2) -> Observation:
    room = {"free_bytes": 12 << 20, "size_bytes": 1024 << 20}
    return with_node(healthy(), replace(node(ordinal), disk_low=True, **room))


def ended(code: int, detail: str) -> Observation:
    gone = replace(pod(2), ready=False, exit_code=code, restarts=2, detail=detail)
    return with_pod(without_node(healthy(), 2), gone)


def shown(observation: Observation, wanted: QuorumSpec = SPEC) -> dict[str, Condition]:
    stamp = Stamp("2026-01-01T00:00:00Z", 1)
    decision = decide(wanted, observation, NOW_MS)
    return {one.type: one for one in conditions(observation, 3, decision, (), stamp)}


def condition(observation: Observation, name: str, wanted: QuorumSpec = SPEC) -> Condition:
    return shown(observation, wanted)[name]


# -- damage --------------------------------------------------------------------------


def test_a_voter_with_damaged_storage_is_replaced_claim_first() -> None:
    observation = rotten()
    assert damaged_voters(observation) == (replica(2),)
    reason = "the replica's storage is damaged"
    assert decide(SPEC, observation, NOW_MS) == act.DeleteClaim("data-demo-2", "claim-2", reason, 2)


def test_it_counts_for_nobodys_loss() -> None:
    assert fault_tolerance(judge(rotten())) == 0
    # 1 is silent, 2 is damaged: with 1's disk given up, only 0 would be whole.
    voters = (voter(0), voter(1, silent_ms=60_000), voter(2))
    observation = with_quorum(without_node(rotten(), 1), voters=voters)
    assert isinstance(decide(SPEC, observation, NOW_MS), Wait)


@pytest.mark.parametrize(
    ("wanted", "observation", "held_by"),
    [
        (spec(replacement={"policy": "Manual"}), rotten(), "deletion_policy_allows"),
        (SPEC, with_quorum(rotten(), confirmed=False), "confirmed_voters_required"),
        (SPEC, rotten(1, rotten(2)), "majority_survives_loss"),
        (spec(voters=1), rotten(0, healthy(1)), "majority_survives_loss"),
    ],
)
def test_it_is_kept_where_it_cannot_be_spared(
    wanted: QuorumSpec, observation: Observation, held_by: str
) -> None:
    decision = decide(wanted, observation, NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "storage_undamaged"
    assert held_by in decision.why
    assert ROT in decision.why


def test_a_leader_with_damaged_storage_transfers_leadership_first() -> None:
    assert decide(SPEC, rotten(0), NOW_MS) == act.MoveLeadership(replica(0), replica(1))


def test_a_replica_with_damaged_storage_becomes_no_voter() -> None:
    observer = replace(voter(3), silent_since_ms=NOW_MS)
    observation = with_quorum(healthy(3, replicas=4), observers=(observer,))
    assert isinstance(decide(spec(voters=4), observation, NOW_MS), act.AddVoter)
    decision = decide(spec(voters=4), rotten(3, observation), NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "storage_undamaged"


def test_a_node_that_ended_for_damage_is_replaced_by_the_same_path() -> None:
    observation = ended(12, "exit code 12: STORAGE_CORRUPT rot")
    voters = (voter(0), voter(1), voter(2, silent_ms=60_000))
    decision = decide(SPEC, with_quorum(observation, voters=voters), NOW_MS)
    reason = "the replica's storage is damaged"
    assert decision == act.DeleteClaim("data-demo-2", "claim-2", reason, 2)


@pytest.mark.parametrize(
    "observation", [rotten(), ended(12, f"exit code 12: STORAGE_CORRUPT {ROT}")]
)
def test_the_condition_names_pod_claim_volume_and_place(observation: Observation) -> None:
    found = condition(observation, "StorageDamaged")
    assert (found.status, found.reason) == ("True", "StorageDamaged")
    assert VOLUME in found.message
    assert ROT in found.message
    assert "StorageDamaged" not in shown(healthy())


def test_the_model_replaces_rotten_disks_one_by_one() -> None:
    """The model asserts that nothing relies on them meanwhile, and that nothing is lost."""
    world = World(spec(voters=5))
    for _ in range(80):
        world.step()
        world.tick()
    before = list(world.voters)
    for ordinal in (1, 3):
        world.rot(ordinal)
    decision = None
    for _ in range(600):
        decision = world.step()
        world.tick()
    assert isinstance(decision, Done)
    assert [voter.node_id for voter in world.voters] == [0, 1, 2, 3, 4]
    assert {v.node_id for v in before if v not in world.voters} == {1, 3}


def test_a_disk_that_becomes_corrupt_while_a_larger_quorum_is_wanted_is_replaced_and_the_quorum_grows() -> (
    None
):
    """The budget keeps a majority of the five to come, and so allows no eviction of three."""
    world = World(spec(voters=3))
    for _ in range(80):
        world.step()
        world.tick()
    world.rot(1)
    world.spec = spec(voters=5)
    decision = None
    for _ in range(600):
        decision = world.step()
        world.tick()
    assert isinstance(decision, Done), decision
    assert [voter.node_id for voter in world.voters] == [0, 1, 2, 3, 4]


# -- room ----------------------------------------------------------------------------


@pytest.mark.parametrize("observation", [full(), ended(16, "exit code 16: STORAGE_FULL no space")])
def test_a_low_disk_is_told_by_pod_claim_and_volume(observation: Observation) -> None:
    found = condition(observation, "DiskLow")
    assert (found.status, found.reason) == ("True", "DiskLow")
    assert VOLUME in found.message
    assert "DiskLow" not in shown(healthy())


def test_it_says_how_much_is_free() -> None:
    assert "12 of 1024 MiB are free" in condition(full(), "DiskLow").message


def test_one_without_room_for_its_snapshot_is_told_too_and_leads_on() -> None:
    lacking = replace(node(0), snapshot_room_missing_bytes=(40 << 20) + 1)
    observation = with_node(healthy(), lacking)
    found = condition(observation, "DiskLow")
    assert (found.status, found.reason) == ("True", "DiskLow")
    assert "its next snapshot needs 41 MiB more" in found.message
    assert "volume-0" in found.message
    assert condition(observation, "Available").status == "True"
    assert isinstance(decide(SPEC, observation, NOW_MS), Done)


def test_a_low_disk_replaces_no_voter() -> None:
    assert isinstance(decide(SPEC, full(), NOW_MS), Done)


def test_where_the_leader_refuses_writes_the_quorum_is_not_available() -> None:
    assert condition(full(2), "Available").status == "True"
    found = condition(full(0), "Available")
    assert (found.status, found.reason) == ("False", "DiskLow")
    assert "leader 0-a0 refuses writes" in found.message
    assert "volume-0" in found.message


def test_both_are_told_as_warnings_once_in_an_interval() -> None:
    observation = rotten(1, full(2))
    log = EventLog()
    events = log.of_troubles(disk_alarms(observation), 0, 60_000)
    assert [(one.type, one.reason) for one in events] == [
        ("Warning", "StorageDamaged"),
        ("Warning", "DiskLow"),
    ]
    assert "volume-1" in events[0].message
    assert "volume-2" in events[1].message
    assert not log.of_troubles(disk_alarms(observation), 59_000, 60_000)


@pytest.mark.parametrize(("ordinal", "leads"), [(0, True), (2, False)])
def test_only_a_leader_with_a_full_disk_gives_up_leading(ordinal: int, leads: bool) -> None:
    said = condition(full(ordinal), "DiskLow").message
    assert ("it gives up leadership" in said) == leads, said
    assert ("leads only if no other voter can" in said) != leads, said
