"""What cert-manager's Certificates of a quorum mean: which can be used, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kraftquorum_operator import names
from kraftquorum_operator.judge.leaves import (
    known_cluster_id,
    leaf_faults,
    name_faults,
    needed_pods,
)
from kraftquorum_operator.judge.renewal import PATIENCE_S, why_not_renewed
from kraftquorum_operator.model.certificates import (
    OPERATOR,
    Certificates,
    CertManager,
    IssuedCertificate,
    KeyStore,
    Leaf,
)
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec

Fault = tuple[str, str]
"""A condition's reason, and a sentence."""


def issued_cluster_id(observation: Observation) -> str | None:
    """The cluster id that Certificates are to have; None: not known yet.

    That of an earlier resource counts as long as its claims may hold that quorum.
    """
    facts = observation.certificates
    authority = facts.authority if facts is not None else None
    if authority is None or not authority.cluster_id:
        return None
    known = known_cluster_id(observation)
    return authority.cluster_id if known in {None, authority.cluster_id} else None


def usable_source(observation: Observation) -> KeyStore | None:
    """What cert-manager issued, without the certificates that nodes would refuse."""
    facts, cluster_id = observation.certificates, issued_cluster_id(observation)
    if facts is None or facts.source is None or cluster_id is None:
        return None
    leaves = tuple(
        (name, leaf)
        for name, leaf in facts.source.leaves
        if not any(_content_faults(observation, facts, cluster_id, name, leaf))
    )
    return replace(facts.source, leaves=leaves)


def _content_faults(
    observation: Observation, facts: Certificates, cluster_id: str, name: str, leaf: Leaf
) -> Iterator[str]:
    for fault in name_faults(observation, cluster_id, name, leaf):
        hint = "; the issuer leaves it out, allow it there" if "URI" in fault else ""
        yield f"{fault}{hint}"
    yield from leaf_faults(f"the certificate of {name}", leaf, facts.now_s)


def issuing_faults(spec: QuorumSpec, observation: Observation) -> list[Fault]:
    """Why cert-manager does not issue what the quorum needs, the most important first.

    A certificate that cert-manager was asked for a moment ago is no fault.
    """
    facts = observation.certificates
    if facts is None or facts.cert_manager is None or spec.tls.mode != "CertManager":
        return []
    cert_manager = facts.cert_manager
    if cert_manager.unavailable is not None:
        return [cert_manager.unavailable]
    faults: list[Fault] = []
    if cert_manager.issuer:
        faults.append(("IssuerNotReady", cert_manager.issuer))
    for name in (*needed_pods(spec, observation), OPERATOR):
        issued = cert_manager.of(name)
        if issued is not None:
            faults += _faults_of(observation, facts, issued)
    return faults


def _faults_of(
    observation: Observation, facts: Certificates, issued: IssuedCertificate
) -> Iterator[Fault]:
    what = names.issued(observation.name, issued.name)
    if issued.foreign:
        for fault in issued.faults:
            yield "InvalidSecret", f"Secret {what}: {fault}"
        return
    if not issued.applied or (not issued.ready and facts.now_s - issued.since_s < PATIENCE_S):
        return
    if not issued.ready:
        said = issued.message or "cert-manager says nothing of it; is its controller running?"
        yield "CertificateNotReady", f"Certificate {what} is not ready: {said}"
        return
    for fault in issued.faults:
        yield "InvalidSecret", f"Secret {what}: {fault}"
    cluster_id = issued_cluster_id(observation)
    leaf = facts.source.leaf(issued.name) if facts.source is not None else None
    if leaf is not None and cluster_id is not None:
        for fault in _content_faults(observation, facts, cluster_id, issued.name, leaf):
            yield "InvalidSecret", f"Secret {what}: {fault}"
    if why := why_not_renewed(facts, issued):
        yield "CertificateNotReady", f"Certificate {what} {why}"


def why_not_issuing(spec: QuorumSpec, observation: Observation) -> Fault | None:
    """What is wrong with cert-manager's certificates, as a reason and a sentence; None: nothing.

    It also reports Certificates of an earlier mode that the operator may not delete.
    """
    faults = issuing_faults(spec, observation)
    if faults:
        return faults[0][0], "; ".join(text for _, text in faults)
    facts = observation.certificates
    left = facts.cert_manager if facts is not None else None
    if left is None or spec.tls.mode == "CertManager" or not cannot_look(left):
        return None
    why = left.unavailable[1] if left.unavailable is not None else ""
    return "CertificatesLeft", f"Certificates of cert-manager may be left over: {why}"


def cannot_look(cert_manager: CertManager) -> bool:
    """Whether there may be Certificates that the operator cannot see."""
    return cert_manager.unavailable is not None and cert_manager.installed


def not_issued(spec: QuorumSpec, observation: Observation) -> tuple[str, ...]:
    """The pods that find no certificate in the Secret that they mount."""
    facts = observation.certificates
    store = facts.nodes if facts is not None else None
    pods = needed_pods(spec, observation)
    return tuple(pod for pod in pods if store is None or store.leaf(pod) is None)
