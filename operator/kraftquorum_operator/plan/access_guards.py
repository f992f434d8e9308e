"""The guards of access: no new quorum serves without the access file and the policy it wants."""

from __future__ import annotations

from kraftquorum_operator.judge.access import access_obstacle, is_access_missing
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.guard import guard


@guard(needs_person=True, formation="blocked")
def access_file_written(case: Case) -> str | None:
    """An access file can be made of `spec.access`.

    Asked before the operator creates the StatefulSet. Each entry must be usable: its Secret must
    exist and have a token under its key, and no two clients may be known by the same token or name.
    A quorum that serves keeps its pods and their access file until then.
    """
    if not is_access_missing(case.spec, case.observation):
        return None
    why = access_obstacle(case.observation)
    return f"{why[1] if why else 'there is no access file'}; no node starts until this is fixed"


@guard(needs_person=True, formation="blocked")
def network_policy_written(case: Case) -> str | None:
    """The API server accepts the network policy of a new quorum.

    Asked before the operator creates the first StatefulSet: without the policy every pod of the
    cluster could reach the nodes. The operator tries again after pauses that grow to a minute.
    Raise the quota, change the webhook, or delete the object of that name that another owner
    created. Or set `spec.networkPolicy.enabled: false`. A quorum that has formed keeps its pods.
    """
    if case.observation.has_formed() or case.spec.network_policy.enabled is False:
        return None
    refused = case.observation.refused
    reasons = [f"{ref}: {why}" for ref, why in refused if ref.kind == "NetworkPolicy"]
    return f"{'; '.join(reasons)}; no node starts until this is fixed" if reasons else None
