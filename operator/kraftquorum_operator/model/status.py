"""`status` of a KRaftQuorum: a report for people, never read back as truth (S11).

The one exception is harmless: `observedGeneration` keeps the operator from
posting the same warning twice for one generation.
"""

from __future__ import annotations

from typing import Annotated, Literal

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


class VoterStatus(StatusModel):
    """One voter of the set in force, as the leader sees it."""

    node_id: int
    """The node's id."""
    directory_id: str
    """UUID of its storage."""
    pod: str
    """Name of the pod of this node id."""
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
    """The voter set in force."""
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
    label_selector: str
    """Selects the pods; for the scale subresource."""
    conditions: list[Condition] = Field(default_factory=list[Condition])
    """Conditions; their types are in docs/reference/conditions.md."""
