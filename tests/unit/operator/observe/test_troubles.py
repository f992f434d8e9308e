"""Why pods and claims cannot start, from the objects to condition and event."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kraftquorum_operator.memory.persistent_troubles import (
    LINGER_MS,
    PATIENCE_MS,
    PersistentTroubles,
)
from kraftquorum_operator.model.observation import Trouble
from kraftquorum_operator.observe.kube import now_utc, read_pods
from kraftquorum_operator.observe.troubles import read_troubles, wants_events
from kraftquorum_operator.plan.actions import Done
from kraftquorum_operator.plan.guards import Case, node_answers
from kraftquorum_operator.report.conditions import conditions
from kraftquorum_operator.report.events import EventLog
from kraftquorum_operator.report.stamp import Stamp
from proofkit.operatorworld.observations import claim, healthy, pod, spec, with_pod

QUOTA = (
    'create Pod demo-3 in StatefulSet demo failed error: pods "demo-3" is forbidden: '
    "exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3"
)
NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
AWAY = replace(pod(2), ready=False, phase="Pending")


def event(kind: str, name: str, reason: str, message: str, at: str = "2026-01-01T00:00:01Z"):
    return {
        "involvedObject": {"kind": kind, "name": name},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def troubles(*, pods: Any = (), claims: Any = (), events: Any = (), replicas: int = 0):
    statefulset = replace(healthy().statefulset, replicas=replicas)
    return read_troubles("demo", statefulset, pods, claims, events)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"waiting": "ImagePullBackOff", "detail": "Back-off pulling"}, "ImagePullBackOff"),
        ({"waiting": "Unschedulable", "detail": "0/3 nodes are available"}, "Unschedulable"),
        ({"exit_code": 1, "restarts": 2, "running": False}, "CrashLoopBackOff"),
    ],
)
def test_a_pod_that_does_not_start_says_why(changes: dict[str, Any], reason: str) -> None:
    found = troubles(pods=[replace(AWAY, **changes)])
    assert [(t.subject, t.reason) for t in found] == [("pod demo-2", reason)]
    assert found[0].message == changes.get("detail", "")


@pytest.mark.parametrize(
    "changes",
    [
        {"waiting": "ContainerCreating"},
        {"exit_code": 1, "restarts": 1, "running": False},
        {"exit_code": 137, "restarts": 5, "phase": "Running", "running": True},
        {"waiting": "ImagePullBackOff", "terminating": True},
        {"waiting": "CrashLoopBackOff", "ready": True},
    ],
)
def test_a_pod_that_is_on_its_way_or_well_or_going_is_no_trouble(changes: dict[str, Any]) -> None:
    assert not troubles(pods=[replace(AWAY, **changes)])


def test_a_pod_that_a_quota_forbids_is_told_in_the_words_of_the_statefulsets_event() -> None:
    events = [
        event("StatefulSet", "demo", "SuccessfulCreate", "create Pod demo-2 in … successful"),
        event("StatefulSet", "demo", "FailedCreate", QUOTA),
    ]
    three = [pod(n) for n in range(3)]
    found = troubles(pods=three, events=events, replicas=4)
    assert [(t.ordinal, t.subject, t.reason) for t in found] == [(3, "pod demo-3", "FailedCreate")]
    assert "exceeded quota: few" in found[0].message
    assert not troubles(pods=[*three, pod(3)], events=events, replicas=4), "it is there by now"
    made = event(
        "StatefulSet", "demo", "SuccessfulCreate", "create Pod demo-3 in …", "2026-01-01T00:00:02Z"
    )
    assert not troubles(pods=three, events=[*events, made], replicas=4), "and gone again"


def test_a_claim_without_a_volume_is_told_in_the_words_of_its_event() -> None:
    pending = replace(claim(0), phase="Pending")
    about = event("PersistentVolumeClaim", "data-demo-0", "FailedBinding", NO_CLASS)
    assert troubles(claims=[pending], events=[about]) == (
        Trouble(0, "claim data-demo-0", "FailedBinding", NO_CLASS),
    )
    assert troubles(claims=[pending])[0].reason == "ClaimPending"
    unscheduled = replace(pod(0), ready=False, phase="Pending", waiting="Unschedulable")
    both = troubles(claims=[pending], pods=[unscheduled])
    assert [t.reason for t in both] == ["Unschedulable"], "the pod says more"
    assert troubles(claims=[replace(claim(0), phase="Lost")])[0].reason == "ClaimLost"
    assert not troubles(claims=[claim(0)], events=[about])


@pytest.mark.without(
    "kraftquorum_operator.observe.troubles:read_troubles", "waits.get(t.ordinal, t.lasts_ms)", "0"
)
def test_for_how_long_a_pod_has_been_in_trouble_comes_from_kubernetes_alone() -> None:
    """So that an operator that restarts judges it as the one before."""
    unscheduled = replace(AWAY, waiting="Unschedulable", age_ms=90_000)
    assert troubles(pods=[unscheduled])[0].lasts_ms == 90_000
    assert troubles(pods=[replace(unscheduled, unready_ms=7_000)])[0].lasts_ms == 7_000
    of_claim = troubles(pods=[AWAY], claims=[replace(claim(2), phase="Pending")])
    assert [(t.reason, t.lasts_ms) for t in of_claim] == [("ClaimPending", 60_000)]
    refused = event("StatefulSet", "demo", "FailedCreate", QUOTA)
    first = refused | {"firstTimestamp": "2026-01-01T00:00:00Z"}
    now = datetime(2026, 1, 1, 0, 2, tzinfo=UTC)
    three = [pod(n) for n in range(3)]
    statefulset = replace(healthy().statefulset, replicas=4)
    assert read_troubles("demo", statefulset, three, (), [first], now)[0].lasts_ms == 120_000
    assert read_troubles("demo", statefulset, three, (), [refused], now)[0].lasts_ms == 0


def test_events_are_read_only_where_they_can_tell_something() -> None:
    observation = healthy()
    assert wants_events(observation.statefulset, observation.pods, observation.claims) == []
    assert wants_events(observation.statefulset, observation.pods[:2], observation.claims) == [
        ("StatefulSet", "")
    ]
    pending = (replace(claim(0), phase="Pending"),)
    assert wants_events(observation.statefulset, observation.pods, pending) == [
        ("PersistentVolumeClaim", "data-demo-0")
    ]


def test_only_what_lasts_is_told() -> None:
    lasting, first = PersistentTroubles(), Trouble(2, "pod demo-2", "ErrImagePull", "x")
    observation = replace(healthy(), troubles=(first,))
    assert lasting.mark(observation, 0).troubles == ()
    other = replace(first, reason="ImagePullBackOff")
    later = lasting.mark(replace(observation, troubles=(other,)), PATIENCE_MS)
    assert later.troubles == (other,), "one trouble, whatever its word"
    assert lasting.mark(healthy(), PATIENCE_MS + 1).troubles == ()
    assert lasting.mark(observation, PATIENCE_MS + 2).troubles == (), "it begins again"


def test_a_crash_loop_lasts_while_its_process_tries_again() -> None:
    """Between two ends the container runs for a moment; that is no end of the trouble."""
    lasting, looping = PersistentTroubles(), Trouble(2, "pod demo-2", "CrashLoopBackOff", "x")
    trying = with_pod(healthy(), AWAY)
    ended = replace(trying, troubles=(looping,))
    lasting.mark(ended, 0)
    at = PATIENCE_MS
    assert lasting.mark(ended, at).troubles == (looping,)
    assert lasting.mark(trying, at + LINGER_MS - 1).troubles == (looping,)
    assert lasting.mark(ended, at + LINGER_MS).troubles == (looping,)
    assert lasting.mark(trying, at + 2 * LINGER_MS + 1).troubles == (), "it runs on"
    assert lasting.mark(ended, at + 2 * LINGER_MS + 2).troubles == ()


def test_a_trouble_ends_at_once_when_its_pod_is_ready() -> None:
    lasting, looping = PersistentTroubles(), Trouble(2, "pod demo-2", "CrashLoopBackOff", "x")
    ended = replace(with_pod(healthy(), AWAY), troubles=(looping,))
    lasting.mark(ended, 0)
    assert lasting.mark(ended, PATIENCE_MS).troubles == (looping,)
    assert lasting.mark(healthy(), PATIENCE_MS + 1).troubles == ()


def test_condition_event_and_guard_name_the_thing() -> None:
    trouble = Trouble(3, "pod demo-3", "FailedCreate", QUOTA)
    observation = replace(healthy(), troubles=(trouble,))
    stamp = Stamp("2026-01-01T00:00:00Z", 1)
    found = {c.type: c for c in conditions(observation, 3, Done("x"), (), stamp)}["PodsBlocked"]
    assert (found.status, found.reason) == ("True", "FailedCreate")
    assert "exceeded quota: few" in found.message
    told = EventLog()
    assert [e.reason for e in told.of_troubles(observation.troubles, 0, 60_000)] == ["FailedCreate"]
    assert not told.of_troubles(observation.troubles, 59_999, 60_000)
    assert told.of_troubles(observation.troubles, 60_000, 60_000)
    assert not told.of_troubles((), 60_001, 60_000)
    assert told.of_troubles(observation.troubles, 60_002, 60_000), "it came back"
    why = node_answers(Case(spec(voters=4), observation, 0, ordinal=3))
    assert why is not None
    assert "exceeded quota: few" in why


def test_the_waiting_reason_is_read_off_the_pod() -> None:
    body: dict[str, Any] = {
        "metadata": {"name": "demo-0", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {
            "containerStatuses": [
                {"name": "raftnode", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
            ]
        },
    }
    assert read_pods("demo", [body], now_utc())[0].waiting == "ImagePullBackOff"
    body["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    ]
    assert read_pods("demo", [body], now_utc())[0].waiting == "Unschedulable"
