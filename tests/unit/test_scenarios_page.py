"""docs/evidence/scenarios.md tells the truth: every name, its tests, what is taken out of the code.

That the tests do fail then is no concern of this file: they are run so (tools/without.py).
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

import generate_scenarios
from proofkit.mutation import function_at, taken_out
from proofkit.playbook import run_script

NAMES = """
two-adds two-removes add-and-remove
leader-reinit-same-epoch
zombie-leader-no-fetch
hw-assumes-leader-in-set
remove-leader-crash
removed-voter-disrupts
autojoin-readds-removed
expired-change-still-buffered
corrupt-fetch-during-truncation
retention-beyond-snapshot
hw-before-truncate
prevote-ping-pong prevote-counted-as-vote prevote-blocks-transfer
recovering-follower-prevote-storm
election-timeout<rpc-timeout
unsaved-vote-of-blank-peer
campaign-with-unapplied-change
apply-time-config-unsafe double-leave-joint
leave-recovered-uncommitted-joint
demoted-leader-never-votes
isolated-leader-removes-node snapshot-log-gap id-reuse total-loss-on-failover
pause-then-stale-read
single-node-lost-write
leader-disk-wiped-hears-itself uuid-survives-state-does-not removed-uncommitted-must-stand
""".split()  # noqa: SIM905 - as they stand there
"""All that the project's documents name, in their order: first what happened to others."""

ROWS = generate_scenarios.rows()
CASES = generate_scenarios.cases()


def test_every_name_is_told_in_order():
    assert list(ROWS) == NAMES
    assert all(row["source"] and row["went"] for row in ROWS.values())
    assert all(set(row) <= {"source", "went", "here"} for row in ROWS.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_a_test_that_misses_what_keeps_it_from_happening(name: str):
    assert [case for case in CASES if name in case.names and case.cuts]


def test_every_name_that_a_test_bears_is_one_of_them():
    assert {name for case in CASES for name in case.names} <= set(NAMES)


def test_page_is_current():
    made = generate_scenarios.render()
    assert generate_scenarios.PAGE.read_text() == made, "run: make reference"


def test_page_on_proofs_counts_them():
    page = " ".join((generate_scenarios.ROOT / "docs/evidence/proof.md").read_text().split())
    named = [case for case in CASES if case.names]
    cuts = sum(len(case.cuts) for case in named)
    assert f"{len(ROWS)} names, {len(named)} tests, {cuts} things taken out" in page
    more_than = re.search(r"more than (\d+) further tests of rows and rules", page)
    assert more_than is not None
    others = len([case for case in CASES if not case.names])
    assert int(more_than[1]) < others < int(more_than[1]) + 50


def test_marks_are_found_in_all_places():
    """On a test, for a whole file, behind a name, more than one."""
    cases = {(Path(case.path).name, case.test): case for case in CASES}
    two = cases[
        "test_recovering_follower.py",
        "test_follower_that_catches_up_slowly_arrives_and_its_leader_stays",
    ]
    assert two.names == ("recovering-follower-prevote-storm",)
    assert [cut[0] for cut in two.cuts] == [
        "core.elections.election:_judge_pre_vote",
        "core.elections.election:_back_off",
    ]
    loss = "test_voters_that_all_start_again_are_led_by_one_that_has_everything"
    [both] = cases["test_total_loss.py", loss].cuts
    assert both[::3] == (
        "core.elections.election:_judge_pre_vote",
        "core.elections.election:_judge_vote",
    )


@pytest.mark.parametrize("name", [name for name in NAMES if generate_scenarios.script_of(name)])
def test_golden_script_goes_otherwise_with_one_of_these_taken_out(name: str):
    path = generate_scenarios.script_of(name)
    assert path is not None
    written = path.read_text()
    assert run_script(written) == written
    assert any(
        goes_otherwise(written, cut) for case in CASES if name in case.names for cut in case.cuts
    )


def goes_otherwise(written: str, cut: tuple[str, ...]) -> bool:
    with ExitStack() as stack:
        for at in range(0, len(cut), 3):
            place, old, new = cut[at : at + 3]
            stack.enter_context(taken_out(function_at(place), old, new))
        try:
            return run_script(written) != written
        except AssertionError:
            return True
