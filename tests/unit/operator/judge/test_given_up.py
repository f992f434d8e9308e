"""Pauses grow before the operator gives up volumes that fail one after the other."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import ConflictError
from kraftquorum_operator.execute.objects import delete_claim
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.judge.given_up import HOUR_MS, HOURLY_MAX, PAUSES_MS, wait_ms
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.observation import GivenUp, Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.kube import NOTES_MAX, read_statefulset, with_note
from kraftquorum_operator.plan.actions import DeleteClaim, Wait
from kraftquorum_operator.report.conditions import conditions
from kraftquorum_operator.report.stamp import Stamp
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import (
    NOW_MS,
    UID,
    claim,
    healthy,
    pod,
    spec,
    with_claim,
    with_pod,
    without_node,
)
from proofkit.operatorworld.world import World

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOUR_TICKS = 2 * 3600


def broken_class(world: World, ordinal: int, ticks: int) -> list[int]:
    """Every volume of an ordinal fails from now on; when each one was given up, in ms."""
    given_up: list[int] = []
    for _ in range(ticks):
        disk = world.disks.get(ordinal)
        if disk is not None and not disk.corrupt:
            world.corrupt(ordinal)
        decision = world.step()
        if isinstance(decision, DeleteClaim):
            given_up.append(world.now_ms)
        world.tick()
    return given_up


def test_a_storage_class_whose_volumes_all_fail_costs_a_few_volumes_and_says_so() -> None:
    """Three fresh claims were burnt in a row, and more would have been, without end."""
    world = World(QuorumSpec.model_validate({"voters": 3}))
    for _ in range(60):
        world.step()
        world.tick()
    given_up = broken_class(world, 2, HOUR_TICKS)
    assert 2 <= len(given_up) <= HOURLY_MAX + 1
    pauses = [later - before for before, later in pairwise(given_up[1:])]
    assert pauses == sorted(pauses), "they grow"
    decision = world.step()
    assert isinstance(decision, Wait)
    assert decision.guard == "replacements_spaced"
    assert "data-demo-2" in decision.why
    assert "storage class" in decision.why
    told = {c.type: c for c in conditions(world.look(), 3, decision, (), Stamp("now", 1))}
    assert told["VolumesFailing"].status == "True"
    assert "replica 2" in told["VolumesFailing"].message


def note(age_ms: int, *, unused: bool = True) -> GivenUp:
    return GivenUp(f"claim-{age_ms}", age_ms, unused)


@pytest.mark.parametrize(
    ("notes", "wait"),
    [
        ((), 0),
        ((note(0, unused=False),), 0),
        ((note(10_000), note(20_000, unused=False)), PAUSES_MS[1] - 10_000),
        ((note(10_000), note(80_000)), PAUSES_MS[2] - 10_000),
        ((note(10_000), note(80_000, unused=False), note(90_000)), PAUSES_MS[1] - 10_000),
        (tuple(note(n) for n in range(9)), HOUR_MS),
        (tuple(note(n * 1000, unused=False) for n in range(HOURLY_MAX)), HOUR_MS - 3000),
        (tuple(note(HOUR_MS + n) for n in range(4)), 0),
    ],
)
def test_the_pause_grows_with_the_volumes_that_failed_in_a_row(notes: Any, wait: int) -> None:
    assert wait_ms(notes) == wait


def test_what_is_noted_is_read_again_once_for_each_claim_and_for_a_day() -> None:
    value = ""
    for n in range(NOTES_MAX + 3):
        value = with_note(value, f"uid-{n}", unused=n % 2 == 0, now=NOW + timedelta(minutes=n))
    value = with_note(value, f"uid-{NOTES_MAX + 2}", unused=True, now=NOW + timedelta(hours=1))
    body = {
        "metadata": {
            "uid": "u",
            "resourceVersion": "1",
            "annotations": {
                f"{names.ANNOTATION_GIVEN_UP}2": value,
                f"{names.ANNOTATION_GIVEN_UP}x": value,
                f"{names.ANNOTATION_GIVEN_UP}1": "nonsense 2026-01-01 2026/unused/x",
            },
        },
        "spec": {},
    }
    found = read_statefulset(body, NOW + timedelta(hours=2))
    assert found is not None
    notes = found.given_up_of(2)
    assert [one.claim_uid for one in notes] == [f"uid-{n}" for n in range(3, NOTES_MAX + 3)]
    assert notes[-1] == GivenUp(f"uid-{NOTES_MAX + 2}", HOUR_MS, unused=True)
    assert found.given_up_of(1) == found.given_up_of(0) == ()
    later = read_statefulset(body, NOW + timedelta(days=2))
    assert later is not None
    assert later.given_up_of(2) == ()


def noted(at: datetime) -> Observation:
    """Replica 3's new volume has failed; another one was given up at that time, says a note."""
    value = with_note("", "uid-1", unused=True, now=at)
    meta = {
        "uid": "sts-1",
        "resourceVersion": "42",
        "annotations": {f"{names.ANNOTATION_GIVEN_UP}3": value},
        "labels": {names.LABEL_OWNER_UID: UID},
    }
    status = {"updateRevision": "r1"}
    found = read_statefulset({"metadata": meta, "spec": {"replicas": 4}, "status": status}, NOW)
    failed = replace(pod(3, voter=False), ready=False, exit_code=13, restarts=2)
    assert found is not None
    observation = healthy(3, replicas=4)
    assert observation.statefulset is not None
    found = replace(found, records=observation.statefulset.records)
    observation = with_pod(without_node(replace(observation, statefulset=found), 3), failed)
    return with_claim(observation, replace(claim(3), record=None))


def test_a_note_from_the_future_delays_no_replacement() -> None:
    """The clock of the operator that wrote it was hours ahead, until it was set right."""
    decision = decide(spec(voters=4), noted(NOW + timedelta(hours=20)), NOW_MS)
    assert isinstance(decision, DeleteClaim), decision


def test_clocks_of_two_operators_may_differ_by_some_minutes() -> None:
    for ahead in (timedelta(), timedelta(seconds=1), timedelta(minutes=4)):
        decision = decide(spec(voters=4), noted(NOW + ahead), NOW_MS)
        assert isinstance(decision, Wait)
        assert decision.guard == "replacements_spaced"


class Kube:
    """One StatefulSet, whose version another operator may have changed meanwhile."""

    def __init__(self, *, raced: bool = False) -> None:
        self.body: dict[str, Any] = {"metadata": {"uid": "sts-1", "resourceVersion": "7"}}
        self.raced = raced
        self.done: list[str] = []

    async def get(self, *_: str) -> Any:
        return self.body

    async def patch(self, *_: str, uid: str, change: Any) -> None:
        assert uid == "sts-1"
        assert change["metadata"]["resourceVersion"] == "7"
        if self.raced:
            raise ConflictError(409, "Conflict", "changed")
        self.body["metadata"]["annotations"] = change["metadata"]["annotations"]
        self.done.append("noted")

    async def delete(self, kind: str, namespace: str, name: str, **_: Any) -> None:
        self.done.append(f"{kind} {namespace}/{name}")


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_volume_is_noted_before_it_is_given_up(fresh: bool) -> None:
    kube, observation = Kube(), healthy()
    if fresh:
        observation = with_claim(observation, replace(claim(2), uid="fresh", record=None))
    owner = Owner("test", "demo", UID)
    tools = Tools(cast("Any", kube), cast("Any", None), owner, observation, {}, 1, Failpoints())
    uid = "fresh" if fresh else "claim-2"
    await delete_claim(DeleteClaim("data-demo-2", uid, "lost", 2), tools)
    assert kube.done == ["noted", "PersistentVolumeClaim test/data-demo-2"]
    value = kube.body["metadata"]["annotations"][f"{names.ANNOTATION_GIVEN_UP}2"]
    assert value.endswith(f"/{'unused' if fresh else 'used'}/{uid}")
    raced = Kube(raced=True)
    tools = Tools(cast("Any", raced), cast("Any", None), owner, observation, {}, 1, Failpoints())
    with pytest.raises(ConflictError):
        await delete_claim(DeleteClaim("data-demo-2", uid, "lost", 2), tools)
    assert raced.done == [], "what cannot be noted is not given up"
