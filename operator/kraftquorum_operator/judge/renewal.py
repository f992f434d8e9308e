"""Certificates that cert-manager is to issue again since a person asked for it. Pure.

The Certificate says which certificate it is to replace, so a crash between two steps loses no
renewal and repeats none. cert-manager itself forgets a request that it could not fulfil.
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.model.certificates import Certificates, IssuedCertificate
from kraftquorum_operator.model.observation import Observation

PATIENCE_S = 60
"""How long cert-manager may take to issue a certificate before the operator reports it."""

RETRY_S = 3600
"""The pause after a failure: the shortest one that cert-manager makes itself."""


def replaced(facts: Certificates, issued: IssuedCertificate) -> str:
    """The content of the Secret that a renewal is to replace; empty: there is none.

    Of a new renewal, it is the one that the Secret has now.
    """
    if not facts.renewal:
        return ""
    return issued.again.replaces if issued.again.asked == facts.renewal else issued.content


def _is_pending(facts: Certificates, issued: IssuedCertificate) -> bool:
    """Whether the Secret still has the certificate that is to be replaced."""
    content = issued.content
    return issued.applied and content != "" and content == replaced(facts, issued)


def to_issue_again(observation: Observation) -> tuple[str, ...]:
    """Whose Certificate the operator has to mark for cert-manager, which then issues it again."""
    facts = observation.certificates
    if facts is None or facts.cert_manager is None:
        return ()
    return tuple(
        issued.name
        for issued in facts.cert_manager.issued
        if _is_pending(facts, issued) and _is_due(facts, issued)
    )


def _is_due(facts: Certificates, issued: IssuedCertificate) -> bool:
    again = issued.again
    if again.since_s is not None:
        return False
    is_new = again.asked != facts.renewal
    return is_new or again.failed_at_s is None or facts.now_s - again.failed_at_s >= RETRY_S


def why_not_renewed(facts: Certificates, issued: IssuedCertificate) -> str:
    """Why a certificate that a person asked for is not there; empty: it is, or may still come."""
    again = issued.again
    if again.asked != facts.renewal or not _is_pending(facts, issued):
        return ""
    if again.failed_at_s is not None:
        why = again.failure or "cert-manager does not say why"
    elif again.since_s is not None and facts.now_s - again.since_s >= PATIENCE_S:
        why = "cert-manager has not answered; is its controller running?"
    else:
        return ""
    return f"is not issued again, as the annotation {names.ANNOTATION_RENEW} asks: {why}"
