"""The operator never overwrites Services and budgets of another owner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.clients.nodes import HttpNodes
from kraftquorum_operator.memory.refused_requests import Refusals
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.observe.foreign import foreign_objects
from kraftquorum_operator.observe.quorum import Silence
from kraftquorum_operator.observe.read import Observed, observe
from kraftquorum_operator.plan.actions import ApplyObjects, CreateStatefulSet, Done, Wait
from kraftquorum_operator.plan.compare import compare
from kraftquorum_operator.resources.build import build
from kraftquorum_operator.resources.node_config import node_config
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import NOW_MS, UID, blank, healthy, spec

OWNER = Owner("test", "demo", UID)
PLAIN = {"kind": "Service", "metadata": {"name": "demo", "uid": "u"}, "spec": {"ports": []}}
WHY = ((ObjectRef("Service", "demo"), "it exists already and belongs to another owner"),)


def owned(kind: str, name: str, uid: str, *, controller: bool = True) -> dict[str, Any]:
    reference = {"kind": kind, "name": name, "uid": uid, "controller": controller}
    return PLAIN | {"metadata": PLAIN["metadata"] | {"ownerReferences": [reference]}}


def labelled(**labels: str) -> dict[str, Any]:
    return PLAIN | {"metadata": PLAIN["metadata"] | {"labels": labels}}


OURS = {names.LABEL_MANAGED_BY: names.MANAGER, names.LABEL_INSTANCE: "demo"}


@pytest.mark.parametrize(
    ("body", "whose"),
    [
        (PLAIN, "another owner"),
        (labelled(**(OURS | {names.LABEL_INSTANCE: "other"})), "another owner"),
        (labelled(**(OURS | {names.LABEL_MANAGED_BY: "Helm"})), "another owner"),
        (owned("Deployment", "web", "u2"), "Deployment web"),
        (owned(names.KIND, "demo-peers", "u2"), "KRaftQuorum demo-peers"),
        (owned("Deployment", "web", "u2", controller=False), "another owner"),
        (owned(names.KIND, "demo", UID), None),
        (owned(names.KIND, "demo", "of-the-one-before"), None),
        (labelled(**OURS), None),
    ],
)
def test_an_object_is_ours_by_its_owner_or_by_our_labels(body: Any, whose: str | None) -> None:
    found = dict(foreign_objects(OWNER, [body]))
    assert (whose is None) == (not found)
    assert whose is None or f"belongs to {whose};" in found[ObjectRef("Service", "demo")]


def bodies(owner: Owner) -> dict[ObjectRef, Body]:
    """All objects of a quorum of that resource, as the operator writes them."""
    wanted = spec(voters=3)
    return build(owner, wanted, 3, node_config(wanted, names.DEFAULTS))


def test_what_the_operator_itself_makes_is_ours() -> None:
    assert not foreign_objects(OWNER, bodies(OWNER).values())


def test_the_services_of_a_and_of_a_peers_are_told_apart() -> None:
    one, other = Owner("test", "a", "u1"), Owner("test", "a-peers", "u2")
    found = [body for key, body in bodies(one).items() if key == ObjectRef("Service", "a-peers")]
    assert len(found) == 1
    assert (
        "belongs to KRaftQuorum a;"
        in dict(foreign_objects(other, found))[ObjectRef("Service", "a-peers")]
    )


class Kube:
    """An API server with a resource, and objects that were there before it."""

    def __init__(self, *bodies: dict[str, Any], **given: Any) -> None:
        self.spec = {"voters": 3, **given}
        self.bodies = {(body["kind"], body["metadata"]["name"]): body for body in bodies}

    async def get(self, kind: str, _: str, name: str) -> Any:
        if kind == names.KIND:
            meta = {"name": "demo", "uid": UID, "generation": 1}
            return {"metadata": meta, "spec": self.spec}
        return self.bodies.get((kind, name))

    async def list(self, *_: object, **__: object) -> list[Any]:
        return []

    async def version(self) -> tuple[int, int]:
        return (1, 34)


async def look(*bodies: dict[str, Any], **given: Any) -> Observed:
    found = await observe(
        Kube(*bodies, **given),  # pyright: ignore[reportArgumentType]
        HttpNodes(1.0),
        "test",
        "demo",
        silence=Silence(),
        now_ms=0,
    )
    assert isinstance(found, Observed)
    desired = compare(found.owner, found.spec, found.observation, found.live)
    return replace(found, observation=desired.mark(found.observation))


async def test_it_is_read_as_refused_and_not_as_outdated() -> None:
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "demo", "uid": "u"}, "spec": {}}
    observation = (await look(PLAIN, budget)).observation
    assert [key for key, _ in observation.refused] == [
        ObjectRef("PodDisruptionBudget", "demo"),
        ObjectRef("Service", "demo"),
    ]
    assert observation.outdated == (
        ObjectRef("Service", "demo-peers"),
        ObjectRef("NetworkPolicy", "demo"),
    )
    assert observation.budget is None, (
        "the count of another owner's budget says nothing, nor is it touched"
    )
    assert Refusals().mark(observation, 0).refused == observation.refused
    mine = (await look(labelled(**OURS))).observation
    assert not mine.refused
    assert ObjectRef("Service", "demo") in mine.outdated


async def test_a_policy_of_another_owner_is_in_the_way_only_where_one_is_wanted() -> None:
    policy = {"kind": "NetworkPolicy", "metadata": {"name": "demo", "uid": "u"}, "spec": {}}
    ref = ObjectRef("NetworkPolicy", "demo")
    wanted = (await look(policy)).observation
    assert [key for key, _ in wanted.refused] == [ref]
    assert ref not in wanted.outdated
    unwanted = (await look(policy, networkPolicy={"enabled": False})).observation
    assert unwanted.refused == ()
    assert ref not in unwanted.outdated, "the operator would delete another owner's policy"


def test_formation_and_repair_go_on_and_the_rest_waits_and_says_why() -> None:
    unmade = replace(blank(), statefulset=None, pods=(), nodes=(), claims=(), refused=WHY)
    assert isinstance(decide(spec(voters=3), unmade, NOW_MS), CreateStatefulSet)
    well = replace(healthy(3), refused=WHY)
    for voters in (1, 3, 5):
        decision = decide(spec(voters=voters), well, NOW_MS)
        assert isinstance(decision, Wait)
        assert decision.guard == "objects_written"
        assert "Service/demo: it exists already" in decision.why
    outdated = replace(well, outdated=(ObjectRef("PodDisruptionBudget", "demo"),))
    assert decide(spec(voters=3), outdated, NOW_MS) == ApplyObjects(outdated.outdated)
    assert isinstance(decide(spec(voters=3), replace(well, refused=()), NOW_MS), Done)
