"""Why a pod cannot start or a claim has no volume, as Kubernetes reports it (pure, over dicts).

An image that cannot be pulled, no node, no volume, a quota, a crash loop: the operator cannot fix
any of them, and each of them delays a quorum. Kubernetes reports some of them only in events:
those of the StatefulSet say why there is no pod, those of a claim why it has no volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.observation import CRASH_LOOP, Claim, Pod, StatefulSet, Trouble
from kraftquorum_operator.observe.kube import now_utc

ON_ITS_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container that are no fault."""

CRASHES = 2
"""This many restarts without being ready make a crash loop, while the container does not run."""

CLAIM_EVENTS = frozenset({"FailedBinding", "ProvisioningFailed", "FailedCreate"})
PENDING = "ClaimPending"
MESSAGE_MAX = 500


def wants_events(
    statefulset: StatefulSet | None, pods: Sequence[Pod], claims: Sequence[Claim]
) -> list[tuple[str, str]]:
    """Kind and name of the objects whose events may have the reason."""
    if statefulset is None:
        return []
    there = {pod.ordinal for pod in pods}
    absent = any(n not in there for n in range(statefulset.replicas))
    pending = [("PersistentVolumeClaim", c.name) for c in claims if c.phase == "Pending"]
    return [*([("StatefulSet", "")] if absent else []), *pending]


def read_troubles(
    quorum: str,
    statefulset: StatefulSet | None,
    pods: Sequence[Pod],
    claims: Sequence[Claim],
    events: Iterable[Body] = (),
    now: datetime | None = None,
) -> tuple[Trouble, ...]:
    """All pods and claims that cannot start now, by ordinal, short delays included.

    Args:
        quorum: name of the resource.
        statefulset: of the quorum.
        pods: of the quorum.
        claims: of the quorum.
        events: those of the objects that `wants_events` names.
        now: the wall clock, for the age of events; None: now.
    """
    newest, now = _newest(events), now or now_utc()
    troubles = [*_of_pods(pods), *_of_claims(claims, newest)]
    if statefulset is not None:
        there = {pod.ordinal for pod in pods}
        absent = [n for n in range(statefulset.replicas) if n not in there]
        troubles += [t for n in absent if (t := _of_absent(quorum, n, newest, now)) is not None]
    # A claim that waits for its pod is less useful than what the pod waits for.
    plain = {trouble.ordinal for trouble in troubles if trouble.reason != PENDING}
    troubles = [t for t in troubles if t.reason != PENDING or t.ordinal not in plain]
    waits = {pod.ordinal: pod.age_ms if pod.unready_ms is None else pod.unready_ms for pod in pods}
    troubles = [replace(t, lasts_ms=waits.get(t.ordinal, t.lasts_ms)) for t in troubles]
    return tuple(sorted(troubles, key=lambda trouble: (trouble.ordinal, trouble.subject)))


def _of_pods(pods: Sequence[Pod]) -> Iterable[Trouble]:
    for pod in pods:
        if pod.ready or pod.terminating:
            continue
        subject = f"pod {pod.name}"
        if pod.waiting not in ON_ITS_WAY:
            yield Trouble(pod.ordinal, subject, pod.waiting, pod.detail)
        elif pod.exit_code is not None and pod.restarts >= CRASHES and not pod.running:
            yield Trouble(pod.ordinal, subject, CRASH_LOOP, pod.detail)


def _of_claims(
    claims: Sequence[Claim], events: Mapping[tuple[str, str], Body]
) -> Iterable[Trouble]:
    for claim in claims:
        subject = f"claim {claim.name}"
        if claim.phase == "Lost":
            why = f"its volume {claim.volume} is gone"
            yield Trouble(claim.ordinal, subject, "ClaimLost", why)
        elif claim.phase == "Pending" and not claim.terminating:
            event = events.get(("PersistentVolumeClaim", claim.name))
            if event is not None and event.get("reason") in CLAIM_EVENTS:
                yield Trouble(claim.ordinal, subject, str(event["reason"]), _message(event))
            else:
                yield Trouble(claim.ordinal, subject, PENDING, "it has no volume yet")


def _of_absent(
    quorum: str, ordinal: int, events: Mapping[tuple[str, str], Body], now: datetime
) -> Trouble | None:
    pod = names.pod(quorum, ordinal)
    event = events.get(("StatefulSet", pod)) or events.get(
        ("StatefulSet", names.claim(quorum, ordinal))
    )
    if event is None or event.get("reason") != "FailedCreate":
        return None
    first = str(event.get("firstTimestamp") or event.get("eventTime") or "")
    since = datetime.fromisoformat(first) if first else now
    lasts_ms = max(0, int((now - since).total_seconds() * 1000))
    return Trouble(ordinal, f"pod {pod}", "FailedCreate", _message(event), lasts_ms)


def _newest(events: Iterable[Body]) -> dict[tuple[str, str], Body]:
    """The newest event of each object; those of a StatefulSet by the pod or claim they name."""
    newest: dict[tuple[str, str], Body] = {}
    for event in sorted(events, key=_when):
        about = cast("Body", event["involvedObject"])
        kind, name = str(about["kind"]), str(about["name"])
        if kind == "StatefulSet":
            # "create Pod demo-3 in StatefulSet demo failed error: …", "create Claim data-demo-3 …"
            words = str(event.get("message") or "").split()
            name = words[2] if words[:1] == ["create"] and len(words) > 2 else name
        newest[kind, name] = event
    return newest


def _when(event: Body) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _message(event: Body) -> str:
    return str(event.get("message") or "")[:MESSAGE_MAX]
