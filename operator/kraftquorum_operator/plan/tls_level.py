"""From plain connections to TLS and back, while the quorum serves.

Each node understands the others at any time: between nodes that accept plain connections alone and
nodes that accept TLS alone, all nodes accept both. A change is one more restart of all nodes; the
next one begins when no node is two steps away.
"""

from __future__ import annotations

from kraftquorum_operator.judge.certificates import (
    certificate_faults,
    is_issued,
    not_presenting,
)
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.tls import TlsLevel
from kraftquorum_operator.plan.case import Case


def next_level(spec: QuorumSpec, observation: Observation) -> TlsLevel:
    """What the pod template is to have now."""
    wanted, statefulset = spec.tls.level, observation.statefulset
    issued = is_issued(spec, observation)
    if statefulset is None:
        if not issued:
            return "disabled"
        # Its pods may have outlived it.
        other_end = {"disabled": "required", "required": "disabled"}.get(wanted)
        return "permissive" if other_end in {pod.tls for pod in observation.pods} else wanted
    current = statefulset.tls
    levels = {current, *(pod.tls for pod in observation.pods)}
    if wanted == "disabled":
        return "permissive" if "required" in levels else "disabled"
    if not issued or certificate_faults(spec, observation):
        return current
    if wanted == "permissive" or "disabled" in levels:
        return "permissive"
    return "required" if current == "required" or not not_presenting(observation) else "permissive"


def why_not_reached(case: Case) -> str | None:
    """What the next level waits for; None: the template has the wanted level."""
    wanted, statefulset = case.spec.tls.level, case.observation.statefulset
    if statefulset is None or statefulset.tls == wanted:
        return None
    if not is_issued(case.spec, case.observation):
        return "the certificates are not issued yet"
    other = next((pod.name for pod in case.observation.pods if pod.tls != statefulset.tls), None)
    if other is not None:
        return f"pod {other} still has the settings before"
    waiting = not_presenting(case.observation)
    if waiting:
        return f"not presenting the certificate of their Secret: {', '.join(waiting)}"
    return "the pod template is about to change"
