"""Events of Kubernetes: the same one is counted, and posting holds nothing up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import KubeUnavailableError
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import Trouble
from kraftquorum_operator.plan.actions import DeletePod, Wait
from kraftquorum_operator.report.event_poster import PENDING_MAX, EventPoster
from kraftquorum_operator.report.events import Event, EventLog

OWNER = Owner("test", "demo", "uid-1")


class Kube:
    """Events by name; `gate` holds every request up."""

    def __init__(self) -> None:
        self.events: dict[str, Body] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    async def apply(self, body: Body) -> Body:
        await self.gate.wait()
        if self.fails:
            raise KubeUnavailableError(503, "x", "no etcd for events")
        self.events[body["metadata"]["name"]] = body
        return body


def postman(kube: Kube) -> EventPoster:
    return EventPoster(cast("Any", kube), "operator-1")


async def test_an_hour_of_the_same_warning_is_one_event_with_a_count() -> None:
    kube, log = Kube(), EventLog()
    sender = postman(kube)
    for minute in range(60):
        wait = Wait("not_paused", f"spec.pause is set; {minute} records behind")
        sender.post(OWNER, log.of(wait, minute * 60_000, 60_000))
    await sender.sent()
    (event,) = kube.events.values()
    assert event["count"] == 60
    assert event["message"] == "not_paused: spec.pause is set; 59 records behind"
    assert (event["type"], event["reason"]) == ("Warning", "NotPaused")
    assert event["firstTimestamp"] <= event["lastTimestamp"]
    assert event["involvedObject"] == {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "namespace": "test",
        "name": "demo",
        "uid": "uid-1",
    }


async def test_different_actions_troubles_and_resources_are_different_events() -> None:
    kube, log = Kube(), EventLog()
    sender = postman(kube)
    events = [
        *log.of(DeletePod("demo-1", "u", "probe"), 0, 60_000),
        *log.of(DeletePod("demo-2", "u", "probe"), 0, 60_000),
        *log.of_troubles(
            [Trouble(n, f"pod demo-{n}", "FailedMount", "x") for n in (1, 2)], 0, 60_000
        ),
    ]
    sender.post(OWNER, events)
    sender.post(Owner("test", "demo", "uid-2"), events[:1])
    await sender.sent()
    assert len(kube.events) == 5
    assert all(event["count"] == 1 for event in kube.events.values())


async def test_an_api_server_that_takes_no_events_holds_nothing_up_and_fills_nothing() -> None:
    kube = Kube()
    sender = postman(kube)
    kube.gate.clear()
    for number in range(3 * PENDING_MAX):
        sender.post(OWNER, [Event("Normal", "Done", "x", about=str(number))])
    assert sender.pending == PENDING_MAX
    kube.fails = True
    kube.gate.set()
    async with asyncio.timeout(60):
        await sender.sent()
    assert sender.pending == 0
    kube.fails = False
    sender.post(OWNER, [Event("Normal", "Done", "x")])
    await sender.sent()
    assert len(kube.events) == 1


async def test_an_exit_sends_what_is_pending() -> None:
    kube = Kube()
    sender = postman(kube)
    sender.post(OWNER, [Event("Normal", "Done", "x", about=str(number)) for number in range(3)])
    await sender.close()
    assert (len(kube.events), sender.pending) == (3, 0)


@pytest.mark.without(
    "kraftquorum_operator.report.event_poster:EventPoster.close", "task.cancel()", "pass"
)
async def test_an_exit_does_not_wait_for_an_api_server_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kraftquorum_operator.report.event_poster.CLOSE_S", 0.05)
    kube = Kube()
    kube.gate.clear()
    sender = postman(kube)
    sender.post(OWNER, [Event("Normal", "Done", "x", about=str(number)) for number in range(3)])
    with suppress(TimeoutError):
        async with asyncio.timeout(3):
            await sender.close()
    assert sender.pending == 0


@pytest.mark.parametrize("restarted", [True, False])
async def test_another_operator_begins_events_of_its_own(restarted: bool) -> None:
    """It does not know the count of the one before; it must not set it back."""
    kube = Kube()
    first = postman(kube)
    second = postman(kube) if restarted else first
    for sender in (first, first, second):
        sender.post(OWNER, [Event("Warning", "NotPaused", "x")])
        await sender.sent()
    assert sorted(e["count"] for e in kube.events.values()) == ([1, 2] if restarted else [3])
