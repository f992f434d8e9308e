"""Reports while data is, or may seem to be, in danger: they are true and advise no deletion."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from kraftquorum_operator.http.page.render import replicas_of
from kraftquorum_operator.model.observation import LastKnown, ReplicaId
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.observe.last_known import last_known
from kraftquorum_operator.plan.actions import Wait
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.guards import never_rebootstrap
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.unobserved import unobserved_status
from proofkit.operatorworld import user_actions
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.reported_world import ReportedWorld, condition, stamp
from proofkit.operatorworld.world import World


def formed(voters: int = 3, **changes: object) -> ReportedWorld:
    """A quorum that is well."""
    told = ReportedWorld(World(QuorumSpec.model_validate({"voters": voters, **changes})))
    told.settle()
    return told


def lose_majority(told: ReportedWorld) -> None:
    """The disks of two of three voters are emptied, and the operator has looked at it."""
    told.world.wipe(0)
    told.world.wipe(1)
    for _ in told.run(10):
        pass


def recreate(told: ReportedWorld) -> None:
    user_actions.recreate_resource(told.world)
    told.recreated()


def test_a_deleted_statefulset_and_latch_are_no_lost_quorum() -> None:
    """Claims are bound and hold all data: the replicas come back by themselves."""
    told = formed()
    user_actions.delete_statefulset(told.world, orphan=False)
    user_actions.delete_latch(told.world)
    waited: set[str | None] = set()
    for status in told.run(20):
        waited.add(status.waiting_for)
        assert status.phase != "QuorumLost", status.message
        assert condition(status, "QuorumLost") == "False"
        assert "gone" not in status.message
    assert "earlier_quorum_elects_leader" in waited
    assert told.settle().leader is not None


@pytest.mark.parametrize("at", range(8))
def test_a_latch_that_is_deleted_while_replicas_start_is_no_lost_quorum(at: int) -> None:
    told = formed()
    for ordinal in range(3):
        told.world.crash(ordinal, ticks=at)
    user_actions.delete_latch(told.world)
    for status in told.run(30):
        assert condition(status, "QuorumLost") == "False", status.message
    assert told.settle().leader is not None


def test_a_latch_and_all_data_that_are_gone_are_a_lost_quorum() -> None:
    told = formed()
    user_actions.delete_latch(told.world)
    for ordinal in range(3):
        told.world.wipe(ordinal)
    *_, last = told.run(20)
    assert (last.phase, last.waiting_for) == ("QuorumLost", "never_rebootstrap")


def test_a_lost_majority_is_reported_also_after_the_resource_was_applied_again() -> None:
    told = formed()
    lose_majority(told)
    assert told.status is not None
    assert told.status.phase == "QuorumLost"
    recreate(told)
    *_, last = told.run(20)
    assert (last.phase, condition(last, "QuorumLost")) == ("QuorumLost", "True")
    assert last.waiting_for == "never_rebootstrap"


def away(told: ReportedWorld) -> None:
    """No process can start."""
    for ordinal in list(told.world.runners):
        told.world.crash(ordinal, ticks=1_000)


def lost(told: ReportedWorld) -> None:
    lose_majority(told)


def lost_and_away(told: ReportedWorld) -> None:
    lose_majority(told)
    away(told)


def lost_and_recreated(told: ReportedWorld) -> None:
    lose_majority(told)
    recreate(told)


def lost_recreated_and_away(told: ReportedWorld) -> None:
    lose_majority(told)
    recreate(told)
    for _ in told.run(10):
        pass
    away(told)


def recreated_and_away(told: ReportedWorld) -> None:
    recreate(told)
    for _ in told.run(1):
        pass
    away(told)


def latch_and_claims_deleted(told: ReportedWorld) -> None:
    user_actions.delete_latch(told.world)
    for ordinal in range(3):
        told.world.delete_claim(ordinal)
    user_actions.delete_statefulset(told.world, orphan=False)


def all_wiped_without_latch(told: ReportedWorld) -> None:
    user_actions.delete_latch(told.world)
    for ordinal in range(3):
        told.world.wipe(ordinal)


def majority_corrupt(told: ReportedWorld) -> None:
    told.world.corrupt(0)
    told.world.corrupt(1)


def one_corrupt_and_one_behind(told: ReportedWorld) -> None:
    """Records that only the leader holds besides the broken disk."""
    leader = told.world.leader
    assert leader is not None
    others = [n for n in range(3) if n != leader.node_id]
    told.world.corrupt(others[0])
    told.world.crash(others[1], ticks=1_000)


def rot_and_one_away(told: ReportedWorld) -> None:
    leader = told.world.leader
    assert leader is not None
    others = [n for n in range(3) if n != leader.node_id]
    told.world.rot(others[0])
    told.world.crash(others[1], ticks=1_000)


def foreign_disk(told: ReportedWorld) -> None:
    """Another cluster's disk is put in the place of a voter that is wanted."""
    told.world.wipe(2)
    disk = told.world.disks[2]
    disk.cluster_id, disk.log_end, disk.directory_id = "another", 50, "elsewhere"


DANGERS: tuple[Callable[[ReportedWorld], None], ...] = (
    lost,
    lost_and_away,
    lost_and_recreated,
    lost_recreated_and_away,
    recreated_and_away,
    latch_and_claims_deleted,
    all_wiped_without_latch,
    majority_corrupt,
    one_corrupt_and_one_behind,
    rot_and_one_away,
    foreign_disk,
)

ADVICE = re.compile(
    r"\b(delete|wipe|remove|start anew|recreate|reformat)\b",  # codespell:ignore anew
    re.IGNORECASE,
)
KEEPING = re.compile(r"\b(delete nothing|do not delete|never delete)\b", re.IGNORECASE)


def said(told: ReportedWorld) -> list[str]:
    """Every sentence that a person can read of a quorum."""
    status = told.status
    assert status is not None
    texts = [status.message, *(c.message for c in status.conditions)]
    texts += [entry.message for entry in status.timeline]
    texts += [node.detail for node in status.nodes]
    return texts + [event.message for event in told.events]


@pytest.mark.parametrize("policy", ["Automatic", "Manual", "Disabled"])
@pytest.mark.parametrize("danger", DANGERS, ids=lambda danger: danger.__name__)
def test_no_message_advises_deletion_where_it_could_be_the_last_copy(
    danger: Callable[[ReportedWorld], None], policy: str
) -> None:
    told = formed(replacement={"policy": policy})
    told.events.clear()
    danger(told)
    for status in told.run(12):
        done = status.current_action  # what the operator itself does is no advice
        for text in said(told):
            left = KEEPING.sub("", text if done is None else text.replace(done, ""))
            assert not ADVICE.search(left), text


def names_of(told: ReportedWorld) -> list[str]:
    return [str(voter) for voter in told.world.voters]


def replaced_once() -> ReportedWorld:
    """A quorum whose disks are other ones than it was formed with."""
    told = formed()
    for ordinal in range(3):
        told.world.wipe(ordinal)
        told.settle_again()
    return told


def test_without_any_answer_the_last_known_disks_are_named_with_their_time() -> None:
    told = replaced_once()
    assert told.status is not None
    first = [str(voter.replica) for voter in told.world.latch.voters]
    voters, before = names_of(told), stamp(told.world.now_ms)
    away(told)
    *_, last = told.run(3)
    assert last.waiting_for == "majority_reachable"
    assert all(name in last.message for name in voters), last.message
    assert not any(name in last.message for name in first), last.message
    assert [f"{v.node_id}-{v.directory_id}" for v in last.last_known_voters] == voters
    assert last.leader_seen_at is not None
    assert f"as last known at {last.leader_seen_at}" in last.message
    assert last.leader_seen_at <= before, "the time of a leader's answer, not of this look"
    assert last.voters == []


def test_the_last_known_voters_are_a_report_that_decides_nothing() -> None:
    """S11: with other last known voters the same is decided."""
    told = replaced_once()
    away(told)
    *_, last = told.run(2)
    liar = LastKnown(tuple(ReplicaId(n, "lie") for n in range(5)), last.leader_seen_at or "")
    for observation in (told.world.look(), replace(told.world.look(), claims=())):
        decisions = [
            decide(told.world.spec, replace(observation, last=known), told.world.now_ms)
            for known in (None, liar, last_known(last))
        ]
        guards = {d.guard if isinstance(d, Wait) else d for d in decisions}
        assert len(guards) == 1, guards


def test_lost_disks_are_named_as_last_known_when_no_replica_answers() -> None:
    told = replaced_once()
    voters = names_of(told)
    away(told)
    del told.world.disks[0], told.world.disks[1]
    told.world.runners.clear()
    told.world.replicas = None  # nothing makes them again in this model
    observation = replace(told.world.look(), last=last_known(told.status))
    why = never_rebootstrap(Case(told.world.spec, observation, told.world.now_ms))
    assert why is not None
    assert f"({voters[0]}, {voters[1]}, as last known at " in why


def test_full_disks_are_not_reported_as_empty_without_a_leader() -> None:
    told = formed()
    told.world.crash(0, ticks=3)
    told.world.crash(1, ticks=1_000)
    told.world.crash(2, ticks=1_000)
    *_, last = told.run(12)
    messages = [entry.message for entry in last.timeline]
    assert any("demo-0 answers again" in message for message in messages)
    assert not [message for message in messages if "disk" in message]


def test_a_known_loss_stays_reported_while_pods_are_away() -> None:
    told = formed()
    lose_majority(told)
    assert told.status is not None
    since = next(c for c in told.status.conditions if c.type == "QuorumLost").last_transition_time
    away(told)
    for status in told.run(6):
        assert (status.phase, condition(status, "QuorumLost")) == ("QuorumLost", "True")
        lost = next(c for c in status.conditions if c.type == "QuorumLost")
        assert lost.last_transition_time == since
        if status.waiting_for == "majority_reachable":
            assert lost.reason == "AsLastKnown"
            assert lost.message.startswith(f"lost since {since}, as last known: storage of 2 of 3")
    assert told.status.waiting_for == "majority_reachable"


def test_a_loss_is_over_once_a_majority_answers_with_its_own_storage() -> None:
    told = formed()
    kept = {n: replace(told.world.disks[n]) for n in (0, 1)}
    lose_majority(told)
    away(told)
    for _ in told.run(2):
        pass
    for ordinal, disk in kept.items():
        told.world.disks[ordinal] = disk
    for ordinal in range(3):
        told.world.crash(ordinal)
    assert told.status is not None
    assert told.status.phase == "QuorumLost"
    assert condition(told.settle_again(), "QuorumLost") == "False"


def test_a_quorum_that_was_formed_is_not_forming_while_its_pods_are_away() -> None:
    told = formed()
    away(told)
    for status in told.run(4):
        assert status.phase == "Waiting"
    recreate(told)
    phases = {status.phase for status in told.run(6)}
    assert "Forming" not in phases


def test_a_known_loss_stays_reported_after_a_time_in_which_nothing_could_be_observed() -> None:
    told = formed()
    lose_majority(told)
    assert told.status is not None
    resource = {"metadata": {"name": "demo"}, "status": told.status.model_dump(by_alias=True)}
    change = unobserved_status(resource, ("Forbidden", "403"), Stamp("1970-01-01T01:00:00Z", 1))
    assert change is not None
    told.status = QuorumStatus.model_validate(resource["status"] | change["status"])
    assert condition(told.status, "QuorumLost") == "Unknown"
    away(told)
    *_, last = told.run(3)
    assert (last.phase, condition(last, "QuorumLost")) == ("QuorumLost", "True")
    assert "storage of 2 of 3 voters is gone" in next(
        c.message for c in last.conditions if c.type == "QuorumLost"
    )


def test_the_status_page_names_the_disks_as_they_were_last_known() -> None:
    told = replaced_once()
    voters = {voter.node_id: voter.directory_id for voter in told.world.voters}
    away(told)
    *_, last = told.run(3)
    rows = replicas_of(last)
    assert {row.node_id: row.directory_id for row in rows} == voters
    assert {(row.role, row.good, row.state) for row in rows} == {
        ("voter", False, "does not answer")
    }
    assert all(f"as last known at {last.leader_seen_at}" in row.detail for row in rows)


def test_the_status_page_shows_a_lost_disk_beside_the_empty_one_in_its_place() -> None:
    told = formed()
    voters = [(voter.node_id, voter.directory_id) for voter in told.world.voters]
    lose_majority(told)
    assert told.status is not None
    rows = [(row.node_id, row.directory_id, row.state) for row in replicas_of(told.status)]
    assert [(n, uuid) for n, uuid, _ in rows if (n, uuid) in voters] == voters
    assert [state for n, uuid, state in rows if (n, uuid) in voters[:2]] == [
        "a replica with another disk answers"
    ] * 2
    assert len(rows) == 5
