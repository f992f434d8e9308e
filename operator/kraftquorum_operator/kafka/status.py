"""`status` and events of a KafkaQuorum from what a check showed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from kraftquorum_operator.kafka import report
from kraftquorum_operator.kafka.advice import Advice, Kind, Standing
from kraftquorum_operator.kafka.codec.describe_quorum import ReplicaState
from kraftquorum_operator.kafka.facts import View
from kraftquorum_operator.kafka.judgement import Judgement
from kraftquorum_operator.kafka.refusals import Refusal
from kraftquorum_operator.model.kafka_status import (
    NOTES_MAX,
    REPLICAS_MAX,
    KafkaAdvice,
    KafkaQuorumStatus,
    KafkaReplicaName,
    KafkaReplicaStatus,
)
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.status import conditions_of
from kraftquorum_operator.report.events import Event
from kraftquorum_operator.report.stamp import Stamp, Truth, camel
from raftnode.core.types import format_directory_id

NO_ANSWER = "NoAdvice"
"""Reason of the conditions that depend on a confirmed answer, without one."""

CONDITIONS = {
    "Ready": "A majority of the controllers confirmed the answer that the status is about.",
    "Safe": "Any one voter may be lost or replaced now.",
    "ActionAdvised": "There is something to do, or to wait for.",
}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why the operator could not ask any controller.

    Attributes:
        reason: in CamelCase.
        text: what is wrong and what to do.
    """

    reason: str
    text: str


Verdict = tuple[Truth, str, str]
"""Of a condition: status, reason and message."""


def status_of(judgement: Judgement | Obstacle, before: Body, stamp: Stamp) -> Body:
    """The status to report.

    Args:
        judgement: of the last check.
        before: the previous status, for the times of its conditions.
        stamp: now, and the generation that the check was about.
    """
    last = conditions_of(before)
    conditions = [
        stamp.condition(name, *verdict, last) for name, verdict in _verdicts(judgement).items()
    ]
    status = KafkaQuorumStatus(observed_generation=stamp.generation, conditions=conditions)
    if isinstance(judgement, Judgement):
        notes = [note[:512] for note in report.notes(judgement.view)][:NOTES_MAX]
        update: dict[str, object] = {"notes": notes}
        if isinstance(judgement.outcome, Advice):
            update |= _of_advice(judgement.view, judgement.outcome)
        status = status.model_copy(update=update)
    body = status.model_dump(by_alias=True, exclude_none=True, mode="json")
    return {key: value for key, value in body.items() if value != []}


def refusal_reason(judgement: Judgement | Obstacle) -> str | None:
    """Why there is no advice, as the reason of `Ready`; None: there is advice."""
    if isinstance(judgement, Obstacle):
        return judgement.reason
    outcome = judgement.outcome
    return camel(outcome.code.name) if isinstance(outcome, Refusal) else None


def events_of(before: Body, now: Body) -> list[Event]:
    """An event for each condition that has another status or reason than before."""
    earlier = {condition["type"]: condition for condition in _listed(before)}
    events: list[Event] = []
    for condition in _listed(now):
        last = earlier.get(condition["type"])
        changed = last is None or any(last[key] != condition[key] for key in ("status", "reason"))
        if changed and condition["status"] != "Unknown":
            kind: Literal["Normal", "Warning"] = "Warning" if _is_bad(condition) else "Normal"
            message = str(condition["message"])[:1000]
            events.append(Event(kind, str(condition["reason"]), message, str(condition["type"])))
    return events


def _is_bad(condition: Body) -> bool:
    if condition["type"] == "ActionAdvised":
        return condition["status"] == "True"
    return condition["status"] == "False"


def _listed(status: Body) -> list[Body]:
    return cast("list[Body]", status.get("conditions") or [])


def _verdicts(judgement: Judgement | Obstacle) -> dict[str, Verdict]:
    if isinstance(judgement, Obstacle):
        return _without_advice(judgement.reason, judgement.text)
    if isinstance(judgement.outcome, Refusal):
        return _without_advice(camel(judgement.outcome.code.name), judgement.outcome.text)
    advice, quorum = judgement.outcome, judgement.view.confirmed_quorum
    confirmed = f"a majority confirmed leader {quorum.leader_id} in epoch {quorum.leader_epoch}"
    if advice.kind is Kind.DECISION_NEEDED:
        # Two live directories, or one that forgot its log: what counts as fresh is in doubt.
        safe: Verdict = ("False", _kind(advice.kind), advice.text)
    elif advice.safe:
        text = f"{advice.spare} of {len(advice.voters)} voters may be lost or replaced now"
        safe = ("True", "VotersToSpare", text)
    else:
        safe = ("False", "NoVoterToSpare", "the loss of one more fresh voter stops the quorum")
    nothing = advice.kind is Kind.NOTHING
    advised: Verdict = ("False" if nothing else "True", _kind(advice.kind), advice.text)
    return {"Ready": ("True", "Confirmed", confirmed), "Safe": safe, "ActionAdvised": advised}


def _without_advice(reason: str, text: str) -> dict[str, Verdict]:
    unknown: Verdict = ("Unknown", NO_ANSWER, f"there is no advice: {text}")
    return {"Ready": ("False", reason, text), "Safe": unknown, "ActionAdvised": unknown}


def _of_advice(view: View, advice: Advice) -> dict[str, object]:
    quorum = view.confirmed_quorum
    return {
        "cluster_id": next((node.cluster_id for node in view.nodes if node.cluster_id), None),
        "leader_id": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "voters": len(advice.voters),
        "spare_voters": max(advice.spare, 0),
        "replicas": _replicas(advice, quorum.leader_id),
        "advice": KafkaAdvice(
            kind=_kind(advice.kind),
            message=advice.text[:1024],
            remove=_name(advice.remove),
            add=_name(advice.add),
        ),
    }


def _replicas(advice: Advice, leader_id: int) -> list[KafkaReplicaStatus]:
    def replica(
        standing: Standing, role: Literal["leader", "voter", "observer"]
    ) -> KafkaReplicaStatus:
        return KafkaReplicaStatus(
            node_id=standing.state.node_id,
            directory_id=format_directory_id(standing.state.directory_id),
            role=role,
            fresh=standing.fresh,
            may_be_lost=standing.may_be_lost,
        )

    voters = [
        replica(voter, "leader" if voter.state.node_id == leader_id else "voter")
        for voter in advice.voters
    ]
    observers = [replica(observer, "observer") for observer in advice.observers]
    return [*voters, *observers][:REPLICAS_MAX]


def _name(state: ReplicaState | None) -> KafkaReplicaName | None:
    if state is None:
        return None
    return KafkaReplicaName(
        node_id=state.node_id, directory_id=format_directory_id(state.directory_id)
    )


_Kinds = Literal["Nothing", "Wait", "Provide", "Replace", "Add", "DecisionNeeded"]


def _kind(kind: Kind) -> _Kinds:
    return cast("_Kinds", camel(kind.name))
