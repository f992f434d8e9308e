"""Which Certificates of cert-manager a quorum is to have, and which ones nothing needs. Pure."""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.judge.cert_manager import cannot_look, issued_cluster_id
from kraftquorum_operator.judge.leaves import needed_pods, wanted_leaf
from kraftquorum_operator.judge.renewal import replaced
from kraftquorum_operator.model.certificates import OPERATOR, Certificates, IssuedCertificate
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.cert_manager import certificate


def wanted_certificates(owner: Owner, spec: QuorumSpec, facts: Observation) -> list[Body]:
    """All Certificates of a quorum in mode `CertManager`.

    None while it is not known which cluster id they have, or whether there are Certificates at all,
    and none in place of a Secret that another program wrote.
    """
    certificates, cluster_id = facts.certificates, issued_cluster_id(facts)
    if spec.tls.mode != "CertManager" or certificates is None or cluster_id is None:
        return []
    authority, cert_manager = certificates.authority, certificates.cert_manager
    if authority is None or cert_manager is None or cert_manager.unavailable is not None:
        return []
    pods = needed_pods(spec, facts)[: authority.issued_pods]
    issued = {name: cert_manager.of(name) for name in (*pods, OPERATOR) if authority.issued_pods}
    return [
        _marked(_body(owner, spec, facts, cluster_id, name), _marks(certificates, part))
        for name, part in issued.items()
        if part is None or not part.foreign
    ]


def _body(owner: Owner, spec: QuorumSpec, facts: Observation, cluster_id: str, name: str) -> Body:
    leaf = wanted_leaf(facts, cluster_id, name)
    return certificate(owner, spec.tls, name, leaf.uris, leaf.hosts)


def _marked(body: Body, marks: dict[str, str]) -> Body:
    return body | {"metadata": body["metadata"] | {"annotations": marks}} if marks else body


def _marks(facts: Certificates, part: IssuedCertificate | None) -> dict[str, str]:
    """Which renewal a Certificate is for. A Certificate that is not there yet replaces none."""
    if not facts.renewal:
        return {}
    old = replaced(facts, part) if part is not None and part.applied else ""
    replaces = {names.ANNOTATION_REPLACES: old} if old else {}
    return {names.ANNOTATION_RENEW: facts.renewal} | replaces


def unwanted_certificates(spec: QuorumSpec, facts: Observation) -> frozenset[str]:
    """The names of the Certificates and Secrets of cert-manager that nothing needs any more."""
    certificates = facts.certificates
    cert_manager = certificates.cert_manager if certificates is not None else None
    if cert_manager is None or cannot_look(cert_manager):
        return frozenset()
    needed = (*needed_pods(spec, facts), OPERATOR)
    wanted = needed if spec.tls.mode == "CertManager" else ()
    return frozenset(
        names.issued(facts.name, part.name)
        for part in cert_manager.issued
        if part.name not in wanted
    )
