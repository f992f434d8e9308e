"""`status` of a KRaftQuorum: a report for users, never input to a decision (S11).

The operator reads two fields back, which is harmless: `observedGeneration`, so that it
posts a warning once per generation, and `timeline`, so that it can append to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

PAGE_ONLY = "x-kraftquorum-page-only"
"""Marks a field that moves with every write of a client. Only the status page has it: as a field of
the resource it would cost a write each few seconds for each quorum."""


class StatusModel(BaseModel):
    """Camel case outside, snake case inside."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        use_attribute_docstrings=True,
    )


Status = TypeVar("Status", bound=StatusModel)
"""The whole status of a resource."""


class Condition(StatusModel):
    """One condition; docs/reference/conditions.md lists the types."""

    type: Annotated[str, Field(max_length=64)]
    """Name of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=128)]
    """One word: a guard's name in CamelCase, or another short reason."""
    message: Annotated[str, Field(max_length=4096)]
    """The reason in words."""
    last_transition_time: str
    """When `status` last changed."""
    observed_generation: int
    """The generation of the spec that the condition is about."""


class Leader(StatusModel):
    """The leader, always with its directory id (S1)."""

    node_id: int
    """The node's id, which is its pod's ordinal."""
    directory_id: str
    """Its directory id, 22 characters as in Kafka."""
    pod: str
    """Name of its pod."""


class VoterName(StatusModel):
    """The names of a voter."""

    node_id: int
    """The node's id."""
    directory_id: str
    """Its directory id."""
    pod: str
    """Name of the pod of this node id."""


class VoterStatus(VoterName):
    """One voter of the set in force, as the leader reports it."""

    committed: bool
    """Whether the record that made it a voter is committed."""
    caught_up: bool
    """Whether it is caught up with the leader."""
    lag: Annotated[int | None, Field(json_schema_extra={PAGE_ONLY: True})] = None
    """Records between its log end offset and the leader's."""
    last_fetch_age_ms: Annotated[int | None, Field(json_schema_extra={PAGE_ONLY: True})] = None
    """Time since its last fetch; unset: none since the election."""


class ReplicaStatus(StatusModel):
    """One replica, as it reports itself: what a person needs when the quorum is lost."""

    node_id: int
    """The node's id, which is its pod's ordinal."""
    pod: str
    """Name of its pod."""
    directory_id: str | None = None
    """Its directory id; unset: it did not answer."""
    role: str
    """Role, or `silent` when it did not answer."""
    epoch: int | None = None
    """Its epoch."""
    log_end_offset: int | None = None
    """Its log end offset, while there is no leader."""
    durable_end_offset: int | None = None
    """The end of what it has fsynced, while there is no leader."""
    high_watermark: int | None = None
    """The high watermark that it knows, while there is no leader."""
    ready: bool
    """Whether its pod is ready."""
    detail: str = ""
    """Why it does not run; empty: it runs."""


class TlsStatus(StatusModel):
    """TLS of the nodes, and when their certificates expire."""

    level: Literal["disabled", "permissive", "required"]
    """What the pod template has the listeners accept: plain connections, both kinds, or TLS alone.
    During a rolling restart some pods still have the level before."""
    next_expiry: str | None = None
    """When the first certificate of a node or of the operator expires."""
    ca_expiry: str | None = None
    """When the next trusted CA expires; if all have expired, when the last did."""


TIMELINE_MAX = 24
"""The most entries of a timeline: the operator writes the whole status often."""

OPERATIONS_MAX = 16


class Operation(StatusModel):
    """An operation of several steps, derived from the observation."""

    kind: Literal["Formation", "Replacement", "Addition", "Removal", "Restart"]
    """The kind of operation: forming the quorum, replacing a lost disk, adding a voter, removing
    a voter, or restarting pods whose template changed."""
    pod: str = ""
    """The pod that it is about; empty: the whole quorum."""
    step: str
    """The step that is next or in progress."""
    number: int
    """The number of that step, from 1."""
    steps: int
    """The number of steps."""
    since: str
    """When the operation was first seen."""
    step_since: str
    """When this step was first seen."""


class TimelineEntry(StatusModel):
    """A fault, a repair or another change, as the operator observed it."""

    at: str
    """When it last occurred."""
    kind: Literal["Fault", "Repair", "Change"]
    """Whether it was a fault, a repair or another change."""
    message: Annotated[str, Field(max_length=240)]
    """What happened."""
    count: int | None = None
    """How often it occurred recently; unset: once."""
    first: str | None = None
    """When it first occurred of these times; unset: it occurred once."""


class QuorumStatus(StatusModel):
    """The operator's last observation, and what it is doing."""

    observed_generation: int
    """The generation of the spec that this status is about."""
    phase: Literal["Forming", "Running", "Changing", "Waiting", "QuorumLost", "Paused", "Deleting"]
    """The state of the quorum in one word."""
    replicas: int
    """The number of committed voters; the count of the scale subresource."""
    ready_voters: int
    """The number of voters that are caught up."""
    fault_tolerance: int
    """How many more voters may fail: caught-up voters minus the majority of the set."""
    cluster_id: str | None = None
    """The quorum's cluster id, which is random."""
    leader: Leader | None = None
    """The leader that answered; unset: no leader answers."""
    epoch: int | None = None
    """The leader's epoch."""
    high_watermark: Annotated[int | None, Field(json_schema_extra={PAGE_ONLY: True})] = None
    """The leader's high watermark."""
    voters: list[VoterStatus] = Field(default_factory=list[VoterStatus])
    """The voter set in force; empty without a leader, see `lastKnownVoters`."""
    leader_seen_at: str | None = None
    """When a leader last answered. With a leader, when this status was last written."""
    last_known_voters: list[VoterName] = Field(default_factory=list[VoterName])
    """Without a leader: the voters at `leaderSeenAt`. No decision depends on them."""
    nodes: list[ReplicaStatus] = Field(default_factory=list[ReplicaStatus])
    """Every replica, as it reports itself."""
    current_action: str | None = None
    """The operator's last action, e.g. `AddVoter`."""
    doing: str | None = None
    """The action in a word or two or, if the operator waits, the guard; unset: nothing."""
    waiting_for: str | None = None
    """Name of the guard that blocks, as in docs/reference/guards.md."""
    message: str = ""
    """What the operator does or waits for, in words."""
    operations: Annotated[list[Operation], Field(max_length=OPERATIONS_MAX)] = Field(
        default_factory=list[Operation]
    )
    """The operations in progress, with their steps."""
    timeline: Annotated[list[TimelineEntry], Field(max_length=TIMELINE_MAX)] = Field(
        default_factory=list[TimelineEntry]
    )
    """The last faults, repairs and changes, oldest first; it survives a restart of the operator."""
    config: dict[str, str] = Field(default_factory=dict[str, str])
    """The settings that the pod template gives to each node. A setting that is not here has the
    node's default. During a rolling restart some pods still have the settings before."""
    tls: TlsStatus | None = None
    """TLS of the nodes; unset: neither the resource nor a pod has TLS."""
    label_selector: str
    """Selects the pods; for the scale subresource."""
    conditions: list[Condition] = Field(default_factory=list[Condition])
    """The conditions; docs/reference/conditions.md lists the types."""


def conditions_of(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions of a status, for their times; without those that another version wrote."""
    conditions: list[Condition] = []
    for body in status.get("conditions") or ():
        with suppress(ValueError, TypeError):
            conditions.append(Condition.model_validate(dict(body)))
    return tuple(conditions)


def last_status(resource: Mapping[str, Any]) -> QuorumStatus | None:
    """The last status of a KRaftQuorum, for its times and its timeline."""
    return status_in(resource, QuorumStatus)


def status_in(resource: Mapping[str, Any], model: type[Status]) -> Status | None:
    """The status that a resource has.

    None if there is no status, or one that another version wrote. No decision depends on it.
    """
    status = resource.get("status")
    try:
        return model.model_validate(dict(status)) if status else None
    except (ValueError, TypeError):
        return None
