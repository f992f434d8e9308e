"""`status` of a KRaftQuorum: a report for people, never read back as truth (S11).

Two exceptions are harmless: `observedGeneration` keeps the operator from posting the
same warning twice for one generation, and `timeline` goes on from what it was before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class StatusModel(BaseModel):
    """Camel case outside, snake case inside."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        use_attribute_docstrings=True,
    )


class Condition(StatusModel):
    """One condition, as Kubernetes writes them; their types are in docs/reference/conditions.md."""

    type: Annotated[str, Field(max_length=64)]
    """Name of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=128)]
    """One word: a guard's name in CamelCase, or what is going on."""
    message: Annotated[str, Field(max_length=4096)]
    """A sentence for people."""
    last_transition_time: str
    """When `status` last changed."""
    observed_generation: int
    """The generation of the spec that this was said about."""


class Leader(StatusModel):
    """Who leads: always with the storage UUID (S1)."""

    node_id: int
    """The node's id, which is its pod's ordinal."""
    directory_id: str
    """UUID of its storage, in Kafka's 22 characters."""
    pod: str
    """Name of its pod."""


class VoterName(StatusModel):
    """A voter by its names."""

    node_id: int
    """The node's id."""
    directory_id: str
    """UUID of its storage."""
    pod: str
    """Name of the pod of this node id."""


class VoterStatus(VoterName):
    """One voter of the set in force, as the leader sees it."""

    committed: bool
    """Whether the record that made it a voter is committed."""
    caught_up: bool
    """Fresh, and within one catch-up round of the leader."""
    lag: int
    """Records between it and the leader's log end."""
    last_fetch_age_ms: int | None = None
    """Since the leader last heard from it; unset: not since the election."""


class ReplicaStatus(StatusModel):
    """One replica, as it says itself: what a person needs when the quorum is lost."""

    node_id: int
    """The node's id, which is its pod's ordinal."""
    pod: str
    """Name of its pod."""
    directory_id: str | None = None
    """UUID of its storage; unset: it did not answer."""
    role: str
    """Role, or `silent` when it did not answer."""
    epoch: int | None = None
    """Its epoch."""
    log_end_offset: int | None = None
    """End of its log, durable or not."""
    durable_end_offset: int | None = None
    """End of what it has fsynced."""
    high_watermark: int | None = None
    """What it knows to be committed."""
    ready: bool
    """Whether its pod is ready."""
    detail: str = ""
    """Why it does not run, if it does not."""


TIMELINE_MAX = 24
"""Entries that are kept: a status is written often, and all of it each time."""

OPERATIONS_MAX = 16


class Operation(StatusModel):
    """Something that takes several steps, as derived from what was seen."""

    kind: Literal["Formation", "Replacement", "Addition", "Removal", "Restart"]
    """What is done: forming the quorum, replacing a lost disk, one voter more, one less, or
    restarting pods whose template changed."""
    pod: str = ""
    """The pod that it is about; empty: the whole quorum."""
    step: str
    """The step that is next or under way."""
    number: int
    """Which step that is, from 1."""
    steps: int
    """How many there are."""
    since: str
    """When the operation was first seen."""
    step_since: str
    """When this step was first seen."""


class TimelineEntry(StatusModel):
    """A fault, a repair or another change, as the operator saw it."""

    at: str
    """When, the last time."""
    kind: Literal["Fault", "Repair", "Change"]
    """What sort of thing it was."""
    message: Annotated[str, Field(max_length=240)]
    """A sentence for people."""
    count: int | None = None
    """How often lately, for what comes and goes; unset: once."""
    first: str | None = None
    """When, the first time of so many; unset: it was once."""


class QuorumStatus(StatusModel):
    """What the operator last saw and what it is doing."""

    observed_generation: int
    """The generation of the spec that this status is about."""
    phase: Literal["Forming", "Running", "Changing", "Waiting", "QuorumLost", "Paused", "Deleting"]
    """One word for the whole."""
    replicas: int
    """Voters that are committed; the scale subresource's count."""
    ready_voters: int
    """Voters that are caught up."""
    fault_tolerance: int
    """How many more voters may fail: live voters minus the majority of the set."""
    cluster_id: str | None = None
    """Id of the formed quorum; random, never from a name."""
    leader: Leader | None = None
    """Who leads, as confirmed by a majority."""
    epoch: int | None = None
    """The leader's epoch."""
    high_watermark: int | None = None
    """How far the log is committed."""
    voters: list[VoterStatus] = Field(default_factory=list[VoterStatus])
    """The voter set in force; empty without a leader, see `lastKnownVoters`."""
    leader_seen_at: str | None = None
    """When a leader last answered. With a leader, when this status was last written."""
    last_known_voters: list[VoterName] = Field(default_factory=list[VoterName])
    """Without a leader: the voters as they were at `leaderSeenAt`. Nothing is decided on them."""
    nodes: list[ReplicaStatus] = Field(default_factory=list[ReplicaStatus])
    """Every replica, as it says itself."""
    current_action: str | None = None
    """The action that was just taken, e.g. `AddVoter`."""
    doing: str | None = None
    """The action or, if it waits, the guard, short enough for a column; unset: nothing."""
    waiting_for: str | None = None
    """Name of the guard that blocks, as in docs/reference/guards.md."""
    message: str = ""
    """What is going on, in a sentence."""
    operations: Annotated[list[Operation], Field(max_length=OPERATIONS_MAX)] = Field(
        default_factory=list[Operation]
    )
    """What is under way, with the step that it is at."""
    timeline: Annotated[list[TimelineEntry], Field(max_length=TIMELINE_MAX)] = Field(
        default_factory=list[TimelineEntry]
    )
    """The last faults, repairs and changes, oldest first; it outlives the operator."""
    config: dict[str, str] = Field(default_factory=dict[str, str])
    """The settings that the pods' template gives to each node; what is not here is as the node
    has it by default. While pods are restarted for another template, some have the one before."""
    label_selector: str
    """Selects the pods; for the scale subresource."""
    conditions: list[Condition] = Field(default_factory=list[Condition])
    """Conditions; their types are in docs/reference/conditions.md."""


def last_status(resource: Mapping[str, Any]) -> QuorumStatus | None:
    """What was last reported of a resource, for the times and the timeline in it.

    None where there is nothing, or what another version wrote: nothing is decided on it.
    """
    status = resource.get("status")
    try:
        return QuorumStatus.model_validate(dict(status)) if status else None
    except (ValueError, TypeError):
        return None
