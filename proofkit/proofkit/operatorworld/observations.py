"""Observations for tests: a healthy quorum, and what differs from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kraftquorum_operator.model.observation import (
    Claim,
    ClaimRecord,
    Latch,
    LatchVoter,
    Node,
    Observation,
    Pod,
    Progress,
    Quorum,
    ReplicaId,
    StatefulSet,
    VoterRecord,
)
from kraftquorum_operator.model.spec import QuorumSpec

NOW_MS = 1_000_000
UID = "resource-1"
CLUSTER = "cluster-a"


def spec(**changes: object) -> QuorumSpec:
    """A spec, given by its fields in snake or camel case."""
    return QuorumSpec.model_validate(changes)


def replica(node_id: int, disk: str = "a") -> ReplicaId:
    """A replica whose storage UUID is readable, e.g. `2-a`."""
    return ReplicaId(node_id, f"{disk}{node_id}")


def pod(ordinal: int, *, voter: bool = True) -> Pod:
    """A ready pod."""
    return Pod(
        name=f"demo-{ordinal}",
        uid=f"pod-{ordinal}",
        ordinal=ordinal,
        address=f"10.0.0.{ordinal}",
        counted=voter,
        revision="r1",
        age_ms=60_000,
    )


def record(ordinal: int, disk: str = "a") -> ClaimRecord:
    """What is recorded about a replica on the claim of `claim`."""
    return ClaimRecord(replica(ordinal, disk).directory_id, f"claim-{ordinal}")


def claim(ordinal: int, disk: str = "a") -> Claim:
    """A bound claim of this resource, recorded for a storage."""
    return Claim(
        name=f"data-demo-{ordinal}",
        uid=f"claim-{ordinal}",
        ordinal=ordinal,
        owner_uid=UID,
        volume=f"volume-{ordinal}",
        record=record(ordinal, disk),
    )


def node(ordinal: int, disk: str = "a", *, blank: bool = False, incarnation: int = 2) -> Node:
    """A node that answers."""
    return Node(
        replica=replica(ordinal, disk),
        incarnation=incarnation,
        cluster_id=None if blank else CLUSTER,
        role="blank" if blank else "follower",
        epoch=0 if blank else 3,
        log_end_offset=0 if blank else 100,
        durable_end_offset=0 if blank else 100,
        high_watermark=0 if blank else 100,
        voters=(),
        caught_up=not blank,
        peer_endpoint=f"demo-{ordinal}.peers:9093",
    )


def voter(ordinal: int, disk: str = "a", *, silent_ms: int | None = None) -> Progress:
    """A voter as the leader sees it: caught up, or silent for so long."""
    if silent_ms is None:
        return Progress(replica(ordinal, disk), caught_up=True, silent_since_ms=NOW_MS - 10)
    return Progress(
        replica(ordinal, disk), caught_up=False, lag=50, silent_since_ms=NOW_MS - silent_ms
    )


def quorum(voters: Sequence[Progress], *, observers: Sequence[Progress] = ()) -> Quorum:
    """A confirmed answer of the first voter, which leads."""
    leader = replace(voters[0], silent_since_ms=None)
    return Quorum(
        cluster_id=CLUSTER,
        leader=leader.replica,
        epoch=3,
        high_watermark=100,
        voters=(leader, *voters[1:]),
        committed=tuple(v.replica for v in voters),
        basis=VoterRecord(7, 2),
        record_committed=True,
        observers=tuple(observers),
        pending=None,
        formation_completed=True,
        epoch_committed=True,
        confirmed=True,
    )


def latch(voters: int = 3) -> Latch:
    """The latch of a quorum that formed with the first disks."""
    return Latch(CLUSTER, tuple(LatchVoter(replica(n), f"demo-{n}:9093") for n in range(voters)))


def healthy(voters: int = 3, replicas: int | None = None) -> Observation:
    """A formed quorum of so many voters with nothing to do; more pods than that observe."""
    count = replicas if replicas is not None else voters
    return Observation(
        namespace="test",
        name="demo",
        uid=UID,
        statefulset=StatefulSet(
            "sts-1",
            "42",
            count,
            revision="r1",
            owner_uid=UID,
            records=tuple((n, record(n)) for n in range(count)),
        ),
        pods=tuple(pod(n, voter=n < voters) for n in range(count)),
        claims=tuple(claim(n) for n in range(count)),
        nodes=tuple(node(n) for n in range(count)),
        quorum=quorum([voter(n) for n in range(voters)]),
        latch=latch(voters),
    )


def blank(voters: int = 3) -> Observation:
    """Pods that run on empty disks before formation."""
    return replace(
        healthy(voters),
        nodes=tuple(node(n, blank=True, incarnation=1) for n in range(voters)),
        pods=tuple(pod(n, voter=False) for n in range(voters)),
        claims=tuple(replace(claim(n), record=None) for n in range(voters)),
        quorum=None,
        latch=None,
    )


def with_pod(observation: Observation, changed: Pod) -> Observation:
    """The observation with one pod replaced."""
    others = [p for p in observation.pods if p.ordinal != changed.ordinal]
    return replace(observation, pods=tuple(sorted([*others, changed], key=lambda p: p.ordinal)))


def recorded(observation: Observation, ordinal: int, disk: str) -> Observation:
    """The observation with another storage recorded on the claim of an ordinal, and as the last."""
    known = observation.claim(ordinal)
    if known is None or observation.statefulset is None:
        raise AssertionError("the observation has no such claim")
    what = ClaimRecord(replica(ordinal, disk).directory_id, known.uid)
    others = [item for item in observation.statefulset.records if item[0] != ordinal]
    return with_claim(
        replace(
            observation,
            statefulset=replace(observation.statefulset, records=(*others, (ordinal, what))),
        ),
        replace(known, record=what),
    )


def with_claim(observation: Observation, changed: Claim) -> Observation:
    """The observation with one claim replaced."""
    others = [c for c in observation.claims if c.ordinal != changed.ordinal]
    return replace(observation, claims=tuple(sorted([*others, changed], key=lambda c: c.ordinal)))


def with_size(
    observation: Observation,
    ordinal: int,
    requested_gib: float,
    capacity_gib: float,
) -> Observation:
    """The observation with one claim that asks for a size and has another."""
    known = replace(
        claim(ordinal),
        storage_class="fast",
        version=f"v{ordinal}",
        requested_bytes=int(requested_gib * (1 << 30)),
        capacity_bytes=int(capacity_gib * (1 << 30)),
    )
    return with_claim(observation, known)


def with_node(observation: Observation, changed: Node) -> Observation:
    """The observation with one node's answer replaced."""
    others = [n for n in observation.nodes if n.replica.node_id != changed.replica.node_id]
    return replace(observation, nodes=tuple(sorted([*others, changed], key=lambda n: n.replica)))


def without_node(observation: Observation, ordinal: int) -> Observation:
    """The observation with one node silent."""
    return replace(
        observation, nodes=tuple(n for n in observation.nodes if n.replica.node_id != ordinal)
    )


def with_quorum(observation: Observation, **changes: object) -> Observation:
    """The observation with fields of the leader's answer replaced."""
    if observation.quorum is None:
        raise AssertionError("the observation has no quorum")
    return replace(observation, quorum=replace(observation.quorum, **changes))  # pyright: ignore[reportArgumentType]
