"""Converts what the replicas report into the parts of an observation.

The leader observes a voter's silence: how long ago the voter last fetched. If the
leader has never heard from a voter, the operator remembers since when; after a
restart the operator starts to count again, which is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from kraftquorum_operator.clients.nodes import NodeApi
from kraftquorum_operator.errors import NodeError
from kraftquorum_operator.model.certificates import ListenerCertificate
from kraftquorum_operator.model.observation import (
    Node,
    PendingChange,
    Pod,
    Progress,
    Quorum,
    ReplicaId,
    VoterRecord,
)
from raftnode.api.model import NodeInfo, QuorumInfo, ReplicaProgress
from raftnode.api.model import Replica as ApiReplica
from raftnode.core.types import Endpoint


@dataclass(slots=True)
class Silence:
    """Since when, on the operator's clock, no leader has heard from a voter."""

    since_ms: dict[ReplicaId, int] = field(default_factory=dict[ReplicaId, int])

    def of(self, progress: ReplicaProgress, *, leads: bool, now_ms: int) -> int | None:
        """Since when this voter has been silent; None for the leader, which does not fetch."""
        replica = _replica(progress)
        if leads:
            self.since_ms.pop(replica, None)
            return None
        if progress.last_fetch_age_ms is not None:
            self.since_ms.pop(replica, None)
            return now_ms - progress.last_fetch_age_ms
        return self.since_ms.setdefault(replica, now_ms)


def _replica(given: ApiReplica) -> ReplicaId:
    return ReplicaId(given.node_id, given.directory_id)


def read_node(info: NodeInfo) -> Node:
    """Read a replica's answer about itself."""
    return Node(
        replica=ReplicaId(info.node_id, info.directory_id),
        incarnation=info.incarnation,
        cluster_id=info.cluster_id,
        role=info.role,
        epoch=info.epoch,
        log_end_offset=info.log_end_offset,
        durable_end_offset=info.durable_end_offset,
        high_watermark=info.high_watermark,
        voters=tuple(_replica(voter) for voter in info.voters),
        caught_up=info.caught_up,
        peer_endpoint=info.peer_endpoint,
        damage=info.storage.damage,
        disk_low=info.storage.low,
        free_bytes=info.storage.free_bytes,
        size_bytes=info.storage.size_bytes,
        snapshot_room_missing_bytes=info.storage.snapshot_room_missing_bytes,
        certificates=tuple(
            ListenerCertificate(part.listener, part.sha256, frozenset(part.trusted_ca_sha256))
            for part in info.certificates
        ),
    )


def read_quorum(info: QuorumInfo, silence: Silence, now_ms: int) -> Quorum:
    """Read the leader's answer to DescribeQuorum."""

    def progress(given: ReplicaProgress) -> Progress:
        leads = _replica(given) == _replica(info.leader)
        return Progress(
            replica=_replica(given),
            caught_up=given.caught_up,
            fenced=given.fenced,
            lag=given.lag,
            last_fetch_age_ms=given.last_fetch_age_ms,
            higher_epoch=given.higher_epoch,
            silent_since_ms=silence.of(given, leads=leads, now_ms=now_ms),
        )

    pending = info.pending_change
    return Quorum(
        cluster_id=info.cluster_id,
        leader=_replica(info.leader),
        epoch=info.epoch,
        high_watermark=info.high_watermark,
        voters=tuple(progress(voter) for voter in info.voters),
        committed=tuple(_replica(voter) for voter in info.committed_voters),
        basis=VoterRecord(info.voter_record.offset, info.voter_record.epoch),
        record_committed=info.voter_record_committed,
        observers=tuple(progress(observer) for observer in info.observers),
        pending=None
        if pending is None
        else PendingChange(
            kind=pending.kind,
            replica=_replica(pending.replica),
            appended=pending.appended_offset is not None,
            waiting_for=pending.waiting_for,
        ),
        formation_completed=info.formation_completed,
        epoch_committed=info.epoch_committed,
        confirmed=info.confirmed,
    )


async def ask_nodes(api: NodeApi, pods: Sequence[Pod], domain: str) -> Mapping[int, NodeInfo]:
    """Request the state of every running pod's replica; leave out replicas that do not answer.

    A terminating pod gets no request: its answer would be out of date. The answer of a replica
    that was started for another pod does not count: a pod whose machine is down keeps its address
    in the API, and a pod of another quorum may have that address now.

    Args:
        api: sends the requests to the replicas.
        pods: of the quorum.
        domain: of their names, see `names.domain`.
    """

    async def ask(pod: Pod) -> NodeInfo | None:
        try:
            return await api.node(pod.api_address)
        except (NodeError, ValidationError):
            return None

    running = [pod for pod in pods if pod.address and not pod.terminating]
    answers = await asyncio.gather(*(ask(pod) for pod in running))
    return {
        pod.ordinal: answer
        for pod, answer in zip(running, answers, strict=True)
        if answer is not None
        and answer.node_id == pod.ordinal
        and Endpoint.parse(answer.peer_endpoint).host == f"{pod.name}.{domain}"
    }


async def ask_leader(
    api: NodeApi, pods: Sequence[Pod], nodes: Mapping[int, NodeInfo]
) -> QuorumInfo | None:
    """Ask the leader of the highest epoch for the voters, confirmed by a majority (S11)."""
    leaders = sorted(
        (ordinal for ordinal, info in nodes.items() if info.role == "leader"),
        key=lambda ordinal: nodes[ordinal].epoch,
        reverse=True,
    )
    by_ordinal = {pod.ordinal: pod for pod in pods}
    for ordinal in leaders:
        try:
            return await api.quorum(by_ordinal[ordinal].api_address)
        except (NodeError, ValidationError):
            continue
    return None
