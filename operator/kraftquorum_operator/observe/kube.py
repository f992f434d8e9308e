"""Reading the Kubernetes objects of a quorum into a snapshot's parts (pure, over dicts)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from kraftquorum_operator import names
from kraftquorum_operator.observe.snapshot import Claim, Pod, StatefulSet

Body = dict[str, Any]


def _labels(body: Body) -> dict[str, str]:
    return cast("dict[str, str]", body["metadata"].get("labels") or {})


def _terminating(body: Body) -> bool:
    return "deletionTimestamp" in body["metadata"]


def read_statefulset(body: Body | None) -> StatefulSet | None:
    """Read the StatefulSet; the update revision only once the controller has seen this version."""
    if body is None:
        return None
    meta, status = body["metadata"], body.get("status") or {}
    current = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    return StatefulSet(
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        replicas=int(body["spec"].get("replicas", 1)),
        revision=status.get("updateRevision") if current else None,
        owner_uid=_labels(body).get(names.LABEL_OWNER_UID),
        terminating=_terminating(body),
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
                phase=(body.get("status") or {}).get("phase", "Pending"),
                terminating=_terminating(body),
                owner_uid=_labels(body).get(names.LABEL_OWNER_UID),
                volume=volume,
                shared=bool(volume) and volumes[volume] > 1,
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
    meta, status = body["metadata"], body.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    containers = [c for c in status.get("containerStatuses") or [] if c["name"] == names.CONTAINER]
    container: Body = containers[0] if containers else {}
    ended = _last_end(container)
    created = datetime.fromisoformat(meta["creationTimestamp"])
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        ordinal=ordinal,
        phase=status.get("phase", "Pending"),
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        terminating=_terminating(body),
        address=status.get("podIP"),
        voter_label=_labels(body).get(names.LABEL_VOTER) == "true",
        revision=_labels(body).get("controller-revision-hash"),
        restarts=int(container.get("restartCount", 0)),
        exit_code=ended.get("exitCode") if ended else None,
        age_ms=max(0, int((now - created).total_seconds() * 1000)),
        detail=_detail(conditions, container, ended),
    )


def _last_end(container: Body) -> Body | None:
    """The container's last end: of this run, or of the one before."""
    state, last = container.get("state") or {}, container.get("lastState") or {}
    return state.get("terminated") or last.get("terminated")


def _detail(conditions: dict[str, Body], container: Body, ended: Body | None) -> str:
    """Why a pod does not run: the scheduler's, the kubelet's or the node's own words."""
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")[:300]
    waiting = (container.get("state") or {}).get("waiting") or {}
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
