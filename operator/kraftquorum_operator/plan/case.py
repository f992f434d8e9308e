"""The input of a guard: one observation, and the action that depends on the guard."""

from __future__ import annotations

from dataclasses import dataclass

from kraftquorum_operator.model.engine import Engine
from kraftquorum_operator.model.observation import Observation, Progress, Quorum, ReplicaId
from kraftquorum_operator.model.spec import QuorumSpec


@dataclass(frozen=True, slots=True)
class Case:
    """The input of a guard: the observation and the replica to add, remove or delete."""

    spec: QuorumSpec
    observation: Observation
    now_ms: int
    ordinal: int = -1
    new: ReplicaId | None = None
    """The replica that is to become a voter."""
    old: ReplicaId | None = None
    """The replica that is to leave the set, or whose storage is to be given up."""
    replicas: int = 0
    """The wanted number of the StatefulSet's replicas."""

    @property
    def engine(self) -> Engine:
        """What the replicas run."""
        return self.observation.engine

    @property
    def quorum(self) -> Quorum | None:
        """The leader's answer."""
        return self.observation.quorum

    @property
    def survivors(self) -> tuple[Progress, ...]:
        """The voters that stay when `old` goes."""
        voters = self.quorum.voters if self.quorum else ()
        return tuple(voter for voter in voters if voter.replica != self.old)

    def must_resign(self, replica: ReplicaId) -> bool:
        """Whether a replica leads and has to resign before it is stopped or removed."""
        leads = self.quorum is not None and self.quorum.leader == replica
        return leads and self.engine.moves_leadership

    @property
    def grace_ms(self) -> int:
        """How long a replica must be silent to count as lost."""
        return self.spec.replacement.grace_period_seconds * 1000

    def is_silent(self, voter: Progress) -> bool:
        """Whether a voter has been silent for the whole grace period."""
        since = voter.silent_since_ms
        return since is not None and self.now_ms - since >= self.grace_ms
