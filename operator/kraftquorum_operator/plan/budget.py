"""Has the disruption budget counted again where its controller does not notice a change (S22).

Kubernetes counts a budget when a pod of it changes. It does not if the pod leaves the budget, and
if a second budget selects the same pods it counts only one of the two. A later deletion of the
second budget starts no count either. What must not live here: what waits for the count.
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import Budget, Pod
from kraftquorum_operator.plan.actions import RecountBudget
from kraftquorum_operator.plan.case import Case

SETTLED_MS = 5_000
"""A pod that is not ready for longer was counted as such, unless its change was missed."""


def budget_count(case: Case) -> RecountBudget | None:
    """Have the budget counted if it would allow an eviction too many."""
    budget = case.observation.budget
    if budget is None or budget.counted is None:
        return None
    if budget.counted > case.observation.labelled:
        return _recount(budget, [pod for pod in case.observation.pods if not pod.voter_label])
    away = [pod for pod in _voters(case) if (pod.unready_ms or 0) > SETTLED_MS]
    if away and (budget.healthy or 0) > case.observation.labelled - len(away):
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
    if budget.counted >= case.observation.labelled and (
        budget.healthy is None or budget.healthy >= len(ready)
    ):
        return None
    return _recount(budget, ready)


def _voters(case: Case) -> list[Pod]:
    return [pod for pod in case.observation.pods if pod.voter_label]


def _recount(budget: Budget, pods: list[Pod]) -> RecountBudget | None:
    mark = " ".join(f"{pod.name}:{pod.version}" for pod in pods)
    return RecountBudget(budget.uid, mark) if mark != budget.mark else None
