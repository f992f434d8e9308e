"""What the planner knows of the software whose voters it changes.

An engine is an adapter: it fills the observation and carries out the actions. The planner and the
executor read nothing of it but these traits.

What must not live here: whether an answer is confirmed. Each answer says so itself
(`Quorum.confirmed`). A leader that answers without a majority needs no trait: the guards wait until
a later answer confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by its traits.

    Attributes:
        name: of the engine.
        one_voter_per_id: the leader takes no second voter of a node id, so a lost replica leaves
            the voter set before its replacement joins.
        leader_checks_changes: the leader compares a voter change with the set that it was decided
            on, and holds it back until a majority of the set after the change has caught up.
            Without that, the operator reads the quorum again directly before the request.
        moves_leadership: a leader resigns in favour of another voter on request. Without that, a
            leader resigns when its process stops or when it removes itself.
    """

    name: str
    one_voter_per_id: bool
    leader_checks_changes: bool
    moves_leadership: bool


RAFTNODE = Engine(
    "raftnode", one_voter_per_id=False, leader_checks_changes=True, moves_leadership=True
)
"""Our own node."""

KAFKA = Engine("kafka", one_voter_per_id=True, leader_checks_changes=False, moves_leadership=False)
"""Apache Kafka's controllers from 3.9 on. No reconciliation uses it yet."""
