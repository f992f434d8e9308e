"""What only the strict checker sees: who elected, and whether a role is what the disk says."""

from collections.abc import Callable
from typing import Any

import pytest

from proofkit.mutation import taken_out
from proofkit.simulator.invariants import InvariantError
from proofkit.simulator.run import run_seed
from raftnode.core.elections import election
from raftnode.core.replication import leadership

SEEDS_MAX = 20


@pytest.mark.rule("S7", "S8", "P11")
@pytest.mark.parametrize(
    ("function", "replaced", "first", "breaks"),
    [
        (
            election._count,
            (
                "sum(voter in role.granted for voter in voters)",
                "len({*role.granted, replica.key})",
            ),
            27,
            "RemovedNeverCounted",
        ),
        (
            leadership.become_leader,
            ("replica.persist(QuorumState(state.epoch, replica.key, state.voted))", "pass"),
            0,
            "RolesMatchState",
        ),
    ],
    ids=["S8-counts-itself-though-it-was-removed", "P11-leads-without-saying-so-on-its-disk"],
)
def test_strict_checker_finds_a_core_without(
    function: Callable[..., Any],
    replaced: tuple[str, str],
    first: int,
    breaks: str,
):
    with taken_out(function, *replaced):
        found = next(filter(None, map(broken_promise, range(first, first + SEEDS_MAX))), None)
    assert found is not None, f"{SEEDS_MAX} seeds did not miss the rule"
    assert found.name == breaks


def broken_promise(seed: int) -> InvariantError | None:
    try:
        run_seed(seed)
    except InvariantError as found:
        return found
    return None
