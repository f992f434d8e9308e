"""Take one rule out of the core at a time: the simulator must notice.

A mutant is a function of the core with a piece of its text replaced. Some rules are
missed only after accidents that are too rare for a few seeds; each of them has a named
scenario that fails without it, as the docstrings in `tests/scenarios` say: an entry of
the own epoch before anything is committed (P42) or changed (P28), a flush from before a
truncation (S10), the epoch of a failed candidate, fences (S3), blank votes (S18).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from raftnode.core import (
    changing,
    election,
    following,
    leading,
    reassigning,
    version_rules,
    versioning,
)
from raftnode.core.log_index import LogIndex
from raftnode.core.peer_memory import PeerMemory
from raftnode.core.replica import Replica
from raftnode.testing.mutation import taken_out
from raftnode.testing.simulator.run import run_seed

SEEDS_MAX = 60
"""Within this many seeds each mutant must be found."""


@dataclass(frozen=True)
class Mutant:
    name: str
    function: Callable[..., Any]
    old: str
    new: str
    also: tuple[str, str] = ("\n", "\n")
    seed: int = 0
    """Where to begin: a seed that found it once."""


def getter(property_: Any) -> Callable[..., Any]:
    return property_.fget


MUTANTS = [
    Mutant(
        "P7-votes-twice",
        election._judge_vote,
        "if state.voted is not None or state.leader is not None:",
        "if False:",
        seed=10,
    ),
    Mutant(
        "P8-votes-for-a-shorter-log",
        election._judge_vote,
        "if request.last < replica.log.position:",
        "if False:",
        seed=10,
    ),
    Mutant("P44-forgets-its-vote", Replica.persist, "self.emit(PersistQuorumState(state))", "pass"),
    Mutant(
        "S3-lets-every-start-in",
        PeerMemory.why_stale,
        "if peer is None or peer.mark == start.mark:",
        "if True:",
        seed=53,
    ),
    Mutant(
        "S8-counts-itself-outside-the-set",
        leading._acknowledged,
        "for voter in replica.log.voters:",
        "for voter in {*replica.log.voters, replica.key}:",
    ),
    Mutant(
        "S10-counts-what-the-leader-has-not-flushed",
        leading._acknowledged,
        "yield replica.log.durable_end",
        "yield replica.log.end",
    ),
    Mutant(
        "S10-acknowledges-what-is-not-flushed",
        following.fetch_if_due,
        "or replica.log.durable_end < replica.log.end",
        "",
        also=(
            "_next_fetch(replica, target)",
            (
                '__import__("dataclasses").replace(_next_fetch(replica, target), '
                "acknowledged_offset=replica.log.end)"
            ),
        ),
    ),
    Mutant(
        "S10-applies-what-is-not-flushed",
        Replica.raise_high_watermark,
        "min(self.high_watermark, self.log.durable_end)",
        "self.high_watermark",
    ),
    Mutant("P21-does-not-compare-logs", LogIndex.diverges_at, "if known.epoch", "if True or known"),
    Mutant(
        "P32-applies-voters-late",
        getter(LogIndex.voters),
        "self.history[-1].voters",
        "self.history[max(len(self.history) - 2, 0)].voters",
    ),
    Mutant(
        "P32-keeps-voters-of-truncated-records",
        LogIndex.truncate,
        "while len(self.history) > 1 and",
        "while False and",
        seed=262,
    ),
    Mutant(
        "P31-two-changes-at-a-time",
        changing.obstacle,
        "if replica.log.voter_record.offset >= replica.high_watermark:",
        "if False:",
    ),
    Mutant(
        "S11-confirms-without-a-round",
        leading.answer_confirmations,
        "confirmation.token <= echoed and settled",
        "settled",
        seed=10,
    ),
    Mutant(
        "S11-reads-before-its-epoch-is-committed",
        leading.answer_confirmations,
        "confirmation.token <= echoed and settled",
        "confirmation.token <= echoed",
    ),
    Mutant(
        "P40-never-stands-again",
        election._back_off,
        "replica.now_ms + replica.backoff(role.retries)",
        "10**12",
    ),
    Mutant(
        "P54-lets-any-id-in-at-version-1",
        version_rules.why_not,
        'if change.kind == "add" and not known:',
        "if False:",
        seed=12,
    ),
    Mutant(
        "P54-lowers-the-version",
        versioning.handle_upgrade,
        "if event.version < log.raft_version:",
        "if False:",
        seed=12,
    ),
    Mutant(
        "P34-ends-no-reassignment",
        reassigning._step,
        "replica.append_control(TargetVoters(()))",
        "pass",
        seed=3,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_simulator_finds_a_core_without(mutant: Mutant):
    with taken_out(mutant.function, mutant.old, mutant.new, mutant.also):
        for seed in range(mutant.seed, mutant.seed + SEEDS_MAX):
            try:
                run_seed(seed)
            except AssertionError as found:
                print(f"found by seed {seed}: {type(found).__name__} {str(found)[:300]}")  # noqa: T201
                return
    pytest.fail(f"{SEEDS_MAX} seeds did not miss the rule")
