"""A scale-up whose new pod cannot start: whether it is stuck, and whether it waits for a roll.

A roll must not wait for room in the cluster that may never come. But a pod that waits for room
would take the room of a voter that the roll restarts. So the operator takes the new pod away first
and records that on the StatefulSet: the scale-up is deferred until all pods have the template of
that time. All of it is derived from the observation, so that an operator that restarts decides the
same.
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import Observation, Trouble

STUCK_MS = 60_000
"""A new pod that cannot start for so long is stuck. An autoscaler often adds a machine sooner."""
NO_ROOM = frozenset({"Unschedulable", "FailedBinding", "ProvisioningFailed", "ClaimPending"})
"""Reasons that the cluster lacks a machine or a volume for a pod."""
OVER_QUOTA = "exceeded quota"
"""How the API server words a quota that leaves no room."""


def next_ordinal(observation: Observation, voters: int) -> int | None:
    """The lowest wanted replica that is not a voter; None: each of them is."""
    quorum = observation.quorum
    present = {replica.node_id for replica in quorum.replicas} if quorum is not None else set[int]()
    return next((ordinal for ordinal in range(voters) if ordinal not in present), None)


def why_stuck(observation: Observation, voters: int) -> Trouble | None:
    """What has kept the next new pod from starting for long; None: nothing is known to.

    A replica that answers may yet catch up, so it is never stuck.
    """
    ordinal = next_ordinal(observation, voters)
    if observation.quorum is None or ordinal is None or observation.node(ordinal) is not None:
        return None
    troubles = (trouble for trouble in observation.troubles if trouble.ordinal == ordinal)
    return next((trouble for trouble in troubles if trouble.lasts_ms >= STUCK_MS), None)


def lacks_room(trouble: Trouble) -> bool:
    """Whether the cluster lacks room for a pod, as opposed to a template that may be wrong."""
    refused = trouble.reason == "FailedCreate" and OVER_QUOTA in trouble.message
    return refused or trouble.reason in NO_ROOM


def why_deferred(observation: Observation, voters: int) -> str | None:
    """Why the next scale-up waits for the roll that is under way; None: it does not wait.

    While the StatefulSet controller has not seen the template, it is not known who has it: the
    scale-up waits then, too.
    """
    statefulset, ordinal = observation.statefulset, next_ordinal(observation, voters)
    if observation.quorum is None or statefulset is None or ordinal is None:
        return None
    noted, revision = statefulset.deferral, statefulset.revision
    if noted is None or statefulset.replicas > ordinal:
        return None
    if revision is not None and not (noted.revision == revision and observation.rolls):
        return None
    return f"replica {ordinal} is added after the restart of all pods: {noted.why}"
