"""The exhaustive explorer: small worlds hold, broken cores are found, traces can be repeated."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from proofkit.explorer.bounds import PRESETS, Bounds
from proofkit.explorer.local import Volume
from proofkit.explorer.search import Search, explore
from proofkit.explorer.snapshot import NOW_MS, copied, copy_of, frozen
from proofkit.explorer.trace import label, replay
from proofkit.explorer.world import State, World
from proofkit.mutation import taken_out
from proofkit.simulator.invariants import InvariantError
from raftnode.core.elections import election
from raftnode.core.log_index import LogIndex
from raftnode.core.membership import voter_changes
from raftnode.core.records import Batch
from raftnode.core.replica import Replica
from raftnode.core.replication import fetcher, leadership
from raftnode.core.roles import Prospective, Unattached
from raftnode.core.types import Epoch, Offset


@pytest.mark.rule("P63")
@pytest.mark.parametrize("name", PRESETS["smoke"])
def test_every_promise_holds_in_every_state_of_the_smoke_worlds(name: str):
    report = explore(PRESETS["smoke"][name])
    assert report.violation is None, "\n".join(report.violation.trace)
    assert report.complete
    print(f"{name}: {report}")  # noqa: T201


@dataclass(frozen=True)
class Mutant:
    """A rule taken out, the smallest world in which it is missed, and what misses it."""

    name: str
    function: Callable[..., Any]
    old: str
    new: str
    bounds: Bounds
    missed_by: str
    states_max: int = 30_000


NEW_LEADER_ADDS = Bounds(
    voters=2, replacement=True, replaced=0, elections=0, resignations=1, changes=1
)

MUTANTS = [
    Mutant(
        "S10-counts-what-the-leader-has-not-flushed",
        leadership._acknowledged,
        "yield replica.log.durable_end",
        "yield replica.log.end",
        Bounds(voters=2, elections=0, writes=1),
        "DurableOnMajority",
    ),
    Mutant(
        "P7-votes-twice",
        election._judge_vote,
        "if state.voted is not None or state.leader is not None:",
        "if False:",
        Bounds(voters=3, elections=2),
        "OneVotePerEpoch",
    ),
    Mutant(
        "P44-forgets-its-vote",
        Replica.persist,
        "self.emit(PersistQuorumState(state))",
        "pass",
        Bounds(voters=2, formed=False, elections=1, crashes=1),
        "EpochMonotone",
    ),
    Mutant(
        "P8-votes-for-a-shorter-log",
        election._judge_vote,
        "if request.last < replica.log.position:",
        "if False:",
        Bounds(voters=3, elections=1, writes=1, standing=(2,)),
        "LeaderCompleteness",
    ),
    Mutant(
        "P31-two-changes-at-a-time",
        voter_changes.obstacle,
        "if replica.log.voter_record.offset >= replica.high_watermark:",
        "if False:",
        Bounds(voters=2, replacement=True, joined=True, elections=0, changes=2, removable=(1,)),
        "OneUncommittedChange",
    ),
    Mutant(
        "P42-commits-entries-of-old-epochs-by-count",
        leadership.after_progress,
        "offset > role.epoch_start and ",
        "",
        Bounds(voters=3, elections=1, writes=1, standing=(1,)),
        "CommitsPastOwnEpochEntry",
    ),
    Mutant(
        "P28-adds-before-an-entry-of-its-epoch-is-committed",
        voter_changes.obstacle,
        "if not leadership.epoch_committed(replica, role):",
        "if False:",
        NEW_LEADER_ADDS,
        "ChangesAfterOwnEpochEntry",
        states_max=150_000,
    ),
    Mutant(
        "P28-removes-before-an-entry-of-its-epoch-is-committed",
        voter_changes.obstacle,
        "if not leadership.epoch_committed(replica, role):",
        "if False:",
        Bounds(voters=2, elections=0, resignations=1, changes=1, removable=(0,)),
        "ChangesAfterOwnEpochEntry",
    ),
    Mutant(
        "S8-counts-itself-outside-the-set",
        leadership._acknowledged,
        "for voter in replica.log.voters:",
        "for voter in {*replica.log.voters, replica.key}:",
        Bounds(voters=2, elections=0, changes=1, removable=(0,)),
        "DurableOnMajority",
    ),
    Mutant(
        "P22-sends-records-that-it-has-no-more",
        LogIndex.needs_snapshot,
        "return True",
        "return False",
        Bounds(voters=1, replacement=True, elections=0, snapshots=1),
        "ReadsWhatItHas",
    ),
    Mutant(
        "P50-forgets-the-voters",
        LogIndex._begin_with,
        "VoterSetAt(head.voter_record, head.voters)",
        "VoterSetAt(head.voter_record, self.base_voters)",
        Bounds(voters=1, replacement=True, elections=0, snapshots=1),
        "VotersFromLog",
    ),
    Mutant(
        "S10-acknowledges-what-goes-ahead",
        fetcher._next_fetch,
        "acknowledged_offset=replica.log.durable_end",
        # From the first write on: the quorum itself must be formed.
        "acknowledged_offset=replica.log.end if replica.log.end > 5 else replica.log.durable_end",
        Bounds(voters=2, elections=0, writes=1, fetches=2),
        "DurableOnMajority",
    ),
    Mutant(
        "S35-leads-on-a-disk-that-hangs",
        leadership.others_can_lead_instead,
        "return well >=",
        "return False and well >=",
        Bounds(voters=3, elections=0, writes=1, hangs=1, hanging=(0,)),
        "Progress",
    ),
    Mutant(
        "S36-changes-voters-on-a-disk-that-hangs",
        voter_changes.append,
        "replica.emit(ProveDisk())",
        "pass",
        PRESETS["smoke"]["hang-and-remove-in-three"],
        "Progress",
    ),
    Mutant(
        "P11-is-elected-by-all-alone",
        election._count,
        "if granted >= voters.majority:",
        "if granted >= len(voters):",
        PRESETS["smoke"]["stop-leader-and-write-in-three"],
        "Progress",
    ),
    Mutant(
        "P42-commits-what-all-have-alone",
        leadership.majority_offset,
        "offsets[replica.log.voters.majority - 1]",
        "offsets[-1]",
        PRESETS["smoke"]["stop-follower-and-write-in-three"],
        "Progress",
    ),
]


@pytest.mark.rule("P63")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_explorer_finds_a_core_without(mutant: Mutant):
    with taken_out(mutant.function, mutant.old, mutant.new):
        report = explore(mutant.bounds, states_max=mutant.states_max)
        assert report.violation is not None, f"{report} did not miss the rule"
        assert report.violation.name == mutant.missed_by
        lines = list(report.violation.trace)
        assert mutant.missed_by in lines[-1]
        assert replay(mutant.bounds, lines) == lines
    assert not breaks(mutant.bounds, lines), "it breaks the core with the rule in it, too"


@pytest.mark.rule("S36")
def test_a_change_is_never_let_into_the_log_of_a_leader_whose_disk_hangs():
    """{0,1,2} without 2 by 0, whose disk hangs: once 0 is killed, 1 needs it, and 2 needs 1.

    The way is taken with the rule taken out, so that the record gets out.
    """
    world = World(PRESETS["smoke"]["hang-and-remove-in-three"])
    with taken_out(voter_changes.append, "replica.emit(ProveDisk())", "pass"):
        state = world.first()
        for kind in ("hang", "remove"):
            action = next(a for a in world.actions(state) if a.kind == kind)
            state = world.applied(state, action)
        while True:
            action = next((a for a in world.actions(state) if a.kind == "deliver"), None)
            if action is None:
                break
            state = world.applied(state, action)
        kill = next(a for a in world.actions(state) if a.kind == "kill")
        with pytest.raises(InvariantError, match="in the end: 0 silent") as found:
            world.apply(state, kill)
    assert found.value.name == "Progress"


def test_a_disk_that_hangs_gives_back_what_was_under_way_and_no_more():
    """The flush that returns covers what was written when it began; a barrier silences."""
    world = World(Bounds(voters=3, elections=0, writes=2, hangs=1, hanging=(0,)))
    state = taken(world, world.first(), "write", "hang", "write")
    assert {"0 return", "0 kill"} <= labels(world, state)
    assert "0 flush" not in labels(world, state)
    before = world.local(state, 0).volume
    state = taken(world, state, "return")
    after = world.local(state, 0).volume
    assert len(before.durable) + 1 == len(after.durable) == len(after.log) - 1
    assert "0 flush" in labels(world, state)
    state = taken(world, world.first(), "hang", "write", "kill")
    assert world.local(state, 0).core is None
    assert not any(name.startswith("0 ") for name in labels(world, state))
    assert not world.is_within(state)


def test_a_process_that_stands_still_takes_all_up_where_it_stopped():
    world = World(Bounds(voters=3, elections=0, writes=2, stops=1, stopping=(0,)))
    state = taken(world, world.first(), "write", "stop")
    assert {name for name in labels(world, state) if name.startswith("0 ")} == {"0 wake"}
    assert not any(name.startswith(("1 stop", "2 stop")) for name in labels(world, state))
    assert state.letters, "what it sent is on its way, and what is sent to it waits"
    woken = taken(world, state, "wake")
    assert woken.locals == state.locals
    assert woken.letters == state.letters
    assert "0 flush" in labels(world, woken)


def taken(world: World, state: State, *kinds: str) -> State:
    """After the first actions of these kinds of replica 0."""
    for kind in kinds:
        action = next(a for a in world.actions(state) if (a.kind, a.index) == (kind, 0))
        state = world.apply(state, action)
    return state


def breaks(bounds: Bounds, lines: list[str]) -> bool:
    """Whether the way ends in a broken invariant; with the rule, it may even end before."""
    try:
        return any(" ! " in line for line in replay(bounds, lines))
    except ValueError:
        return False


def test_trace_that_cannot_happen_is_refused_by_its_action():
    with pytest.raises(ValueError, match="action 1 cannot happen here: 7 flush"):
        replay(Bounds(voters=2), ["   1 > 7 flush"])


def test_shortest_way_is_found():
    """No way with fewer actions: one step less deep, and nothing is broken."""
    mutant = MUTANTS[1]
    with taken_out(mutant.function, mutant.old, mutant.new):
        search = Search(mutant.bounds)
        report = search.run()
    assert report.violation is not None
    assert report.violation.length == report.depth + 1


def test_actions_of_one_state_have_different_names():
    """Else a trace could be repeated in two ways."""
    world = World(Bounds(voters=2, elections=1, writes=1, crashes=1, losses=1, duplicates=1))
    layer = {world.first()}
    for _ in range(5):
        for state in layer:
            names = [label(world, state, action) for action in world.actions(state)]
            assert len(names) == len(set(names)), names
        layer = {world.apply(state, a) for state in layer for a in world.actions(state)}
    assert len(layer) > 50


def test_a_larger_budget_never_sees_less():
    small = Bounds(voters=2, elections=1, crashes=0)
    assert explore(small).states < explore(replace(small, crashes=1)).states


def test_a_copy_shares_nothing_that_changes():
    """Taking a step from a state must leave the state as it was."""
    world = World(Bounds(voters=3, elections=1, writes=1))
    state = world.first()
    keys = [frozen(world.local(state, at).replica) for at in range(3)]
    copy = copied(world.local(state, 0).replica)
    assert frozen(copy) == keys[0]
    for action in list(world.actions(state)):
        world.apply(state, action)
    assert [frozen(world.local(state, at).replica) for at in range(3)] == keys


def test_counts_are_the_same_each_time():
    bounds = Bounds(voters=2, formed=False, elections=1)
    first, second = explore(bounds), explore(bounds)
    first.seconds = second.seconds = 0.0
    assert first == second


def test_a_crash_may_leave_any_part_of_what_was_not_synced():
    first, second, third, other = (
        Batch(Offset(at), Offset(at), Epoch(epoch))
        for at, epoch in [(0, 1), (1, 1), (2, 1), (1, 2)]
    )
    written = Volume(log=(first, second, third), durable=(first,))
    left = [volume.log for volume in written.after_crash()]
    assert left == [(first,), (first, second), (first, second, third)]
    truncated = Volume(log=(first, other), durable=(first, second, third))
    left = [volume.log for volume in truncated.after_crash()]
    assert left == [(first,), (first, second, third), (first, other)]
    assert all(volume.durable == volume.log for volume in truncated.after_crash())


@pytest.mark.rule("S31")
def test_a_called_observer_stands_and_is_released_again():
    """An observer's election timer fires only while it is called; and the call may end."""
    world = World(Bounds(voters=2, replacement=True, joined=True, elections=3))
    state, observer = world.first(), 2
    assert "2 election" not in labels(world, state)
    core = copy_of(world.local(state, observer).core)
    core.replica.called_until_ms = NOW_MS + 1000
    called = world.locals.intern(observer, world.local(state, observer).volume, core)
    state = state._replace(locals=(*state.locals[:observer], called.number))
    stands = next(a for a in world.actions(state) if label(world, state, a) == "2 election")
    state = world.apply(state, stands)
    assert isinstance(world.local(state, observer).replica.role, Prospective)
    released = "2 election and no replica calls it any more"
    assert {"2 election", released} <= labels(world, state)
    # It has given up asking; its next timer finds that no request needs it any more.
    for wanted in ("2 election", released):
        chosen = next(a for a in world.actions(state) if label(world, state, a) == wanted)
        state = world.apply(state, chosen)
    assert isinstance(world.local(state, observer).replica.role, Unattached)
    assert "2 election" not in labels(world, state)


def labels(world: World, state: State) -> set[str]:
    return {label(world, state, action) for action in world.actions(state)}
