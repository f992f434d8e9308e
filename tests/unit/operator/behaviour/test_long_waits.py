"""A quorum that is paused, lost or waits for volumes is not observed each second; another guard does not slow down."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraftquorum_operator import evaluation
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.observe.read import Observed
from kraftquorum_operator.plan.actions import Decision, Done, Wait
from kraftquorum_operator.plan.compare import Desired
from kraftquorum_operator.plan.guards import GUARDS
from kraftquorum_operator.reconcile import Reconciler
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.observations import UID, healthy, spec


class Kube:
    async def apply(self, body: Any, _: str = "") -> Any:
        return body


class Held:
    held = True


async def pauses(monkeypatch: pytest.MonkeyPatch, *decisions: Decision) -> list[float]:
    """The pause after each of these decisions about one quorum."""
    observation, left = healthy(), list(decisions)
    observed = Observed(
        spec(voters=3), observation, Owner("test", "demo", UID), {"metadata": {}}, (), (), 1
    )

    async def observe(*_: object, **__: object) -> Observed:
        return observed

    monkeypatch.setattr(evaluation, "observe", observe)
    monkeypatch.setattr(evaluation, "compare", lambda *_: Desired({}, observation.outdated, ()))
    monkeypatch.setattr(evaluation, "decide", lambda *_: left.pop(0))
    reconciler = Reconciler(
        kube=cast("Any", Kube()),
        nodes=HttpNodes(1.0),
        lease=cast("Any", Held()),
        settings=Settings(),
        metrics=Metrics(),
        failpoints=Failpoints(),
    )
    return [(await reconciler.reconcile("test", "demo", UID)).pause_s for _ in decisions]


@pytest.mark.parametrize(
    "guard",
    [
        "not_paused",
        "never_rebootstrap",
        "claim_growth_accepted",
        "volume_has_grown",
    ],
)
async def test_a_quorum_that_waits_for_a_person_backs_off(
    monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    assert guard in GUARDS
    wait = Wait(guard, "why")
    assert await pauses(monkeypatch, *[wait] * 6) == [1, 2, 4, 8, 10, 10]


async def test_a_change_ends_the_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = Wait("not_paused", "why")
    other = Wait("node_catches_up", "why")
    found = await pauses(monkeypatch, wait, wait, other, other, wait, Done("converged"), wait)
    assert found == [1, 2, 1, 1, 1, 10, 1]
