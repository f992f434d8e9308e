"""What the certificates of pods and operator must have, and what is wrong with one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from kraftquorum_operator import names
from kraftquorum_operator.model.certificates import OPERATOR, Leaf
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec

LOOPBACK = frozenset({"127.0.0.1", "::1"})


def known_cluster_id(observation: Observation) -> str | None:
    """The quorum's cluster id, by its leader, the latch or all nodes that have one."""
    if observation.quorum is not None:
        return observation.quorum.cluster_id
    if observation.latch is not None:
        return observation.latch.cluster_id
    reported = {node.cluster_id for node in observation.nodes if node.cluster_id is not None}
    return reported.pop() if len(reported) == 1 else None


@dataclass(frozen=True, slots=True)
class WantedLeaf:
    """What the certificate of a pod must have."""

    uris: frozenset[str]
    hosts: frozenset[str]


def wanted_leaf(observation: Observation, cluster_id: str, name: str) -> WantedLeaf:
    """What the certificate of a pod, or of the operator, must have."""
    if name == OPERATOR:
        return WantedLeaf(frozenset({names.operator_identity(cluster_id)}), frozenset())
    ordinal = names.ordinal_of(name, observation.name) or 0
    domain = observation.cluster_domain
    hosts = names.hosts(observation.namespace, observation.name, ordinal, domain)
    return WantedLeaf(
        frozenset({names.node_identity(cluster_id, ordinal)}), LOOPBACK | frozenset(hosts)
    )


def needed_pods(spec: QuorumSpec, observation: Observation) -> tuple[str, ...]:
    """The pods that there are or are to be, by ordinal."""
    replicas = observation.statefulset.replicas if observation.statefulset is not None else 0
    claims = () if replicas else (c.ordinal + 1 for c in observation.claims if not c.foreign_owner)
    pods = (pod.ordinal + 1 for pod in observation.pods)
    count = min(names.NODES_MAX, max(spec.voters, replicas, *claims, *pods))
    return tuple(names.pod(observation.name, ordinal) for ordinal in range(count))


def name_faults(observation: Observation, cluster_id: str, name: str, leaf: Leaf) -> Iterator[str]:
    """What the certificate of a pod, or of the operator, lacks of the names that it needs."""
    (identity,) = wanted_leaf(observation, cluster_id, name).uris
    if identity not in leaf.uris:
        yield f"the certificate of {name} lacks the URI {identity}"
    domain = names.domain(observation.namespace, observation.name, observation.cluster_domain)
    host = f"{name}.{domain}"
    if name != OPERATOR and not _covers(leaf.hosts, host):
        yield f"the certificate of {name} lacks the DNS name {host}"


def leaf_faults(what: str, leaf: Leaf, now_s: int) -> Iterator[str]:
    """Why a certificate cannot be used now, whatever its names."""
    if not leaf.issuer:
        yield f"{what} is signed by no CA of ca.crt"
    if leaf.not_after_s <= now_s:
        yield f"{what} expired at {moment(leaf.not_after_s)}"
    if leaf.not_before_s > now_s:
        yield f"{what} is not valid before {moment(leaf.not_before_s)}"


def _covers(hosts: Iterable[str], host: str) -> bool:
    """Whether one of the names is a host's, or has a wildcard for its first label."""
    return not {host, f"*.{host.partition('.')[2]}"}.isdisjoint(hosts)


def moment(seconds: int) -> str:
    """A time as messages have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
