"""Deletions beside the ordinary one: what is to be orphaned, and what a deletion does not need."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(900)]

FINALIZER = "kraftquorum.io/quorum"


def _uids(krq, kind: str) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in krq.list(kind)}


def _owners(krq) -> list[str]:
    """What still names the resource as its owner."""
    kinds = ("sts", "pdb")
    return [
        f"{kind}/{one['metadata']['name']}"
        for kind in kinds
        for one in krq.list(kind)
        if one["metadata"].get("ownerReferences")
    ]


@pytest.mark.parametrize("away", [False, True])
def test_an_orphaned_quorum_runs_on_with_its_data(krq, operators, writing, away: bool) -> None:
    """`--cascade=orphan`, with `claims: Delete`; while the operator is there, and while it is away,
    so that the garbage collector is done before the operator looks."""
    operator = operators.start()
    krq.apply(voters=3, deletion={"claims": "Delete"})
    krq.ready(3)
    krq.until("held", lambda: krq.get()["metadata"].get("finalizers") == [FINALIZER])
    writing.start()
    kinds = ("sts", "pdb", "pods", "pvc", "configmaps")
    before = {kind: _uids(krq, kind) for kind in kinds}
    if away:
        operators.stop(operator)
    krq.kubectl("delete", "krq", "demo", "--cascade=orphan", "--wait=false")
    krq.until("released by the garbage collector", lambda: not _owners(krq))
    if away:
        operators.start()
    krq.until("the resource gone", lambda: not krq.list("krq"))
    acknowledged = writing.acknowledged
    krq.until("writable", lambda: writing.acknowledged > acknowledged + 20)
    assert {kind: _uids(krq, kind) for kind in kinds} == before
    assert not [a for a in operators.actions() if a.startswith("Delete")]
    writing.finish(bounded=True)


def test_a_resource_whose_claims_are_kept_goes_without_an_operator(krq, operators) -> None:
    operator = operators.start()
    krq.apply(voters=1)
    krq.ready(1)
    assert not krq.get()["metadata"].get("finalizers")
    operators.stop(operator)
    krq.delete()
    krq.until("pods gone", lambda: not krq.list("pods") and not krq.list("sts"))
    assert len(krq.list("pvc")) == 1


def test_a_broken_latch_holds_no_deletion_up(krq, operators) -> None:
    operators.start()
    krq.apply(voters=1, deletion={"claims": "Delete"})
    krq.ready(1)
    krq.apply(voters=1, deletion={"claims": "Delete"}, pause=True)
    krq.until("paused", lambda: krq.status().get("phase") == "Paused")
    (latch,) = krq.latches()
    name = latch["metadata"]["name"]
    krq.kubectl("delete", "configmap", name)
    broken = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"x": ""},
    }
    krq.kubectl("create", "-f", "-", stdin=json.dumps(broken))
    krq.until("told", lambda: krq.condition("Failing").get("status") == "True")
    krq.delete()
    krq.until("claims gone", lambda: not krq.list("pvc") and not krq.list("pods"))
    assert not krq.latches()
