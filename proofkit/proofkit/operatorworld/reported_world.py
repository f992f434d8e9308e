"""The status and the events that a user sees of the model of a cluster.

The operator's own code makes them from the model's observation, as the reconciler does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from kraftquorum_operator.judge.trust import judge
from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.observe.last_known import last_known
from kraftquorum_operator.plan.actions import Done, Wait, describe
from kraftquorum_operator.plan.decide import decide
from kraftquorum_operator.report.events import Event, EventLog
from kraftquorum_operator.report.stamp import Stamp
from kraftquorum_operator.report.status import build_status
from proofkit.operatorworld.world import World


@dataclass
class ReportedWorld:
    """A world with reports; `status` is the last one."""

    world: World
    status: QuorumStatus | None = None
    log: EventLog = field(default_factory=EventLog)
    events: list[Event] = field(default_factory=list[Event])

    def look(self) -> QuorumStatus:
        """Observe, decide and report, without acting."""
        observation, now_ms = self.world.look(), self.world.now_ms
        observation = judge(replace(observation, last=last_known(self.status)))
        decision = decide(self.world.spec, observation, now_ms)
        waits = isinstance(decision, Wait | Done)
        self.status = build_status(
            self.world.spec,
            observation,
            decision,
            current_action=None if waits else describe(decision),
            before=self.status.conditions if self.status else (),
            stamp=Stamp(stamp(now_ms), 1),
            last=self.status,
        )
        self.events += self.log.of(decision, now_ms, 60_000)
        return self.status

    def run(self, steps: int) -> Iterator[QuorumStatus]:
        """Observe, act and let time pass, a number of times."""
        for _ in range(steps):
            yield self.look()
            self.world.step()
            self.world.tick()

    def settle(self) -> QuorumStatus:
        """Continue until nothing is left to do."""
        for status in self.run(200):
            if status.phase == "Running":
                return status
        raise AssertionError(f"not settled: {self.status}")

    def settle_again(self) -> QuorumStatus:
        """Continue until the operator has noticed a fault and nothing is left to do."""
        for status in self.run(50):
            if status.phase != "Running":
                return self.settle()
        raise AssertionError("nothing was noticed")

    def recreated(self) -> None:
        """Delete the resource and apply it again; its reported status is gone."""
        self.status, self.log = None, EventLog()


def stamp(now_ms: int) -> str:
    """The world's time as Kubernetes writes it."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(status: QuorumStatus, name: str) -> str:
    """The status of a condition."""
    return next(c.status for c in status.conditions if c.type == name)
