"""Observations of a quorum that speaks TLS: what its Secrets hold, what its nodes present."""

from __future__ import annotations

from dataclasses import replace

from kraftquorum_operator import names
from kraftquorum_operator.judge.leaves import needed_pods, wanted_leaf
from kraftquorum_operator.model.certificates import (
    OPERATOR,
    Authority,
    AuthoritySecret,
    Certificates,
    KeyStore,
    Leaf,
    ListenerCertificate,
)
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.tls import TlsLevel
from proofkit.operatorworld.observations import CLUSTER, UID

DAY_S = 86_400
NOW_S = 100 * DAY_S
MARKS = ((names.ANNOTATION_RENEW, ""),)


def authority(name: str = "first") -> Authority:
    """A CA that is valid for a year."""
    return Authority(name, NOW_S - DAY_S, NOW_S + 365 * DAY_S)


def leaf(observation: Observation, name: str, issuer: str = "first") -> Leaf:
    """The certificate of a pod or of the operator, as the operator issues it for a week."""
    wanted = wanted_leaf(observation, CLUSTER, name)
    return Leaf(
        f"{name} by {issuer}",
        issuer,
        NOW_S - DAY_S,
        NOW_S + 6 * DAY_S,
        uris=wanted.uris,
        hosts=wanted.hosts,
    )


def certificates(observation: Observation, issuer: str = "first") -> Certificates:
    """The Secrets of a quorum whose certificates are all issued by one CA."""
    first = authority(issuer)
    pods = needed_pods(QuorumSpec(), observation)
    return Certificates(
        now_s=NOW_S,
        authority=AuthoritySecret("ca", "1", UID, CLUSTER, first),
        nodes=KeyStore(
            "nodes",
            "1",
            (first,),
            tuple((pod, leaf(observation, pod, issuer)) for pod in pods),
            marks=MARKS,
        ),
        operator=KeyStore(
            "operator", "1", (first,), ((OPERATOR, leaf(observation, OPERATOR, issuer)),), (), MARKS
        ),
        clients=KeyStore("clients", "1", (first,)),
    )


def certified(
    observation: Observation, level: TlsLevel, *, presented: bool = True, issuer: str = "first"
) -> Observation:
    """The same quorum with TLS.

    Args:
        observation: of a quorum without.
        level: of the template and of all pods.
        presented: whether the nodes present the certificates of their Secret.
        issuer: the CA of all certificates.
    """
    statefulset = observation.statefulset
    shown = {
        ordinal: tuple(
            ListenerCertificate(
                listener,
                f"{names.pod('demo', ordinal)} by {issuer}" if presented else "another",
                frozenset({issuer}),
            )
            for listener in ("peer", "api")
        )
        for ordinal in range(names.NODES_MAX)
    }
    return replace(
        observation,
        statefulset=replace(statefulset, tls=level) if statefulset is not None else None,
        pods=tuple(replace(pod, tls=level) for pod in observation.pods),
        nodes=tuple(
            replace(node, certificates=shown[node.replica.node_id]) for node in observation.nodes
        ),
        certificates=certificates(observation, issuer),
    )
