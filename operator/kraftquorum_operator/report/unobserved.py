"""The status of a quorum that the operator cannot observe.

The status keeps the last observation as such. Conditions that were True or False become Unknown;
their messages have the time and the result of the last observation.
"""

from __future__ import annotations

from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.status import QuorumStatus, conditions_of, last_status
from kraftquorum_operator.report.conditions import NOT_OBSERVED
from kraftquorum_operator.report.stamp import MESSAGE_MAX, Stamp
from kraftquorum_operator.report.timeline import CONDITION_ENTRIES, appended

TYPE = "Failing"

KNOWN = frozenset({TYPE, "Paused"})
"""Conditions that depend on no observation."""

UNOBSERVED_S = 10.0
"""The last observation counts for this long. After an error that a retry cannot fix, it no longer
counts at once."""


def unobserved_status(
    resource: Body, failure: tuple[str, str], stamp: Stamp, observed_at: str | None = None
) -> Body | None:
    """A merge patch for the status subresource; None if the status is up to date.

    Args:
        resource: the KRaftQuorum as it is.
        failure: a condition's reason and message.
        stamp: the time of the status, and the generation that it is about.
        observed_at: when this operator last observed the quorum; None: never.
    """
    status = cast("Body", resource.get("status") or {})
    present = cast("list[Body]", status.get("conditions") or [])
    before = next((c for c in present if c["type"] == TYPE), None)
    failing = stamp.condition(TYPE, "True", *failure, conditions_of(status))
    condition = failing.model_dump(by_alias=True, mode="json")
    turned = before is None or before["status"] != "True"
    others = [_unobserved(c, stamp, observed_at) for c in present if c["type"] != TYPE]
    if (
        before is not None
        and not turned
        and (before["reason"], before["message"]) == (failing.reason, failing.message)
        and others == [c for c in present if c["type"] != TYPE]
    ):
        return None
    message = failing.message
    if status:
        change: Body = {"message": message[:1000], "conditions": [*others, condition]}
        last = last_status(resource)
        if turned and last is not None:
            entries = appended(
                last.timeline, "Fault", f"{CONDITION_ENTRIES[TYPE][0]}: {message}", stamp.now
            )
            change["timeline"] = [e.model_dump(by_alias=True, mode="json") for e in entries]
        return {"status": change}
    return {
        "status": _first(resource["metadata"]["name"], message, stamp) | {"conditions": [condition]}
    }


def _unobserved(condition: Body, stamp: Stamp, observed_at: str | None) -> Body:
    """A condition that was True or False, as Unknown."""
    if condition["type"] in KNOWN or condition["status"] == "Unknown":
        return condition
    was = f"{condition['status']}, {condition['reason']}: {condition['message']}"
    when = f"at {observed_at}" if observed_at else "before this operator started"
    return condition | {
        "status": "Unknown",
        "reason": NOT_OBSERVED,
        "message": f"last observed {when}, when it was {was}"[:MESSAGE_MAX],
        "lastTransitionTime": stamp.now,
    }


def _first(name: str, message: str, stamp: Stamp) -> Body:
    """The status of a quorum that no operator has observed."""
    return QuorumStatus(
        observed_generation=stamp.generation,
        phase="Forming",
        replicas=0,
        ready_voters=0,
        fault_tolerance=0,
        message=message[:1000],
        label_selector=f"{names.LABEL_APP}={names.APP},{names.LABEL_INSTANCE}={name}",
    ).model_dump(by_alias=True, exclude_none=True, mode="json")
