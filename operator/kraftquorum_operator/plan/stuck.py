"""No leader, and pods that cannot start on a template that was changed since: made anew.

The StatefulSet changes no pod by itself (`OnDelete`), so a pod with a wrong image would stay as
it is after the spec was mended, and a quorum that has no leader for want of it would never get
one. No claim is touched, and no process that runs: the DELETE holds only for the pod as it was
observed. With a leader this is repair's matter (`recovery.py`).
"""

from __future__ import annotations

from kraftquorum_operator.observe.snapshot import Pod
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import DeletePod, Wait
from kraftquorum_operator.plan.guards import Case, first_block
from kraftquorum_operator.plan.recovery import is_outdated


def exchange(case: Case) -> DeletePod | None:
    """Make the next outdated pod anew that cannot start, if nobody leads.

    Nothing is done while the storage of a majority is gone. What blocks here holds nothing else
    back: see `exchange_waits`.
    """
    seen = case.seen
    if seen.quorum is not None:
        return None
    if first_block(case, guards.never_rebootstrap) is not None:
        return None
    for pod in _stuck(case):
        if case.seen.why_refused(pod.uid) is not None:
            continue
        if pod.never_started or first_block(case, guards.current_template_starts) is None:
            why = "it does not start and its template is outdated"
            return DeletePod(pod.name, pod.uid, why, pod.version)
    return None


def exchange_waits(case: Case) -> Wait | None:
    """What an outdated pod that cannot start waits for, where too few voters answer."""
    return first_block(case, guards.current_template_starts) if _stuck(case) else None


def _stuck(case: Case) -> list[Pod]:
    return [
        pod
        for pod in case.seen.pods
        if pod.fails_to_start and is_outdated(case, pod) and case.seen.node(pod.ordinal) is None
    ]
