"""Ending a pod so that the StatefulSet makes it again: a healthy one only by eviction.

A drain evicts as well, and the API server takes both from one budget: they never meet, however
late an operator acts on what it saw. What must not live here: why a pod is to be ended.
"""

from __future__ import annotations

from kraftquorum_operator.observe.snapshot import Pod
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import DeletePod, EvictPod, Wait
from kraftquorum_operator.plan.guards import Case, first_block

EVICTABLE_VOTERS = 3
"""From so many voters on a budget allows evictions. One or two are never evicted by theirs; to
restart one of them is a pause in any case."""


def restart(case: Case, pod: Pod, reason: str) -> DeletePod | EvictPod | Wait:
    """End a pod that may be spared, unless the API server refused that a moment ago.

    One that is not ready is no part of any budget and is deleted as it was seen: not once it has
    started or become ready since.
    """
    subject = Case(case.spec, case.seen, case.now_ms, ordinal=pod.ordinal)
    refused = first_block(subject, guards.eviction_accepted)
    if refused is not None:
        return refused
    if not pod.ready:
        return DeletePod(pod.name, pod.uid, reason, pod.version)
    if case.quorum is not None and len(case.quorum.voters) < EVICTABLE_VOTERS:
        return DeletePod(pod.name, pod.uid, reason)
    blocked = first_block(subject, guards.budget_allows_eviction)
    return blocked or EvictPod(pod.name, pod.uid, reason)
