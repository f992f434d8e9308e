"""What the replicas report of their disks: corruption, and little free space. Pure.

A node that finds corruption while it runs reports it and continues; the operator decides whether
the quorum can spare the replica. A node that finds corruption at start-up exits with its own exit
code. A node whose disk is nearly full continues without leading. Messages name pod, claim and
volume, because a person finds a disk by those.
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.snapshot import Node, Replica, Snapshot, Trouble

CORRUPT, FULL = 12, 16
"""Exit codes of a node: corruption that a crash cannot explain; no free space for a write."""

_MIB = 1 << 20


def why_damaged(node: Node | None) -> str | None:
    """The corruption that a node has found in its storage; None: it has found none."""
    return "; ".join(node.damage) if node is not None and node.damage else None


def damaged_voters(seen: Snapshot) -> tuple[Replica, ...]:
    """The voters that answer and whose storage is damaged."""
    voters = seen.quorum.replicas if seen.quorum else ()
    return tuple(node.replica for node in seen.nodes if node.damage and node.replica in voters)


def damaged_storage(seen: Snapshot) -> tuple[Trouble, ...]:
    """Each replica whose storage is damaged, whether it answers or has exited because of it."""
    found = [
        Trouble(node.replica.node_id, _disk(seen, node.replica.node_id), "StorageDamaged", why)
        for node in seen.nodes
        if (why := why_damaged(node)) is not None
    ]
    found += _ended(seen, CORRUPT, "StorageDamaged")
    return tuple(sorted(found, key=lambda trouble: trouble.ordinal))


def low_disks(seen: Snapshot) -> tuple[Trouble, ...]:
    """Each replica whose disk has at most its reserve free, is full or lacks snapshot space."""
    found = [
        Trouble(
            node.replica.node_id, _disk(seen, node.replica.node_id), "DiskLow", _room(seen, node)
        )
        for node in seen.nodes
        if node.disk_low or node.snapshot_room_missing_bytes
    ]
    found += _ended(seen, FULL, "DiskLow")
    return tuple(sorted(found, key=lambda trouble: trouble.ordinal))


def disk_alarms(seen: Snapshot) -> tuple[Trouble, ...]:
    """Everything about disks that has a warning event."""
    return (*damaged_storage(seen), *low_disks(seen))


def _ended(seen: Snapshot, code: int, reason: str) -> list[Trouble]:
    return [
        Trouble(pod.ordinal, _disk(seen, pod.ordinal), reason, pod.detail or f"exit code {code}")
        for pod in seen.pods
        if pod.exit_code == code and not pod.ready and seen.node(pod.ordinal) is None
    ]


def _disk(seen: Snapshot, ordinal: int) -> str:
    """The pod, claim and volume of a replica's disk."""
    claim = seen.claim(ordinal)
    volume = f", claim {claim.name}, volume {claim.volume or 'none'}" if claim is not None else ""
    return f"pod {names.pod(seen.name, ordinal)}{volume}"


def _room(seen: Snapshot, node: Node) -> str:
    free, size = node.free_bytes, node.size_bytes
    missing = -(-node.snapshot_room_missing_bytes // _MIB)
    if not node.disk_low:
        return f"its next snapshot needs {missing} MiB more; until then it does not trim its log"
    room = "less than its reserve is free"
    if free is not None and size:
        room = f"{free // _MIB} of {size // _MIB} MiB are free, less than its reserve"
    if seen.quorum is None or seen.quorum.leader != node.replica:
        return f"{room}; it leads only if no other voter can"
    return f"{room}; it gives up leadership, and refuses writes if no other voter can lead"
