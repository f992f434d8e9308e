"""The last faults, repairs and changes of a quorum: the differences between two statuses.

The status itself holds the timeline, so it survives a restart of the operator. A change that
happens while no operator runs appears in it as soon as one runs again. The timeline is bounded: it
counts a repeated entry instead of repeating it. Pure, and a report only: no decision depends on it.
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
Difference = tuple[Kind, str]

REPEATS = 6
"""An entry that equals one of this many last entries is counted and not repeated."""

CONDITION_ENTRIES: dict[str, tuple[str, str]] = {
    "QuorumLost": ("The quorum is lost", "The quorum is no longer lost"),
    "FormationBlocked": ("The quorum cannot be formed", "The quorum can be formed"),
    "VolumeFromCopy": ("A volume was restored from a copy", "No volume is a copy any more"),
    "StorageDamaged": ("A replica's storage is damaged", "No storage is damaged any more"),
    "DiskLow": ("A disk is full or nearly full", "All disks have enough free space again"),
    "VolumesFailing": ("New volumes fail", "New volumes no longer fail"),
    "ConfigRejected": ("Nodes would refuse spec.config", "Nodes accept spec.config again"),
    "CertificatesFailing": (
        "Certificates cannot be used or expire soon",
        "The certificates can be used again",
    ),
    "PodsBlocked": ("Cannot start", "All pods and claims can start again"),
    "Failing": ("Requests of the operator fail", "Requests of the operator succeed again"),
}
"""Condition → the entry when it becomes True and the entry when it no longer is."""

GROWING = "VolumesGrowing"
"""It has entries for its begin and end, and for a refusal and its end; no attempt has one."""

ACTIONS = ("CreateLatch", "AdoptQuorum", "SetReplicas", "DeleteClaim", "DeletePod", "EvictPod")
"""Actions that have an entry of their own; of the others only the outcome has one."""


def timeline(before: QuorumStatus | None, now: QuorumStatus, at: str) -> list[TimelineEntry]:
    """The timeline of the last status with the new entries, oldest first.

    Args:
        before: the last status; None: there was none.
        now: this status; its own timeline is ignored.
        at: the time of this status.
    """
    result = list(before.timeline) if before else []
    for kind, message in _differences(before, now):
        result = appended(result, kind, message, at)
    return result


def appended(
    entries: Sequence[TimelineEntry], kind: Kind, message: str, at: str
) -> list[TimelineEntry]:
    """The entries with one more; a recent equal entry is counted instead."""
    message = message if len(message) <= 240 else f"{message[:239]}…"
    recent = entries[-REPEATS:]
    same = next((e for e in recent if (e.kind, e.message) == (kind, message)), None)
    others = [entry for entry in entries if entry is not same]
    count, first = ((same.count or 1) + 1, same.first or same.at) if same else (None, None)
    entry = TimelineEntry(at=at, kind=kind, message=message, count=count, first=first)
    return [*others, entry][-TIMELINE_MAX:]


def _differences(before: QuorumStatus | None, now: QuorumStatus) -> Iterator[Difference]:
    if before is None:
        yield "Change", "The operator starts to manage the quorum"
        return
    yield from _action(before, now)
    yield from _replicas(before, now)
    yield from _leader(before, now)
    yield from _voters(before, now)
    yield from _conditions(before, now)
    yield from _refused_growths(before, now)


def _action(before: QuorumStatus, now: QuorumStatus) -> Iterator[Difference]:
    action = now.current_action
    if action is None or action == before.current_action or not action.startswith(ACTIONS):
        return
    kind: Kind = "Repair" if action.startswith("DeleteClaim") else "Change"
    yield kind, f"The operator acts: {action}"


def _replicas(before: QuorumStatus, now: QuorumStatus) -> Iterator[Difference]:
    """Voters' replicas that stopped answering, answer again or have another directory id."""
    voters = {voter.node_id for voter in (*before.voters, *now.voters)}
    if not voters and now.cluster_id is not None:
        voters = {node.node_id for node in now.nodes}  # no leader reports the voters
    was = {node.node_id: node for node in before.nodes}
    for node in now.nodes:
        earlier = was.get(node.node_id)
        if earlier is None or node.node_id not in voters:
            continue
        if _silent(node) and not _silent(earlier):
            kind: Kind = "Change" if _is_stopped_by_operator(node.pod, now) else "Fault"
            yield kind, f"{node.pod} does not answer{': ' if node.detail else ''}{node.detail}"
        elif _silent(earlier) and not _silent(node):
            yield "Repair", f"{node.pod} answers again"
        message = _other_disk(node, earlier, before, now)
        if message and message not in {entry.message for entry in before.timeline}:
            yield "Change", message


def _other_disk(
    node: ReplicaStatus, earlier: ReplicaStatus, before: QuorumStatus, now: QuorumStatus
) -> str:
    """The message about a replica with another directory id than its voter's; empty: none.

    With a leader, its disk was empty a moment ago, perhaps between two reconciliations. Without a
    leader and known voters, only an empty disk is known to be another disk.
    """
    named = (*before.voters, *before.last_known_voters, *now.voters, *now.last_known_voters)
    known = {voter.directory_id for voter in named if voter.node_id == node.node_id}
    if not node.directory_id or node.directory_id in {earlier.directory_id, *known}:
        return ""
    if node.role != "blank" and not known:
        return ""
    kind = "an empty" if node.role == "blank" or now.leader is not None else "another"
    return f"{node.pod} has {kind} disk, directory id {node.directory_id}"


def _silent(node: ReplicaStatus) -> bool:
    return node.role == "silent"


def _is_stopped_by_operator(pod: str, now: QuorumStatus) -> bool:
    stops = tuple(f"{action} {pod} " for action in ("DeletePod", "EvictPod"))
    return (now.current_action or "").startswith(stops)


def _leader(before: QuorumStatus, now: QuorumStatus) -> Iterator[Difference]:
    """The new leader, or that no leader answers any more."""
    leader, earlier = now.leader, before.leader
    if leader is None:
        if earlier is not None:
            yield "Fault", f"No leader answers; it was {earlier.pod}"
        return
    if earlier is None or earlier.directory_id != leader.directory_id:
        yield "Change", f"{leader.pod} leads, directory id {leader.directory_id}"
    elif before.epoch is not None and now.epoch is not None and now.epoch > before.epoch:
        yield "Change", f"{leader.pod} was elected again"


def _voters(before: QuorumStatus, now: QuorumStatus) -> Iterator[Difference]:
    """Replicas that became voters, and replicas that no longer are, once that is committed."""
    if not now.voters:
        return
    was = {(v.node_id, v.directory_id) for v in before.voters if v.committed}
    are = {(v.node_id, v.directory_id) for v in now.voters if v.committed}
    ids = {node_id for node_id, _ in was}
    if not was:
        return  # the first voters, or the last status had none: the leader has its own entry
    for node_id, uuid in sorted(are - was):
        kind: Kind = "Repair" if node_id in ids else "Change"
        yield kind, f"Voter {node_id} added, directory id {uuid}"
    for node_id, uuid in sorted(was - are):
        kind = "Repair" if node_id in {n for n, _ in are} else "Change"
        yield kind, f"Voter {node_id} removed, directory id {uuid}"
    if (before.leader, before.epoch) != (now.leader, now.epoch):
        return  # a new leader has to hear from every voter first
    if {c.status for c in before.conditions if c.type == "Available"} != {"True"}:
        return  # so has the first one
    lagging = {(v.node_id, v.directory_id) for v in before.voters if not v.caught_up}
    for voter in now.voters:
        key = (voter.node_id, voter.directory_id)
        if voter.caught_up == (key not in lagging) or key not in was:
            continue
        kind = "Repair" if voter.caught_up else "Fault"
        said = "is caught up again" if voter.caught_up else "is not caught up any more"
        yield kind, f"Voter {voter.node_id} {said}"


def _refused_growths(before: QuorumStatus, now: QuorumStatus) -> Iterator[Difference]:
    """That volumes may not grow, and that they may again."""
    why, earlier = (
        next(
            (c.message for c in status.conditions if c.reason == "Refused" and c.type == GROWING),
            None,
        )
        for status in (now, before)
    )
    if why is not None and earlier is None:
        yield "Fault", f"Volumes may not grow: {why}"
    elif earlier is not None and why is None:
        yield "Repair", "No larger volume is refused any more"


def _conditions(before: QuorumStatus, now: QuorumStatus) -> Iterator[Difference]:
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
            continue  # an Unknown condition has neither begun nor ended
        if condition.type in CONDITION_ENTRIES:
            on, off = CONDITION_ENTRIES[condition.type]
            yield ("Fault", f"{on}: {condition.message}") if begins else ("Repair", off)
        elif condition.type == GROWING:
            why = f"Volumes grow: {condition.message}"
            yield "Change", why if begins else "All volumes have grown"
        elif condition.type == "Paused":
            yield "Change", "Paused by spec.pause" if begins else "No longer paused"
        elif condition.type == "Ready" and begins:
            yield "Repair", f"The quorum is ready: {condition.message}"
