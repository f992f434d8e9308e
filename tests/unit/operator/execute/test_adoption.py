"""Adoption of a quorum creates its latch and deletes the latch of the deleted resource."""

from __future__ import annotations

from typing import Any, cast

from kraftquorum_operator import names
from kraftquorum_operator.errors import ConflictError, KubeUnavailableError
from kraftquorum_operator.execute.formation import adopt_quorum, create_latch
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import LatchVoter
from kraftquorum_operator.plan.actions import AdoptQuorum, CreateLatch
from kraftquorum_operator.resources.latch import latch
from proofkit.operatorworld.observations import CLUSTER, healthy, replica

VOTERS = tuple(LatchVoter(replica(n), f"demo-{n}:9093") for n in range(3))
NOW = Owner("test", "demo", "now")


class Kube:
    """ConfigMaps by name."""

    def __init__(self, *bodies: Body) -> None:
        self.maps = {body["metadata"]["name"]: body for body in bodies}
        self.calls: list[str] = []

    async def create(self, body: Body) -> Body:
        name = body["metadata"]["name"]
        self.calls.append(f"create {name}")
        if name in self.maps:
            raise ConflictError(409, "AlreadyExists", name)
        self.maps[name] = body
        return body

    async def list(self, kind: str, namespace: str, selector: str) -> list[Body]:
        assert (kind, namespace) == ("ConfigMap", "test")
        wanted = dict(part.split("=") for part in selector.split(","))
        return [b for b in self.maps.values() if wanted.items() <= b["metadata"]["labels"].items()]

    async def delete(self, kind: str, _namespace: str, name: str, *, uid: str, **_: Any) -> None:
        assert kind == "ConfigMap"
        assert self.maps[name]["metadata"]["uid"] == uid, "S21"
        self.calls.append(f"delete {name}")
        del self.maps[name]


def made(uid: str, name: str = "demo", cluster_id: str = CLUSTER) -> Body:
    body = latch(Owner("test", name, uid), cluster_id, VOTERS, adopted=False)
    return body | {"metadata": body["metadata"] | {"uid": f"map-{uid}"}}


def tools(kube: object) -> Tools:
    return Tools(cast("Any", kube), cast("Any", None), NOW, healthy(), {}, 1000, Failpoints())


async def test_the_latch_of_the_deleted_resource_goes_once_its_quorum_is_adopted() -> None:
    other = made("other", name="another")
    lost = made("lost", cluster_id="LostLostLostLostLostLo")
    kube = Kube(made("before"), other, lost)
    await adopt_quorum(AdoptQuorum(CLUSTER, VOTERS), tools(kube))
    assert set(kube.maps) == {names.latch(uid) for uid in ("now", "other", "lost")}
    assert kube.calls == [f"delete {names.latch('before')}", f"create {names.latch('now')}"], (
        "an operator that ends in between adopts again"
    )


async def test_a_latch_is_adopted_though_that_of_the_deleted_resource_cannot_be_deleted() -> None:
    class Away(Kube):
        async def list(self, *_: Any) -> list[Body]:
            raise KubeUnavailableError(500, "x", "away")

    kube = Away()
    await adopt_quorum(AdoptQuorum(CLUSTER, VOTERS), tools(kube))
    assert names.latch("now") in kube.maps


async def test_a_formation_deletes_no_latch() -> None:
    kube = Kube(made("before"))
    await create_latch(CreateLatch(VOTERS), tools(kube))
    assert names.latch("before") in kube.maps
