"""Reads the Kubernetes objects of a quorum into parts of an observation (pure, over dicts)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.config import ALLOWED
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.observation import (
    UNKNOWN_OWNER,
    Budget,
    Claim,
    ClaimRecord,
    Deferral,
    GivenUp,
    Pod,
    StatefulSet,
)
from kraftquorum_operator.model.quantity import size_bytes
from kraftquorum_operator.model.tls import TlsLevel
from kraftquorum_operator.observe.foreign import controller_of
from raftnode.settings import ENV_PREFIX

NOTES_MAX = 8
"""How many claims of one ordinal are noted; the operator gives up fewer within `NOTED_MS`."""
NOTED_MS = 24 * 3_600_000
"""How long a note counts: a day."""
UNUSED = "unused"
AHEAD_MAX_MS = 5 * 60_000
"""How far a note's time may lie in the future: the clocks of two operators differ by less."""


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


def read_statefulset(body: Body | None, now: datetime | None = None) -> StatefulSet | None:
    """Read the StatefulSet; the update revision only once the controller has observed this version.

    Args:
        body: None: there is none.
        now: the wall clock, for the age of what is noted; None: now.
    """
    if body is None:
        return None
    meta, status = _part(body, "metadata"), _part(body, "status")
    current = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    claim = next(iter(_parts(body["spec"], "volumeClaimTemplates")), None)
    requested = _part(_part(_part(claim, "spec"), "resources"), "requests")
    return StatefulSet(
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        replicas=int(body["spec"].get("replicas", 1)),
        revision=status.get("updateRevision") if current else None,
        owner_uid=_labels(body).get(names.LABEL_OWNER_UID) or _controller_uid(body),
        terminating=_terminating(body),
        records=_records(_annotations(body)),
        given_up=_given_up(_annotations(body), now or now_utc()),
        defaults=_part(_part(claim, "metadata"), "labels").get(names.LABEL_DEFAULTS),
        cluster_domain=_part(_part(claim, "metadata"), "labels").get(names.LABEL_CLUSTER_DOMAIN),
        settings=_settings(body),
        image=_kept_image(body),
        claim_size=str(requested.get("storage", "")),
        tls=_tls_level(_part(_part(body["spec"], "template"), "spec")),
        deferral=_deferral(_annotations(body)),
    )


def _deferral(annotations: dict[str, str]) -> Deferral | None:
    revision, _, why = annotations.get(names.ANNOTATION_SCALE_UP_DEFERRED, "").partition(" ")
    return Deferral(revision, why) if revision else None


def _kept_image(body: Body) -> str | None:
    """The image that was noted, or that of the template: no older operator noted one."""
    notes = _annotations(body)
    if notes.get(names.ANNOTATION_IMAGE_OF) == "spec":
        return None
    if names.ANNOTATION_NODE_IMAGE in notes:
        return notes[names.ANNOTATION_NODE_IMAGE]
    pod = _part(_part(body["spec"], "template"), "spec")
    images = (c.get("image") for c in _parts(pod, "containers") if c["name"] == names.CONTAINER)
    return next((str(image) for image in images if image), None)


def _environment(pod: Body) -> dict[str, str]:
    """The variables of a node's container, from the spec of a pod or a template."""
    return {
        entry["name"]: str(entry["value"])
        for container in _parts(pod, "containers")
        if container["name"] == names.CONTAINER
        for entry in _parts(container, "env")
        if "value" in entry
    }


def _tls_level(pod: Body) -> TlsLevel:
    """What a pod's listeners accept; all of them accept the same."""
    match _environment(pod).get(f"{ENV_PREFIX}API_TLS"):
        case "permissive":
            return "permissive"
        case "required":
            return "required"
        case _:
            return "disabled"


def _settings(body: Body) -> tuple[tuple[str, str], ...]:
    """What the template gives to the nodes, of the settings that a resource may set."""
    given = _environment(_part(_part(body["spec"], "template"), "spec"))
    variables = ((name, f"{ENV_PREFIX}{name.upper()}") for name in ALLOWED)
    return tuple((name, given[variable]) for name, variable in variables if variable in given)


def _controller_uid(body: Body) -> str | None:
    """The UID of an object's owner, for an object without our label."""
    return (controller_of(body) or {}).get("uid")


def _records(annotations: dict[str, str]) -> tuple[tuple[int, ClaimRecord], ...]:
    """The last record of each ordinal, without annotations of other clients."""
    records: dict[int, ClaimRecord] = {}
    for key, value in annotations.items():
        ordinal = key.removeprefix(names.ANNOTATION_RECORDED)
        directory_id, _, claim_uid = value.partition(" ")
        if ordinal != key and ordinal.isdecimal() and claim_uid:
            records[int(ordinal)] = ClaimRecord(directory_id, claim_uid)
    return tuple(sorted(records.items(), key=lambda item: item[0]))


def _given_up(
    annotations: dict[str, str], now: datetime
) -> tuple[tuple[int, tuple[GivenUp, ...]], ...]:
    """The claims that were given up within a day, without annotations of other clients."""
    given_up: dict[int, tuple[GivenUp, ...]] = {}
    for key, value in annotations.items():
        ordinal = key.removeprefix(names.ANNOTATION_GIVEN_UP)
        if ordinal != key and ordinal.isdecimal():
            notes = (_note(entry, now) for entry in value.split())
            kept = tuple(n for n in notes if n is not None and n.age_ms < NOTED_MS)
            given_up[int(ordinal)] = kept
    return tuple(sorted(given_up.items(), key=lambda item: item[0]))


def _note(entry: str, now: datetime) -> GivenUp | None:
    at, _, rest = entry.partition("/")
    kind, _, claim_uid = rest.partition("/")
    try:
        age = now - datetime.fromisoformat(at)
    except (ValueError, TypeError):
        return None
    age_ms = int(age.total_seconds() * 1000)
    # If a note's time lies further ahead, a clock was wrong when it was written. If it counted as
    # new, it would delay a replacement until that time. A quorum without a redundant
    # voter is worse than a volume that is given up too early.
    if age_ms < -AHEAD_MAX_MS:
        return None
    return GivenUp(claim_uid, max(0, age_ms), kind == UNUSED)


def with_note(value: str, claim_uid: str, *, unused: bool, now: datetime) -> str:
    """An annotation's value with one more claim that is given up; each claim once."""
    entries = [entry for entry in value.split() if not entry.endswith(f"/{claim_uid}")]
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = entries if len(entries) < NOTES_MAX else entries[-NOTES_MAX + 1 :]
    return " ".join([*kept, f"{at}/{UNUSED if unused else 'used'}/{claim_uid}"])


def _record(annotations: dict[str, str]) -> ClaimRecord | None:
    directory_id = annotations.get(names.ANNOTATION_DIRECTORY_ID)
    claim_uid = annotations.get(names.ANNOTATION_CLAIM_UID)
    return ClaimRecord(directory_id, claim_uid) if directory_id and claim_uid else None


def read_budget(body: Body | None, quorum: str) -> Budget | None:
    """Read the disruption budget; its count only once the controller has observed its spec."""
    if body is None:
        return None
    meta, status = _part(body, "metadata"), _part(body, "status")
    current = status.get("observedGeneration", 0) >= meta.get("generation", 0)
    return Budget(
        uid=meta["uid"],
        counted=int(status.get("expectedPods", 0)) if current else None,
        mark=_annotations(body).get(names.ANNOTATION_RECOUNT),
        allowed=int(status.get("disruptionsAllowed", 0)) if current else None,
        healthy=int(status.get("currentHealthy", 0)) if current else None,
        pods=_selected_pods(quorum, _part(_part(body, "spec"), "selector")),
        version=meta.get("resourceVersion"),
    )


def _selected_pods(quorum: str, selector: Body) -> tuple[str, ...] | None:
    """Names of the pods that a budget selects; None: it selects by anything else."""
    match _parts(selector, "matchExpressions"):
        case [{"key": names.LABEL_POD, "operator": "In"} as by_name]:
            selected = cast("list[str]", by_name.get("values") or [])
            return tuple(name for name in selected if names.ordinal_of(name, quorum) is not None)
        case [{"key": names.LABEL_POD, "operator": "DoesNotExist"}]:
            return ()
        case _:
            return None


def read_claims(
    quorum: str, bodies: Sequence[Body], *, statefulset: StatefulSet | None = None
) -> tuple[Claim, ...]:
    """Read the claims under this quorum's names, including those of an earlier resource (S18).

    A name alone identifies no owner, so each claim has its owner. Claims of other owners are left
    out if no replica of ours can have used them.

    Args:
        quorum: name of the resource.
        bodies: all claims of the namespace.
        statefulset: this resource's own; its pods and records identify their claims.
    """
    volumes = Counter(body["spec"].get("volumeName") for body in bodies)
    claims: list[Claim] = []
    for body in bodies:
        meta = body["metadata"]
        ordinal = names.ordinal_of(meta["name"], f"{names.CLAIM_TEMPLATE}-{quorum}")
        if ordinal is None:
            continue
        volume, record = body["spec"].get("volumeName"), _record(_annotations(body))
        foreign_owner = (
            ""
            if record or _uses_claim(statefulset, ordinal, meta["uid"])
            else (_owner_of(quorum, body))
        )
        if foreign_owner and ordinal >= names.NODES_MAX:
            continue
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
                record=record,
                foreign_owner=foreign_owner,
                defaults=_labels(body).get(names.LABEL_DEFAULTS),
                cluster_domain=_labels(body).get(names.LABEL_CLUSTER_DOMAIN),
                version=meta.get("resourceVersion"),
                storage_class=body["spec"].get("storageClassName") or "",
                requested_bytes=_bytes(_part(_part(body["spec"], "resources"), "requests")),
                capacity_bytes=_bytes(_part(_part(body, "status"), "capacity")),
                resize=_resize(_parts(_part(body, "status"), "conditions")),
            )
        )
    return tuple(sorted(claims, key=lambda claim: claim.ordinal))


def _bytes(quantities: Body) -> int | None:
    """An amount of storage; None: there is none, or in a notation that no operator writes."""
    with suppress(ValueError):
        return size_bytes(str(quantities.get("storage", "")))
    return None


RESIZE = (
    "ControllerResizeError",
    "NodeResizeError",
    "FileSystemResizePending",
    "Resizing",
)
"""Kubernetes' conditions of a claim that grows; the first that is there says the most."""


def _resize(conditions: Sequence[Body]) -> str:
    """What Kubernetes reports of a claim's growth."""
    holding = {c["type"]: c for c in conditions if c.get("status") == "True"}
    first = next((holding[name] for name in RESIZE if name in holding), None)
    if first is None:
        return ""
    message = str(first.get("message") or first.get("reason") or "")
    return f"{first['type']}: {message}"[:300] if message else str(first["type"])


def _uses_claim(statefulset: StatefulSet | None, ordinal: int, claim_uid: str) -> bool:
    """Whether a StatefulSet of ours has a pod on a claim, or a record of it."""
    if statefulset is None:
        return False
    last = statefulset.record(ordinal)
    return ordinal < statefulset.replicas or (last is not None and last.claim_uid == claim_uid)


def _owner_of(quorum: str, body: Body) -> str:
    """The owner of a claim by its labels and references; empty: a quorum of this name."""
    labels, controller = _labels(body), controller_of(body)
    app, instance = labels.get(names.LABEL_APP), labels.get(names.LABEL_INSTANCE)
    if instance not in {None, quorum} or app not in {None, names.APP}:
        return f"{app or 'unknown'} {instance or ''}".strip()
    if names.LABEL_OWNER_UID in labels or (app, instance) == (names.APP, quorum):
        return ""
    if controller is not None:
        return f"{controller.get('kind')} {controller.get('name')}"
    return UNKNOWN_OWNER


def read_pods(quorum: str, bodies: Sequence[Body], now: datetime) -> tuple[Pod, ...]:
    """Read the pods of the StatefulSet, by name."""
    pods: list[Pod] = []
    for body in bodies:
        ordinal = names.ordinal_of(body["metadata"]["name"], quorum)
        if ordinal is not None:
            pods.append(_read_pod(body, ordinal, now))
    return tuple(sorted(pods, key=lambda pod: pod.ordinal))


def counted_pods(pods: Sequence[Pod], budget: Budget | None) -> tuple[Pod, ...]:
    """The pods, each with whether the disruption budget selects it."""
    return tuple(
        replace(pod, counted=budget is not None and budget.selects(pod.name)) for pod in pods
    )


def _read_pod(body: Body, ordinal: int, now: datetime) -> Pod:
    meta, status = _part(body, "metadata"), _part(body, "status")
    conditions = {str(c["type"]): c for c in _parts(status, "conditions")}
    containers = [c for c in _parts(status, "containerStatuses") if c["name"] == names.CONTAINER]
    container: Body = containers[0] if containers else {}
    last_exit = None if _has_been_ready(conditions, container) else _last_exit(container)
    created = datetime.fromisoformat(meta["creationTimestamp"])
    ready = _part(conditions, "Ready")
    turned = datetime.fromisoformat(ready["lastTransitionTime"]) if ready else created
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        ordinal=ordinal,
        phase=status.get("phase", "Pending"),
        ready=ready.get("status") == "True",
        unready_ms=0
        if ready.get("status") == "True"
        else max(0, int((now - turned).total_seconds() * 1000)),
        terminating=_terminating(body),
        address=status.get("podIP"),
        revision=_labels(body).get("controller-revision-hash"),
        restarts=int(container.get("restartCount", 0)),
        exit_code=last_exit.get("exitCode") if last_exit else None,
        age_ms=max(0, int((now - created).total_seconds() * 1000)),
        detail=_detail(conditions, container, last_exit),
        waiting=_waiting(conditions, container),
        running="running" in _part(container, "state"),
        version=meta.get("resourceVersion"),
        tls=_tls_level(_part(body, "spec")),
        guarded=f"{ENV_PREFIX}ACCESS_FILE" in _environment(_part(body, "spec")),
    )


def _waiting(conditions: dict[str, Body], container: Body) -> str:
    """What the pod waits for, in one word; empty if Kubernetes reports nothing."""
    scheduled = _part(conditions, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("reason") or "Unschedulable")
    return str(_part(_part(container, "state"), "waiting").get("reason") or "")


def _last_exit(container: Body) -> Body | None:
    """The container's last exit: of this run, or of the previous one."""
    now, before = _part(container, "state"), _part(container, "lastState")
    return _part(now, "terminated") or _part(before, "terminated") or None


def _has_been_ready(conditions: dict[str, Body], container: Body) -> bool:
    """Whether this run of the container was ready once: then the exit before it is out of date.

    A container becomes unready before it restarts, so a later transition belongs to this run.
    """
    started = _part(_part(container, "state"), "running").get("startedAt")
    turned = _part(conditions, "Ready").get("lastTransitionTime")
    if not started or not turned:
        return False
    return datetime.fromisoformat(turned) > datetime.fromisoformat(started)


def _detail(conditions: dict[str, Body], container: Body, last_exit: Body | None) -> str:
    """Why a pod does not run, as the scheduler, the kubelet or the node reports it."""
    scheduled = _part(conditions, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")[:300]
    waiting = _part(_part(container, "state"), "waiting")
    words = [str(waiting[key]) for key in ("reason", "message") if waiting.get(key)]
    if last_exit and not container.get("ready"):
        now = "" if "running" not in _part(container, "state") else "its last run had "
        words.append(f"{now}exit code {last_exit.get('exitCode')}")
        words.append(_termination(str(last_exit.get("message") or last_exit.get("reason") or "")))
    return ": ".join(word for word in words if word)[:300]


def _termination(message: str) -> str:
    """The node's termination message is JSON with a reason and a message."""
    try:
        content = json.loads(message)
    except ValueError:
        return message
    if not isinstance(content, dict):
        return message
    record = cast("dict[str, object]", content)
    return f"{record.get('reason', '')} {record.get('message', '')}".strip()


def now_utc() -> datetime:
    """The wall clock, for the age of objects only."""
    return datetime.now(UTC)
