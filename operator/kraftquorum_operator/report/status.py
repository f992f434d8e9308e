"""The status of a KRaftQuorum, from one observation and the decision on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, cast

from kraftquorum_operator import names
from kraftquorum_operator.judge.expiry import expiries, next_ca_expiry
from kraftquorum_operator.judge.leaves import moment
from kraftquorum_operator.model.certificates import highest
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import (
    Condition,
    Leader,
    QuorumStatus,
    ReplicaStatus,
    TlsStatus,
    VoterName,
    VoterStatus,
)
from kraftquorum_operator.model.tls import TlsLevel
from kraftquorum_operator.plan.actions import Decision, Done, Wait, describe, summary
from kraftquorum_operator.report.conditions import conditions, fault_tolerance, quorum_lost
from kraftquorum_operator.report.operations import operations
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.timeline import timeline

Phase = Literal["Forming", "Running", "Changing", "Waiting", "QuorumLost", "Paused", "Deleting"]

OWN_TIME = "leaderSeenAt"
"""Changes with every reconciliation; it is written with other changes only."""

OFFSETS = frozenset({"logEndOffset", "durableEndOffset", "highWatermark"})
"""Of each replica. With a leader they move with every write of a client; without one they say whose
log is the longest."""

MOVING = OFFSETS | {"lag", "lastFetchAgeMs"}
"""Fields that are not in the resource while there is a leader; the status page has them."""

VOLATILE = OFFSETS | {"message", OWN_TIME}
"""A status that differs only in these fields is written less often."""


def _phase(observation: Observation, decision: Decision) -> Phase:
    if quorum_lost(observation, decision) is not None:
        return "QuorumLost"  # it outranks a pause, which a person may set during the restore
    match decision:
        case Wait(guard="not_paused"):
            return "Paused"
        case Done():
            return "Running"
        case _ if not observation.has_formed():
            return "Forming"
        case Wait():
            return "Waiting"
        case _:
            return "Changing"


def _nodes(observation: Observation) -> list[ReplicaStatus]:
    ordinals = {pod.ordinal for pod in observation.pods}
    if observation.quorum is not None:
        ordinals |= {replica.node_id for replica in observation.quorum.replicas}
    else:
        ordinals |= {claim.ordinal for claim in observation.claims}  # any may hold a voter's data
    result: list[ReplicaStatus] = []
    for ordinal in sorted(ordinals):
        node, pod = observation.node(ordinal), observation.pod(ordinal)
        result.append(
            ReplicaStatus(
                node_id=ordinal,
                pod=names.pod(observation.name, ordinal),
                directory_id=node.replica.directory_id if node else None,
                role=node.role if node else "silent",
                epoch=node.epoch if node else None,
                log_end_offset=node.log_end_offset if node else None,
                durable_end_offset=node.durable_end_offset if node else None,
                high_watermark=node.high_watermark if node else None,
                ready=pod.ready if pod else False,
                detail=(pod.detail if node is None else "")
                if pod
                else _without_pod(observation, ordinal),
            )
        )
    return result


def _without_pod(observation: Observation, ordinal: int) -> str:
    return "no pod and no claim" if observation.claim(ordinal) is None else "no pod, only a claim"


def _voters(observation: Observation) -> list[VoterStatus]:
    if observation.quorum is None:
        return []
    return [
        VoterStatus(
            node_id=voter.replica.node_id,
            directory_id=voter.replica.directory_id,
            pod=names.pod(observation.name, voter.replica.node_id),
            committed=voter.replica in observation.quorum.committed,
            caught_up=voter.fresh,
            lag=voter.lag,
            last_fetch_age_ms=voter.last_fetch_age_ms,
        )
        for voter in observation.quorum.voters
    ]


def _last_known_voters(observation: Observation) -> list[VoterName]:
    if observation.quorum is not None or observation.last is None:
        return []
    return [
        VoterName(
            node_id=replica.node_id,
            directory_id=replica.directory_id,
            pod=names.pod(observation.name, replica.node_id),
        )
        for replica in observation.last.voters
    ]


def _tls(spec: QuorumSpec, observation: Observation) -> TlsStatus | None:
    """TLS as it is; also while Certificates of cert-manager are left over.

    Without it the next observation does not look for them any more.
    """
    facts = observation.certificates
    if facts is None:
        return None
    authority, statefulset = facts.authority, observation.statefulset
    template: TlsLevel = statefulset.tls if statefulset is not None else "disabled"
    live = highest([template, *(pod.tls for pod in observation.pods)])
    left = bool(facts.unreadable) or (authority is not None and authority.issued_pods > 0)
    if spec.tls.mode == "Disabled" and live == "disabled" and not left:
        return None
    times = expiries(observation)
    ca_expiry = next_ca_expiry(observation)
    return TlsStatus(
        level=template,
        next_expiry=moment(min(times.values())) if times else None,
        ca_expiry=moment(ca_expiry) if ca_expiry is not None else None,
    )


def build_status(
    spec: QuorumSpec,
    observation: Observation,
    decision: Decision,
    *,
    current_action: str | None,
    before: Sequence[Condition],
    stamp: Stamp,
    last: QuorumStatus | None = None,
) -> QuorumStatus:
    """The status that reports an observation and the decision on it.

    Args:
        spec: the wanted state.
        observation: the observation.
        decision: the decision on it.
        current_action: the action in progress, which may wait for a guard now.
        before: the conditions of the last status, for their times.
        stamp: the time of the status, and the generation that it is about.
        last: the last status, for the timeline; None: there was none.
    """
    quorum = observation.quorum
    match decision:
        case Wait(guard, why):
            waiting, message = guard, why
        case Done(why):
            waiting, message = None, why
        case _:
            waiting, message = None, describe(decision)
    cluster_id = (
        observation.latch.cluster_id if observation.latch else observation.remembered_cluster_id
    )
    status = QuorumStatus(
        observed_generation=stamp.generation,
        phase=_phase(observation, decision),
        replicas=len({r.node_id for r in quorum.committed}) if quorum else 0,
        ready_voters=sum(1 for voter in quorum.voters if voter.fresh) if quorum else 0,
        fault_tolerance=max(0, fault_tolerance(observation)),
        cluster_id=cluster_id,
        leader=None
        if quorum is None
        else Leader(
            node_id=quorum.leader.node_id,
            directory_id=quorum.leader.directory_id,
            pod=names.pod(observation.name, quorum.leader.node_id),
        ),
        epoch=quorum.epoch if quorum else None,
        high_watermark=quorum.high_watermark if quorum else None,
        leader_seen_at=stamp.now
        if quorum
        else observation.last.at or None
        if observation.last
        else None,
        voters=_voters(observation),
        last_known_voters=_last_known_voters(observation),
        nodes=_nodes(observation),
        current_action=current_action,
        doing=summary(decision),
        waiting_for=waiting,
        message=message[:1000],
        tls=_tls(spec, observation),
        config=dict(observation.statefulset.settings) if observation.statefulset else {},
        label_selector=f"{names.LABEL_APP}={names.APP},{names.LABEL_INSTANCE}={observation.name}",
        conditions=conditions(observation, spec.voters, decision, before, stamp, spec.storage.size),
        operations=operations(spec, observation, last.operations if last else (), stamp.now),
    )
    return status.model_copy(update={"timeline": timeline(last, status, stamp.now)})


def resource_status(status: QuorumStatus) -> dict[str, Any]:
    """The status as the operator writes it into the resource.

    With a leader it has no field that moves with the log: a quorum at rest costs no write, however
    much its clients write.
    """
    body = status.model_dump(by_alias=True, exclude_none=True, mode="json")
    return body if status.leader is None else cast("dict[str, Any]", _without(MOVING, body))


def is_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two statuses are the same, apart from when a leader was seen."""
    old, new = ({k: v for k, v in status.items() if k != OWN_TIME} for status in (before, now))
    return old == new


def steady(status: object) -> object:
    """A status without its volatile fields, to see whether another field changed."""
    return _without(VOLATILE, status)


def _without(keys: Collection[str], part: object) -> object:
    if isinstance(part, dict):
        items = cast("dict[str, Any]", part).items()
        return {key: _without(keys, value) for key, value in items if key not in keys}
    if isinstance(part, list):
        return [_without(keys, item) for item in cast("list[Any]", part)]
    return part
