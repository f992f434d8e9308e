"""What the operator restores in a StatefulSet while nodes would refuse the wanted settings."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, cast

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.execute.objects import apply_objects
from kraftquorum_operator.execute.tools import Failpoints, Tools
from kraftquorum_operator.model.objects import ObjectRef
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.observe.quorum import Silence
from kraftquorum_operator.observe.read import Observed, observe
from kraftquorum_operator.plan.actions import ApplyObjects, Wait
from kraftquorum_operator.plan.compare import Desired, compare
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.fleet import NAMESPACE, Fleet, FleetKube
from proofkit.operatorworld.observations import NOW_MS
from proofkit.operatorworld.patches import merged

KEY, SET = ObjectRef("StatefulSet", "q0"), ("StatefulSet", "q0")
REFUSED = {"log_retention_byte": 5}
RETAINED = {"whenDeleted": "Retain", "whenScaled": "Retain"}


class Kube(FleetKube):
    """Takes patches, too."""

    async def patch(self, kind: str, _namespace: str, name: str, *, uid: str, change: Any) -> Any:
        live = self.fleet.objects[kind, name]
        assert live["metadata"]["uid"] == uid
        self.fleet.objects[kind, name] = merged(live, change)
        return self.fleet.objects[kind, name]


class Nodes:
    """The replicas of a healthy quorum."""

    def __init__(self, fleet: Fleet) -> None:
        self.member = fleet.members["q0"]

    def secure(self, quorum: str, accesses: Any) -> None:
        pass

    async def node(self, address: str) -> Any:
        host = address.rpartition(":")[0]
        return self.member.node(next(n for n in range(3) if self.member.address(n) == host))

    async def quorum(self, _: str) -> Any:
        return self.member.quorum()


async def look(fleet: Fleet) -> Observed:
    kube = cast("Any", Kube(fleet))
    nodes = cast("Any", Nodes(fleet))
    found = await observe(kube, nodes, NAMESPACE, "q0", silence=Silence(), now_ms=NOW_MS)
    assert isinstance(found, Observed)
    return replace(found, observation=desired(found).mark(found.observation))


def desired(found: Observed) -> Desired:
    return compare(found.owner, found.spec, found.observation, found.live)


def refused() -> Fleet:
    """A quorum of which settings, and with them another image, are wanted that nodes refuse."""
    fleet = Fleet(1)
    wanted = QuorumSpec.model_validate(
        {"voters": 3, "image": "node:1", "tls": {"mode": "Disabled"}}
    )
    fleet.objects |= fleet.members["q0"].objects(wanted)
    fleet.objects[names.KIND, "q0"]["spec"] |= {"config": REFUSED, "image": "another:2"}
    # As an API server shows it: with defaults that no manifest has.
    template = fleet.objects[SET]["spec"]["template"]["spec"]
    template |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    return fleet


@pytest.mark.rule("S25")
@pytest.mark.parametrize(
    "change",
    [
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
        {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"}},
        {"ordinals": {"start": 1}},
    ],
    ids=["strategy", "retention", "ordinals"],
)
async def test_protections_are_put_back_while_settings_are_refused(change: dict[str, Any]) -> None:
    fleet = refused()
    before = copy.deepcopy(fleet.objects[SET]["spec"])
    fleet.objects[SET] = merged(fleet.objects[SET], {"spec": change})
    found = await look(fleet)
    decision = decide(found.spec, found.observation, NOW_MS)
    assert decision == ApplyObjects((KEY,))
    tools = Tools(
        cast("Any", Kube(fleet)),
        cast("Any", None),
        found.owner,
        found.observation,
        desired(found).bodies,
        1,
        Failpoints(),
    )
    await apply_objects(decision, tools)
    after = fleet.objects[SET]["spec"]
    assert after.get("ordinals") is None
    assert after["updateStrategy"] == {"type": "OnDelete"}
    assert after["persistentVolumeClaimRetentionPolicy"] == RETAINED
    assert after["template"] == before["template"], "nothing of the refused change was done"
    found = await look(fleet)
    decision = decide(found.spec, found.observation, NOW_MS)
    assert isinstance(decision, Wait)
    assert decision.guard == "config_accepted"


async def test_a_statefulset_that_is_as_it_was_is_not_written_while_settings_are_refused() -> None:
    found = await look(refused())
    assert found.observation.config_faults
    assert found.observation.outdated == ()
