"""The status of a quorum that cannot be observed: as it was, but for the condition that says so."""

from __future__ import annotations

from typing import Any, cast

from kraftquorum_operator import names
from kraftquorum_operator.model.status import Condition, QuorumStatus, last_status
from kraftquorum_operator.report.conditions import Stamp
from kraftquorum_operator.report.timeline import TOLD, appended

Body = dict[str, Any]
TYPE = "Failing"


def failing_status(resource: Body, failure: tuple[str, str], stamp: Stamp) -> Body | None:
    """A merge patch for the status subresource; None if it says so already.

    Args:
        resource: the KRaftQuorum as it is.
        failure: a reason in one word, and a sentence.
        stamp: when this is said, and about which generation.
    """
    status = cast("Body", resource.get("status") or {})
    present = cast("list[Body]", status.get("conditions") or [])
    before = next((c for c in present if c["type"] == TYPE), None)
    reason, message = failure[0], failure[1][:4000]
    if before is not None and (before["reason"], before["message"]) == (reason, message):
        return None
    turned = before is None or before["status"] != "True"
    condition = Condition(
        type=TYPE,
        status="True",
        reason=reason,
        message=message,
        last_transition_time=stamp.now
        if before is None or turned
        else before["lastTransitionTime"],
        observed_generation=stamp.generation,
    ).model_dump(by_alias=True, mode="json")
    if status:
        others = [c for c in present if c["type"] != TYPE]
        change: Body = {"message": message[:1000], "conditions": [*others, condition]}
        last = last_status(resource)
        if turned and last is not None:
            told = appended(last.timeline, "Fault", f"{TOLD[TYPE][0]}: {message}", stamp.now)
            change["timeline"] = [e.model_dump(by_alias=True, mode="json") for e in told]
        return {"status": change}
    return {
        "status": _first(resource["metadata"]["name"], message, stamp) | {"conditions": [condition]}
    }


def _first(name: str, message: str, stamp: Stamp) -> Body:
    """The status of a quorum that nobody has ever observed."""
    return QuorumStatus(
        observed_generation=stamp.generation,
        phase="Forming",
        replicas=0,
        ready_voters=0,
        fault_tolerance=0,
        message=message[:1000],
        label_selector=f"{names.LABEL_APP}={names.APP},{names.LABEL_INSTANCE}={name}",
    ).model_dump(by_alias=True, exclude_none=True, mode="json")
