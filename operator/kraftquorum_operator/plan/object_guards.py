"""The guards of Kubernetes objects: budgets, evictions, claims, templates."""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.judge.volume_growth import (
    advice,
    asks_for_less,
    growth_of,
    next_growth_of,
)
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.guard import guard


@guard()
def replicas_never_below_highest_voter(case: Case) -> str | None:
    """The StatefulSet keeps a pod for every voter, even if the spec asks for fewer."""
    # S25.
    highest = case.quorum.highest_voter if case.quorum else None
    if highest is None or case.replicas <= highest:
        return f"replica {highest} is a voter, so replicas cannot be {case.replicas}"
    return None


@guard()
def pod_uncounted_before_removal(case: Case) -> str | None:
    """A pod leaves the disruption budget before its replica leaves the voter set."""
    # S22.
    pod, budget = case.observation.pod(case.ordinal), case.observation.budget
    name = names.pod(case.observation.name, case.ordinal)
    if not (pod.counted if pod is not None else budget is not None and budget.selects(name)):
        return None
    return f"pod {name} is still in the disruption budget"


@guard()
def budget_counts_voters(case: Case) -> str | None:
    """Kubernetes has counted the pods that the disruption budget selects now.

    Asked before the operator removes a voter, whose pod has just left the budget. If Kubernetes
    misses a pod, as after a second budget over the same pods, the operator touches the budget and
    waits for the count.
    """
    # S22.
    budget, selected = case.observation.budget, case.observation.counted
    if budget is None or budget.counted == selected:
        return None
    counts = "has not counted since it changed" if budget.counted is None else "is not up to date"
    return f"the disruption budget {counts}: it selects {selected} pods"


@guard()
def budget_allows_eviction(case: Case) -> str | None:
    """The disruption budget allows one more of its pods to be evicted now.

    Asked before the operator restarts a healthy voter's pod, so that a drain and a rolling restart
    never stop two voters together. The operator then evicts the pod and does not delete it, so that
    the API server checks the budget again. It waits while another voter's pod is missing or not
    ready, or a Kubernetes node is being drained. If the budget lacks a pod that is ready, the
    operator touches the budget, so that Kubernetes counts again: after a second budget selected
    the same pods, Kubernetes does not do so by itself.
    """
    # S22.
    pod, budget = case.observation.pod(case.ordinal), case.observation.budget
    if pod is None or not pod.counted or budget is None:
        return None
    if budget.allowed is None:
        return f"pod {pod.name}: the disruption budget has not counted since it changed"
    if budget.allowed > 0:
        return None
    return (
        f"pod {pod.name}: the disruption budget allows no eviction now; another voter's pod is "
        "missing, not ready or being drained"
    )


@guard()
def eviction_accepted(case: Case) -> str | None:
    """The API server accepts the eviction, or the deletion, of the pod.

    After a refusal the operator tries again after 2 seconds, then after pauses that grow to a
    minute, and continues with other work meanwhile. It never deletes a healthy pod whose eviction
    is refused. A refusal lasts if a second disruption budget selects the same pods (Kubernetes
    then refuses every eviction with status 500), if a budget never allows an eviction, or if an
    admission webhook denies it: remove the cause.
    """
    pod = case.observation.pod(case.ordinal)
    why = case.observation.why_refused(pod.uid) if pod is not None else None
    return f"pod {pod.name} cannot be restarted: {why}" if pod is not None and why else None


@guard()
def claim_deletion_accepted(case: Case) -> str | None:
    """The API server accepts the deletion of the PersistentVolumeClaim.

    After a refusal the operator tries again as described for `eviction_accepted`.
    """
    claim = case.observation.claim(case.ordinal)
    why = case.observation.why_refused(claim.uid) if claim is not None else None
    return f"claim {claim.name} cannot be deleted: {why}" if claim is not None and why else None


@guard(needs_person=True)
def claim_growth_accepted(case: Case) -> str | None:
    """The API server lets the PersistentVolumeClaim ask for the larger `spec.storage.size`.

    It refuses that if the claim's StorageClass does not have `allowVolumeExpansion: true`, or if a
    quota is used up. After a refusal the operator tries again as described for `eviction_accepted`.
    Nothing else waits for this. See [grow the storage](../howto/grow-storage.md).
    """
    claim = case.observation.claim(case.ordinal)
    why = case.observation.why_growth_refused(claim.uid) if claim is not None else None
    if claim is None or why is None or claim.uid in case.observation.due_growths:
        return None
    if not asks_for_less(claim, case.spec.storage.size):
        return None
    return f"claim {claim.name} cannot grow to {case.spec.storage.size}: {why}{advice(claim, why)}"


@guard()
def volume_has_grown(case: Case) -> str | None:
    """The volume of each PersistentVolumeClaim has the size that `spec.storage.size` asks for.

    The claims of caught-up voters grow one after the other, so that a storage driver that fails
    does so with one voter's volume. Nothing else waits for this. A driver that cannot expand the
    file system of a mounted volume does so when the pod starts again: delete the pod then. See
    [grow the storage](../howto/grow-storage.md).
    """
    claim = case.observation.claim(case.ordinal)
    if claim is None:
        return None
    if claim.grows:
        return growth_of(claim)
    if not asks_for_less(claim, case.spec.storage.size):
        return None
    why = dict(case.observation.failed_growths).get(claim.uid)
    return f"{next_growth_of(claim, case.spec.storage.size)}{f': {why}' if why else ''}"


@guard()
def pod_gone_before_next_step(case: Case) -> str | None:
    """The pod of a removed replica is gone before its claim or the next replica is removed.

    The pod of a scale-up that is deferred is gone before the operator restarts another pod.
    """
    pod = case.observation.pod(case.ordinal)
    return None if pod is None else f"pod {pod.name} is not gone yet"


@guard()
def fresh_claim_uid(case: Case) -> str | None:
    """The claim was created for this resource, and no voter's storage is on it."""
    # S21 and S25.
    claim = case.observation.claim(case.ordinal)
    if claim is None:
        return None
    if claim.owner_uid != case.observation.uid:
        return f"claim {claim.name} was created for another resource"
    if case.quorum is None or case.quorum.voters_of(case.ordinal):
        return f"claim {claim.name} holds a voter's storage"
    return None


@guard()
def current_template_starts(case: Case) -> str | None:
    """No pod of the current template fails to start.

    Asked before the operator recreates a pod of an older template that crashes repeatedly: the new
    pod would not start either. The operator recreates a pod that has never started in any case.
    """
    statefulset = case.observation.statefulset
    current = statefulset.revision if statefulset else None
    stuck = [pod for pod in case.observation.pods if pod.revision == current and pod.fails_to_start]
    if not stuck:
        return None
    why = f": {stuck[0].detail}" if stuck[0].detail else ""
    return f"pod {stuck[0].name} has the current template and does not start{why}"
