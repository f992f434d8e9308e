"""Stops a pod so that the StatefulSet recreates it: a healthy pod only by eviction.

A drain evicts as well, and the API server counts both against one budget. So they never stop two
voters together, even if an operator acts on an old observation. What must not live here: why a pod
is to be stopped.
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import Pod
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import DeletePod, EvictPod, RecountBudget, Wait
from kraftquorum_operator.plan.budget import missed_count
from kraftquorum_operator.plan.guards import Case, first_block

EVICTABLE_VOTERS = 3
"""A budget allows evictions from this many voters on. It never allows one of one or two voters;
the restart of such a voter interrupts writes in any case."""


def restart(case: Case, pod: Pod, reason: str) -> DeletePod | EvictPod | RecountBudget | Wait:
    """Stop a pod that the quorum can spare, unless the API server refused that a moment ago.

    A pod that is not ready counts in no budget. The operator deletes it by its version: not if it
    has started or become ready since.
    """
    subject = Case(case.spec, case.observation, case.now_ms, ordinal=pod.ordinal)
    refused = first_block(subject, guards.eviction_accepted)
    if refused is not None:
        return refused
    if not pod.ready:
        return DeletePod(pod.name, pod.uid, reason, pod.version)
    if case.quorum is not None and len(case.quorum.voters) < EVICTABLE_VOTERS:
        return DeletePod(pod.name, pod.uid, reason)
    blocked = first_block(subject, guards.budget_allows_eviction)
    if blocked is not None:
        return missed_count(subject) or blocked
    return EvictPod(pod.name, pod.uid, reason)
