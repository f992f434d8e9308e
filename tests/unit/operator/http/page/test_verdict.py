"""Safe or not, in words: what each state of a quorum is called, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator.http.page.verdict import LEVELS, STALE_S, TROUBLES, ago, judge
from kraftquorum_operator.http.page.view import OperatorView, page_view
from kraftquorum_operator.memory.status_cache import CachedStatus
from kraftquorum_operator.model.observation import Observation, Trouble
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.plan.actions import Decision, Wait
from kraftquorum_operator.report.conditions import CONDITIONS
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    blank,
    healthy,
    node,
    quorum,
    spec,
    voter,
    with_node,
    with_quorum,
    without_node,
)

OPERATOR = OperatorView(identity="operator-0", version="0.1.0", active=True)


def status(
    observation: Observation, voters: int = 3, decision: Decision | None = None
) -> QuorumStatus:
    wanted = spec(voters=voters)
    made = decision or decide(wanted, observation, NOW_MS)
    return build_status(
        wanted,
        observation,
        made,
        current_action=None,
        before=(),
        stamp=Stamp("2026-01-01T00:00:00Z", 1),
    )


def shown(
    told: QuorumStatus | None, voters: int = 3, name: str = "demo", *, at_s: float = 0, own: bool = True
) -> CachedStatus:  # fmt: skip
    return CachedStatus("test", name, name, voters, told, at_s, own)


def level(told: QuorumStatus | None, voters: int = 3) -> str:
    return judge(shown(told, voters), 1.0).level


def test_a_well_quorum_is_safe_and_says_how_many_may_fail() -> None:
    for voters, sentence in ((1, "No voter"), (3, "1 voter"), (5, "2 voters")):
        verdict = judge(shown(status(healthy(voters), voters), voters), 1.0)
        assert (verdict.level, verdict.words) == ("safe", "Safe")
        assert verdict.sentence == f"Writes work. {sentence} may fail."


def test_a_dead_voter_of_five_weakens_and_of_three_is_a_risk() -> None:
    def one_away(voters: int) -> Observation:
        all_but = [voter(n) for n in range(voters - 1)]
        observation = quorum([*all_but, voter(voters - 1, silent_ms=100)])
        return without_node(replace(healthy(voters), quorum=observation), voters - 1)

    verdict = judge(shown(status(one_away(5), 5), 5), 1.0)
    assert verdict.level == "weakened"
    assert "1 voter may fail" in verdict.sentence
    assert "The target is 2" in verdict.sentence
    assert level(status(one_away(3))) == "at-risk"


def test_a_voter_that_does_not_answer_is_not_counted_though_its_leader_still_does() -> None:
    told = status(without_node(healthy(), 2))
    assert (told.fault_tolerance, told.ready_voters) == (1, 3)
    verdict = judge(shown(told), 1.0)
    assert verdict.level == "at-risk"
    view = page_view([shown(told)], OPERATOR, 1.0).quorums[0]
    assert (view.tolerance, view.tolerance_wanted) == (0, 1)
    other_disk = status(with_node(healthy(), node(2, "b")))
    assert judge(shown(other_disk), 1.0).level == "at-risk"


def test_without_a_leader_writes_have_stopped_and_nothing_is_called_lost() -> None:
    verdict = judge(shown(status(replace(healthy(), quorum=None))), 1.0)
    assert verdict.level == "stopped"
    assert "Nothing indicates that an acknowledged record is lost" in verdict.sentence
    assert level(status(with_quorum(healthy(), confirmed=False))) == "stopped"


def test_a_lost_quorum_is_the_worst_and_says_not_to_delete() -> None:
    lost = Wait("never_rebootstrap", "storage of 2 of 3 voters is gone")
    verdict = judge(shown(status(replace(healthy(), quorum=None), decision=lost)), 1.0)
    assert (verdict.level, verdict.rank) == ("lost", 0)
    assert "delete nothing" in verdict.sentence


def test_what_waits_for_a_person_says_so() -> None:
    assert level(status(healthy(), decision=Wait("not_paused", "spec.pause is set"))) == "blocked"
    assert level(status(healthy(), decision=Wait("deletion_policy_allows", "Off"))) == "blocked"
    assert level(status(healthy(), decision=Wait("survivors_caught_up", "late"))) == "changing"


def test_a_pod_that_cannot_start_is_not_safe_though_all_voters_are_well() -> None:
    trouble = Trouble(3, "pod demo-3", "ImagePullBackOff", "no such image")
    assert level(status(replace(healthy(), troubles=(trouble,)))) == "weakened"
    assert level(status(replace(healthy(), failure=("Forbidden", "403")))) == "weakened"


def test_every_condition_weighs_in_the_verdict_or_is_known_not_to() -> None:
    graver = {"QuorumLost", "FormationBlocked", "Available", "VolumeFromCopy", "Paused"}
    counted = {"Ready", "Progressing", "Degraded"}
    to_come = {"LogOutgrowsDisk", "VolumesGrowing"}  # until the disk runs low, told as such
    of_clients = {"AccessReady"}  # the quorum serves by the previous access file
    assert set(CONDITIONS) == TROUBLES | graver | counted | to_come | of_clients


def test_forming_is_neither_safe_nor_bad() -> None:
    assert level(status(blank())) == "forming"


def test_an_old_look_is_not_believed_but_a_report_is() -> None:
    told = status(healthy())
    old = judge(shown(told), STALE_S + 1)
    assert old.level == "unknown"
    assert "46 s" in old.sentence
    assert judge(shown(told, own=False), STALE_S + 1).level == "safe"
    assert level(None) == "unknown"


def test_the_worst_comes_first_and_the_summary_names_it() -> None:
    dead = status(replace(healthy(), quorum=None))
    statuses = [
        shown(status(healthy()), name="a"),
        shown(dead, name="z"),
        shown(status(healthy(), decision=Wait("not_paused", "paused")), name="b"),
    ]
    view = page_view(statuses, OPERATOR, 1.0)
    assert [quorum.name for quorum in view.quorums] == ["z", "b", "a"]
    assert view.summary == "2 of 3 quorums need attention, first test/z: writes stopped."
    assert page_view(statuses[:1], OPERATOR, 1.0).summary == "The quorum is safe."
    assert page_view([statuses[0], statuses[0]], OPERATOR, 1.0).summary == "All 2 quorums are safe."
    assert page_view([statuses[1]], OPERATOR, 1.0).summary == "test/z: writes stopped."
    assert page_view([], OPERATOR, 1.0).summary == "The operator manages no quorum."


def test_every_level_has_words_of_its_own() -> None:
    assert len(set(LEVELS.values())) == len(LEVELS)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_durations_are_short(seconds: float, words: str) -> None:
    assert ago(seconds) == words


def test_a_leader_without_room_is_no_missing_leader() -> None:
    """Writes stop either way, but the one needs room and the other needs voters."""
    observation = healthy()
    assert observation.quorum is not None
    leader = observation.quorum.leader.node_id
    full = with_node(observation, replace(node(leader), disk_low=True))
    verdict = judge(shown(status(full)), 1.0)
    assert verdict.level == "stopped"
    assert verdict.runbook == "kraftquorum-disk-full"
    assert "disk is full" in verdict.sentence
    none = judge(shown(status(replace(observation, quorum=None))), 1.0)
    assert (none.level, none.runbook) == ("stopped", "kraftquorum-no-leader")
    assert "No majority confirms a leader" in none.sentence
    paused = judge(shown(status(observation, decision=Wait("not_paused", "x"))), 1.0)
    assert paused.runbook == "kraftquorum-paused"
