"""`spec` of a KRaftQuorum: what a person may ask for, with bounds and cross-field rules.

The docstring under each field becomes its description in the CRD and in
`docs/reference/crd.md`. Cross-field rules are CEL, checked by the API server
at apply; the operator reads only what has passed them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema
from pydantic.alias_generators import to_camel

from kraftquorum_operator.model.config import config_schema, default_of

Rule = dict[str, JsonValue]

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"


def rules(*entries: Rule) -> dict[str, JsonValue]:
    """Attach CEL rules to a model: pairs of `rule` and `message`."""
    return {"x-kubernetes-validations": list(entries)}


class SpecModel(BaseModel):
    """Camel case outside, snake case inside; an unknown field is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )


class Storage(SpecModel):
    """The volume of each replica. Immutable: a new size needs a new quorum for now."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "quantity(self.size).compareTo(quantity('256Mi')) >= 0",
                "fieldPath": ".size",
                "message": "storage.size must be at least 256Mi: nodes keep 64 MiB in reserve, and "
                "take writes only while twice as much is free",
            }
        )
    )

    size: Annotated[str, Field(pattern=QUANTITY, max_length=20)] = "1Gi"
    """Size of each volume, as Kubernetes writes quantities, e.g. `10Gi`."""
    class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """StorageClass of the volumes; unset: the cluster's default."""


class NodeSettings(SpecModel):
    """Deprecated: the older names of seven settings of `config`.

    Without defaults of its own. Resources from before `config` carry the defaults that it once
    had, so a value that is the default counts as not set where `config` says another.
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
    """CEL of what a setting is, wherever it is said."""
    has_new, new, has_old, old = _set(name)
    return f"({has_new} ? {new} : {has_old} ? {old} : {default_of(name)})"


def _said_once(name: str) -> Rule:
    has_new, new, has_old, old = _set(name)
    default = str(default_of(name)).lower()
    return {
        "rule": f"!({has_new} && {has_old}) || {old} == {default} || {old} == {new}",
        "fieldPath": f".nodeSettings.{to_camel(name)}",
        "message": f"nodeSettings.{to_camel(name)} and config.{name} say different things; set "
        f"config.{name} alone, nodeSettings is its older name",
    }


class Replacement(SpecModel):
    """What to do about a replica whose disk is lost."""

    policy: Literal["Automatic", "Manual", "Off"] = "Automatic"
    """`Automatic`: replace it. `Manual`: use an empty disk that a person provides, delete none.
    `Off`: report only."""
    grace_period_seconds: Annotated[int, Field(ge=1, le=86_400)] = 5
    """How long the old replica must have been silent before it is replaced."""
    order: Literal["AddFirst", "RemoveFirst"] = "AddFirst"
    """`AddFirst` keeps every vote until the new replica has all data (KIP-856). `RemoveFirst`
    avoids the moment with one voter more, at the price of one voter less."""


class Deletion(SpecModel):
    """What happens to the data when the resource is deleted."""

    claims: Literal["Retain", "Delete"] = "Retain"
    """`Retain` keeps every volume claim; `Delete` deletes them with the resource."""


class Quantities(SpecModel):
    """Compute resources, as Kubernetes writes quantities."""

    cpu: Annotated[str, Field(pattern=QUANTITY, max_length=20)] | None = None
    """CPU, e.g. `500m`."""
    memory: Annotated[str, Field(pattern=QUANTITY, max_length=20)] | None = None
    """Memory, e.g. `256Mi`."""


class Resources(SpecModel):
    """Compute resources of each node's container."""

    requests: Quantities | None = None
    """What the scheduler reserves."""
    limits: Quantities | None = None
    """What the container may use at most."""


class QuorumSpec(SpecModel):
    """The quorum that is wanted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "self.storage == oldSelf.storage",
                "fieldPath": ".storage",
                "message": "storage is immutable; make a new KRaftQuorum for another size or class",
            },
            {
                "rule": "self.replacement.gracePeriodSeconds * 1000 >= " + _cel("fetch_timeout_ms"),
                "fieldPath": ".replacement.gracePeriodSeconds",
                "message": "replacement.gracePeriodSeconds must be at least "
                "config.fetch_timeout_ms: before that no replica counts as silent",
            },
            {
                "rule": f"{_cel('election_timeout_ms')} <= {_cel('fetch_timeout_ms')}",
                "message": "config.election_timeout_ms must not be larger than "
                "config.fetch_timeout_ms: an election that outlasts the followers' patience makes "
                "them stand as well",
            },
            {
                "rule": f"2 * {_cel('election_timeout_ms')} >= {_cel('request_timeout_ms')}",
                "message": "config.election_timeout_ms must be at least half of "
                "config.request_timeout_ms: if requests take so long, no vote may come in time",
            },
            *(_said_once(name) for name in NodeSettings.model_fields),
        )
    )

    voters: Annotated[int, Field(ge=1, le=9)] = 3
    """How many voters, 1 to 9. Odd numbers are better: an even one tolerates no failure more
    than the odd one below it and is accepted with a Warning event."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Container image of the node; unset: the image that the operator is configured with."""
    storage: Storage = Storage()
    """The volume of each replica. Immutable."""
    config: Annotated[dict[str, JsonValue], WithJsonSchema(config_schema())] = Field(
        default_factory=dict[str, JsonValue]
    )
    """The nodes' settings, by the names of docs/reference/node-settings.md. What is not set is as
    the operator or the node has it by default. A node checks them as a whole: what it would
    refuse is in the condition `ConfigRejected`, and until then nothing of the pods is changed."""
    node_settings: NodeSettings = NodeSettings()
    """Deprecated: the older names of seven settings of `config`."""
    replacement: Replacement = Replacement()
    """What to do about a replica whose disk is lost."""
    claim_retention: Literal["Retain", "Delete"] = "Retain"
    """Whether the claim of a replica that was scaled away is kept. A kept one is reused as an
    observer's disk when the quorum grows again."""
    deletion: Deletion = Deletion()
    """What happens to the data when the resource is deleted."""
    resources: Resources = Resources()
    """Compute resources of each node's container."""
    pause: bool = False
    """`true`: observe and report, but do nothing."""
