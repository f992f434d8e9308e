"""Runs of the simulator are behaviours of the specification, and those of a broken core are not."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from proofkit.mutation import taken_out
from proofkit.specification import traces
from proofkit.specification.recorder import Trace
from proofkit.specification.simulator_traces import is_specified, life_of
from raftnode.core.elections import election
from raftnode.core.log_index import LogIndex
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership

pytestmark = [pytest.mark.tlc, pytest.mark.timeout(300)]

SEEDS = (3, 8)
"""Short lives: of two voters with lost disks, of four with two Fetches under way."""
NIGHTLY = range(1000, 1030)

EVERY_ACTION = frozenset(
    {
        "StartElection",
        "GrantVote",
        "BecomeLeader",
        "LearnEpoch",
        "Resign",
        "Follow",
        "Fetch",
        "Replicate",
        "Truncate",
        "InstallSnapshot",
        "LearnHighWatermark",
        "Flush",
        "Write",
        "Commit",
        "AddVoter",
        "RemoveVoter",
        "Restart",
        "LoseDisk",
    }
)


def actions(recorded: list[Trace]) -> Counter[object]:
    return Counter(step[0] for trace in recorded for step in trace.steps)


def test_lives_of_the_simulator_are_permitted():
    recorded = [life_of(seed).trace for seed in SEEDS]
    refusal = traces.check(recorded)
    assert refusal is None, f"seeds {SEEDS}: {refusal}"
    assert set(actions(recorded)) >= EVERY_ACTION - {"InstallSnapshot", "Truncate"}


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_many_lives_of_the_simulator_are_permitted():
    """In tens, so that what TLC reads does not become too large."""
    every: Counter[object] = Counter()
    seeds = [seed for seed in NIGHTLY if is_specified(seed)]
    for first in range(0, len(seeds), 10):
        some = seeds[first : first + 10]
        recorded = [trace for seed in some if (trace := life_of(seed).trace).formed]
        refusal = traces.check(recorded)
        assert refusal is None, f"seeds {some}: {refusal}"
        every += actions(recorded)
    assert set(every) >= EVERY_ACTION


@dataclass(frozen=True)
class Broken:
    function: Callable[..., Any]
    old: str
    new: str
    seed: int
    refused: str
    """The step that TLC must refuse."""


def getter(property_: Any) -> Callable[..., Any]:
    return property_.fget


BROKEN = {
    "votes-twice": Broken(
        election._judge_vote,
        "if state.voted is not None or state.leader is not None:",
        "if False:",
        7,
        "GrantVote",
    ),
    "votes-for-a-shorter-log": Broken(
        election._judge_vote,
        "if request.last < replica.log.position:",
        "if False:",
        10,
        "GrantVote",
    ),
    "does-not-store-its-vote": Broken(
        Replica.persist, "self.emit(PersistQuorumState(state))", "pass", 3, "StartElection"
    ),
    "counts-what-is-not-flushed": Broken(
        leadership._acknowledged,
        "yield replica.log.durable_end",
        "yield replica.log.end",
        3,
        "Commit",
    ),
    "commits-old-epochs": Broken(
        leadership.after_progress, "offset > role.epoch_start and ", "", 3, "Commit"
    ),
    "does-not-compare-logs": Broken(
        LogIndex.diverges_at, "if known.epoch", "if True or known", 8, "Commit"
    ),
    "applies-voters-late": Broken(
        getter(LogIndex.voters),
        "self.history[-1].voters",
        "self.history[max(len(self.history) - 2, 0)].voters",
        8,
        "State",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_life_of_a_broken_core_is_refused(name):
    broken = BROKEN[name]
    with taken_out(broken.function, broken.old, broken.new):
        life = life_of(broken.seed)
    refusal = traces.check([life.trace])
    assert refusal is not None
    assert refusal.breaks is None
    assert refusal.said[0] == broken.refused, str(refusal)


def test_a_step_that_was_not_taken_is_refused():
    """A trace that says more than was done: the last commit one batch too far."""
    life = life_of(SEEDS[0])
    at = max(i for i, step in enumerate(life.trace.steps) if step[0] == "Commit")
    action, replica, place = life.trace.steps[at]
    life.trace.steps[at] = (action, replica, place + 1)
    refusal = traces.check([life.trace])
    assert refusal is not None
    assert (refusal.step, refusal.breaks) == (at, None)
