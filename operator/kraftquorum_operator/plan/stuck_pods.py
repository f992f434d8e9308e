"""No leader: recreates pods that cannot start and whose template has changed since.

The StatefulSet changes no pod by itself (`OnDelete`). A pod with a wrong image would stay as it is
after the spec was fixed, and a quorum that needs it for a leader would never get one. The operator
touches no claim and no running process: the DELETE holds only for the pod as it was observed. With
a leader, repair does this (`replacement.py`).
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import Pod
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import DeletePod, Wait
from kraftquorum_operator.plan.guards import Case, first_block
from kraftquorum_operator.plan.replacement import is_outdated


def recreate_stuck_pod(case: Case) -> DeletePod | None:
    """Recreate the next outdated pod that cannot start, if there is no leader.

    The operator does nothing while the storage of a majority is lost. A guard that blocks here
    holds nothing else back: see `why_not_recreated`.
    """
    observation = case.observation
    if observation.quorum is not None:
        return None
    if first_block(case, guards.never_rebootstrap) is not None:
        return None
    for pod in _stuck(case):
        if case.observation.why_refused(pod.uid) is not None:
            continue
        if pod.never_started or first_block(case, guards.current_template_starts) is None:
            why = "it does not start and its template is outdated"
            return DeletePod(pod.name, pod.uid, why, pod.version)
    return None


def why_not_recreated(case: Case) -> Wait | None:
    """What an outdated pod that cannot start waits for, if too few voters answer."""
    return first_block(case, guards.current_template_starts) if _stuck(case) else None


def _stuck(case: Case) -> list[Pod]:
    return [
        pod
        for pod in case.observation.pods
        if pod.fails_to_start
        and is_outdated(case, pod)
        and case.observation.node(pod.ordinal) is None
    ]
