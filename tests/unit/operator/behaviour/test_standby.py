"""An operator on standby: its view of quorums, and that it forgets deleted quorums."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from kraftquorum_operator import evaluation
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.errors import KubeError
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.plan.actions import Done
from kraftquorum_operator.reconcile import RECHECK_S, Reconciler
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.observations import UID, healthy, spec

KEY = ("test", "demo")
STATUS = build_status(
    spec(), healthy(), Done("well"), current_action=None, before=(), stamp=Stamp("now", 1)
)


def resource(uid: str = UID) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "test", "name": "demo", "uid": uid},
        "spec": {"voters": 5},
        "status": STATUS.model_dump(by_alias=True, exclude_none=True, mode="json"),
    }


class Kube:
    """Has one resource, or none; counts who asks."""

    def __init__(self, found: Any) -> None:
        self.found, self.asked = found, 0

    async def get(self, *_: str) -> Any:
        self.asked += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Lease:
    held = False


@pytest.fixture
def kube() -> Kube:
    return Kube(resource())


@pytest.fixture
def reconciler(kube: Kube) -> Reconciler:
    return Reconciler(
        kube=cast("Any", kube),
        nodes=HttpNodes(1.0),
        lease=cast("Any", Lease()),
        settings=Settings(),
        metrics=Metrics(),
        failpoints=Failpoints(),
    )


def series(reconciler: Reconciler) -> set[str]:
    return {
        sample.name
        for family in reconciler.metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("quorum") == "demo"
    }


async def test_it_asks_only_now_and_then_whether_the_quorum_is_there(
    reconciler: Reconciler, kube: Kube
) -> None:
    reconciler.statuses.reported(resource(), time.time())
    for _ in range(5):
        assert not (await reconciler.reconcile(*KEY, UID)).gone
    assert kube.asked == 0
    reconciler.memories[UID].checked_s -= RECHECK_S
    for _ in range(5):
        assert not (await reconciler.reconcile(*KEY, UID)).gone
    assert kube.asked == 1
    assert "kraftquorum_reconciles_total" in series(reconciler)


@pytest.mark.parametrize("found", [None, resource(uid="another")])
async def test_a_quorum_whose_deletion_no_watch_has_told_is_forgotten(
    reconciler: Reconciler, kube: Kube, found: Any
) -> None:
    reconciler.statuses.reported(resource(), time.time())
    assert not (await reconciler.reconcile(*KEY, UID)).gone
    kube.found = found
    reconciler.memories[UID].checked_s -= RECHECK_S
    outcome = await reconciler.reconcile(*KEY, UID)
    assert outcome.gone
    assert outcome.deleted
    assert reconciler.statuses.quorums == {}
    assert reconciler.memories == {}
    assert series(reconciler) == set()


async def test_an_api_server_that_is_away_makes_nothing_forgotten(
    reconciler: Reconciler, kube: Kube
) -> None:
    reconciler.statuses.reported(resource(), time.time())
    await reconciler.reconcile(*KEY, UID)
    kube.found = KubeError(0, "Away", "away")
    reconciler.memories[UID].checked_s -= RECHECK_S
    for _ in range(3):
        assert not (await reconciler.reconcile(*KEY, UID)).gone
    assert kube.asked == 1
    assert KEY in reconciler.statuses.quorums


async def test_what_it_saw_itself_gives_way_to_what_the_active_one_writes(
    reconciler: Reconciler, kube: Kube
) -> None:
    """It had the Lease once; no event may come for hours when the quorum is well."""
    reconciler.statuses.observed(Owner(*KEY, UID), 3, STATUS, time.time() - 1000)
    kube.found = resource()
    await reconciler.reconcile(*KEY, UID)
    assert not reconciler.statuses.quorums[KEY].own
    reconciler.memories[UID].checked_s -= RECHECK_S
    await reconciler.reconcile(*KEY, UID)
    assert reconciler.statuses.quorums[KEY].voters == 5
    assert time.time() - reconciler.statuses.quorums[KEY].at_s < 10


async def test_a_quorum_that_is_gone_leaves_no_series_on_the_active_one_either(
    reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def observe(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(evaluation, "observe", observe)
    monkeypatch.setattr(Lease, "held", True)
    reconciler.statuses.observed(Owner(*KEY, UID), 3, STATUS, time.time())
    reconciler.metrics.reconciles.labels(*KEY, "done").inc()
    assert (await reconciler.reconcile(*KEY, UID)).gone
    assert series(reconciler) == set()
    assert reconciler.statuses.quorums == {}
