"""The guards of TLS: certificates that can be used, and nodes that present them."""

from __future__ import annotations

from kraftquorum_operator.judge.cert_manager import not_issued
from kraftquorum_operator.judge.certificates import (
    certificate_faults,
    is_issued,
    not_presenting,
)
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.guard import guard
from kraftquorum_operator.plan.tls_level import why_not_reached


@guard(needs_person=True, formation="blocked")
def certificates_usable(case: Case) -> str | None:
    """The certificates that `spec.tls` names can be used by every node.

    Asked before the operator creates the StatefulSet, forms a quorum or restarts a pod for another
    template. In mode `Secret`, each key must belong to its certificate, a CA of `ca.crt` must have
    signed it, and it must be valid now and name the pod and its identity. Until then the nodes keep
    the certificates that they have, and no pod restarts. In mode `CertManager` a fault blocks only
    while a pod lacks a certificate that is valid: the issuer is missing, cert-manager is not
    installed, or what it issued cannot be used.
    """
    faults = "; ".join(certificate_faults(case.spec, case.observation))
    return f"{faults}; the operator changes no pod until this is fixed" if faults else None


@guard(formation="waits")
def certificates_issued(case: Case) -> str | None:
    """Every pod that is to be has its certificate in the Secret that the pods mount.

    Asked in mode `CertManager` before the operator creates the StatefulSet or adds a pod: the pod
    cannot start without the certificate.
    """
    statefulset, facts = case.observation.statefulset, case.observation.certificates
    if case.spec.tls.mode != "CertManager" or facts is None or facts.authority is None:
        return None
    plain = statefulset is not None and statefulset.tls == "disabled"
    if plain or is_issued(case.spec, case.observation):
        return None
    pods = ", ".join(not_issued(case.spec, case.observation)) or "the operator"
    return f"cert-manager has not issued yet for: {pods}"


@guard(formation="waits")
def certificates_presented(case: Case) -> str | None:
    """Every node presents the certificate of its Secret, with the cluster id to be.

    Asked before the operator forms a quorum whose nodes speak TLS.
    """
    statefulset, facts = case.observation.statefulset, case.observation.certificates
    if statefulset is None or statefulset.tls == "disabled" or facts is None:
        return None
    waiting = not_presenting(case.observation)
    if waiting:
        return f"not presenting the certificate of their Secret: {', '.join(waiting)}"
    if case.spec.tls.mode == "Secret" or facts.authority is None:
        return None
    ours = facts.authority.owner_uid == case.observation.uid
    return None if ours else "the CA belongs to an earlier resource of this name"


@guard()
def tls_level_reached(case: Case) -> str | None:
    """The nodes accept what `spec.tls` says.

    From plain connections to TLS alone, and back, the operator restarts the nodes twice: in between
    they accept both. The second restart begins when no node has the settings before the first, and
    when each presents its certificate.
    """
    why = why_not_reached(case)
    if why is None or case.observation.statefulset is None:
        return None
    now, wanted = case.observation.statefulset.tls, case.spec.tls.level
    return f"TLS is {now} and is to be {wanted}: {why}"
