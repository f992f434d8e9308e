"""The rights of the operator: the table that the chart's roles and the preflight use.

One test compares the chart's roles with it. Another compares it with the requests of an operator
that forms, scales, repairs and deletes a quorum: no verb is missing and none is unused. Every
account may use discovery and check its own rights.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftquorum_operator import names


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource.

    Attributes:
        group: API group, empty for the core.
        resource: plural, with `/subresource` if it is about one.
        verbs: in the order of the chart.
        why: what the operator needs it for.
        limits: what the operator leaves undone without it; empty: it does not start without it.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    limits: str = ""

    def __str__(self) -> str:
        """As `kubectl auth can-i` writes a resource."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


SECRETS = Right(
    "",
    "secrets",
    ("get", "create", "patch", "delete"),
    "the CA, certificates and tokens of quorums with TLS or access control, by name",
    limits="quorums with TLS or access control wait; all others go on",
)

WATCHED: tuple[Right, ...] = (
    Right(
        names.GROUP,
        names.PLURAL,
        ("get", "list", "watch", "patch"),
        "read the wanted state; delay a deletion by the finalizer",
    ),
    Right(names.GROUP, f"{names.PLURAL}/status", ("patch",), "report"),
    Right(
        names.GROUP,
        f"{names.PLURAL}/finalizers",
        ("update",),
        "own the objects of a quorum if OwnerReferencesPermissionEnforcement is on",
    ),
    Right("", "pods", ("list", "watch", "delete"), "restart a replica"),
    Right(
        "",
        "pods/eviction",
        ("create",),
        "restart a healthy replica only while the disruption budget allows it",
    ),
    Right(
        "",
        "persistentvolumeclaims",
        ("list", "watch", "patch", "delete"),
        "record directory ids; replace a lost disk",
    ),
    Right(
        "",
        "configmaps",
        ("get", "list", "watch", "create", "patch", "delete"),
        "the formation latch: created once, never changed; the CAs for clients",
    ),
    SECRETS,
    Right(
        "",
        "services",
        ("get", "list", "watch", "create", "patch"),
        "names of the nodes and of the quorum",
    ),
    Right(
        "",
        "events",
        ("list", "create", "patch"),
        "report why there is no pod or no volume; report actions and guards that block",
    ),
    Right(
        "apps",
        "statefulsets",
        ("get", "list", "watch", "create", "patch", "delete"),
        "run the nodes",
    ),
    Right(
        "policy",
        "poddisruptionbudgets",
        ("get", "list", "watch", "create", "patch"),
        "keep evictions from taking a majority",
    ),
    Right(
        "networking.k8s.io",
        "networkpolicies",
        ("get", "list", "watch", "create", "patch", "delete"),
        "admit only nodes, the operator, clients and readers of metrics to the nodes",
    ),
)
"""In every watched namespace."""

KAFKA_ADVICE: tuple[Right, ...] = (
    Right(
        names.GROUP,
        names.KAFKA_PLURAL,
        ("list", "watch"),
        "read where controllers of Apache Kafka are",
        limits="the operator gives no advice about Apache Kafka",
    ),
    Right(
        names.GROUP,
        f"{names.KAFKA_PLURAL}/status",
        ("patch",),
        "report the advice",
        limits="the operator gives no advice about Apache Kafka",
    ),
)
"""In every watched namespace, with `KRAFTQUORUM_KAFKA_ADVICE`; besides those to read pods and
Secrets, and to post events. The operator starts without."""

METRICS: tuple[Right, ...] = (
    Right("authentication.k8s.io", "tokenreviews", ("create",), "know the reader of the metrics"),
    Right(
        "authorization.k8s.io",
        "subjectaccessreviews",
        ("create",),
        "know whether a role allows the reader the metrics",
    ),
)
"""In the whole cluster, with `KRAFTQUORUM_METRICS_ACCESS=authenticated`."""

CERT_MANAGER: tuple[Right, ...] = (
    Right(
        "cert-manager.io",
        "certificates",
        ("get", "create", "patch", "delete"),
        "certificates of quorums whose tls.mode is CertManager, by name",
    ),
    Right(
        "cert-manager.io",
        "certificates/status",
        ("patch",),
        "have cert-manager issue a certificate again when a person asks for it",
    ),
    Right("cert-manager.io", "issuers", ("get",), "say that the issuer is missing or not ready"),
    Right("cert-manager.io", "clusterissuers", ("get",), "likewise; it belongs to no namespace"),
)
"""In every watched namespace, with the chart's `rbac.certManager`. The operator starts without."""

LEASE: tuple[Right, ...] = (
    Right("coordination.k8s.io", "leases", ("create",), "be the active operator"),
    Right("coordination.k8s.io", "leases", ("get", "update"), "stay the active operator"),
)
"""In the namespace of the Lease; the second right is for the Lease's name only."""
