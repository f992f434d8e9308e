"""`status` of a KafkaQuorum: what a majority of the controllers confirmed, and the advice on it.

It has no offsets and no ages, which move with each record: the operator writes it only on a change.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kraftquorum_operator.model.status import Condition, StatusModel

REPLICAS_MAX = 256
"""The most replicas that the status lists: voters first."""

NOTES_MAX = 80


class KafkaReplicaName(StatusModel):
    """A replica by its id and its directory id."""

    node_id: int
    """The node id."""
    directory_id: str
    """The directory id, 22 characters as Kafka prints it."""


class KafkaReplicaStatus(KafkaReplicaName):
    """A replica as the leader describes it."""

    role: Literal["leader", "voter", "observer"]
    """Its role."""
    fresh: bool
    """Whether it has fetched recently and is caught up."""
    may_be_lost: bool
    """Whether the quorum goes on without it."""


class KafkaAdvice(StatusModel):
    """What the operator would do; it does nothing."""

    kind: Literal["Nothing", "Wait", "Provide", "Replace", "Add", "DecisionNeeded"]
    """`Nothing`: all voters are fresh. `Wait`: the message says what for. `Provide`: start a
    controller. `Replace`: remove a voter, then add another directory of its id. `Add`: add a voter.
    `DecisionNeeded`: a person must decide."""
    message: Annotated[str, Field(max_length=1024)]
    """The same as a sentence."""
    remove: KafkaReplicaName | None = None
    """The voter to remove first."""
    add: KafkaReplicaName | None = None
    """The observer to add then."""


class KafkaQuorumStatus(StatusModel):
    """The last check of the controllers. Without a confirmed answer only conditions and notes."""

    observed_generation: int
    """The generation of the spec that this status is about."""
    cluster_id: str | None = None
    """The cluster id; unset: not known."""
    leader_id: int | None = None
    """Node id of the leader that a majority confirmed."""
    epoch: int | None = None
    """Its epoch."""
    voters: int | None = None
    """The number of voters."""
    spare_voters: int | None = None
    """How many more voters may be lost before the quorum stops."""
    replicas: Annotated[list[KafkaReplicaStatus], Field(max_length=REPLICAS_MAX)] = Field(
        default_factory=list[KafkaReplicaStatus]
    )
    """Voters and observers."""
    advice: KafkaAdvice | None = None
    """What the operator would do."""
    notes: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=NOTES_MAX)] = (
        Field(default_factory=list[str])
    )
    """What was not checked, and controllers that did not answer."""
    conditions: list[Condition] = Field(default_factory=list[Condition])
    """`Ready`, `Safe` and `ActionAdvised`; docs/howto/kafka.md explains them."""
