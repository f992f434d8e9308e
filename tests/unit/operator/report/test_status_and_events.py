"""Status, conditions, events and metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.crd import schema_of
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.status import TIMELINE_MAX, QuorumStatus
from kraftquorum_operator.plan.actions import Done, JoinNode, Wait
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.report.conditions import conditions
from kraftquorum_operator.report.events import EventLog
from kraftquorum_operator.report.stamp import Stamp, camel
from kraftquorum_operator.report.status import build_status, is_same, resource_status, steady
from kraftquorum_operator.report.timeline import appended
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    blank,
    claim,
    healthy,
    latch,
    node,
    quorum,
    replica,
    spec,
    voter,
    with_node,
    with_quorum,
)

STAMP = Stamp("2026-01-01T00:00:00Z", 4)
LATER = Stamp("2026-01-01T00:00:09Z", 5)


def status(observation, wanted=None, decision=None):
    wanted = wanted or spec(voters=3)
    return build_status(
        wanted,
        observation,
        decision or decide(wanted, observation, NOW_MS),
        current_action=None,
        before=(),
        stamp=STAMP,
    )


def held(found, name: str) -> str:
    """What is not shown does not hold."""
    return next((c.status for c in found.conditions if c.type == name), "False")


def test_a_healthy_quorum_is_ready_and_available() -> None:
    found = status(healthy())
    assert (found.phase, found.replicas, found.fault_tolerance) == ("Running", 3, 1)
    assert held(found, "Ready") == held(found, "Available") == "True"
    assert held(found, "Degraded") == held(found, "QuorumLost") == "False"
    assert found.leader.pod == "demo-0"


def test_what_is_done_fits_a_column() -> None:
    """`kubectl get krq -A` in 100 columns: the others take 60, each with three spaces."""
    assert status(healthy()).doing is None
    joining = status(healthy(), decision=JoinNode(replica(2, "b" * 21), "cluster"))
    assert joining.doing == "JoinNode 2"
    for guard in GUARDS:
        assert status(healthy(), decision=Wait(guard, "because")).doing == guard
        assert len(guard) <= 40


def test_a_lost_quorum_says_who_holds_what() -> None:
    observation = replace(
        healthy(),
        quorum=None,
        nodes=(node(0, "b", blank=True), node(1, "b", blank=True), node(2)),
    )
    found = status(observation)
    assert found.phase == "QuorumLost"
    assert found.waiting_for == "never_rebootstrap"
    assert "2-a2 holds epoch 3 to offset 100" in found.message
    assert held(found, "QuorumLost") == "True"
    assert found.nodes[2].log_end_offset == 100


def test_a_lost_voter_lowers_the_tolerance() -> None:
    observation = with_quorum(healthy(), voters=(voter(0), voter(1), voter(2, silent_ms=9_000)))
    found = status(observation)
    assert (found.fault_tolerance, found.ready_voters) == (0, 2)
    assert held(found, "Degraded") == "True"
    assert held(found, "Available") == "True"


def test_forming_is_not_blocked_until_a_person_is_needed() -> None:
    found = status(replace(blank(), nodes=()))
    assert found.phase == "Forming"
    assert held(found, "FormationBlocked") == "False"
    blocked = status(replace(blank(), remembered_cluster_id="x"))
    assert held(blocked, "FormationBlocked") == "True"
    assert status(replace(blank(), latch=latch())).phase == "Forming"


@pytest.mark.without(
    "kraftquorum_operator.report.stamp:Stamp.condition", "and last.status == status", ""
)
def test_the_time_of_a_condition_moves_only_when_it_turns() -> None:
    first = conditions(healthy(), 3, Done("well"), (), STAMP)
    second = conditions(healthy(), 3, Wait("node_answers", "away"), first, LATER)
    times = {c.type: c.last_transition_time for c in second}
    assert times["Ready"] == LATER.now
    assert times["QuorumLost"] == STAMP.now


def written_on(progress: int) -> Observation:
    """A quorum at rest whose clients have written so many records more."""
    observation = with_quorum(
        healthy(),
        high_watermark=100 + progress,
        voters=tuple(
            replace(known, lag=progress % 3, last_fetch_age_ms=progress)
            for known in quorum([voter(n) for n in range(3)]).voters
        ),
    )
    for ordinal in range(3):
        end = 100 + progress
        moved = replace(
            node(ordinal), log_end_offset=end, durable_end_offset=end, high_watermark=end
        )
        observation = with_node(observation, moved)
    return observation


@pytest.mark.without(
    "kraftquorum_operator.report.status:resource_status", "_without(MOVING, body)", "body"
)
def test_what_clients_write_changes_no_status() -> None:
    first, moved = status(written_on(0)), status(written_on(7))
    assert first != moved, "the page has the offsets"
    assert resource_status(first) == resource_status(moved)
    led = status(with_quorum(healthy(), epoch=9))
    assert resource_status(first) != resource_status(led)


def test_without_a_leader_the_status_says_whose_log_is_the_longest() -> None:
    lost = replace(written_on(7), quorum=None)
    nodes = resource_status(status(lost))["nodes"]
    assert [(n["logEndOffset"], n["durableEndOffset"], n["highWatermark"]) for n in nodes] == [
        (107, 107, 107)
    ] * 3
    moved = replace(written_on(8), quorum=None)
    first, later = resource_status(status(lost)), resource_status(status(moved))
    assert first != later
    assert steady(first) == steady(later), "written at most every few seconds"


def test_the_resource_has_all_that_the_operator_writes_and_nothing_else() -> None:
    """The API server drops a field that the CRD does not have, and would see a change each time."""

    def paths(schema: dict[str, Any], at: str = "") -> set[str]:
        inner = schema.get("properties") or schema.get("items", {}).get("properties") or {}
        return {f"{at}.{key}" for key in inner}.union(
            *(paths(sub, f"{at}.{key}") for key, sub in inner.items())
        )

    known = paths(cast("Any", schema_of(QuorumStatus)))
    assert {".nodes.logEndOffset", ".voters.caughtUp"} <= known
    assert not {".voters.lag", ".voters.lastFetchAgeMs", ".highWatermark"} & known


def test_the_time_of_a_leaders_answer_alone_is_not_written() -> None:
    def at(stamp: Stamp) -> dict[str, object]:
        decision = decide(spec(voters=3), healthy(), NOW_MS)
        made = build_status(
            spec(voters=3), healthy(), decision, current_action=None, before=(), stamp=stamp
        )
        return made.model_copy(update={"conditions": [], "timeline": []}).model_dump(by_alias=True)

    first, later = at(STAMP), at(replace(LATER, generation=STAMP.generation))
    assert first != later
    assert is_same(first, later)
    assert not is_same(first, later | {"phase": "Waiting"})


def test_a_guard_is_told_once_it_lasts_and_then_now_and_then() -> None:
    log, wait = EventLog(), Wait("new_replica_caught_up", "far behind")
    told = [bool(log.of(wait, at, 60_000)) for at in (0, 4_000, 6_000, 7_000, 50_000, 67_000)]
    assert told == [False, False, True, False, False, True]


def test_what_needs_a_person_is_told_at_once_as_a_warning() -> None:
    event = EventLog().of(Wait("no_earlier_claims", "data-demo-0"), 0, 60_000)[0]
    assert (event.type, event.reason) == ("Warning", "NoEarlierClaims")
    assert event.message == "no_earlier_claims: data-demo-0"


def test_every_action_is_an_event() -> None:
    event = EventLog().of(JoinNode(replica(1), "c"), 0, 60_000)[0]
    assert (event.type, event.reason, event.message) == ("Normal", "JoinNode", "JoinNode 1-a1")


def test_an_even_number_is_warned_of_once_per_generation() -> None:
    log = EventLog()
    assert log.of_spec(spec(voters=4), 2, 1)
    assert not log.of_spec(spec(voters=4), 2, 1)
    assert not EventLog().of_spec(spec(voters=4), 2, 2)
    assert not log.of_spec(spec(voters=3), 3, 2)
    assert log.of_spec(spec(voters=6), 4, 3)


def test_a_guard_s_name_is_a_condition_s_reason() -> None:
    assert camel("one_voter_change_at_a_time") == "OneVoterChangeAtATime"


def test_only_the_guard_that_blocks_now_is_in_the_metric() -> None:
    metrics = Metrics()

    def blocked() -> dict[str, float]:
        return {
            sample.labels["guard"]: sample.value
            for metric in metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "kraftquorum_blocked"
        }

    metrics.observe(healthy(), spec(voters=3), Wait("node_answers", "x"), 0)
    metrics.observe(healthy(), spec(voters=3), Wait("never_rebootstrap", "x"), 0)
    assert blocked() == {"never_rebootstrap": 1}
    metrics.observe(healthy(), spec(voters=3), Done("x"), 0)
    assert blocked() == {}
    metrics.forget("test", "demo")
    named = {metric.name for metric in metrics.registry.collect()}
    assert named == {row.name for row in Metrics.rows()}


def test_claims_that_are_kept_after_a_removal_are_no_silent_replicas() -> None:
    observation = replace(healthy(3), claims=tuple(claim(n) for n in range(5)))
    assert [node.role for node in status(observation).nodes] == ["follower"] * 3
    lost = replace(observation, quorum=None, nodes=())
    found = {node.node_id: node.detail for node in status(lost).nodes}
    assert set(found) == {0, 1, 2, 3, 4}, "without a leader any claim may hold a voter's data"
    assert found[4] == "no pod, only a claim"


def test_a_voter_without_a_pod_is_shown() -> None:
    observation = replace(healthy(3), pods=healthy(3).pods[:2], nodes=healthy(3).nodes[:2])
    assert [node.role for node in status(observation).nodes] == ["follower", "follower", "silent"]


def described(value: object, depth: int = 0) -> list[str]:
    """Lines as `kubectl describe` prints a status."""
    pad = "  " * depth
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            lines += described(item, depth)
    elif isinstance(value, dict):
        for key, item in sorted(value.items()):
            if isinstance(item, dict | list) and item:
                lines += [f"{pad}{key}:", *described(item, depth + 1)]
            else:
                lines.append(f"{pad}{key}: {item}")
    else:
        lines.append(f"{pad}{value}")
    return lines


def test_the_description_of_a_healthy_quorum_fits_a_screen_or_two() -> None:
    """Five conditions, the gist first; alarms stand there only while they hold."""
    found = status(healthy())
    assert [c.type for c in found.conditions] == [
        "Ready",
        "Available",
        "Progressing",
        "Degraded",
        "QuorumLost",
    ]
    happened = found
    for at in range(TIMELINE_MAX):
        entries = appended(happened.timeline, "Change", f"something {at}", STAMP.now)
        happened = happened.model_copy(update={"timeline": entries})
    lines = described(happened.model_dump(by_alias=True, exclude_none=True, mode="json"))
    assert len(lines) <= 175, len(lines)
    assert "type: QuorumLost" in "".join(lines[:32]), "the conditions are on the first screen"
    assert max(len(c.message) for c in found.conditions) <= 80


def test_an_alarm_is_a_condition_while_it_holds_and_its_end_is_in_the_timeline() -> None:
    low = with_node(healthy(), replace(node(2), disk_low=True))

    def next_status(observation, last):
        decision = decide(spec(voters=3), observation, NOW_MS)
        before = last.conditions if last else ()
        return build_status(
            spec(voters=3),
            observation,
            decision,
            current_action=None,
            before=before,
            stamp=LATER,
            last=last,
        )

    well = next_status(healthy(), None)
    full = next_status(low, well)
    after = next_status(healthy(), full)
    assert held(full, "DiskLow") == "True"
    assert "DiskLow" not in {c.type for c in after.conditions}
    assert [(e.kind, e.message[:20]) for e in after.timeline[-2:]] == [
        ("Fault", "A disk is full or ne"),
        ("Repair", "All disks have enoug"),
    ]
