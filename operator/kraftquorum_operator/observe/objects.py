"""The objects that a quorum has one of each, by their names."""

from __future__ import annotations

import asyncio

from kraftquorum_operator import names
from kraftquorum_operator.clients.cache import KubeReader
from kraftquorum_operator.model.objects import Body, Owner


async def get_objects(
    kube: KubeReader, owner: Owner
) -> tuple[Body | None, Body | None, list[Body | None]]:
    """The StatefulSet, the latch, and then the budget, the two Services and the NetworkPolicy.

    They are of any owner.

    Raises:
        KubeError: the API server did not answer all of it.
    """
    namespace, name = owner.namespace, owner.name
    statefulset, latch, *others = await asyncio.gather(
        kube.get("StatefulSet", namespace, name),
        kube.get("ConfigMap", namespace, names.latch(owner.uid)),
        kube.get("PodDisruptionBudget", namespace, name),
        kube.get("Service", namespace, names.headless_service(name)),
        kube.get("Service", namespace, names.client_service(name)),
        kube.get("NetworkPolicy", namespace, name),
    )
    return statefulset, latch, others
