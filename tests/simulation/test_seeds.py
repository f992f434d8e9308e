"""Every promise after every event, for 100 seeds: `make sim SEED=n` replays one of them."""

import pytest

from proofkit.simulator import world
from proofkit.simulator.faults import SLOW_WEIGHTS
from proofkit.simulator.invariants import Checker
from proofkit.simulator.progress import RESUMES_MS_MAX
from proofkit.simulator.run import build, run_seed

SEEDS = 100
"""Of each change; each night 20,000 others are simulated."""
CHUNK = 10
"""Seeds for one test: small, so that parallel workers finish together."""
MEETING_ALL = (3, 52, 68, 82)
"""A few of them that meet every fault between them."""
SLOW_NODES = (47, 69, 79)
"""The same of nodes that are slow but alive."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_holds_after_every_event(first: int):
    for seed in range(first, first + CHUNK):
        outcome = run_seed(seed)
        assert outcome.acknowledged > 0, f"seed {seed} wrote nothing: it proves nothing"


def test_seed_repeats_exactly_with_any_watcher(monkeypatch: pytest.MonkeyPatch):
    once = run_seed(7)
    assert run_seed(7) == once
    monkeypatch.setattr(world, "StrictChecker", Checker)
    assert run_seed(7) == once


def test_seeds_meet_every_fault_and_change():
    """A fault that never strikes would be a check that never checks.

    Too rare for a few seeds is an older snapshot in the place of a damaged one:
    `test_snapshots.py` sets that up.
    """
    outcomes = [run_seed(seed) for seed in MEETING_ALL]
    struck = {name for outcome in outcomes for name, count in outcome.faults.items() if count}
    assert struck >= {
        "crash",
        "crash_inside",
        "cut",
        "bridge",
        "pause",
        "wipe",
        "eio",
        "cut_leader",
        "save",
        "put_back",
        "twice",
        "end_ghosts",
        "disk_space",
        "snapshot",
        "trimmed",
        "installed",
        "rot_snapshot",
        "slow_disk",
        "no_room",
        "died_at_a_job",
        "died_at_an_install",
        "source_lost",
        "set_aside",
    }
    for change in ("add", "remove", "transfer", "given_up", "upgrade", "reassign", "take_back"):
        assert any(outcome.changes[change] for outcome in outcomes), change
    assert any(outcome.reads for outcome in outcomes)


def test_a_seed_with_leases_and_fetches_ahead_meets_what_they_are_about():
    """Off by default, they are on in a part of the worlds: in this one both."""
    outcome = run_seed(96)
    assert all(outcome.faults[name] for name in ("lease_reads", "tempted", "fetched_ahead"))


def test_a_seed_whose_clients_finish_batches_appends_many_of_many_records():
    """One world of four has such clients."""
    assert [seed for seed in range(17) if build(seed).writer.finishes] == [4, 7, 13, 16]
    assert run_seed(4).faults["finished_batches"] > 50


def test_seeds_with_slow_nodes_meet_what_they_are_about():
    """Two worlds of eight have them, and in each progress is demanded beside them."""
    assert [seed for seed in range(8) if build(seed).nodes[0].slow] == [5, 7]
    outcomes = [run_seed(seed) for seed in SLOW_NODES]
    struck = {name for outcome in outcomes for name, count in outcome.faults.items() if count}
    assert struck >= {*SLOW_WEIGHTS, "slow_for_good", "ended_by_watchdog"}
    assert all(len(outcome.resumed_ms) >= 3 for outcome in outcomes)
    assert max(ms for outcome in outcomes for ms in outcome.resumed_ms) < RESUMES_MS_MAX


def test_a_leader_whose_clock_runs_fast_has_time_for_a_change_too():
    """Its deadline is of its own clock; a writer waits for a lost voter to be replaced (S19)."""
    outcome = run_seed(12_002_632)
    assert outcome.changes["add"]
    assert outcome.acknowledged
