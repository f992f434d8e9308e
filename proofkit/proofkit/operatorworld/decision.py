"""The decision as the reconciler makes it, on judged facts."""

from __future__ import annotations

from kraftquorum_operator.judge.trust import judge
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.plan import decide as plan
from kraftquorum_operator.plan.actions import Decision


def decide(spec: QuorumSpec, facts: Observation, now_ms: int) -> Decision:
    """Judge the facts, and decide the next step."""
    return plan.decide(spec, judge(facts), now_ms)
