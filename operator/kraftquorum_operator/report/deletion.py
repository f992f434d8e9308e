"""The status of a resource that is being deleted: what the operator deletes, or why it cannot."""

from __future__ import annotations

from typing import cast

from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.plan.actions import Action, Done, describe, summary


def deletion_status(resource: Body, decision: Action | Done, failure: str | None) -> Body | None:
    """A merge patch for the status subresource; None if the status is up to date.

    A resource without a status gets none: it was deleted before the operator first reconciled it.

    Args:
        resource: the KRaftQuorum as it is.
        decision: the next action.
        failure: why that action failed; None: it succeeded, or was not tried yet.
    """
    status = cast("Body", resource.get("status") or {})
    if not status:
        return None
    step = decision.why if isinstance(decision, Done) else describe(decision)
    message = f"{step} failed: {failure}" if failure else step
    now = {"phase": "Deleting", "message": message[:1000], "doing": summary(decision)}
    return None if now.items() <= status.items() else {"status": now}
