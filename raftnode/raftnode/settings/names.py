"""What a setting is called: here, in the environment, in the documents and in Kafka (P57)."""

from __future__ import annotations

from collections.abc import Collection

ENV_PREFIX = "RAFTNODE_"

DOCUMENT_NAMES: dict[str, tuple[str, ...]] = {
    "node_id": ("node.id", "broker.id"),
    "log_dir": ("metadata.log.dir", "log.dir"),
    "bootstrap_servers": ("controller.quorum.bootstrap.servers", "bootstrap.servers"),
    "quorum_voters": ("controller.quorum.voters", "bootstrap.quorum.voters"),
    "fetch_timeout_ms": ("controller.quorum.fetch.timeout.ms", "quorum.fetch.timeout.ms"),
    "election_timeout_ms": (
        "controller.quorum.election.timeout.ms",
        "quorum.election.timeout.ms",
    ),
    "election_backoff_max_ms": (
        "controller.quorum.election.backoff.max.ms",
        "quorum.election.backoff.max.ms",
    ),
    "request_timeout_ms": ("controller.quorum.request.timeout.ms", "quorum.request.timeout.ms"),
    "retry_backoff_ms": ("controller.quorum.retry.backoff.ms", "quorum.retry.backoff.ms"),
    "retry_backoff_max_ms": (
        "controller.quorum.retry.backoff.max.ms",
        "quorum.retry.backoff.max.ms",
    ),
    "append_linger_ms": ("controller.quorum.append.linger.ms", "quorum.append.linger.ms"),
    "segment_bytes": ("metadata.log.segment.bytes", "log.segment.bytes"),
    "log_preallocate": ("log.preallocate",),
    "segment_ms": ("metadata.log.segment.ms", "log.roll.ms"),
    "max_record_bytes_between_snapshots": ("metadata.log.max.record.bytes.between.snapshots",),
    "max_snapshot_interval_ms": ("metadata.log.max.snapshot.interval.ms",),
    "log_retention_bytes": ("metadata.max.retention.bytes",),
}
"""P57: our setting to what the documents and Kafka call it; the properties file takes both."""


OTHER_VARIABLES: dict[str, tuple[str, ...]] = {
    "hosts_file": ("KRAFTQUORUM_HOSTS_FILE",),
    "termination_log": ("TERMINATION_LOG",),
}
"""Variables that others set, and that a setting is taken from too."""


ELSEWHERE = frozenset({f"{ENV_PREFIX}BOOTSTRAP_SERVER"})
"""Variables with our prefix that are no settings of a node: they are the commands'."""

_CLIENT = f"{ENV_PREFIX}CLIENT_"
"""The credentials of commands: a pod's preStop hook takes them from the node's environment."""


def is_of_commands(variable: str) -> bool:
    """Whether a variable with our prefix is the commands', and no setting of a node."""
    return variable in ELSEWHERE or variable.startswith(_CLIENT)


_LINKED = "_SERVICE_HOST"
"""Kubernetes sets such a variable for each Service, and others that begin like it."""


def is_service_link(variable: str, environment: Collection[str]) -> bool:
    """Whether Kubernetes set a variable in this pod because of a Service `raftnode…`."""
    services = [name.removesuffix(_LINKED) for name in environment if name.endswith(_LINKED)]
    return any(variable.startswith((f"{name}_SERVICE_", f"{name}_PORT")) for name in services)


def variables_of(field: str) -> tuple[str, ...]:
    """The variables that a setting is taken from, the strongest first."""
    return (f"{ENV_PREFIX}{field}".upper(), *OTHER_VARIABLES.get(field, ()))


def names_of(field: str) -> tuple[str, ...]:
    """Every name that a setting is understood by, its own first."""
    own = (field, f"{ENV_PREFIX}{field}".upper(), field.replace("_", "."))
    return (*own, *DOCUMENT_NAMES.get(field, ()), *OTHER_VARIABLES.get(field, ()))
