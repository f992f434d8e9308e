"""False alarms: what the operator reports of quorums that are healthy."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kraftquorum_bench.operatorscale.nodes import SimulatedNodes
from kraftquorum_devcluster.informer import Key, key_of
from kraftquorum_devcluster.objects import Json, child, children

SETTLED_S = 20.0
"""A quorum that was disturbed later than this may still be reported so."""


def alarm_of(status: Json) -> str:
    """What a status reports that is not true of a healthy quorum; empty: nothing."""
    conditions = {c["type"]: c for c in children(status, "conditions")}
    for kind, healthy in (("Available", "True"), ("Failing", "False")):
        condition: Json = conditions.get(kind) or {"status": "False"}
        if condition["status"] != healthy:
            return f"{kind} is {condition['status']}: {condition.get('message', '')}"[:200]
    if status.get("phase") == "QuorumLost":
        return "phase is QuorumLost"
    silent = [n["pod"] for n in children(status, "nodes") if n.get("role") == "silent"]
    return f"silent: {', '.join(silent)}" if silent else ""


@dataclass(slots=True)
class AlarmWatch:
    """Holds each status that the operator writes against the simulated truth.

    Attributes:
        nodes: the truth.
        reported: the last status of each quorum.
        false_alarms: by quorum, the first wrong report.
        writes: how many statuses were seen.
    """

    nodes: SimulatedNodes
    reported: dict[Key, Json] = field(default_factory=dict[Key, Json])
    false_alarms: dict[Key, str] = field(default_factory=dict[Key, str])
    writes: int = 0

    def changed(self, kind: str, resource: Json) -> None:
        """A watch brought a KRaftQuorum."""
        key, status = key_of(resource), child(resource, "status")
        if kind == "DELETED" or not status or self.reported.get(key) == status:
            return
        self.reported[key] = status
        self.writes += 1
        since_s = self.nodes.quorum(*key).undisturbed_since_s
        alarm = alarm_of(status)
        if alarm and since_s is not None and time.monotonic() - since_s > SETTLED_S:
            self.false_alarms.setdefault(key, alarm)

    def running(self) -> int:
        """How many quorums are reported as running."""
        return sum(status.get("phase") == "Running" for status in self.reported.values())
