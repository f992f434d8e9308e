"""`spec` of a KRaftQuorum: what a person may ask for, with bounds and cross-field rules.

The docstring under each field becomes its description in the CRD and in
`docs/reference/crd.md`. Cross-field rules are CEL, checked by the API server
at apply; the operator reads only what has passed them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

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
    """Time-outs of every node, and what is off unless it is asked for."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "self.electionTimeoutMs <= self.fetchTimeoutMs",
                "fieldPath": ".electionTimeoutMs",
                "message": "electionTimeoutMs must not be larger than fetchTimeoutMs: an election "
                "that outlasts the followers' patience makes them stand as well",
            },
            {
                "rule": "2 * self.electionTimeoutMs >= self.requestTimeoutMs",
                "fieldPath": ".electionTimeoutMs",
                "message": "electionTimeoutMs must be at least half of requestTimeoutMs: if "
                "requests take so long, no vote may come in time",
            },
        )
    )

    fetch_timeout_ms: Annotated[int, Field(ge=200, le=60_000)] = 2000
    """How long a follower goes without a good Fetch before it stands for election."""
    election_timeout_ms: Annotated[int, Field(ge=100, le=60_000)] = 1000
    """How long a candidate waits for votes."""
    election_backoff_max_ms: Annotated[int, Field(ge=50, le=60_000)] = 1000
    """Upper bound of the random wait after an election without a winner."""
    request_timeout_ms: Annotated[int, Field(ge=200, le=60_000)] = 2000
    """How long a request between nodes may take."""
    fetches_in_flight_max: Annotated[int, Field(ge=1, le=5)] = 1
    """How many Fetches a follower has under way. More than one helps few clients on a slow
    network, and costs messages elsewhere."""
    read_lease_clock_drift_percent: Annotated[int, Field(ge=0, le=50)] = 0
    """Lets the leader answer reads without asking the others, assuming that no node's clock runs
    faster than another's by more than this many percent. 0: nothing rests on clocks."""
    log_preallocate: bool = False
    """Whether the room of a whole segment is reserved on the disk when one is begun."""


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
                "rule": "self.replacement.gracePeriodSeconds * 1000 >= "
                "self.nodeSettings.fetchTimeoutMs",
                "fieldPath": ".replacement.gracePeriodSeconds",
                "message": "replacement.gracePeriodSeconds must be at least "
                "nodeSettings.fetchTimeoutMs: before that no replica counts as silent",
            },
        )
    )

    voters: Annotated[int, Field(ge=1, le=9)] = 3
    """How many voters, 1 to 9. Odd numbers are better: an even one tolerates no failure more
    than the odd one below it and is accepted with a Warning event."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Container image of the node; unset: the one that the operator was set up with."""
    storage: Storage = Storage()
    """The volume of each replica. Immutable."""
    node_settings: NodeSettings = NodeSettings()
    """Time-outs of every node, and what is off unless it is asked for."""
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
