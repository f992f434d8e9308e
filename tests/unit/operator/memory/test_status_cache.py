"""What the status page shows: our own looks first, what a watch brings otherwise."""

from __future__ import annotations

from typing import Any

from kraftquorum_operator.memory.status_cache import StatusCache
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.plan.actions import Done
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from proofkit.operatorworld.observations import UID, healthy, spec

OWNER = Owner("test", "demo", UID)
KEY = ("test", "demo")
STATUS = build_status(
    spec(), healthy(), Done("well"), current_action=None, before=(), stamp=Stamp("now", 1)
)


def resource(uid: str = UID, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "test", "name": "demo", "uid": uid},
        "spec": {"voters": 5},
        "status": status,
    }


def test_one_on_standby_shows_what_the_active_one_wrote() -> None:
    statuses = StatusCache(QuorumStatus)
    written = STATUS.model_dump(by_alias=True, exclude_none=True, mode="json")
    statuses.reported(resource(**written), 1.0)
    seen = statuses.quorums[KEY]
    assert (seen.voters, seen.status, seen.at_s, seen.own) == (5, STATUS, 1.0, False)
    statuses.reported(resource(), 2.0)
    assert statuses.quorums[KEY].status is None


def test_an_own_look_goes_before_a_watch_until_another_operator_looks() -> None:
    """A label that a person edits must not make a look of an hour ago a fresh report."""
    statuses = StatusCache(QuorumStatus)
    statuses.observed(OWNER, 3, STATUS, 100.0)
    statuses.reported(resource(), 4000.0)
    assert (statuses.quorums[KEY].own, statuses.quorums[KEY].at_s) == (True, 100.0)
    statuses.released("test", "demo")
    assert (statuses.quorums[KEY].own, statuses.quorums[KEY].at_s) == (False, 100.0)
    statuses.reported(resource(), 4001.0)
    assert statuses.quorums[KEY].at_s == 4001.0
    statuses.released("test", "other")


def test_another_resource_of_the_same_name_is_another_quorum() -> None:
    statuses = StatusCache(QuorumStatus)
    statuses.observed(OWNER, 3, STATUS, 100.0)
    statuses.reported(resource(uid="resource-2"), 101.0)
    assert statuses.quorums[KEY].uid == "resource-2"
    statuses.forget("test", "demo", UID)
    assert KEY in statuses.quorums
    statuses.forget("test", "demo", "resource-2")
    assert statuses.quorums == {}
