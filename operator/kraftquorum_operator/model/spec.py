"""`spec` of a KRaftQuorum: the wanted state, with bounds and cross-field rules.

The docstring under each field becomes its description in the CRD and in
`docs/reference/crd.md`. Cross-field rules are CEL. The API server checks them at
apply; the operator reads only resources that have passed them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema
from pydantic.alias_generators import to_camel

from kraftquorum_operator.model.access import QuorumAccess
from kraftquorum_operator.model.config import config_schema, default_of
from kraftquorum_operator.model.network_policy import QuorumNetworkPolicy
from kraftquorum_operator.model.quantity import canonical
from kraftquorum_operator.model.spec_base import Rule, SpecModel, rules
from kraftquorum_operator.model.tls import QuorumTls

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
QUANTITY_LENGTH = 20

Quantity = Annotated[
    str,
    Field(pattern=QUANTITY, max_length=QUANTITY_LENGTH),
    BeforeValidator(canonical),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "pattern": QUANTITY,
            "maxLength": QUANTITY_LENGTH,
        }
    ),
]
"""A quantity as text or as an integer, which is what YAML reads from `cpu: 1`."""


def _amount(field: str) -> str:
    """CEL of the quantity in a field that is text or an integer."""
    return f"(type({field}) == int ? quantity('0').add(int({field})) : quantity({field}))"


OBJECT_NAME = r"^([a-z0-9][-a-z0-9.]*)?[a-z0-9]$"


class Storage(SpecModel):
    """The volume of each replica. The size may grow; the class is immutable."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": f"{_amount('self.size')}.compareTo(quantity('256Mi')) >= 0",
                "fieldPath": ".size",
                "message": "storage.size must be at least 256Mi: nodes keep 64 MiB in reserve, and "
                "accept writes only while twice as much is free",
            }
        )
    )

    size: Quantity = "1Gi"
    """Size of each volume, as a Kubernetes quantity, e.g. `10Gi`. It may grow, and never shrink. If
    it grows, so do the claims of the replicas, one after the other, if their StorageClass allows it
    (`allowVolumeExpansion`). The operator restarts no pod for that."""
    class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """StorageClass of the volumes; unset: the cluster's default."""


class NodeSettings(SpecModel):
    """Deprecated: the older names of seven settings of `config`.

    They have no defaults. Resources from before `config` contain the defaults of that time, so
    `config` overrides a value here that equals the default.
    """

    fetch_timeout_ms: Annotated[int, Field(ge=200, le=60_000)] | None = None
    """Deprecated: set `config.fetch_timeout_ms`."""
    election_timeout_ms: Annotated[int, Field(ge=100, le=60_000)] | None = None
    """Deprecated: set `config.election_timeout_ms`."""
    election_backoff_max_ms: Annotated[int, Field(ge=50, le=60_000)] | None = None
    """Deprecated: set `config.election_backoff_max_ms`."""
    request_timeout_ms: Annotated[int, Field(ge=200, le=60_000)] | None = None
    """Deprecated: set `config.request_timeout_ms`."""
    fetches_in_flight_max: Annotated[int, Field(ge=1, le=5)] | None = None
    """Deprecated: set `config.fetches_in_flight_max`."""
    read_lease_clock_drift_percent: Annotated[int, Field(ge=0, le=50)] | None = None
    """Deprecated: set `config.read_lease_clock_drift_percent`."""
    log_preallocate: bool | None = None
    """Deprecated: set `config.log_preallocate`."""


def _set(name: str) -> tuple[str, str, str, str]:
    """CEL of a setting: whether `config` has it and what, and the same of `nodeSettings`."""
    new, old = f"self.config.{name}", f"self.nodeSettings.{to_camel(name)}"
    return f"(has(self.config) && has({new}))", new, f"has({old})", old


def _cel(name: str) -> str:
    """CEL of a setting's value, from `config`, `nodeSettings` or its default."""
    has_new, new, has_old, old = _set(name)
    return f"({has_new} ? {new} : {has_old} ? {old} : {default_of(name)})"


def _no_conflict(name: str) -> Rule:
    has_new, new, has_old, old = _set(name)
    default = str(default_of(name)).lower()
    return {
        "rule": f"!({has_new} && {has_old}) || {old} == {default} || {old} == {new}",
        "fieldPath": f".nodeSettings.{to_camel(name)}",
        "message": f"nodeSettings.{to_camel(name)} and config.{name} differ; set "
        f"config.{name} only, nodeSettings is its older name",
    }


class Replacement(SpecModel):
    """What the operator does about a replica whose disk is lost."""

    policy: Literal["Automatic", "Manual", "Disabled"] = "Automatic"
    """`Automatic`: the operator replaces it. `Manual`: the operator uses an empty disk that a
    person provides, and deletes none. `Disabled`: the operator only reports it."""
    grace_period_seconds: Annotated[int, Field(ge=1, le=86_400)] = 5
    """How long the old replica must have been silent before the operator replaces it."""
    order: Literal["AddFirst", "RemoveFirst"] = "AddFirst"
    """`AddFirst` removes the old voter after the new replica has all data and is a voter
    (KIP-856). `RemoveFirst` never has one voter more; it has one voter less for a time."""


class Deletion(SpecModel):
    """What happens to the data when the resource is deleted."""

    claims: Literal["Retain", "Delete"] = "Retain"
    """`Retain` keeps every PersistentVolumeClaim; `Delete` deletes them with the resource."""


class Quantities(SpecModel):
    """Compute resources, as Kubernetes quantities."""

    cpu: Quantity | None = None
    """CPU, e.g. `500m` or `1`."""
    memory: Quantity | None = None
    """Memory, e.g. `256Mi`."""


class Resources(SpecModel):
    """Compute resources of each node's container."""

    requests: Quantities | None = None
    """What the scheduler reserves."""
    limits: Quantities | None = None
    """The most that the container may use."""


class PullSecret(SpecModel):
    """A Secret of the quorum's namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=OBJECT_NAME)]
    """Name of the Secret, of type `kubernetes.io/dockerconfigjson`."""


PullSecrets = Annotated[tuple[PullSecret, ...], Field(max_length=16)]


class QuorumSpec(SpecModel):
    """The wanted state of the quorum."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": f"{_amount('self.storage.size')}"
                f".compareTo({_amount('oldSelf.storage.size')}) >= 0",
                "fieldPath": ".storage.size",
                "message": "storage.size may not shrink; create a new KRaftQuorum for smaller "
                "volumes",
            },
            {
                "rule": "has(self.storage.className) ? has(oldSelf.storage.className) && "
                "self.storage.className == oldSelf.storage.className : "
                "!has(oldSelf.storage.className)",
                "fieldPath": ".storage",
                "message": "storage.className is immutable; create a new KRaftQuorum for another "
                "class",
            },
            {
                "rule": "self.replacement.gracePeriodSeconds * 1000 >= " + _cel("fetch_timeout_ms"),
                "fieldPath": ".replacement.gracePeriodSeconds",
                "message": "replacement.gracePeriodSeconds must be at least "
                "config.fetch_timeout_ms: a replica counts as silent only after that time",
            },
            {
                "rule": f"{_cel('election_timeout_ms')} <= {_cel('fetch_timeout_ms')}",
                "message": "config.election_timeout_ms must not be larger than "
                "config.fetch_timeout_ms: during a longer election other followers start elections "
                "as well",
            },
            {
                "rule": f"2 * {_cel('election_timeout_ms')} >= {_cel('request_timeout_ms')}",
                "message": "config.election_timeout_ms must be at least half of "
                "config.request_timeout_ms: votes may otherwise arrive too late",
            },
            *(_no_conflict(name) for name in NodeSettings.model_fields),
        )
    )

    voters: Annotated[int, Field(ge=1, le=9)] = 3
    """The number of voters, 1 to 9. Use an odd number: an even number of voters tolerates no more
    failures than one voter fewer. The operator accepts it with a Warning event."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Container image of the node; unset: the operator's `KRAFTQUORUM_NODE_IMAGE` at the quorum's
    creation, and then as `imageUpdates` says."""
    image_updates: Literal["Manual", "Automatic"] = "Manual"
    """For a quorum without `image`, after the operator's `KRAFTQUORUM_NODE_IMAGE` has changed.
    `Manual`: it keeps the image that it has. `Automatic`: the operator rolls the new image out, to
    one quorum after the other. It waits with the next quorum until all is well with the last."""
    storage: Storage = Storage()
    """The volume of each replica. The size may grow; the class is immutable."""
    config: Annotated[dict[str, JsonValue], WithJsonSchema(config_schema())] = Field(
        default_factory=dict[str, JsonValue]
    )
    """The nodes' settings, by the names of docs/reference/node-settings.md. A setting that is not
    here has the default of the operator or the node. The operator checks all of them by the node's
    rules. If a node would refuse them, the condition `ConfigRejected` says why, and the operator
    changes no pod until they are fixed."""
    node_settings: NodeSettings = NodeSettings()
    """Deprecated: the older names of seven settings of `config`."""
    replacement: Replacement = Replacement()
    """What the operator does about a replica whose disk is lost."""
    claim_retention: Literal["Retain", "Delete"] = "Retain"
    """Whether the operator keeps the claim of a replica that it removed because `voters` became
    smaller. When the quorum grows again, an observer reuses the claim."""
    deletion: Deletion = Deletion()
    """What happens to the data when the resource is deleted."""
    resources: Resources = Resources()
    """Compute resources of each node's container."""
    metrics_listener: Literal["Shared", "Separate"] = "Shared"
    """`Shared`: port 9080 has the nodes' metrics and probes, as well as reads and writes.
    `Separate`: metrics and probes have port 9081, and the network policy admits readers of metrics
    to that port alone. A change restarts the nodes one by one."""
    network_policy: QuorumNetworkPolicy = QuorumNetworkPolicy()
    """Which pods and addresses may reach the nodes."""
    access: QuorumAccess | None = None
    """Who may do what on the nodes. Unset: every client that reaches a node may do everything."""
    tls: QuorumTls = QuorumTls()
    """TLS between the nodes, and between nodes and clients."""
    image_pull_secrets: PullSecrets | None = None
    """Secrets of this namespace for pulling the node's image; unset: those of the operator's
    `KRAFTQUORUM_NODE_IMAGE_PULL_SECRETS`."""
    pause: bool = False
    """`true`: the operator observes and reports, and changes nothing."""
