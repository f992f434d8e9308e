"""A resource that is being deleted: which objects are deleted or kept, and what never delays it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.errors import ConflictError, NotFoundError, RefusedError
from kraftquorum_operator.execute.tools import Failpoints
from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.observe.deletion import needs_finalizer
from kraftquorum_operator.reconcile import Outcome, Reconciler
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.node_config import node_config
from kraftquorum_operator.settings import Settings
from proofkit.operatorworld.observations import UID, spec

OWNER = Owner("test", "demo", UID)
LATCH = f"ConfigMap/{names.latch(UID)}"
CA = f"Secret/{names.authority('demo')}"
KRQ, SET = f"{names.KIND}/demo", "StatefulSet/demo"
CLAIMS = tuple(f"PersistentVolumeClaim/data-demo-{n}" for n in range(3))
ALL = {
    KRQ, SET, LATCH, *CLAIMS, "Service/demo", "Service/demo-peers", "PodDisruptionBudget/demo",
    "NetworkPolicy/demo",
}  # fmt: skip


class Cluster:
    """An API server with a quorum whose resource was just deleted; what is deleted is gone."""

    def __init__(self, deletion: Any, *, finalizers: tuple[str, ...] = ()) -> None:
        self.live: dict[str, Any] = {}
        self.refused: str | None = None
        self.deleted: list[str] = []
        meta = {
            "namespace": "test",
            "name": "demo",
            "uid": UID,
            "generation": 2,
            "resourceVersion": "5",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [names.FINALIZER, *finalizers],
        }
        resource = {"spec": {"voters": 3, "deletion": deletion}, "status": {"phase": "Running"}}
        self.live[KRQ] = {"kind": names.KIND, "metadata": meta, **resource}
        wanted = spec(voters=3)
        config = node_config(wanted, names.DEFAULTS)
        for key, body in build(OWNER, wanted, 3, config).items():
            named = body["metadata"] | {"uid": f"uid-{key}", "resourceVersion": "7"}
            self.live[str(key)] = body | {"metadata": named}
        labels = {names.LABEL_OWNER_UID: UID}
        for n, key in enumerate(CLAIMS):
            self.live[key] = {
                "metadata": {"name": f"data-demo-{n}", "uid": f"claim-{n}", "labels": labels},
                "spec": {"volumeName": f"v{n}"},
                "status": {"phase": "Bound"},
            }
        self.live[LATCH] = {
            "immutable": True,
            "metadata": {"name": names.latch(UID), "uid": "latch-1"},
            "data": {"clusterId": "c", "voters": "[]"},
        }

    def release(self) -> None:
        """The garbage collector, which obeys `--cascade=orphan`."""
        for body in self.live.values():
            body["metadata"].pop("ownerReferences", None)
        self.live[KRQ]["metadata"]["finalizers"] = [names.FINALIZER]

    async def get(self, kind: str, namespace: str, name: str) -> Any:
        assert namespace == "test"
        return self.live.get(f"{kind}/{name}")

    async def list(self, kind: str, namespace: str, selector: str = "", **_: Any) -> list[Any]:
        del namespace, selector
        return [body for key, body in self.live.items() if key.startswith(f"{kind}/")]

    async def version(self) -> None:
        return None

    async def patch(self, kind: str, _: str, name: str, **given: Any) -> None:
        if kind == "Secret":
            meta = given["change"]["metadata"]
            self.live[f"{kind}/{name}"]["metadata"]["annotations"] = meta["annotations"]
            return
        assert kind == names.KIND
        resource, change = self.live[f"{kind}/{name}"], given["change"]
        if given.get("subresource") == "status":
            resource["status"] |= change["status"]
            return
        assert given["uid"] == UID
        assert change["metadata"].pop("resourceVersion") == resource["metadata"]["resourceVersion"]
        resource["metadata"] |= change["metadata"]

    async def delete(self, kind: str, _: str, name: str, *, uid: str, **__: Any) -> None:
        key = f"{kind}/{name}"
        if key == self.refused:
            raise RefusedError(403, "Forbidden", f"DELETE {key}: 403 not allowed")
        if self.live[key]["metadata"]["uid"] != uid:
            raise ConflictError(409, "Conflict", "another uid")
        self.deleted.append(key)
        del self.live[key]


class Unreachable:
    """Nodes that must not be asked: some never answer."""

    def of(self, _quorum: str) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a deletion asked a node: {name}")


class Held:
    held = True


async def look(cluster: Cluster, count: int = 12) -> Outcome:
    """Look until the resource may go."""
    reconciler = Reconciler(
        kube=cast("Any", cluster),
        nodes=cast("Any", Unreachable()),
        lease=cast("Any", Held()),
        settings=Settings(),
        metrics=Metrics(),
        failpoints=Failpoints(),
    )
    outcome = await reconciler.reconcile("test", "demo", UID)
    for _ in range(count):
        if outcome.deleted:
            break
        outcome = await reconciler.reconcile("test", "demo", UID)
    return outcome


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_the_finalizer_goes_last_and_the_others_stay(policy: str) -> None:
    cluster = Cluster({"claims": policy}, finalizers=("example.test/other",))
    finalizers = [names.FINALIZER, "example.test/other"]
    for left in range(len([SET, *CLAIMS, LATCH] if policy == "Delete" else [SET]), 0, -1):
        assert cluster.live[KRQ]["metadata"]["finalizers"] == finalizers, left
        await look(cluster, 0)
    assert (await look(cluster, 0)).deleted
    assert cluster.live[KRQ]["metadata"]["finalizers"] == ["example.test/other"]


async def test_an_operator_on_standby_leaves_the_finalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Held, "held", False)
    cluster = Cluster({"claims": "Retain"})
    assert not (await look(cluster)).deleted
    assert cluster.live[KRQ]["metadata"]["finalizers"] == [names.FINALIZER]


async def test_deletion_keeps_claims_and_latch_unless_it_is_told_to_take_them() -> None:
    cluster = Cluster({"claims": "Retain"})
    assert (await look(cluster)).deleted
    assert cluster.deleted == [SET]


async def test_deletion_takes_the_claims_then_the_latch_if_it_is_told_to() -> None:
    cluster = Cluster({"claims": "Delete"})
    assert (await look(cluster)).deleted
    assert cluster.deleted == [SET, *CLAIMS, LATCH]


@pytest.mark.parametrize(
    ("policy", "owner", "deleted"),
    [
        ("Retain", UID, [SET]),
        ("Delete", UID, [SET, *CLAIMS, CA, LATCH]),
        ("Delete", "resource-0", [SET, *CLAIMS, LATCH]),
    ],
)
async def test_the_ca_goes_with_the_claims_and_one_of_another_resource_stays(
    policy: str, owner: str, deleted: list[str]
) -> None:
    cluster = Cluster({"claims": policy})
    meta = {"name": "demo-ca", "uid": "ca-1", "labels": {names.LABEL_OWNER_UID: owner}}
    cluster.live[CA] = {"metadata": meta}
    assert (await look(cluster)).deleted
    assert cluster.deleted == deleted


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
@pytest.mark.parametrize("collected", [False, True])
async def test_what_is_to_be_orphaned_is_left_as_it_is(policy: str, collected: bool) -> None:
    """`kubectl delete krq --cascade=orphan` took the quorum down, and its data.

    Whether the operator looks before the garbage collector or after it.
    """
    cluster = Cluster({"claims": policy}, finalizers=("orphan",))
    if collected:
        cluster.release()
    assert (await look(cluster)).deleted
    assert cluster.deleted == []
    assert set(cluster.live) == ALL


async def test_what_is_to_be_orphaned_is_left_when_the_statefulset_was_deleted_before() -> None:
    cluster = Cluster({"claims": "Delete"}, finalizers=("orphan",))
    cluster.release()
    del cluster.live[SET]
    assert (await look(cluster)).deleted
    assert cluster.deleted == []


@pytest.mark.parametrize("broken", ["field", "deletion", "latch", "pods"])
async def test_nothing_that_a_deletion_does_not_need_holds_it_up(broken: str) -> None:
    cluster = Cluster({"claims": "Delete"})
    if broken == "field":
        cluster.live[KRQ]["spec"]["ofAnotherVersion"] = True
    elif broken == "deletion":
        cluster.live[KRQ]["spec"]["deletion"]["unknown"] = 1
    elif broken == "latch":
        cluster.live[LATCH] |= {"immutable": False, "data": None}
    else:
        cluster.live["Pod/demo-0"] = {
            "metadata": {
                "name": "demo-0", "uid": "p0", "creationTimestamp": "2026-01-01T00:00:00Z"
            },
            "status": {"phase": "Running", "podIP": "192.0.2.1"},
        }  # fmt: skip
    assert (await look(cluster)).deleted
    assert cluster.deleted == [SET, *CLAIMS, LATCH]


@pytest.mark.parametrize("deletion", [None, "Delete", {"claims": "delete"}, []])
async def test_a_policy_that_cannot_be_read_takes_no_data(deletion: Any) -> None:
    cluster = Cluster(deletion)
    assert (await look(cluster)).deleted
    assert cluster.deleted == [SET]


async def test_deletion_leaves_what_belongs_to_another_resource() -> None:
    cluster = Cluster({"claims": "Delete"})
    cluster.live[SET]["metadata"]["labels"][names.LABEL_OWNER_UID] = "resource-0"
    cluster.live[CLAIMS[1]]["metadata"]["labels"] = {names.LABEL_OWNER_UID: "resource-0"}
    assert (await look(cluster)).deleted
    assert cluster.deleted == [CLAIMS[0], CLAIMS[2], LATCH]


async def test_a_deletion_says_what_it_does_and_what_does_not_let_it() -> None:
    cluster = Cluster({"claims": "Delete"})
    cluster.refused = CLAIMS[0]
    outcome = await look(cluster, 4)
    assert outcome.failed
    status = cluster.live[KRQ]["status"]
    assert status["phase"] == "Deleting"
    assert "DeleteClaim data-demo-0" in status["message"]
    assert "403 not allowed" in status["message"]


def issued(cluster: Cluster, *, mode: str = "CertManager") -> None:
    """Two pods and the operator have Certificates of cert-manager."""
    cluster.live[KRQ]["spec"]["tls"] = {"mode": mode}
    cluster.live[KRQ]["status"]["tls"] = {"level": "required"}
    made = {
        names.LABEL_MANAGED_BY: names.MANAGER,
        names.LABEL_INSTANCE: "demo",
        names.LABEL_OWNER_UID: UID,
    }
    cluster.live[CA] = {
        "metadata": {
            "name": "demo-ca",
            "uid": "ca-1",
            "resourceVersion": "7",
            "labels": made,
            "annotations": {names.ANNOTATION_ISSUED: "2"},
        }
    }
    for kind in ("Certificate", "Secret"):
        for name in ISSUED:
            cluster.live[f"{kind}/{name}"] = {
                "metadata": {"name": name, "uid": f"{kind}-{name}", "labels": made}
            }


ISSUED = ("demo-operator-issued", "demo-0-issued", "demo-1-issued")


@pytest.mark.without(
    "kraftquorum_operator.observe.deletion:_read_left",
    'for kind in ("Certificate", "Secret"):',
    'for kind in ("Secret", "Certificate"):',
)
async def test_certificates_of_cert_manager_go_before_their_secrets_and_claims_stay() -> None:
    cluster = Cluster({"claims": "Retain"})
    issued(cluster)
    outcome = await look(cluster)
    assert outcome.deleted
    assert cluster.deleted == [
        SET,
        *(f"Certificate/{name}" for name in ISSUED),
        *(f"Secret/{name}" for name in ISSUED),
    ]
    assert cluster.live[CA]["metadata"]["annotations"] == {names.ANNOTATION_ISSUED: "0"}


async def test_a_secret_of_another_owner_stays_and_delays_nothing() -> None:
    cluster = Cluster({"claims": "Retain"})
    issued(cluster)
    cluster.live["Secret/demo-1-issued"]["metadata"]["labels"] = {}
    outcome = await look(cluster)
    assert outcome.deleted
    assert "Secret/demo-1-issued" in cluster.live
    assert "Certificate/demo-1-issued" in cluster.deleted


async def test_a_cluster_without_cert_manager_does_not_delay_the_deletion() -> None:
    cluster = Cluster({"claims": "Delete"})
    issued(cluster, mode="Managed")
    known = cluster.get

    async def get(kind: str, namespace: str, name: str) -> Any:
        if kind == "Certificate":
            raise NotFoundError(404, "NotFound", "no such kind")
        return await known(kind, namespace, name)

    cluster.get = get
    outcome = await look(cluster, 20)
    assert outcome.deleted
    assert [name for name in ISSUED if f"Secret/{name}" in cluster.live] == []
    assert CA not in cluster.live


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({}, False),
        ({"tls": {"mode": "Managed"}}, False),
        ({"tls": {"mode": "CertManager"}}, True),
        ({"deletion": {"claims": "Delete"}}, True),
        ({"tls": "damaged", "deletion": 3}, False),
    ],
)
def test_only_what_owner_references_do_not_delete_needs_the_finalizer(
    spec: Any, needed: bool
) -> None:
    assert needs_finalizer({"spec": spec}) is needed
