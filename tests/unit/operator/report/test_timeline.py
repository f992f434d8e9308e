"""The timeline: the differences between two statuses, bounded, and continued after a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kraftquorum_operator.model.crd import schema_of
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.status import (
    TIMELINE_MAX,
    QuorumStatus,
    TimelineEntry,
    last_status,
)
from kraftquorum_operator.plan.actions import (
    DeleteClaim,
    DeletePod,
    Done,
    GrowClaim,
    Wait,
    describe,
)
from kraftquorum_operator.report.conditions import CONDITIONS
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from kraftquorum_operator.report.timeline import CONDITION_ENTRIES, appended
from kraftquorum_operator.report.unobserved import unobserved_status
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    healthy,
    node,
    quorum,
    replica,
    spec,
    voter,
    with_node,
    with_quorum,
    with_size,
    without_node,
)


def at(second: int) -> Stamp:
    return Stamp(f"2026-01-01T00:00:{second:02}Z", 1)


def status(
    observation: Observation, last: QuorumStatus | None, second: int = 0, action: str | None = None
) -> QuorumStatus:
    decision = decide(spec(), observation, NOW_MS)
    before = last.conditions if last else ()
    return build_status(
        spec(),
        observation,
        decision,
        current_action=action,
        before=before,
        stamp=at(second),
        last=last,
    )


def told(
    last: QuorumStatus, observation: Observation, action: str | None = None
) -> list[tuple[str, str]]:
    """What is new in the timeline when this is seen after that."""
    now = status(observation, last, 5, action)
    assert now.timeline[: len(last.timeline)] == last.timeline
    return [(entry.kind, entry.message) for entry in now.timeline[len(last.timeline) :]]


WELL = status(healthy(), None)


def test_it_begins_with_the_first_look_and_says_nothing_while_nothing_changes() -> None:
    assert [entry.message for entry in WELL.timeline] == [
        "The operator starts to manage the quorum"
    ]
    assert told(WELL, healthy()) == []


def test_a_voter_that_falls_silent_and_comes_back() -> None:
    away = without_node(
        replace(healthy(), quorum=quorum([voter(0), voter(1, silent_ms=100), voter(2)])), 1
    )
    entries = told(WELL, away)
    assert entries == [
        ("Fault", "demo-1 does not answer"),
        ("Fault", "Voter 1 is not caught up any more"),
    ]
    assert told(status(away, WELL), healthy()) == [
        ("Repair", "demo-1 answers again"),
        ("Repair", "Voter 1 is caught up again"),
        ("Repair", "The quorum is ready: 3 voters, all caught up"),
    ]


def test_a_pod_that_the_operator_ended_is_no_fault() -> None:
    action = describe(DeletePod("demo-1", "uid", "its template is outdated"))
    away = without_node(healthy(), 1)
    assert told(WELL, away, action) == [
        ("Change", f"The operator acts: {action}"),
        ("Change", "demo-1 does not answer"),
    ]
    other = describe(DeletePod("demo-2", "uid", "its template is outdated"))
    assert ("Fault", "demo-1 does not answer") in told(WELL, away, other)


def test_volumes_that_grow_are_a_change_and_no_fault() -> None:
    action = describe(GrowClaim("data-demo-1", "uid", "1Gi"))
    grows = with_size(healthy(), 1, 1, 0.5)
    assert told(WELL, grows, action) == [
        ("Change", "Volumes grow: claim data-demo-1 has 512Mi of 1Gi"),
    ]
    assert told(status(grows, WELL), healthy()) == [
        ("Repair", "The quorum is ready: 3 voters, all caught up"),
        ("Change", "All volumes have grown"),
    ]


def test_a_refusal_of_larger_volumes_has_an_entry_and_so_has_its_end() -> None:
    small = with_size(healthy(), 1, 0.5, 0.5)
    refused = replace(small, refused_growths=(("claim-1", "no"),))
    why = "claim data-demo-1 of StorageClass fast cannot grow: no"
    assert ("Fault", f"Volumes may not grow: {why}") in told(WELL, refused)
    assert not told(status(refused, WELL), refused)
    assert ("Repair", "No larger volume is refused any more") in told(status(refused, WELL), small)


def test_the_replacement_of_a_disk_is_told_by_its_outcome() -> None:
    old, new = replica(1), replica(1, "b")
    claim = describe(DeleteClaim("data-demo-1", "uid", "its storage is lost"))
    empty = with_node(healthy(), node(1, "b"))
    one = status(empty, WELL, 1, claim)
    assert [(e.kind, e.message) for e in one.timeline[1:3]] == [
        ("Repair", f"The operator acts: {claim}"),
        ("Change", f"demo-1 has an empty disk, directory id {new.directory_id}"),
    ]
    both = replace(empty, quorum=quorum([voter(0), voter(1), voter(1, "b"), voter(2)]))
    assert ("Repair", f"Voter 1 added, directory id {new.directory_id}") in told(one, both)
    last = replace(empty, quorum=quorum([voter(0), voter(1, "b"), voter(2)]))
    assert ("Repair", f"Voter 1 removed, directory id {old.directory_id}") in told(
        status(both, one), last
    )


def test_an_empty_disk_is_told_once_though_its_replica_is_restarted() -> None:
    empty = with_node(healthy(), node(1, "b"))
    one = status(empty, WELL, 1)
    assert one.timeline[-1].message.startswith("demo-1 has an empty disk")
    away = status(without_node(empty, 1), one, 2)
    assert not [m for _, m in told(away, empty) if "empty disk" in m]


def test_voters_that_catch_up_for_the_first_time_are_no_repair() -> None:
    observation = replace(healthy(), quorum=quorum([voter(0), voter(1, silent_ms=1), voter(2)]))
    forming = status(with_quorum(observation, formation_completed=False), None)
    assert "Voter 1 is caught up again" not in [m for _, m in told(forming, healthy())]


def test_scaling_is_a_change_and_no_repair() -> None:
    assert ("Change", f"Voter 3 added, directory id {replica(3).directory_id}") in told(
        WELL, healthy(4)
    )


def test_a_leader_that_is_lost_and_another_one() -> None:
    none = replace(healthy(), quorum=None)
    assert told(WELL, none)[0] == ("Fault", "No leader answers; it was demo-0")
    after = with_quorum(healthy(), leader=replica(2), epoch=4)
    assert ("Change", f"demo-2 leads, directory id {replica(2).directory_id}") in told(
        status(none, WELL), after
    )
    assert told(WELL, with_quorum(healthy(), epoch=4)) == [("Change", "demo-0 was elected again")]


def test_a_new_leader_that_has_not_heard_from_all_yet_is_no_fault_of_theirs() -> None:
    observation = replace(healthy(), quorum=quorum([voter(0), voter(1, silent_ms=1), voter(2)]))
    observation = with_quorum(observation, leader=replica(2), epoch=9)
    assert [kind for kind, _ in told(WELL, observation)] == ["Change"]


def test_conditions_that_turn_are_told_once() -> None:
    def lost(second: int, last: QuorumStatus) -> QuorumStatus:
        decision = Wait("never_rebootstrap", "storage of 2 of 3 voters is gone")
        return build_status(
            spec(), healthy(), decision, current_action=None, before=last.conditions,
            stamp=at(second), last=last,
        )  # fmt: skip

    first = lost(1, WELL)
    assert first.timeline[-1].kind == "Fault"
    assert first.timeline[-1].message == "The quorum is lost: storage of 2 of 3 voters is gone"
    assert lost(2, first).timeline == first.timeline
    done = build_status(
        spec(), healthy(), Done("3 voters"), current_action=None, before=first.conditions,
        stamp=at(3), last=first,
    )  # fmt: skip
    assert ("Repair", "The quorum is no longer lost") in [
        (e.kind, e.message) for e in done.timeline
    ]


def test_every_condition_is_told_or_is_known_not_to_be() -> None:
    elsewhere = {"Ready", "Paused", "Available", "Progressing", "Degraded", "LogOutgrowsDisk"}
    elsewhere |= {"VolumesGrowing"}  # a change, not a fault
    elsewhere |= {"AccessReady"}  # an event has the entry that cannot be used
    assert set(CONDITIONS) == set(CONDITION_ENTRIES) | elsewhere


def test_it_goes_on_from_the_resource_whichever_operator_wrote_it() -> None:
    """A new operator, or one that takes over, reads what the last one wrote."""
    written = {"status": WELL.model_dump(by_alias=True, exclude_none=True, mode="json")}
    read = last_status(written)
    assert read == WELL
    assert ("Fault", "No leader answers; it was demo-0") in told(
        read, replace(healthy(), quorum=None)
    )
    assert last_status({}) is None
    assert last_status({"status": {"phase": "Dancing"}}) is None


def test_what_comes_and_goes_is_counted() -> None:
    entries: list[TimelineEntry] = []
    for second in range(0, 40, 2):
        entries = appended(entries, "Fault", "demo-1 does not answer", at(second).now)
        entries = appended(entries, "Repair", "demo-1 answers again", at(second + 1).now)
    assert [(e.message, e.count, e.first, e.at) for e in entries] == [
        ("demo-1 does not answer", 20, at(0).now, at(38).now),
        ("demo-1 answers again", 20, at(1).now, at(39).now),
    ]


def test_it_is_bounded_in_entries_and_in_words() -> None:
    entries: list[TimelineEntry] = []
    for number in range(100):
        entries = appended(entries, "Fault", f"{number} " + "x" * 1000, at(0).now)
    assert len(entries) == TIMELINE_MAX
    assert entries[-1].message.startswith("99 ")
    assert {len(entry.message) for entry in entries} == {240}


def test_the_api_server_holds_the_bounds_too() -> None:
    properties: Any = schema_of(QuorumStatus)["properties"]
    assert properties["timeline"]["maxItems"] == TIMELINE_MAX
    assert properties["timeline"]["items"]["properties"]["message"]["maxLength"] == 240
    assert properties["operations"]["maxItems"] == 16


def test_a_quorum_that_cannot_be_observed_is_told_once() -> None:
    resource: dict[str, Any] = {
        "metadata": {"name": "demo"},
        "status": WELL.model_dump(by_alias=True, exclude_none=True, mode="json"),
    }
    change = unobserved_status(resource, ("Forbidden", "403 pods"), at(7))
    assert change is not None
    entry = change["status"]["timeline"][-1]
    assert (entry["kind"], entry["at"]) == ("Fault", at(7).now)
    assert entry["message"].endswith("403 pods")
    resource["status"] |= change["status"]
    again = unobserved_status(resource, ("Forbidden", "403 claims"), at(8))
    assert again is not None
    assert "timeline" not in again["status"]
