"""What the operator must be allowed to do: the one table that roles and preflight go by.

The chart's roles are compared with it by a test, and another compares it with the requests of
an operator that forms, scales, repairs and deletes a quorum: no verb is missing, and none is
there that nobody uses. Discovery and asking about one's own rights are every account's.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftquorum_operator import names


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource.

    Attributes:
        group: API group, empty for the core.
        resource: plural, with `/subresource` where it is about that.
        verbs: in the order of the chart.
        why: what goes wrong, or is not done, without it.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        """As `kubectl auth can-i` writes a resource."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


WATCHED: tuple[Right, ...] = (
    Right(
        names.GROUP,
        names.PLURAL,
        ("get", "list", "watch", "patch"),
        "read what is wanted; hold a deletion back by the finalizer",
    ),
    Right(names.GROUP, f"{names.PLURAL}/status", ("patch",), "report"),
    Right(
        names.GROUP,
        f"{names.PLURAL}/finalizers",
        ("update",),
        "own the objects of a quorum where OwnerReferencesPermissionEnforcement is on",
    ),
    Right("", "pods", ("list", "watch", "patch", "delete"), "label voters; restart a replica"),
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
        "record storage UUIDs; replace a lost disk",
    ),
    Right(
        "",
        "configmaps",
        ("get", "list", "watch", "create", "delete"),
        "the formation latch: created once, never changed",
    ),
    Right("", "services", ("get", "create", "patch"), "names of the nodes and of the quorum"),
    Right(
        "",
        "events",
        ("list", "create", "patch"),
        "say why there is no pod or no volume; say what is done and what is waited for",
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
        ("get", "create", "patch"),
        "keep evictions from taking a majority",
    ),
)
"""In every namespace that is watched."""

LEASE: tuple[Right, ...] = (
    Right("coordination.k8s.io", "leases", ("create",), "be the active operator"),
    Right("coordination.k8s.io", "leases", ("get", "update"), "stay the active operator"),
)
"""In the namespace of the Lease; the second one on the Lease's name only."""
