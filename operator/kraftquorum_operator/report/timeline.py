"""The last faults, repairs and changes of a quorum: what differs between two statuses.

It is kept in the status itself and goes on from there, so it outlives the operator, and what
happened while no operator ran is in it as soon as one runs again. It is bounded: what comes
and goes is counted and not repeated. Pure, and a report only: nothing is decided on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from kraftquorum_operator.model.status import (
    TIMELINE_MAX,
    QuorumStatus,
    ReplicaStatus,
    TimelineEntry,
)

Kind = Literal["Fault", "Repair", "Change"]
Found = tuple[Kind, str]

REPEATS = 6
"""Among so many of the last entries, the same one is counted and not repeated."""

TOLD: dict[str, tuple[str, str]] = {
    "QuorumLost": ("The quorum is lost", "The quorum is no longer lost"),
    "FormationBlocked": ("The quorum cannot be formed", "The quorum can be formed"),
    "VolumeFromCopy": ("A volume was put back from a copy", "No volume is a copy any more"),
    "StorageDamaged": ("Damage was found in a replica's storage", "No storage is damaged any more"),
    "DiskLow": ("A disk is full or nearly so", "All disks have room again"),
    "VolumesFailing": ("New volumes fail", "New volumes no longer fail"),
    "ConfigRejected": ("Nodes would refuse the settings", "Nodes take the settings again"),
    "PodsBlocked": ("Cannot start", "All pods and claims can start again"),
    "Failing": ("What the operator asks for is not done", "What the operator asks for is done"),
}
"""Condition → what is said when it begins and when it ends."""

ACTIONS = ("CreateLatch", "AdoptQuorum", "SetReplicas", "DeleteClaim", "DeletePod", "EvictPod")
"""Actions that are told by themselves; the outcome of the others is."""


def timeline(before: QuorumStatus | None, now: QuorumStatus, at: str) -> list[TimelineEntry]:
    """The last status' timeline with what is new, oldest first.

    Args:
        before: the last status; None: there was none.
        now: this status, whose own timeline does not count.
        at: the time of this status.
    """
    result = list(before.timeline) if before else []
    for kind, message in _differences(before, now):
        result = appended(result, kind, message, at)
    return result


def appended(
    entries: Sequence[TimelineEntry], kind: Kind, message: str, at: str
) -> list[TimelineEntry]:
    """The entries with one more; the same one of a moment ago is counted instead."""
    message = message if len(message) <= 240 else f"{message[:239]}…"
    recent = entries[-REPEATS:]
    same = next((e for e in recent if (e.kind, e.message) == (kind, message)), None)
    others = [entry for entry in entries if entry is not same]
    count, first = ((same.count or 1) + 1, same.first or same.at) if same else (None, None)
    entry = TimelineEntry(at=at, kind=kind, message=message, count=count, first=first)
    return [*others, entry][-TIMELINE_MAX:]


def _differences(before: QuorumStatus | None, now: QuorumStatus) -> Iterator[Found]:
    if before is None:
        yield "Change", "The operator begins to look after it"
        return
    yield from _action(before, now)
    yield from _replicas(before, now)
    yield from _leader(before, now)
    yield from _voters(before, now)
    yield from _conditions(before, now)


def _action(before: QuorumStatus, now: QuorumStatus) -> Iterator[Found]:
    action = now.current_action
    if action is None or action == before.current_action or not action.startswith(ACTIONS):
        return
    kind: Kind = "Repair" if action.startswith("DeleteClaim") else "Change"
    yield kind, f"The operator takes action: {action}"


def _replicas(before: QuorumStatus, now: QuorumStatus) -> Iterator[Found]:
    """Voters' replicas that fell silent, answer again or have another storage."""
    voters = {voter.node_id for voter in (*before.voters, *now.voters)}
    if not voters and now.cluster_id is not None:
        voters = {node.node_id for node in now.nodes}  # without a leader nobody says who votes
    was = {node.node_id: node for node in before.nodes}
    for node in now.nodes:
        earlier = was.get(node.node_id)
        if earlier is None or node.node_id not in voters:
            continue
        if _silent(node) and not _silent(earlier):
            kind: Kind = "Change" if _is_ended_by_us(node.pod, now) else "Fault"
            yield kind, f"{node.pod} does not answer{': ' if node.detail else ''}{node.detail}"
        elif _silent(earlier) and not _silent(node):
            yield "Repair", f"{node.pod} answers again"
        found = _other_disk(node, earlier, before, now)
        if found and found not in {entry.message for entry in before.timeline}:
            yield "Change", found


def _other_disk(
    node: ReplicaStatus, earlier: ReplicaStatus, before: QuorumStatus, now: QuorumStatus
) -> str:
    """A replica that answers with another storage than its voter's; empty: it does not.

    With a leader it was empty a moment ago, perhaps between two looks. Without one, and with no
    voters known, only an empty disk is known to be another one.
    """
    named = (*before.voters, *before.last_known_voters, *now.voters, *now.last_known_voters)
    known = {voter.directory_id for voter in named if voter.node_id == node.node_id}
    if not node.directory_id or node.directory_id in {earlier.directory_id, *known}:
        return ""
    if node.role != "blank" and not known:
        return ""
    kind = "an empty" if node.role == "blank" or now.leader is not None else "another"
    return f"{node.pod} has {kind} disk, storage UUID {node.directory_id}"


def _silent(node: ReplicaStatus) -> bool:
    return node.role == "silent"


def _is_ended_by_us(pod: str, now: QuorumStatus) -> bool:
    ended = tuple(f"{action} {pod} " for action in ("DeletePod", "EvictPod"))
    return (now.current_action or "").startswith(ended)


def _leader(before: QuorumStatus, now: QuorumStatus) -> Iterator[Found]:
    """Who leads now; that nobody does is the condition `Available`'s."""
    leader, earlier = now.leader, before.leader
    if leader is None:
        if earlier is not None:
            yield "Fault", f"No leader answers; it was {earlier.pod}"
        return
    if earlier is None or earlier.directory_id != leader.directory_id:
        yield "Change", f"{leader.pod} leads, storage UUID {leader.directory_id}"
    elif before.epoch is not None and now.epoch is not None and now.epoch > before.epoch:
        yield "Change", f"{leader.pod} was elected again"


def _voters(before: QuorumStatus, now: QuorumStatus) -> Iterator[Found]:
    """Who became a voter and who is none any more, once that is committed."""
    if not now.voters:
        return
    was = {(v.node_id, v.directory_id) for v in before.voters if v.committed}
    are = {(v.node_id, v.directory_id) for v in now.voters if v.committed}
    ids = {node_id for node_id, _ in was}
    if not was:
        return  # the first voters, or nobody knew them a moment ago: the leader has been told
    for node_id, uuid in sorted(are - was):
        kind: Kind = "Repair" if node_id in ids else "Change"
        yield kind, f"Voter {node_id} added, storage UUID {uuid}"
    for node_id, uuid in sorted(was - are):
        kind = "Repair" if node_id in {n for n, _ in are} else "Change"
        yield kind, f"Voter {node_id} removed, storage UUID {uuid}"
    if (before.leader, before.epoch) != (now.leader, now.epoch):
        return  # a new leader has to hear from everybody first
    if {c.status for c in before.conditions if c.type == "Available"} != {"True"}:
        return  # so has the first one
    late = {(v.node_id, v.directory_id) for v in before.voters if not v.caught_up}
    for voter in now.voters:
        key = (voter.node_id, voter.directory_id)
        if voter.caught_up == (key not in late) or key not in was:
            continue
        kind = "Repair" if voter.caught_up else "Fault"
        said = "is caught up again" if voter.caught_up else "is not caught up any more"
        yield kind, f"Voter {voter.node_id} {said}"


def _conditions(before: QuorumStatus, now: QuorumStatus) -> Iterator[Found]:
    was = {condition.type: condition.status for condition in before.conditions}
    are = {condition.type for condition in now.conditions}
    ended = [
        condition.model_copy(update={"status": "False"})
        for condition in before.conditions
        if condition.type not in are
    ]
    for condition in (*now.conditions, *ended):
        earlier = was.get(condition.type, "False")
        turned = earlier != condition.status
        begins = condition.status == "True"
        if not turned or condition.status == "Unknown" or (earlier == "Unknown" and not begins):
            continue  # what cannot be seen has neither begun nor ended
        if condition.type in TOLD:
            on, off = TOLD[condition.type]
            yield ("Fault", f"{on}: {condition.message}") if begins else ("Repair", off)
        elif condition.type == "Paused":
            yield "Change", "Paused by spec.pause" if begins else "No longer paused"
        elif condition.type == "Ready" and begins:
            yield "Repair", f"All is well: {condition.message}"
