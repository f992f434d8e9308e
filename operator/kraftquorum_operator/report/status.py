"""The status of a KRaftQuorum, from one observation and the decision on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from kraftquorum_operator import names
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import (
    Condition,
    Leader,
    QuorumStatus,
    ReplicaStatus,
    VoterStatus,
)
from kraftquorum_operator.observe.snapshot import Snapshot
from kraftquorum_operator.plan.actions import Decision, Done, Wait, beneath, describe, summary
from kraftquorum_operator.report.conditions import QUORUM_LOST, Stamp, conditions, fault_tolerance
from kraftquorum_operator.report.operations import operations
from kraftquorum_operator.report.timeline import timeline

Phase = Literal["Forming", "Running", "Changing", "Waiting", "QuorumLost", "Paused", "Deleting"]

VOLATILE = frozenset(
    {"lag", "lastFetchAgeMs", "logEndOffset", "durableEndOffset", "highWatermark", "message"}
)
"""Fields that change all the time; a status that differs only in them is not urgent."""


def _phase(seen: Snapshot, decision: Decision) -> Phase:
    if seen.deleting:
        return "Deleting"
    truth = beneath(decision)
    if isinstance(truth, Wait) and truth.guard in QUORUM_LOST:
        return "QuorumLost"  # graver than a pause, which is set while a person works on it
    match decision:
        case Wait(guard="not_paused"):
            return "Paused"
        case Done():
            return "Running"
        case _ if seen.quorum is None and (seen.latch is None or not _has_formed(seen)):
            return "Forming"
        case Wait():
            return "Waiting"
        case _:
            return "Changing"


def _has_formed(seen: Snapshot) -> bool:
    return any(node.high_watermark > 0 for node in seen.nodes)


def _nodes(seen: Snapshot) -> list[ReplicaStatus]:
    ordinals = {pod.ordinal for pod in seen.pods} | {claim.ordinal for claim in seen.claims}
    result: list[ReplicaStatus] = []
    for ordinal in sorted(ordinals):
        node, pod = seen.node(ordinal), seen.pod(ordinal)
        result.append(
            ReplicaStatus(
                node_id=ordinal,
                pod=names.pod(seen.name, ordinal),
                directory_id=node.replica.directory_id if node else None,
                role=node.role if node else "silent",
                epoch=node.epoch if node else None,
                log_end_offset=node.log_end_offset if node else None,
                durable_end_offset=node.durable_end_offset if node else None,
                high_watermark=node.high_watermark if node else None,
                ready=pod.ready if pod else False,
                detail=(pod.detail if node is None else "") if pod else "no pod, only a claim",
            )
        )
    return result


def _voters(seen: Snapshot) -> list[VoterStatus]:
    if seen.quorum is None:
        return []
    return [
        VoterStatus(
            node_id=voter.replica.node_id,
            directory_id=voter.replica.directory_id,
            pod=names.pod(seen.name, voter.replica.node_id),
            committed=voter.replica in seen.quorum.committed,
            caught_up=voter.fresh,
            lag=voter.lag,
            last_fetch_age_ms=voter.last_fetch_age_ms,
        )
        for voter in seen.quorum.voters
    ]


def build_status(
    spec: QuorumSpec,
    seen: Snapshot,
    decision: Decision,
    *,
    current_action: str | None,
    before: Sequence[Condition],
    stamp: Stamp,
    last: QuorumStatus | None = None,
) -> QuorumStatus:
    """Report what was seen and what is being done.

    Args:
        spec: what is wanted.
        seen: what was observed.
        decision: what was decided on it.
        current_action: the operation in flight, which may wait for a guard now.
        before: the conditions of the last status, for their times.
        stamp: when, and about which generation.
        last: the last status, for the timeline; None: there was none.
    """
    quorum = seen.quorum
    match decision:
        case Wait(guard, why):
            waiting, message = guard, why
        case Done(why):
            waiting, message = None, why
        case _:
            waiting, message = None, describe(decision)
    cluster_id = seen.latch.cluster_id if seen.latch else seen.remembered_cluster_id
    status = QuorumStatus(
        observed_generation=stamp.generation,
        phase=_phase(seen, decision),
        replicas=len({r.node_id for r in quorum.committed}) if quorum else 0,
        ready_voters=sum(1 for voter in quorum.voters if voter.fresh) if quorum else 0,
        fault_tolerance=max(0, fault_tolerance(seen)),
        cluster_id=cluster_id,
        leader=None
        if quorum is None
        else Leader(
            node_id=quorum.leader.node_id,
            directory_id=quorum.leader.directory_id,
            pod=names.pod(seen.name, quorum.leader.node_id),
        ),
        epoch=quorum.epoch if quorum else None,
        high_watermark=quorum.high_watermark if quorum else None,
        voters=_voters(seen),
        nodes=_nodes(seen),
        current_action=current_action,
        doing=summary(decision),
        waiting_for=waiting,
        message=message[:1000],
        label_selector=f"{names.LABEL_APP}={names.APP},{names.LABEL_INSTANCE}={seen.name}",
        conditions=conditions(seen, spec.voters, decision, before, stamp),
        operations=operations(spec, seen, last.operations if last else (), stamp.now),
    )
    return status.model_copy(update={"timeline": timeline(last, status, stamp.now)})


def steady(status: object) -> object:
    """A status without what changes all the time, to see whether something else did."""
    if isinstance(status, dict):
        items = cast("dict[str, Any]", status).items()
        return {key: steady(value) for key, value in items if key not in VOLATILE}
    if isinstance(status, list):
        return [steady(item) for item in cast("list[Any]", status)]
    return status
