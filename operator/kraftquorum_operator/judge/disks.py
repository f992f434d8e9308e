"""What the replicas report of their disks: corruption, and little free space. Pure.

A node that finds corruption while it runs reports it and continues; the operator decides whether
the quorum can spare the replica. A node that finds corruption at start-up exits with its own exit
code. A node whose disk is nearly full continues without leading. Messages name pod, claim and
volume, because a person finds a disk by those.
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.engine import StorageFault
from kraftquorum_operator.model.observation import Node, Observation, ReplicaId, Trouble

_MIB = 1 << 20


def why_damaged(node: Node | None) -> str | None:
    """The corruption that a node has found in its storage; None: it has found none."""
    return "; ".join(node.damage) if node is not None and node.damage else None


def damaged_voters(observation: Observation) -> tuple[ReplicaId, ...]:
    """The voters that answer and whose storage is damaged."""
    voters = observation.quorum.replicas if observation.quorum else ()
    return tuple(
        node.replica for node in observation.nodes if node.damage and node.replica in voters
    )


def damaged_storage(observation: Observation) -> tuple[Trouble, ...]:
    """Each replica whose storage is damaged, whether it answers or has exited because of it."""
    troubles = [
        Trouble(
            node.replica.node_id, _disk(observation, node.replica.node_id), "StorageDamaged", why
        )
        for node in observation.nodes
        if (why := why_damaged(node)) is not None
    ]
    troubles += _ended(observation, "corrupt", "StorageDamaged")
    return tuple(sorted(troubles, key=lambda trouble: trouble.ordinal))


def low_disks(observation: Observation) -> tuple[Trouble, ...]:
    """Each replica whose disk has at most its reserve free, is full or lacks snapshot space."""
    troubles = [
        Trouble(
            node.replica.node_id,
            _disk(observation, node.replica.node_id),
            "DiskLow",
            _room(observation, node),
        )
        for node in observation.nodes
        if node.disk_low or node.snapshot_room_missing_bytes
    ]
    troubles += _ended(observation, "full", "DiskLow")
    return tuple(sorted(troubles, key=lambda trouble: trouble.ordinal))


def disk_alarms(observation: Observation) -> tuple[Trouble, ...]:
    """Everything about disks that has a warning event."""
    return (*damaged_storage(observation), *low_disks(observation))


def _ended(observation: Observation, fault: StorageFault, reason: str) -> list[Trouble]:
    return [
        Trouble(
            pod.ordinal,
            _disk(observation, pod.ordinal),
            reason,
            pod.detail or f"exit code {pod.exit_code}",
        )
        for pod in observation.pods
        if (ended := observation.engine.storage_exit(pod.exit_code)) is not None
        and ended.fault == fault
        and not pod.ready
        and observation.node(pod.ordinal) is None
    ]


def _disk(observation: Observation, ordinal: int) -> str:
    """The pod, claim and volume of a replica's disk."""
    claim = observation.claim(ordinal)
    volume = f", claim {claim.name}, volume {claim.volume or 'none'}" if claim is not None else ""
    return f"pod {names.pod(observation.name, ordinal)}{volume}"


def _room(observation: Observation, node: Node) -> str:
    free, size = node.free_bytes, node.size_bytes
    missing = -(-node.snapshot_room_missing_bytes // _MIB)
    if not node.disk_low:
        return f"its next snapshot needs {missing} MiB more; until then it does not trim its log"
    room = "less than its reserve is free"
    if free is not None and size:
        room = f"{free // _MIB} of {size // _MIB} MiB are free, less than its reserve"
    if observation.quorum is None or observation.quorum.leader != node.replica:
        return f"{room}; it leads only if no other voter can"
    return f"{room}; it gives up leadership, and refuses writes if no other voter can lead"
