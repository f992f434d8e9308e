"""What an engine cannot do, and what the operator does instead: one test for each trait.

`test_model_world.py` runs the same through random faults for both engines.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.judge.disks import disk_alarms
from kraftquorum_operator.model.engine import KAFKA, RAFTNODE, Engine, StorageExit
from kraftquorum_operator.model.observation import Observation, Progress, ReplicaId, VoterRecord
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.actions import (
    Action,
    AddVoter,
    Decision,
    DeleteClaim,
    Done,
    EvictPod,
    MoveLeadership,
    RemoveVoter,
    Wait,
)
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    claim,
    healthy,
    node,
    pod,
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

RECORD = VoterRecord(7, 2)
CHANGE = "proofkit.operatorworld.world:World._change_voters"
DECIDED_AGAIN = "if decide(self.spec, self.look(), self.now_ms) != action:"
RESIGNS = (
    "kraftquorum_operator.plan.case:Case.must_resign",
    "return leads and self.engine.moves_leadership",
    "return leads",
)


def decided(observation: Observation, engine: Engine, voters: int = 3) -> Decision:
    return decide(spec(voters=voters), replace(observation, engine=engine), NOW_MS)


def world_of(engine: Engine, voters: int) -> World:
    world = World(QuorumSpec.model_validate({"voters": voters}), engine)
    run_to(world, Done)
    return world


def run_to(world: World, kind: type[Decision]) -> Action | Wait | Done:
    """Carry out what is decided until it is of a kind; that one is returned, not carried out."""
    decision: Decision = Done("not yet")
    for _ in range(300):
        decision = decide(world.spec, world.look(), world.now_ms)
        if isinstance(decision, kind):
            return decision
        if not isinstance(decision, Wait | Done):
            world.act(decision, stale=False)
        world.tick()
    raise AssertionError(f"no {kind.__name__}: {decision}, {world.changes[-20:]}")


def run(world: World, ticks: int) -> None:
    for _ in range(ticks):
        world.step()
        world.tick()


def with_lost_voter() -> Observation:
    """Voter 2 has lost its disk; its replacement has caught up and survived its probe."""
    seen = with_pod(with_node(healthy(), node(2, "b")), pod(2, voter=False))
    observer = Progress(replica(2, "b"), caught_up=True, silent_since_ms=NOW_MS)
    voters = (*healthy().quorum.voters[:2], voter(2, silent_ms=20_000))
    return recorded(with_quorum(seen, voters=voters, observers=(observer,)), 2, "b")


# --- one voter per id ----------------------------------------------------------------------------


@pytest.mark.rule("S23")
@pytest.mark.without(
    "kraftquorum_operator.plan.replacement:admit", "case.engine.one_voter_per_id or ", ""
)
def test_a_lost_voter_leaves_first_where_an_id_votes_once() -> None:
    """Kafka refuses the replacement with DUPLICATE_VOTER while the lost replica is a voter."""
    lost = with_lost_voter()
    added = AddVoter(replica(2, "b"), "demo-2.peers:9093", RECORD, replica(2))
    assert decided(lost, RAFTNODE) == added
    assert decided(lost, KAFKA) == RemoveVoter(replica(2), RECORD)


@pytest.mark.parametrize("voters", [3, 5])
def test_a_lost_disk_is_replaced_and_no_other_voter_is_missed_meanwhile(voters: int) -> None:
    world = world_of(KAFKA, voters)
    assert world.leader is not None
    lost = next(v for v in world.voters if v != world.leader)
    world.wipe(lost.node_id)
    others, sizes = set(world.voters) - {lost}, list[int]()
    for _ in range(100):
        world.step()
        sizes.append(len(world.voters))
        assert others <= set(world.voters)
        world.tick()
    assert min(sizes) == voters - 1
    assert max(sizes) == voters
    assert lost not in world.voters
    assert [v.node_id for v in world.voters] == list(range(voters))


# --- a leader that checks no voter change --------------------------------------------------------


def shrinks_while_a_disk_is_lost(engine: Engine) -> tuple[World, RemoveVoter, ReplicaId]:
    """Three voters become two; between the decision and its request another voter's disk is lost.

    Two of the three can go on. Without the one to be removed, they would be one of two.
    """
    world = world_of(engine, 3)
    world.spec = world.spec.model_copy(update={"voters": 2})
    late = run_to(world, RemoveVoter)
    assert isinstance(late, RemoveVoter)
    lost = next(v for v in world.voters if v not in {late.replica, world.leader})
    world.wipe(lost.node_id)
    return world, late, lost


@pytest.mark.rule("S11", "S23")
@pytest.mark.without(
    CHANGE,
    DECIDED_AGAIN,
    "if False:",
    CHANGE,
    'assert stale or fresh >= majority(len(survivors)), "S23: survivors are no majority"',
    "pass",
)
def test_a_late_removal_is_decided_again_where_the_leader_would_carry_it_out() -> None:
    world, late, lost = shrinks_while_a_disk_is_lost(KAFKA)
    world.act(late, stale=True)
    run(world, 100)
    assert world.has_quorum(), "the lost disk became one of two voters"
    assert lost not in world.voters
    assert [v.node_id for v in world.voters] == [0, 1]


def test_our_own_leader_holds_a_late_removal_back() -> None:
    world, late, lost = shrinks_while_a_disk_is_lost(RAFTNODE)
    world.act(late, stale=True)
    run(world, 100)
    assert world.has_quorum()
    assert lost not in world.voters
    assert [v.node_id for v in world.voters] == [0, 1]


@pytest.mark.rule("S11")
@pytest.mark.without(CHANGE, DECIDED_AGAIN, "if False:")
def test_a_late_addition_adds_no_replica_that_was_removed_meanwhile() -> None:
    world = world_of(KAFKA, 3)
    world.spec = world.spec.model_copy(update={"voters": 4})
    late = run_to(world, AddVoter)
    world.act(late, stale=False)
    run_to(world, Done)
    world.spec = world.spec.model_copy(update={"voters": 3})
    run_to(world, RemoveVoter)
    run(world, 1)
    assert len(world.voters) == 3
    assert not world.is_changing
    world.act(late, stale=True)
    assert [v.node_id for v in world.voters] == [0, 1, 2]


# --- an answer that no majority has confirmed ----------------------------------------------------


@pytest.mark.rule("S11", "S23")
@pytest.mark.without(
    "kraftquorum_operator.plan.guards:confirmed_voters_required.rule",
    "if case.quorum is not None and case.quorum.confirmed:",
    "if case.quorum is not None:",
)
def test_a_leader_that_is_cut_off_gives_up_no_disk() -> None:
    """It still says that a voter is caught up whose disk is lost by now.

    A third voter is down, and its claim is being deleted: when its pod goes, so does its disk.
    """
    world = world_of(KAFKA, 3)
    assert world.leader is not None
    down, lost = (v for v in world.voters if v != world.leader)
    world.crash(down.node_id, ticks=60)
    world.delete_claim(down.node_id)
    run(world, 5)
    world.cut_off(ticks=40)
    world.wipe(lost.node_id)
    run(world, 60)
    assert world.disk_of(down) is not None, "its disk was given up on the word of the old leader"
    run(world, 200)
    assert world.has_quorum()
    assert [v.node_id for v in world.voters] == [0, 1, 2]
    assert {lost, down}.isdisjoint(world.voters)


# --- exit codes ----------------------------------------------------------------------------------


@pytest.mark.without(
    "kraftquorum_operator.model.engine:Engine.storage_exit",
    "self.storage_exits",
    "RAFTNODE.storage_exits",
)
@pytest.mark.parametrize("known", RAFTNODE.storage_exits, ids=lambda known: known.fault)
def test_a_disk_is_given_up_only_for_an_exit_code_of_its_own_engine(known: StorageExit) -> None:
    ended = replace(pod(2), ready=False, running=False, exit_code=known.code, restarts=5)
    broken = with_quorum(
        without_node(with_pod(healthy(), ended), 2),
        voters=(*healthy().quorum.voters[:2], voter(2, silent_ms=20_000)),
    )
    step = decided(broken, RAFTNODE)
    if known.restarts is None:
        assert isinstance(step, Wait), "it waits for room, or for the disk that is not mounted"
    else:
        assert isinstance(step, DeleteClaim)
    assert isinstance(decided(broken, KAFKA), Wait), "it exits with this code for another reason"
    assert disk_alarms(replace(broken, engine=KAFKA)) == ()
    assert KAFKA.storage_exit(known.code) is None


# --- leadership that cannot be moved -------------------------------------------------------------


@pytest.mark.without(*RESIGNS)
def test_a_leader_that_cannot_resign_is_restarted_last() -> None:
    outdated = [replace(pod(ordinal), revision="r0") for ordinal in range(3)]
    leader_left = with_pod(healthy(), outdated[0])
    all_left = with_pod(with_pod(leader_left, outdated[1]), outdated[2])
    assert decided(leader_left, RAFTNODE) == MoveLeadership(replica(0), replica(1))
    first, last = decided(all_left, KAFKA), decided(leader_left, KAFKA)
    assert isinstance(first, EvictPod)
    assert first.pod == "demo-2"
    assert isinstance(last, EvictPod)
    assert last.pod == "demo-0"


@pytest.mark.without(*RESIGNS)
def test_a_leader_that_cannot_resign_removes_itself() -> None:
    leaves = with_quorum(with_pod(healthy(4), pod(3, voter=False)), leader=replica(3))
    assert decided(leaves, RAFTNODE) == MoveLeadership(replica(3), replica(0))
    assert decided(leaves, KAFKA) == RemoveVoter(replica(3), RECORD)


@pytest.mark.without(*RESIGNS)
def test_a_leader_that_cannot_resign_is_restarted_when_its_claim_is_deleted() -> None:
    leads = with_claim(healthy(), replace(claim(0), terminating=True))
    assert decided(leads, RAFTNODE) == MoveLeadership(replica(0), replica(1))
    step = decided(leads, KAFKA)
    assert isinstance(step, EvictPod)
    assert step.pod == "demo-0"
