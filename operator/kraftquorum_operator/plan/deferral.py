"""Rolls the pods before a scale-up that cannot start, and defers that scale-up.

A pod that waits for room is not started yet, so nothing depends on it. Left there, it would take
the room of the first voter that the roll restarts, and the quorum would lose that voter. So the
operator takes it away first. What must not live here: whether a scale-up is stuck or deferred
(`judge/scale_up.py`), and how pods are rolled (`rollout.py`).
"""

from __future__ import annotations

from kraftquorum_operator.judge.scale_up import lacks_room, next_ordinal, why_stuck
from kraftquorum_operator.model.observation import Deferral
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Action, SetReplicas, Wait
from kraftquorum_operator.plan.guards import Case, first_block
from kraftquorum_operator.plan.rollout import RESTART, TEMPLATE, next_outdated, roll
from kraftquorum_operator.plan.scaling import grow


def roll_before_scale_up(case: Case) -> Action | Wait | None:
    """Roll while a scale-up is deferred, or defer a stuck one; None: `grow` comes first.

    The scale-up continues once every pod has the new template.
    """
    waiting = first_block(case, guards.scale_up_not_deferred)
    if waiting is None:
        return _defer(case)
    step = _leaving_pod(case) or roll(case) or waiting
    if isinstance(step, Wait) and step != waiting:
        return Wait(step.guard, f"{step.why}; {waiting.why}")
    return step


def _leaving_pod(case: Case) -> Wait | None:
    """The pod that was taken away may still take a room that becomes free."""
    statefulset = case.observation.statefulset
    replicas = statefulset.replicas if statefulset is not None else 0
    left = [pod.ordinal for pod in case.observation.pods if pod.ordinal >= replicas]
    subject = Case(case.spec, case.observation, case.now_ms, ordinal=max(left, default=-1))
    return first_block(subject, guards.pod_gone_before_next_step)


def _defer(case: Case) -> SetReplicas | Wait | None:
    """Take the new pod of a stuck scale-up away, if every guard of the roll allows a restart."""
    observation = case.observation
    stuck, pod = why_stuck(observation, case.spec.voters), next_outdated(case)
    statefulset, ordinal = observation.statefulset, next_ordinal(observation, case.spec.voters)
    if stuck is None or pod is None or statefulset is None or ordinal is None:
        return None
    scale_up = grow(case)
    if not isinstance(scale_up, Wait) or statefulset.revision is None:
        return None
    voters = observation.quorum.voters_of(pod.ordinal) if observation.quorum is not None else ()
    subject = Case(
        case.spec,
        observation,
        case.now_ms,
        ordinal=ordinal,
        old=voters[0].replica if voters else None,
        replicas=ordinal,
    )
    blocked = first_block(
        subject,
        *TEMPLATE,
        *RESTART,
        guards.majority_survives_loss,
        guards.replicas_never_below_highest_voter,
    )
    why = blocked.why if blocked is not None else None
    if not lacks_room(stuck):
        why = f"the current template may not start: {stuck}"
    if why is not None:
        return Wait(scale_up.guard, f"{scale_up.why}; no pod is restarted meanwhile: {why}")
    note = Deferral(statefulset.revision, str(stuck))
    return SetReplicas(statefulset.uid, statefulset.resource_version, ordinal, note)
