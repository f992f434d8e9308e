"""Which pods the disruption budget counts, and when Kubernetes has to count again (S22).

Kubernetes counts a budget when its spec or a pod of it changes. If a second budget selects the same
pods, it counts only one of the two, and a later deletion of the second budget starts no count. What
must not live here: what waits for the count.
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.observation import Budget, Observation, Pod
from kraftquorum_operator.plan.actions import RecountBudget
from kraftquorum_operator.plan.case import Case

SETTLED_MS = 5_000
"""A pod that is not ready for longer was counted as such, unless its change was missed."""


def pods_of_voters(observation: Observation) -> tuple[str, ...] | None:
    """Names of the pods that a new budget counts: those of the committed voters; None: not known.

    A pod that does not answer may be a voter's. Not that of another or a blank replica.
    """
    quorum = observation.quorum
    if quorum is None or not quorum.confirmed or not quorum.record_committed:
        return None
    ordinals = {
        replica.node_id
        for replica in quorum.committed
        if (node := observation.node(replica.node_id)) is None
        or (node.replica == replica and not node.blank)
    }
    return tuple(names.pod(observation.name, ordinal) for ordinal in sorted(ordinals))


def budget_count(case: Case) -> RecountBudget | None:
    """Have the budget counted if it would allow an eviction too many."""
    budget = case.observation.budget
    if budget is None or budget.counted is None:
        return None
    if budget.counted > case.observation.counted:
        return _recount(budget, [pod for pod in case.observation.pods if not pod.counted])
    away = [pod for pod in _voters(case) if (pod.unready_ms or 0) > SETTLED_MS]
    if away and (budget.healthy or 0) > case.observation.counted - len(away):
        return _recount(budget, away)
    return None


def missed_count(case: Case) -> RecountBudget | None:
    """Have the budget counted if it lacks a pod, for a step that waits for the budget.

    A count that comes a moment late is harmless, so only such a step asks.
    """
    budget = case.observation.budget
    if budget is None or budget.counted is None:
        return None
    ready = [pod for pod in _voters(case) if pod.ready and not pod.terminating]
    if budget.counted >= case.observation.counted and (
        budget.healthy is None or budget.healthy >= len(ready)
    ):
        return None
    return _recount(budget, ready)


def _voters(case: Case) -> list[Pod]:
    return [pod for pod in case.observation.pods if pod.counted]


def _recount(budget: Budget, pods: list[Pod]) -> RecountBudget | None:
    mark = " ".join(f"{pod.name}:{pod.version}" for pod in pods)
    return RecountBudget(budget.uid, mark) if mark != budget.mark else None
