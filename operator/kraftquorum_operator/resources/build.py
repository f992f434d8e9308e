"""All objects of a quorum that the operator keeps up to date."""

from __future__ import annotations

from collections.abc import Collection

from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.objects import Body, ObjectRef, Owner
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.disruption import disruption_budget
from kraftquorum_operator.resources.metadata import stamped
from kraftquorum_operator.resources.network_policy import has_network_policy, network_policy
from kraftquorum_operator.resources.node_config import NodeConfig
from kraftquorum_operator.resources.services import client_service, headless_service
from kraftquorum_operator.resources.statefulset import statefulset, with_template_of

INSTALLATION = Installation()


def build(
    owner: Owner,
    spec: QuorumSpec,
    voters: int,
    config: NodeConfig,
    live: Body | None = None,
    installation: Installation = INSTALLATION,
    counted: Collection[str] = (),
    *,
    grows: bool = True,
) -> dict[ObjectRef, Body]:
    """Every object that goes with the resource, by its reference.

    If nodes would refuse the wanted settings or certificates, a live StatefulSet keeps its
    template. If there is no StatefulSet yet, the result has none, so that the operator cannot
    create it.

    Args:
        owner: the resource.
        spec: the wanted state.
        voters: how many voters are in force now, for the disruption budget.
        config: the settings of its nodes, from `node_config`.
        live: the live StatefulSet; None: there is none.
        installation: of the operator.
        counted: names of the pods that the disruption budget counts.
        grows: whether the voters may become as many as are wanted; False: the scale-up is deferred.
    """
    bodies = [
        headless_service(owner),
        client_service(owner),
        disruption_budget(owner, voters, spec.voters if grows else voters, counted),
    ]
    if has_network_policy(spec.network_policy, config.defaults):
        bodies.append(network_policy(owner, spec, installation))
    wanted = statefulset(owner, spec, config, installation)
    if config.usable:
        bodies.append(wanted)
    made = {ObjectRef.of(body): stamped(body) for body in bodies}
    if not config.usable and live is not None:
        made[ObjectRef.of(wanted)] = with_template_of(wanted, live)
    return made
