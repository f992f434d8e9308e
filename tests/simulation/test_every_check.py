"""Every check of the simulator fires: a healthy world is spoilt in one place, and it says so.

The mutants (`test_mutants.py`) show that broken rules are found. Here it is shown of each name that
a checker can report that something is behind it; none is without a row below or a mutant that is
found by it. `docs/evidence/invariants.md` tells what each means.
"""

import ast
import inspect
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proofkit import simulator
from proofkit.simulator import progress, run
from proofkit.simulator.invariants import REQUESTS_AT_ONCE_MAX, InvariantError
from proofkit.simulator.node import SimNode
from proofkit.simulator.snapshots import SnapshotPlan
from proofkit.simulator.world import World
from raftnode.core.effects import (
    AppendBatches,
    Confirmed,
    Halt,
    HighWatermarkAdvanced,
    PersistQuorumState,
    SendRequest,
    TruncateLog,
)
from raftnode.core.events import TimePassed
from raftnode.core.log_index import VoterSetAt
from raftnode.core.messages import BeginQuorumEpochRequest
from raftnode.core.raft import RaftCore
from raftnode.core.reasons.halts import StorageFenced
from raftnode.core.records import AddVoter, Batch, ControlRecord, RaftVersion, TargetVoters
from raftnode.core.replication.peer_memory import Mark
from raftnode.core.roles import Follower, Leader, Unattached
from raftnode.core.state import QuorumState
from raftnode.core.types import (
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
    VoterSet,
)

SHOWN_BY_MUTANTS = frozenset(
    {
        "AppliesAll",
        "EpochsFromLog",
        "IndexFromLog",
        "KeepsEveryRecord",
        "Linearizable",
        "Progress",
        "ProgressBesideSlow",
        "ReadsWhatItHas",
        "SameState",
        "SnapshotCoversLog",
        "SnapshotHead",
        "SnapshotIsCommitted",
        "TrimBehindSnapshots",
    }
)
"""Names that a test elsewhere demands of a core or a simulator without one rule."""

Spoil = Callable[[World], object]
STRANGER = Voter(ReplicaKey(NodeId(9), uuid.UUID(int=9)))


def healthy(*, raft_version: int = 2, snapshots: bool = False) -> World:
    """Three voters and an observer that wrote and read for a while."""
    plan = SnapshotPlan.of_seed(1) if snapshots else None
    world = World(1, voters=3, spares=1, raft_version=raft_version, snapshots=plan)
    world.start_all()
    world.every(20, 100, 10**9, world.tell_blank)
    progress.demand(world)
    world.every(5, 50, world.now_ms + 1000, world.writer.write)
    world.run_until(world.now_ms + 5000)
    assert world.writer.count("acknowledged") > 20
    return world


def leader(world: World) -> SimNode:
    [found] = world.believed_leaders()
    return found


def follower(world: World) -> SimNode:
    assert leader(world).core is not None
    return next(node for node in world.nodes[:3] if node is not leader(world))


def core(node: SimNode) -> RaftCore:
    assert node.core is not None
    return node.core


def leading(node: SimNode) -> Leader:
    role = core(node).replica.role
    assert isinstance(role, Leader)
    return role


def batch_at_end(node: SimNode, *control: ControlRecord) -> Batch:
    """What could be appended to a node's log next."""
    end = node.disk.end
    last = Offset(end + max(len(control), 1) - 1)
    return Batch(end, last, core(node).replica.epoch, b"more", control)


def commits(node: SimNode, *batches: Batch) -> None:
    """Append batches to one log, and say that they are committed."""
    for batch in batches:
        node.carry_out(AppendBatches((batch,)))
    node.carry_out(HighWatermarkAdvanced(node.disk.end, node.disk.end))


def commits_control(*records: ControlRecord) -> Spoil:
    """A follower that takes control records for committed, each in a batch of its own."""

    def spoil(world: World) -> None:
        node = follower(world)
        for record in records:
            commits(node, batch_at_end(node, record))

    return spoil


def persists(*states: Callable[[QuorumState], QuorumState]) -> Spoil:
    def spoil(world: World) -> None:
        node = follower(world)
        before = node.disk.state
        for change in states:
            node.carry_out(PersistQuorumState(change(before)))

    return spoil


def ends(spoil: Spoil) -> Spoil:
    """Spoil, then look at the world as at its end."""

    def then_look(world: World) -> None:
        spoil(world)
        run._check_end(world, 0)

    return then_look


def goes_on(spoil: Callable[[World, SimNode], object], *, of_leader: bool = False) -> Spoil:
    """Spoil a replica, then let it take an event."""

    def then_look(world: World) -> None:
        node = leader(world) if of_leader else follower(world)
        spoil(world, node)
        node.take(TimePassed())

    return then_look


def looks(spoil: Callable[[World, SimNode], object]) -> Spoil:
    """Spoil a replica, then look at it as after an event."""

    def then_look(world: World) -> None:
        node = follower(world)
        spoil(world, node)
        world.checker.after_event(node)

    return then_look


def another_batch_at_the_same_place(world: World) -> None:
    node = follower(world)
    last = node.disk.log.pop()
    node.carry_out(AppendBatches((replace(last),)))


def changes_voters_before_its_epoch_is_committed(world: World) -> None:
    node = leader(world)
    leading(node).epoch_start = core(node).replica.high_watermark
    for control in ((), (AddVoter(STRANGER),)):
        node.carry_out(AppendBatches((batch_at_end(node, *control),)))


def commits_another_log(world: World) -> None:
    node = follower(world)
    node.disk.log[2] = replace(node.disk.log[2])
    node.disk.checked = 0
    node.carry_out(HighWatermarkAdvanced(node.disk.end, node.disk.end))


def commits_by_count(world: World) -> None:
    node = leader(world)
    leading(node).epoch_start = core(node).replica.high_watermark
    world.writer.write()
    node.carry_out(HighWatermarkAdvanced(node.disk.end, node.disk.end))


def commits_alone(world: World) -> None:
    node = leader(world)
    world.writer.write()
    node.carry_out(HighWatermarkAdvanced(node.disk.end, node.disk.end))


def is_told_to_be_stale(world: World) -> None:
    node, other = follower(world), leader(world)
    assert other.gate is not None
    other.gate.memory.admit({node.key: Mark(999, "nonce")})
    world.run_until(world.now_ms + 3000)


def reads_too_early(world: World) -> None:
    node = leader(world)
    world.reader._read_from(node, world.writer.acknowledged_end)
    node.carry_out(Confirmed(node.next_request, Offset(0)))


def asks_on_and_on(world: World) -> None:
    node, other = follower(world), leader(world)
    request = BeginQuorumEpochRequest(Epoch(1), node.key, other.key, None)
    for _ in range(REQUESTS_AT_ONCE_MAX + 1):
        node.carry_out(SendRequest(other.key, request))


def wakes_on_and_on(world: World) -> None:
    node = follower(world)
    for _ in range(5):
        node._set_alarm(world.now_ms)


def has_two_open_changes(world: World) -> None:
    node = leader(world)
    index = core(node).replica.log
    for _ in range(2):
        index.history.append(VoterSetAt(VoterRecordId(index.end, Epoch(1)), index.voters))
    world.checker.after_event(node)


def leads(epoch: int | None = None) -> Callable[[World, SimNode], None]:
    """Another replica takes itself for the leader of an epoch; None: of the epoch that it is."""

    def spoil(world: World, node: SimNode) -> None:
        role = replace(leading(leader(world)))
        role.epoch = role.epoch if epoch is None else Epoch(epoch)
        core(node).replica.role = role

    return spoil


def lacks_what_is_committed(world: World, node: SimNode) -> None:
    node.disk.log[2] = replace(node.disk.log[2])
    leads(99)(world, node)


def forgets_a_voter(_: World, node: SimNode) -> None:
    index = core(node).replica.log
    fewer = VoterSet.of(index.voters.voters[1:])
    index.history.append(VoterSetAt(VoterRecordId(Offset(1), Epoch(1)), fewer))


def is_acknowledged_too_early(world: World) -> None:
    world.writer.write()
    leader(world).writes[-1].acknowledge("acknowledged")


def stops_at_a_step(world: World) -> None:
    index = core(leader(world)).replica.log
    target = VoterSet.of(index.voters.voters[1:])
    index.targets.append(VoterSetAt(VoterRecordId(Offset(1), Epoch(1)), target))


def a_committed_write(world: World) -> Batch:
    return next(batch for batch in reversed(world.checker.committed_log) if batch.data)


def install_over_committed(world: World) -> None:
    node = follower(world)
    world.checker.snapshots.installing(node, node.disk.snapshots[0])


def starts_behind_its_snapshots(world: World) -> None:
    node = follower(world)
    node.crash()
    del node.disk.snapshots[1:]
    node.disk.start = node.disk.log[-1].base_offset
    node.start()


def set_field(name: str, change: Callable[[Offset], int]) -> Callable[[World, SimNode], None]:
    """Change a number that the core has of its log."""

    def spoil(_: World, node: SimNode) -> None:
        replica = core(node).replica
        setattr(replica, name, Offset(change(getattr(replica, name))))

    return spoil


def follows_no_leader(world: World) -> None:
    core(follower(world)).replica.role = Unattached(world.now_ms)


SPOILS: dict[str, Spoil] = {
    "AcknowledgedIsCommitted": is_acknowledged_too_early,
    "AdjacentVoterSets": lambda world: commits(
        follower(world),
        batch_at_end(
            follower(world),
            AddVoter(STRANGER),
            AddVoter(Voter(ReplicaKey(NodeId(8), uuid.UUID(int=8)))),
        ),
    ),
    "AppliesOnlyDurable": goes_on(
        lambda _, node: setattr(
            core(node).replica.log, "durable_end", Offset(core(node).replica.applicable - 1)
        )
    ),
    "ChangesAfterOwnEpochEntry": changes_voters_before_its_epoch_is_committed,
    "CommittedPrefix": commits_another_log,
    "CommitsPastOwnEpochEntry": commits_by_count,
    "ConfirmedReads": reads_too_early,
    "DurableOnMajority": commits_alone,
    "EpochMonotone": persists(lambda state: QuorumState(Epoch(state.epoch - 1))),
    "EpochsRiseInLog": lambda world: follower(world).carry_out(
        AppendBatches((replace(batch_at_end(follower(world)), epoch=Epoch(0)),))
    ),
    "EventualAttachment": ends(follows_no_leader),
    "EventualLeader": ends(lambda world: leader(world).crash()),
    "EventualProgress": lambda world: run._check_end(world, 10**9),
    "EventualReassignment": ends(stops_at_a_step),
    "EventualReplication": ends(lambda world: follower(world).disk.log.pop()),
    "IndexMatchesLog": goes_on(lambda _, node: node.disk.log.pop()),
    "InstallKeepsCommitted": install_over_committed,
    "LeaderCompleteness": looks(lacks_what_is_committed),
    "LeaderNeverLoadsSnapshot": lambda world: world.checker.snapshots.installing(
        leader(world), follower(world).disk.snapshots[-1]
    ),
    "LogMatching": another_batch_at_the_same_place,
    "LogReachesSnapshot": starts_behind_its_snapshots,
    "LogStart": goes_on(lambda _, node: setattr(node.disk, "start", node.disk.end)),
    "MonotonicHighWatermark": goes_on(set_field("high_watermark", lambda mark: mark - 1)),
    "NoBusyLoop": wakes_on_and_on,
    "NoDuplicates": ends(
        lambda world: world.checker.committed_log.append(a_committed_write(world))
    ),
    "NoHalt": lambda world: follower(world).carry_out(Halt(StorageFenced(STRANGER.key))),
    "NoStorm": asks_on_and_on,
    "NoTruncationBelowHighWatermark": goes_on(set_field("high_watermark", lambda mark: mark + 99)),
    "NoTruncationBelowSnapshot": lambda world: follower(world).carry_out(TruncateLog(Offset(1))),
    "NobodyIsStaleButTheStale": is_told_to_be_stale,
    "NothingAcknowledgedIsLost": ends(
        lambda world: world.checker.committed_log.remove(a_committed_write(world))
    ),
    "NothingRefusedAppears": ends(
        lambda world: world.writer.outcomes.update({a_committed_write(world).data: "refused"})
    ),
    "OneUncommittedChange": has_two_open_changes,
    "OneVotePerEpoch": persists(
        lambda state: QuorumState(Epoch(state.epoch + 1), None, STRANGER.key),
        lambda state: QuorumState(
            Epoch(state.epoch + 1), None, ReplicaKey(NodeId(8), uuid.UUID(int=8))
        ),
    ),
    "RemovedNeverCounted": looks(
        lambda world, node: (
            leads(99)(world, node),
            setattr(core(node).replica, "state", QuorumState(Epoch(99), node.key)),
            setattr(node.disk, "state", core(node).replica.state),
        )
    ),
    "RolesMatchState": looks(
        lambda world, node: setattr(
            core(node).replica, "role", Follower(node.key, world.now_ms + 1000)
        )
    ),
    "SingleLeader": looks(leads()),
    "StepsTowardsTarget": commits_control(
        TargetVoters((STRANGER,)), AddVoter(Voter(ReplicaKey(NodeId(8), uuid.UUID(int=8))))
    ),
    "TargetPinned": commits_control(
        TargetVoters((STRANGER, Voter(ReplicaKey(NodeId(9), uuid.UUID(int=10)))))
    ),
    "VersionNeverLowered": commits_control(RaftVersion(1)),
    "VersionRules": commits_control(AddVoter(STRANGER)),
    "VotersFromLog": looks(forgets_a_voter),
}
SNAPSHOTS = frozenset(
    {
        "InstallKeepsCommitted",
        "LeaderNeverLoadsSnapshot",
        "LogReachesSnapshot",
        "LogStart",
        "NoTruncationBelowSnapshot",
    }
)
"""Those that need a world in which replicas take them."""


@pytest.mark.rule("P63")
@pytest.mark.parametrize("name", sorted(SPOILS))
def test_check_fires(name: str):
    version = 0 if name == "VersionRules" else 2
    world = healthy(raft_version=version, snapshots=name in SNAPSHOTS)
    with pytest.raises(InvariantError) as found:
        SPOILS[name](world)
    assert found.value.name == name


def test_healthy_world_breaks_no_check():
    """Lest a row above be right about a world that was spoilt before."""
    for snapshots in (False, True):
        world = healthy(snapshots=snapshots)
        world.run_until(world.now_ms + 3000)
        run._check_end(world, 0)


def reported() -> set[str]:
    """Every name that a checker can report, read off the code."""
    folder = Path(inspect.getfile(simulator)).parent
    found: set[str] = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "fail":
                assert isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}"
                found.add(node.args[0].value)
    return found


def test_every_name_that_a_checker_can_report_is_shown_to_fire():
    assert reported() == set(SPOILS) | SHOWN_BY_MUTANTS
    assert not set(SPOILS) & SHOWN_BY_MUTANTS


def test_names_left_to_mutants_are_demanded_there():
    said = "".join(
        (Path(__file__).parent / f"test_{name}.py").read_text()
        for name in ("mutants", "linearizable", "progress")
    )
    for name in SHOWN_BY_MUTANTS:
        assert f'breaks="{name}"' in said or f'.name == "{name}"' in said, name
