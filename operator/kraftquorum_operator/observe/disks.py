"""What the replicas say of their disks: damaged storage, and room that runs out. Pure.

A node that found rot while it runs goes on and says so, and leaves it to the operator whether
it can be spared; one that found it at its start ends with a code of its own. A node whose disk
is nearly full goes on too, without leading. Both are told by pod, claim and volume, because a
person who looks for a disk knows it by those.
"""

from __future__ import annotations

from dataclasses import replace

from kraftquorum_operator import names
from kraftquorum_operator.observe.snapshot import Node, Replica, Snapshot, Trouble

CORRUPT, FULL = 12, 16
"""Exit codes of a node: damage that a crash cannot explain; no room for a write."""

_MIB = 1 << 20


def why_damaged(node: Node | None) -> str | None:
    """What a node has found of its own storage; None: nothing."""
    return "; ".join(node.damage) if node is not None and node.damage else None


def damaged_voters(seen: Snapshot) -> tuple[Replica, ...]:
    """The voters whose storage is damaged, though they answer."""
    voters = seen.quorum.replicas if seen.quorum else ()
    return tuple(node.replica for node in seen.nodes if node.damage and node.replica in voters)


def distrust_damaged(seen: Snapshot) -> Snapshot:
    """The observation with every such voter marked, so that no loss of another leans on it."""
    damaged = damaged_voters(seen)
    if seen.quorum is None or not damaged:
        return seen
    voters = tuple(
        replace(voter, damaged=True) if voter.replica in damaged else voter
        for voter in seen.quorum.voters
    )
    return replace(seen, quorum=replace(seen.quorum, voters=voters))


def damaged_storage(seen: Snapshot) -> tuple[Trouble, ...]:
    """Each replica whose storage is damaged, whether it answers or has ended for it."""
    found = [
        Trouble(node.replica.node_id, _disk(seen, node.replica.node_id), "StorageDamaged", why)
        for node in seen.nodes
        if (why := why_damaged(node)) is not None
    ]
    found += _ended(seen, CORRUPT, "StorageDamaged")
    return tuple(sorted(found, key=lambda trouble: trouble.ordinal))


def low_disks(seen: Snapshot) -> tuple[Trouble, ...]:
    """Each replica whose disk has no more than its reserve, is full, or too full to snapshot."""
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
    """Everything about disks that is worth a warning event."""
    return (*damaged_storage(seen), *low_disks(seen))


def _ended(seen: Snapshot, code: int, reason: str) -> list[Trouble]:
    return [
        Trouble(pod.ordinal, _disk(seen, pod.ordinal), reason, pod.detail or f"ended with {code}")
        for pod in seen.pods
        if pod.exit_code == code and not pod.ready and seen.node(pod.ordinal) is None
    ]


def _disk(seen: Snapshot, ordinal: int) -> str:
    """Whose disk it is, in all its names."""
    claim = seen.claim(ordinal)
    volume = f", claim {claim.name}, volume {claim.volume or 'none'}" if claim is not None else ""
    return f"pod {names.pod(seen.name, ordinal)}{volume}"


def _room(seen: Snapshot, node: Node) -> str:
    free, size = node.free_bytes, node.size_bytes
    missing = -(-node.snapshot_room_missing_bytes // _MIB)
    if not node.disk_low:
        return f"its next snapshot needs {missing} MiB more; until then its log is not trimmed"
    room = "less than its reserve is free"
    if free is not None and size:
        room = f"{free // _MIB} of {size // _MIB} MiB are free, less than its reserve"
    if seen.quorum is None or seen.quorum.leader != node.replica:
        return f"{room}; it leads only where no other voter can"
    return f"{room}; it gives up leading, and writes are refused where no other voter can lead"
