"""The port of the nodes' metrics and probes: that of clients, or one of its own.

With the port of clients, all of this is as it was before `spec.metricsListener`: another template
would restart every pod.
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.tls import TlsLevel

PORT_NAME = "metrics"


def is_separate(spec: QuorumSpec) -> bool:
    """Whether metrics and probes have a port of their own."""
    return spec.metrics_listener == "Separate"


def metrics_port(spec: QuorumSpec, scheme: Body) -> Body:
    """The port of a probe.

    Args:
        spec: the wanted state.
        scheme: of all ports but that of the peers: a node's listeners have TLS, or none has.
    """
    return {"port": PORT_NAME if is_separate(spec) else "api", **scheme}


def metrics_ports(spec: QuorumSpec) -> list[Body]:
    """The container's port for metrics, if it is one of its own."""
    if not is_separate(spec):
        return []
    return [{"name": PORT_NAME, "containerPort": names.METRICS_PORT}]


def metrics_label(spec: QuorumSpec, level: TlsLevel) -> dict[str, str]:
    """The labels by which a PodMonitor knows the port, and that it speaks TLS.

    Args:
        spec: the wanted state.
        level: of the node's listeners.
    """
    port = {names.LABEL_METRICS_PORT: PORT_NAME} if is_separate(spec) else {}
    return port if level == "disabled" else {**port, names.LABEL_METRICS_SCHEME: "https"}


def metrics_settings(spec: QuorumSpec) -> tuple[tuple[str, str], ...]:
    """The node's settings, as variables and values."""
    if not is_separate(spec):
        return ()
    return (("RAFTNODE_METRICS_LISTEN", f"[::]:{names.METRICS_PORT}"),)
