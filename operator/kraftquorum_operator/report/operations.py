"""The operations in progress and their steps, derived from one observation like every decision.

Only the times at which an operation and its step were first seen come from the last status. The
names of the steps are a table, so that a metric's labels are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from kraftquorum_operator import names
from kraftquorum_operator.model.observation import Observation, Pod, ReplicaId
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.status import OPERATIONS_MAX, Operation

Kind = Literal["Formation", "Replacement", "Addition", "Removal", "Restart"]

STEPS: dict[Kind, tuple[str, ...]] = {
    "Formation": ("StartPods", "WriteLatch", "ElectLeader", "FirstRecords"),
    "Replacement": ("EmptyDisk", "Join", "CatchUp", "AddVoter", "RemoveVoter"),
    "Addition": ("StartPod", "Join", "CatchUp", "AddVoter"),
    "Removal": ("RemoveVoter", "EndPod"),
    "Restart": ("RestartPod",),
}
"""The steps of each kind, in order."""


def operations(
    spec: QuorumSpec, observation: Observation, before: Sequence[Operation], now: str
) -> list[Operation]:
    """All operations in progress.

    Args:
        spec: what is wanted.
        observation: what was observed.
        before: the operations of the last status, for their times.
        now: the time of this status.
    """
    known = {(operation.kind, operation.pod): operation for operation in before}
    result: list[Operation] = []
    current = list(_current_steps(spec, observation))
    current += _interrupted(observation, before, {pod for _, pod, _ in current})
    for kind, pod, step in current:
        earlier = known.get((kind, pod))
        if step == "EmptyDisk" and earlier is not None and _is_restarting(observation, pod):
            step = earlier.step  # noqa: PLW2901 - it was further than the observation shows now
        same = earlier is not None and earlier.step == step
        result.append(
            Operation(
                kind=kind,
                pod=pod,
                step=step,
                number=STEPS[kind].index(step) + 1,
                steps=len(STEPS[kind]),
                since=earlier.since if earlier else now,
                step_since=earlier.step_since if earlier and same else now,
            )
        )
    return result[:OPERATIONS_MAX]


CurrentStep = tuple[Kind, str, str]
"""Kind, pod and step."""


def _interrupted(
    observation: Observation, before: Sequence[Operation], pods: set[str]
) -> Iterator[CurrentStep]:
    """Replacements whose replica is down for a moment, as while its new storage is probed.

    They differ from a voter that is only down in that the last status listed them.
    """
    for operation in before:
        if operation.kind != "Replacement" or operation.pod in pods or observation.quorum is None:
            continue
        node_id = names.ordinal_of(operation.pod, observation.name)
        voters = observation.quorum.voters_of(node_id) if node_id is not None else ()
        if (
            node_id is not None
            and observation.node(node_id) is None
            and voters
            and not voters[0].fresh
        ):
            yield "Replacement", operation.pod, operation.step


def _is_restarting(observation: Observation, pod: str) -> bool:
    """Whether a replica is down on a sound claim: its last exit code is not new then."""
    node_id = names.ordinal_of(pod, observation.name)
    claim = observation.claim(node_id) if node_id is not None else None
    well = claim is not None and claim.phase == "Bound" and not claim.terminating
    return well and node_id is not None and observation.node(node_id) is None


def _current_steps(spec: QuorumSpec, observation: Observation) -> Iterator[CurrentStep]:
    if observation.quorum is None or not observation.quorum.formation_completed:
        step = _formation(spec, observation)
        if step is not None:
            yield "Formation", "", step
            return
    if observation.quorum is None:
        return
    voters = {replica.node_id for replica in observation.quorum.replicas}
    for node_id in sorted(voters | set(range(spec.voters))):
        pod = names.pod(observation.name, node_id)
        if node_id >= spec.voters:
            yield "Removal", pod, "RemoveVoter"
        elif node_id not in voters:
            yield "Addition", pod, _joining(observation, node_id) or "StartPod"
        elif (step := _replacement(observation, node_id)) is not None:
            yield "Replacement", pod, step
        elif _is_outdated(observation, observation.pod(node_id)):
            yield "Restart", pod, "RestartPod"
    for pod in observation.pods:
        if pod.ordinal >= spec.voters and pod.ordinal not in voters:
            yield "Removal", pod.name, "EndPod"


def _formation(spec: QuorumSpec, observation: Observation) -> str | None:
    """The step of the formation; None if there was a quorum before."""
    if observation.quorum is not None:
        return "FirstRecords"
    if observation.latch is None:
        if observation.remembered_cluster_id is not None or any(
            not node.blank for node in observation.nodes
        ):
            return None
        answered = {node.replica.node_id for node in observation.nodes}
        return "WriteLatch" if set(range(spec.voters)) <= answered else "StartPods"
    alive = {node.replica for node in observation.nodes}
    fresh = all(voter.replica in alive for voter in observation.latch.voters)
    return "ElectLeader" if fresh and not observation.has_formed() else None


def _joining(observation: Observation, node_id: int) -> str | None:
    """The step of a replica that is not a voter; None if it does not answer."""
    node = observation.node(node_id)
    if node is None or observation.quorum is None:
        return None
    if node.blank:
        return "Join"
    observer = observation.quorum.observer(node.replica)
    return "AddVoter" if observer is not None and observer.fresh else "CatchUp"


def _replacement(observation: Observation, node_id: int) -> str | None:
    """The step of a voter's replacement; None if its storage is not known to be lost."""
    voters = list(observation.quorum.voters_of(node_id)) if observation.quorum else []
    if len(voters) > 1:
        return "RemoveVoter"
    voter = voters[0]
    node = observation.node(node_id)
    if node is not None and node.replica != voter.replica:
        return _joining(observation, node_id)
    if node is None and _is_disk_lost(observation, node_id, voter.replica):
        return "EmptyDisk"
    return "EmptyDisk" if voter.copied or voter.damaged else None


def _is_disk_lost(observation: Observation, node_id: int, voter: ReplicaId) -> bool:
    claim, pod = observation.claim(node_id), observation.pod(node_id)
    if claim is None or claim.phase == "Lost" or claim.terminating:
        return True
    if claim.record is None and observation.statefulset is not None:
        record = observation.statefulset.record(node_id)
        if record is not None and record.directory_id == voter.directory_id:
            return True  # a new claim in place of the recorded one
    ended = observation.engine.storage_exit(pod.exit_code) if pod is not None else None
    return ended is not None and ended.fault != "full"


def _is_outdated(observation: Observation, pod: Pod | None) -> bool:
    revision = observation.statefulset.revision if observation.statefulset else None
    return pod is not None and revision is not None and pod.revision not in {None, revision}
