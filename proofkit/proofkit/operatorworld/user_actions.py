"""Actions of users on the model of a cluster, which the operator does not control.

Each is an action that `kubectl` allows a user with the rights. Faults of machines and disks are in
`truth.py`.
"""

from __future__ import annotations

from kraftquorum_operator.model.quantity import size_bytes
from proofkit.operatorworld.world import World


def scale_statefulset(world: World, replicas: int) -> None:
    """`kubectl scale statefulset`: beneath the operator."""
    if world.replicas is not None:
        world.replicas, world.version = replicas, world.version + 1


def delete_statefulset(world: World, *, orphan: bool) -> None:
    """`kubectl delete statefulset`, with its pods or, with `--cascade=orphan`, without them.

    What was recorded on it (S3) goes with it.
    """
    if world.replicas is None:
        return
    world.replicas, world.version = None, world.version + 1
    world.records.clear()
    world.given_up.clear()
    world.deferral = None
    if not orphan:
        for runner in world.runners.values():
            runner.terminating = True


def force_delete_pod(world: World, ordinal: int) -> None:
    """`kubectl delete pod --force --grace-period=0`: its kubelet kills the process at once."""
    if world.runners.pop(ordinal, None) is not None and ordinal in world.budget_pods:
        world.count_budget()


def evict(world: World, ordinal: int) -> None:
    """`kubectl drain`: as many as the disruption budget allows."""
    if world.may_evict(ordinal):
        world.runners[ordinal].terminating = True


def miscount(world: World, ordinal: int) -> None:
    """A second budget over the same pods: the controller counted that one when a pod came up."""
    runner = world.runners.get(ordinal)
    if runner is not None and ordinal in world.budget_pods and world.is_ready(ordinal):
        runner.version += 1
        world.budget_lacks = 1


def grow_storage(world: World, gib: int) -> None:
    """`kubectl edit krq`: larger volumes; the API server refuses smaller ones."""
    size = max(size_bytes(world.spec.storage.size) >> 30, gib)
    changed = world.spec.storage.model_copy(update={"size": f"{size}Gi"})
    world.spec = world.spec.model_copy(update={"storage": changed})
    world.refused_growths.clear()  # a changed spec is tried at once


def delete_latch(world: World) -> None:
    """`kubectl delete configmap`."""
    world.latch = None


def recreate_resource(world: World) -> None:
    """`kubectl delete krq` and `kubectl apply`: claims and the old latch stay."""
    delete_statefulset(world, orphan=False)
    world.uid, world.latch, world.remembered_cluster_id = f"{world.uid}'", None, None


def unlabel_claim(world: World, ordinal: int) -> None:
    """Take the label off a claim that says which resource it was made for."""
    disk = world.disks.get(ordinal)
    if disk is not None:
        disk.owner_uid = ""


def edit_budget(world: World, ordinal: int) -> None:
    """`kubectl edit pdb`: put a pod into the budget or take it out."""
    world.budget_pods ^= {ordinal}
    world.count_budget()
