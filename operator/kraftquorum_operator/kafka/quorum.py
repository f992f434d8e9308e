"""The leader's description as the planner has it: the observing half of Kafka's engine. Pure.

What must not live here: pods and claims, which are no different for Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kraftquorum_operator.kafka.advice import DEFAULT_LIMITS, Limits, is_fresh, lag_of, silence_of
from kraftquorum_operator.kafka.codec.describe_quorum import ReplicaState
from kraftquorum_operator.kafka.facts import View
from kraftquorum_operator.model.observation import DescribedVoters, Progress, Quorum, ReplicaId
from raftnode.core.types import format_directory_id


@dataclass(slots=True)
class Unheard:
    """Since when, on the operator's clock, replicas have no Fetch in the epoch of their leader."""

    since_ms: dict[ReplicaId, int] = field(default_factory=dict[ReplicaId, int])


def replica_of(state: ReplicaState) -> ReplicaId:
    """A replica by its id and its directory id in Kafka's notation."""
    return ReplicaId(state.node_id, format_directory_id(state.directory_id))


def quorum_of(
    view: View, unheard: Unheard, now_ms: int, limits: Limits = DEFAULT_LIMITS
) -> Quorum | None:
    """Make the planner's quorum of what was read.

    Two answers that confirm each other also show that the voters of both are committed. Kafka
    reports neither the offset of the voter record nor a pending change.

    Args:
        view: what was read.
        unheard: is kept up to date. Kafka forgets at an election when a replica fetched.
        now_ms: the operator's monotonic clock.
        limits: what counts as caught up.

    Returns:
        None if no leader answered, if the cluster id is not known, or if the leader is no voter.
    """
    described = view.quorum
    cluster_id = next((node.cluster_id for node in view.nodes if node.cluster_id), None)
    if described is None or cluster_id is None:
        return None
    leader = next((row for row in described.voters if row.node_id == described.leader_id), None)
    if leader is None:
        return None

    def progress(rows: Sequence[ReplicaState]) -> tuple[Progress, ...]:
        return tuple(
            Progress(
                replica_of(row),
                caught_up=is_fresh(row, leader, limits),
                lag=lag_of(row, leader) or 0,
                last_fetch_age_ms=silence_of(row, leader),
                silent_since_ms=_silent_since_ms(row, leader, unheard, now_ms),
            )
            for row in sorted(rows, key=lambda row: row.key)
        )

    voters = tuple(sorted(map(replica_of, described.voters)))
    return Quorum(
        cluster_id=cluster_id,
        leader=replica_of(leader),
        epoch=described.leader_epoch,
        high_watermark=described.high_watermark,
        voters=progress(described.voters),
        committed=voters,
        basis=DescribedVoters(replica_of(leader), described.leader_epoch, voters),
        record_committed=view.confirmed,
        observers=progress(described.observers),
        pending=None,
        formation_completed=described.high_watermark >= 0,
        epoch_committed=described.high_watermark >= 0,
        confirmed=view.confirmed,
    )


def _silent_since_ms(
    row: ReplicaState, leader: ReplicaState, unheard: Unheard, now_ms: int
) -> int | None:
    """On the operator's clock; None for the leader, which does not fetch."""
    if row.key == leader.key:
        return None
    silent_ms, replica = silence_of(row, leader), replica_of(row)
    if silent_ms is None:
        return unheard.since_ms.setdefault(replica, now_ms)
    unheard.since_ms.pop(replica, None)
    return now_ms - silent_ms
