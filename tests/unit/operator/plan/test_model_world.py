"""`decide` drives a model of cluster and quorum through random faults: always safe, done at last.

All of it for both engines: our own node, and one with the traits of Apache Kafka. The rules
themselves are asserted in `proofkit.operatorworld.world`, against the truth.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraftquorum_operator.model.engine import KAFKA, RAFTNODE, Engine
from kraftquorum_operator.model.observation import ReplicaId, majority
from kraftquorum_operator.model.quantity import size_bytes
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan.actions import Done, Wait
from proofkit.operatorworld import user_actions
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.world import World

CALM_TICKS = 400
EXAMPLES = int(os.environ.get("KRAFTQUORUM_WALK_EXAMPLES", "60"))
"""Each takes tens of milliseconds; set it higher for a longer walk."""

both_engines = pytest.mark.parametrize("engine", [RAFTNODE, KAFKA], ids=lambda made: made.name)

WALK = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Fault:
    kind: str
    ordinal: int = 0
    ticks: int = 0
    steps: int = 1


def faults(*kinds: str) -> st.SearchStrategy[list[Fault]]:
    return st.lists(
        st.builds(
            Fault,
            kind=st.sampled_from(kinds),
            ordinal=st.integers(0, 5),
            ticks=st.integers(0, 25),
            steps=st.integers(0, 30),
        ),
        max_size=10,
    )


LATE = ("freeze", "thaw", "look_again", "cut_off")
ROOM = ("fill", "free")
GROWING = ("grow_storage", "class_expands", "driver_expands")
ROLLING = ("crash", "scale", "retemplate", "miscount", *ROOM, *GROWING, *LATE)
GENTLE = ("crash", "delete_pod", "edit_budget", "miscount", "scale", *GROWING, *LATE)
HANDS = (
    "scale_statefulset",
    "delete_statefulset",
    "orphan_pods",
    "force_delete_pod",
    "evict",
    "delete_latch",
    "unlabel_claim",
    "policy",
    "retention",
    "pause",
    "retemplate",
    *ROOM,
)
LOSING = ("wipe", "corrupt", "delete_claim")


def start(engine: Engine, voters: int, **changes: object) -> World:
    return World(QuorumSpec.model_validate({"voters": voters, **changes}), engine)


def run(world: World, steps: int) -> None:
    for _ in range(steps):
        world.step()
        world.tick()


def may_lose(world: World, ordinal: int) -> bool:
    """Whether the quorum survives the loss of one more disk, for good and with it in time."""
    if not world.voters or world.is_changing:
        return False
    disk = world.disks.get(ordinal)
    lost = ReplicaId(ordinal, disk.directory_id or "") if disk else None
    sound = [
        v
        for v in world.voters
        if v != lost
        and (d := world.disk_of(v)) is not None
        and not d.corrupt
        and not d.terminating
        and d.log_end >= world.high_watermark
    ]
    return len(sound) > len(world.voters) // 2


def inject(world: World, fault: Fault, frozen: list) -> None:
    match fault.kind:
        case "crash":
            world.crash(fault.ordinal, fault.ticks)
        case "cut_off":
            world.cut_off(fault.ticks)
        case "scale":
            world.spec = world.spec.model_copy(update={"voters": 1 + fault.ordinal})
        case "freeze":
            decision = decide(world.spec, world.look(), world.now_ms)
            if not isinstance(decision, Wait | Done):
                frozen.append(decision)
        case "thaw":
            while frozen:
                world.act(frozen.pop(), stale=True)
        case "look_again":
            pass
        case "retemplate":
            world.retemplate()
        case "fill":
            world.places = len(world.runners)
        case "free":
            world.places = None
        case "class_expands" | "driver_expands":
            setattr(world, fault.kind, bool(fault.ordinal % 2))
        case kind if kind in {*HANDS, "edit_budget", "miscount", "grow_storage"}:
            meddle(world, fault)
        case "corrupt" if not world.engine.storage_exits:
            # Nothing reports it, so a person looks and gives the disk up.
            world.corrupt(fault.ordinal)
            world.delete_claim(fault.ordinal)
        case _:
            getattr(world, fault.kind)(fault.ordinal)


def change(world: World, **fields: object) -> None:
    world.spec = QuorumSpec.model_validate(world.spec.model_dump() | fields)


def meddle(world: World, fault: Fault) -> None:
    """A person changes what the operator looks after, or how it is to do so."""
    match fault.kind:
        case "delete_statefulset" | "orphan_pods":
            user_actions.delete_statefulset(world, orphan=fault.kind == "orphan_pods")
        case "delete_latch" | "unlabel_claim" if world.high_watermark == 0:
            pass  # before anything was formed a person is needed (S18)
        case "delete_latch":
            user_actions.delete_latch(world)
        case "policy":
            policy = ("Automatic", "Manual", "Disabled")[fault.ordinal % 3]
            order = ("AddFirst", "RemoveFirst")[fault.ticks % 2]
            change(world, replacement={"policy": policy, "order": order})
        case "retention":
            change(world, claim_retention=("Retain", "Delete")[fault.ordinal % 2])
        case "pause":
            change(world, pause=bool(fault.ordinal % 2))
        case _:
            getattr(user_actions, fault.kind)(world, fault.ordinal)


def settle(world: World) -> None:
    decision, world.places = None, None
    world.class_expands, world.driver_expands = True, True
    world.refused_growths.clear()
    for _ in range(CALM_TICKS):
        template_known = world.seen_version == world.version
        decision = world.step()
        world.tick()
        if isinstance(decision, Wait) and decision.guard == "replacements_spaced":
            world.now_ms += 60_000
        as_wanted = {v.node_id for v in world.voters} == set(range(world.spec.voters))
        if isinstance(decision, Done) and as_wanted and template_known:
            break
    history = "\n".join(world.changes[-40:])
    assert isinstance(decision, Done), f"{decision}\n{history}"
    assert {v.node_id for v in world.voters} == set(range(world.spec.voters)), history
    assert len(world.voters) == world.spec.voters
    assert all(world.is_fresh(voter) for voter in world.voters)
    assert len(world.clusters) == 1
    assert world.budget_pods == {v.node_id for v in world.voters}
    assert world.replicas == world.spec.voters
    assert {runner.revision for runner in world.runners.values()} == {world.revision}
    sizes = [world.disks[n].capacity_gib for n in range(world.spec.voters)]
    assert all(size >= size_bytes(world.spec.storage.size) >> 30 for size in sizes), sizes


@both_engines
@given(voters=st.integers(1, 5))
@WALK
def test_formation_converges(engine: Engine, voters: int) -> None:
    world = start(engine, voters)
    settle(world)
    assert not [c for c in world.changes if c.startswith("Delete")]


@both_engines
@given(voters=st.sampled_from([1, 3, 5]), plan=faults(*GENTLE))
@WALK
def test_gentle_faults_and_scaling_and_late_actions_converge(
    engine: Engine, voters: int, plan: list[Fault]
) -> None:
    world, frozen = start(engine, voters), []
    for fault in plan:
        run(world, fault.steps)
        inject(world, fault, frozen)
    settle(world)


@both_engines
@given(
    voters=st.sampled_from([3, 5]),
    order=st.sampled_from(["AddFirst", "RemoveFirst"]),
    plan=faults(*GENTLE, *LOSING),
)
@WALK
def test_lost_disks_that_a_majority_survives_are_replaced(
    engine: Engine, voters: int, order: str, plan: list[Fault]
) -> None:
    world, frozen = start(engine, voters, replacement={"order": order}), []
    run(world, 20)
    for fault in plan:
        run(world, fault.steps)
        if fault.kind in LOSING and not may_lose(world, fault.ordinal):
            continue
        inject(world, fault, frozen)
    settle(world)


@both_engines
@given(
    voters=st.sampled_from([2, 3, 5]), order=st.booleans(), plan=faults(*GENTLE, *LOSING, *HANDS)
)
@WALK
def test_what_people_do_by_hand_is_put_right_again(
    engine: Engine, voters: int, order: bool, plan: list[Fault]
) -> None:
    """With disks lost on top, as many as a majority survives; at last no person meddles any more."""
    world, frozen = start(engine, voters), []
    run(world, 20 * order)
    for fault in plan:
        run(world, fault.steps)
        if fault.kind in LOSING and not may_lose(world, fault.ordinal):
            continue
        inject(world, fault, frozen)
    change(world, replacement={}, pause=False)
    settle(world)


@both_engines
@given(voters=st.integers(1, 5), plan=faults(*GENTLE, *LOSING, *HANDS))
@WALK
def test_no_fault_at_all_makes_the_operator_break_a_rule(
    engine: Engine, voters: int, plan: list[Fault]
) -> None:
    world, frozen = start(engine, voters), []
    for fault in plan:
        run(world, fault.steps)
        inject(world, fault, frozen)
    run(world, 100)
    assert len(world.clusters) <= 1


@both_engines
@given(voters=st.sampled_from([1, 3, 5]), plan=faults(*ROLLING), later=faults(*ROLLING))
@WALK
def test_new_templates_are_rolled_one_by_one_whatever_else_happens(
    engine: Engine, voters: int, plan: list[Fault], later: list[Fault]
) -> None:
    world, frozen = start(engine, voters), []
    run(world, 20)
    world.retemplate()
    for fault in [*plan, Fault("retemplate"), *later]:
        inject(world, fault, frozen)
        run(world, fault.steps)
    settle(world)


@pytest.mark.rule("S22")
@both_engines
@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("again", [False, True])
def test_a_drain_and_a_roll_never_take_a_majority_together(
    engine: Engine, voters: int, again: bool
) -> None:
    """However late an operator that was stopped carries out what it had decided."""
    world = start(engine, voters)
    settle(world)
    world.retemplate()
    for _ in range(2):
        world.tick()
    decision = decide(world.spec, world.look(), world.now_ms)
    assert not isinstance(decision, Wait | Done)
    for ordinal in range(voters - 1):
        user_actions.evict(world, ordinal)
    if again:
        decision = decide(world.spec, world.look(), world.now_ms)
    if not isinstance(decision, Wait | Done):
        world.act(decision, stale=True)
    left = [runner for runner in world.runners.values() if not runner.terminating]
    assert len(left) >= majority(voters), world.changes[-1]
    settle(world)


@both_engines
@given(
    voters=st.sampled_from([3, 5]), lost=st.integers(0, 4), at=st.integers(0, 60), end=st.booleans()
)
@WALK
def test_a_template_that_does_not_start_stops_at_one_pod_and_a_fixed_one_goes_on(
    engine: Engine, voters: int, lost: int, at: int, end: bool
) -> None:
    """With a disk lost before, while or after it is stuck; the quorum goes on all along."""
    world = start(engine, voters)
    settle(world)
    world.retemplate(bad=True)
    run(world, at)
    wiped = may_lose(world, lost) and lost < voters
    if wiped:
        world.wipe(lost)
    run(world, 100)
    stuck = [runner for runner in world.runners.values() if runner.revision == world.revision]
    # One by the roll; another one only because its new disk was probed by a restart.
    assert 1 <= len(stuck) <= 1 + wiped
    assert world.has_quorum()
    if end:
        world.spec = world.spec.model_copy(update={"voters": voters + 2})
    world.retemplate()
    settle(world)


@both_engines
@given(voters=st.sampled_from([1, 3, 5]), at=st.integers(0, 12), plan=faults("crash", "delete_pod"))
@WALK
def test_a_bad_template_at_the_first_formation_is_fixed_without_a_leader(
    engine: Engine, voters: int, at: int, plan: list[Fault]
) -> None:
    """Before the latch, or with some pods formed and others stuck; no claim is ever touched."""
    world, frozen = start(engine, voters), []
    run(world, at)
    world.retemplate(bad=True)
    for ordinal in range(voters):
        world.delete_pod(ordinal)
    for fault in plan:
        run(world, fault.steps)
        inject(world, fault, frozen)
    run(world, 10)
    claims = {ordinal: disk.claim_uid for ordinal, disk in world.disks.items()}
    world.retemplate()
    settle(world)
    assert {ordinal: disk.claim_uid for ordinal, disk in world.disks.items()} == claims
    assert len(world.clusters) == 1


@both_engines
@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
def test_all_claims_deleted_at_once_are_replaced_one_by_one(engine: Engine, voters: int) -> None:
    """`kubectl delete pvc --all`: each claim is held by its pod until the operator ends that.

    One or two voters have no voter to spare, so they wait for the quorum to be grown.
    """
    world = start(engine, voters)
    settle(world)
    first = set(world.voters)
    for ordinal in range(voters):
        world.delete_claim(ordinal)
    if voters < 3:
        run(world, 60)
        assert set(world.voters) == first
        assert world.step().guard == "majority_survives_loss"
        change(world, voters=3)
    settle(world)
    assert first.isdisjoint(world.voters)


@both_engines
@given(
    voters=st.sampled_from([3, 4, 5]),
    more=st.integers(1, 2),
    at=st.integers(0, 200),
    end=st.booleans(),
)
@WALK
def test_a_scale_up_without_room_blocks_no_roll_and_takes_no_voters_room(
    engine: Engine, voters: int, more: int, at: int, end: bool
) -> None:
    """Before the scale-up is stuck, or after; all voters get the template, one at a time."""
    world = start(engine, voters)
    settle(world)
    first, world.places = list(world.voters), voters
    change(world, voters=voters + more)
    run(world, at)
    world.retemplate()
    for _ in range(CALM_TICKS):
        world.step()
        world.tick()
        away = [voter for voter in world.voters if not world.is_alive(voter)]
        assert len(away) <= 1, world.changes[-20:]
    assert world.voters == first
    runners = [world.runners[voter.node_id] for voter in first]
    assert {runner.revision for runner in runners} == {world.revision}, world.changes[-20:]
    assert all(world.is_fresh(voter) for voter in first)
    if end:
        change(world, voters=voters)
    settle(world)


@both_engines
@pytest.mark.parametrize("voters", [1, 2])
def test_a_scale_up_without_room_comes_before_the_roll_of_voters_that_cannot_be_spared(
    engine: Engine, voters: int
) -> None:
    world = start(engine, voters)
    settle(world)
    world.places = voters
    change(world, voters=3)
    world.retemplate()
    pods = {ordinal: runner.uid for ordinal, runner in world.runners.items()}
    run(world, CALM_TICKS)
    assert {ordinal: world.runners[ordinal].uid for ordinal in pods} == pods
    decision = world.step()
    assert isinstance(decision, Wait)
    assert decision.guard == "node_answers"
    assert "while" in decision.why
    settle(world)


@both_engines
@given(
    voters=st.integers(1, 5),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    at=st.integers(0, 10),
    leaderless=st.booleans(),
    plan=faults("class_expands", "driver_expands", "freeze", "thaw", "cut_off"),
)
@WALK
def test_growth_ends_no_pod_and_no_claim(
    engine: Engine, voters: int, sizes: list[int], at: int, leaderless: bool, plan: list[Fault]
) -> None:
    """Neither while the storage class or its driver fails, nor without a leader."""
    world, frozen = start(engine, voters), []
    settle(world)
    pods = {ordinal: runner.uid for ordinal, runner in world.runners.items()}
    claims = {ordinal: disk.claim_uid for ordinal, disk in world.disks.items()}
    if leaderless:
        for ordinal in range(majority(voters)):
            world.crash(ordinal, 60)
    begun = len(world.changes)
    for size in sizes:
        user_actions.grow_storage(world, size)
        run(world, at)
        for fault in plan:
            inject(world, fault, frozen)
            run(world, fault.steps)
    settle(world)
    assert {ordinal: runner.uid for ordinal, runner in world.runners.items()} == pods
    assert {ordinal: disk.claim_uid for ordinal, disk in world.disks.items()} == claims
    late = ("GrowClaim", "late GrowClaim")
    others = [change for change in world.changes[begun:] if not change.startswith(late)]
    assert not [change for change in others if "Delete" in change or "Evict" in change]


@both_engines
def test_disks_grow_while_a_majority_is_down_because_they_are_full(engine: Engine) -> None:
    world = start(engine, 3)
    settle(world)
    for ordinal in range(3):
        world.crash(ordinal, CALM_TICKS)
    user_actions.grow_storage(world, 4)
    run(world, 20)
    assert not world.has_quorum()
    assert [world.disks[n].capacity_gib for n in range(3)] == [4, 4, 4]


@both_engines
@pytest.mark.parametrize("fault", ["class_expands", "driver_expands"])
def test_nothing_waits_for_a_volume_that_cannot_grow(engine: Engine, fault: str) -> None:
    world = start(engine, 3)
    settle(world)
    setattr(world, fault, False)
    user_actions.grow_storage(world, 2)
    run(world, 5)
    grown = [disk for disk in world.disks.values() if disk.requested_gib > 1]
    assert len(grown) == (0 if fault == "class_expands" else 1)
    world.wipe(1)
    world.retemplate()
    change(world, voters=5)
    run(world, CALM_TICKS)
    assert {v.node_id for v in world.voters} == set(range(5)), world.changes[-20:]
    assert {runner.revision for runner in world.runners.values()} == {world.revision}
    decision = world.step()
    assert isinstance(decision, Wait)
    guard = "claim_growth_accepted" if fault == "class_expands" else "volume_has_grown"
    assert decision.guard == guard
    settle(world)
