"""Reading the Kubernetes objects of a quorum into a snapshot's parts (pure, over dicts)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from kraftquorum_operator import names
from kraftquorum_operator.observe.foreign import controller_of
from kraftquorum_operator.observe.snapshot import Budget, Claim, ClaimRecord, Pod, StatefulSet

Body = dict[str, Any]


def _part(body: Body | None, key: str) -> Body:
    """A sub-object; empty where there is none."""
    return cast("Body", (body or {}).get(key) or {})


def _parts(body: Body, key: str) -> list[Body]:
    """A list of sub-objects; empty where there is none."""
    return cast("list[Body]", body.get(key) or [])


def _labels(body: Body) -> dict[str, str]:
    return _part(body["metadata"], "labels")


def _annotations(body: Body) -> dict[str, str]:
    return _part(body["metadata"], "annotations")


def _terminating(body: Body) -> bool:
    return "deletionTimestamp" in body["metadata"]


def read_statefulset(body: Body | None) -> StatefulSet | None:
    """Read the StatefulSet; the update revision only once the controller has seen this version."""
    if body is None:
        return None
    meta, status = _part(body, "metadata"), _part(body, "status")
    current = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    return StatefulSet(
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        replicas=int(body["spec"].get("replicas", 1)),
        revision=status.get("updateRevision") if current else None,
        owner_uid=_labels(body).get(names.LABEL_OWNER_UID) or _controller_uid(body),
        terminating=_terminating(body),
        records=_records(_annotations(body)),
    )


def _controller_uid(body: Body) -> str | None:
    """Whose it is if somebody took the label off."""
    return (controller_of(body) or {}).get("uid")


def _records(annotations: dict[str, str]) -> tuple[tuple[int, ClaimRecord], ...]:
    """What was recorded last for each ordinal; anything that is not ours is left out."""
    found: dict[int, ClaimRecord] = {}
    for key, value in annotations.items():
        ordinal = key.removeprefix(names.ANNOTATION_RECORDED)
        directory_id, _, claim_uid = value.partition(" ")
        if ordinal != key and ordinal.isdecimal() and claim_uid:
            found[int(ordinal)] = ClaimRecord(directory_id, claim_uid)
    return tuple(sorted(found.items(), key=lambda item: item[0]))


def _record(annotations: dict[str, str]) -> ClaimRecord | None:
    directory_id = annotations.get(names.ANNOTATION_DIRECTORY_ID)
    claim_uid = annotations.get(names.ANNOTATION_CLAIM_UID)
    return ClaimRecord(directory_id, claim_uid) if directory_id and claim_uid else None


def read_budget(body: Body | None) -> Budget | None:
    """Read the disruption budget; its count only once the controller has seen its spec."""
    if body is None:
        return None
    meta, status = _part(body, "metadata"), _part(body, "status")
    current = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    return Budget(
        uid=meta["uid"],
        counted=int(status.get("expectedPods", 0)) if current else None,
        mark=_annotations(body).get(names.ANNOTATION_RECOUNT),
    )


def read_claims(quorum: str, bodies: Sequence[Body]) -> tuple[Claim, ...]:
    """Read the claims by name, labelled or not: an earlier resource's count as well (S18)."""
    volumes = Counter(body["spec"].get("volumeName") for body in bodies)
    claims: list[Claim] = []
    for body in bodies:
        meta = body["metadata"]
        ordinal = names.ordinal_of(meta["name"], f"{names.CLAIM_TEMPLATE}-{quorum}")
        if ordinal is None:
            continue
        volume = body["spec"].get("volumeName")
        claims.append(
            Claim(
                name=meta["name"],
                uid=meta["uid"],
                ordinal=ordinal,
                phase=_part(body, "status").get("phase", "Pending"),
                terminating=_terminating(body),
                owner_uid=_labels(body).get(names.LABEL_OWNER_UID),
                volume=volume,
                shared=bool(volume) and volumes[volume] > 1,
                record=_record(_annotations(body)),
            )
        )
    return tuple(sorted(claims, key=lambda claim: claim.ordinal))


def read_pods(quorum: str, bodies: Sequence[Body], now: datetime) -> tuple[Pod, ...]:
    """Read the pods of the StatefulSet, by name."""
    pods: list[Pod] = []
    for body in bodies:
        ordinal = names.ordinal_of(body["metadata"]["name"], quorum)
        if ordinal is not None:
            pods.append(_read_pod(body, ordinal, now))
    return tuple(sorted(pods, key=lambda pod: pod.ordinal))


def _read_pod(body: Body, ordinal: int, now: datetime) -> Pod:
    meta, status = _part(body, "metadata"), _part(body, "status")
    conditions = {str(c["type"]): c for c in _parts(status, "conditions")}
    containers = [c for c in _parts(status, "containerStatuses") if c["name"] == names.CONTAINER]
    container: Body = containers[0] if containers else {}
    ended = _last_end(container)
    created = datetime.fromisoformat(meta["creationTimestamp"])
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        ordinal=ordinal,
        phase=status.get("phase", "Pending"),
        ready=_part(conditions, "Ready").get("status") == "True",
        terminating=_terminating(body),
        address=status.get("podIP"),
        voter_label=_labels(body).get(names.LABEL_VOTER) == "true",
        revision=_labels(body).get("controller-revision-hash"),
        restarts=int(container.get("restartCount", 0)),
        exit_code=ended.get("exitCode")
        if ended and not _has_been_ready(conditions, container)
        else None,
        age_ms=max(0, int((now - created).total_seconds() * 1000)),
        detail=_detail(conditions, container, ended),
        waiting=_waiting(conditions, container),
        running="running" in _part(container, "state"),
        version=meta.get("resourceVersion"),
    )


def _waiting(conditions: dict[str, Body], container: Body) -> str:
    """What it waits for, in one word; empty if nothing is said."""
    scheduled = _part(conditions, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("reason") or "Unschedulable")
    return str(_part(_part(container, "state"), "waiting").get("reason") or "")


def _last_end(container: Body) -> Body | None:
    """The container's last end: of this run, or of the one before."""
    now, before = _part(container, "state"), _part(container, "lastState")
    return _part(now, "terminated") or _part(before, "terminated") or None


def _has_been_ready(conditions: dict[str, Body], container: Body) -> bool:
    """Whether this run of the container was ready once: then the end before it is long over.

    It turns unready before it is started again, so a later turn is one of this run.
    """
    started = _part(_part(container, "state"), "running").get("startedAt")
    turned = _part(conditions, "Ready").get("lastTransitionTime")
    if not started or not turned:
        return False
    return datetime.fromisoformat(turned) > datetime.fromisoformat(started)


def _detail(conditions: dict[str, Body], container: Body, ended: Body | None) -> str:
    """Why a pod does not run: the scheduler's, the kubelet's or the node's own words."""
    scheduled = _part(conditions, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")[:300]
    waiting = _part(_part(container, "state"), "waiting")
    words = [str(waiting[key]) for key in ("reason", "message") if waiting.get(key)]
    if ended and not container.get("ready"):
        words.append(f"ended with {ended.get('exitCode')}")
        words.append(_termination(str(ended.get("message") or ended.get("reason") or "")))
    return ": ".join(word for word in words if word)[:300]


def _termination(message: str) -> str:
    """The node's termination message is JSON with a reason and a message."""
    try:
        content = json.loads(message)
    except ValueError:
        return message
    if not isinstance(content, dict):
        return message
    told = cast("dict[str, object]", content)
    return f"{told.get('reason', '')} {told.get('message', '')}".strip()


def now_utc() -> datetime:
    """The wall clock, for the age of objects only."""
    return datetime.now(UTC)
