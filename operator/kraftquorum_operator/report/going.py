"""The status of a resource that is being deleted: what is taken away, or what does not let it."""

from __future__ import annotations

from typing import Any, cast

from kraftquorum_operator.plan.actions import Action, Done, describe, summary

Body = dict[str, Any]


def going_status(resource: Body, decision: Action | Done, failure: str | None) -> Body | None:
    """A merge patch for the status subresource; None if it says so already.

    A resource without any status gets none: its deletion was sooner than the first look.

    Args:
        resource: the KRaftQuorum as it is.
        decision: what is done next.
        failure: why that was not done; None: it was, or nothing was tried yet.
    """
    status = cast("Body", resource.get("status") or {})
    if not status:
        return None
    said = decision.why if isinstance(decision, Done) else describe(decision)
    message = f"{said} failed: {failure}" if failure else said
    now = {"phase": "Deleting", "message": message[:1000], "doing": summary(decision)}
    return None if now.items() <= status.items() else {"status": now}
