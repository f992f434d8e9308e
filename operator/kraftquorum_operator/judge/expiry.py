"""When the certificates of a quorum expire, and which should have been replaced before. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kraftquorum_operator.judge.leaves import moment
from kraftquorum_operator.model.certificates import Authority, Certificates, KeyStore, Leaf
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.spec import QuorumSpec

REASONS = ("Expired", "Expiring", "UnusedCAExpired")
"""The most urgent first: nodes refuse each other; they will; a CA is left over."""

Fault = tuple[str, str]


def expiries(observation: Observation) -> dict[str, int]:
    """When the first certificate of each kind expires, in seconds since 1970."""
    facts = observation.certificates
    if facts is None:
        return {}
    kinds = {"node": _leaves(facts.nodes), "operator": _leaves(facts.operator)}
    return {kind: min(leaf.not_after_s for _, leaf in of) for kind, of in kinds.items() if of}


def ca_expiries(observation: Observation) -> dict[str, int]:
    """When each trusted CA expires, by the short form of its fingerprint."""
    facts = observation.certificates
    return {short(ca): ca.not_after_s for ca in _authorities(facts)} if facts is not None else {}


def next_ca_expiry(observation: Observation) -> int | None:
    """When the next trusted CA expires; if all have expired, when the last did; None: no CA."""
    facts = observation.certificates
    ends = sorted(ca_expiries(observation).values())
    if facts is None or not ends:
        return None
    return next((end for end in ends if end > facts.now_s), ends[-1])


def expiry_faults(spec: QuorumSpec, observation: Observation) -> list[Fault]:
    """What has expired or is late to be replaced: a reason and a sentence, most urgent first."""
    facts = observation.certificates
    if facts is None:
        return []
    leaves = [*_leaves(facts.nodes), *_leaves(facts.operator)]
    faults = [*_late_leaves(spec, facts, leaves), *_late_authorities(spec, facts, leaves)]
    return sorted(faults, key=lambda fault: REASONS.index(fault[0]))


def _late_leaves(
    spec: QuorumSpec, facts: Certificates, leaves: list[tuple[str, Leaf]]
) -> Iterator[Fault]:
    """Certificates whose last sixth has begun, which should have been replaced before.

    If cert-manager renews later than that: those whose renewal is late by half of the rest.
    """
    renew_before_s = spec.tls.renew_before_s
    for name, leaf in leaves:
        is_late = renew_before_s is None or facts.now_s >= leaf.not_after_s - renew_before_s // 2
        if is_late and _in_last_sixth(leaf, facts.now_s):
            yield _ending(f"the certificate of {name}", leaf, facts.now_s)


def _late_authorities(
    spec: QuorumSpec, facts: Certificates, leaves: list[tuple[str, Leaf]]
) -> Iterator[Fault]:
    for ca in _authorities(facts):
        if not _in_last_sixth(ca, facts.now_s):
            continue
        signed = [name for name, leaf in leaves if leaf.issuer == ca.fingerprint]
        reason, text = _ending(f"the CA {short(ca)}", ca, facts.now_s)
        if reason == "Expired" and signed:
            text = f"{text}, and with it the certificates that it signed: {', '.join(signed)}"
        elif reason == "Expired":
            reason, text = (
                "UnusedCAExpired",
                f"{text} and signed none of the present certificates: {_remedy(spec, facts, ca)}",
            )
        yield reason, text


def _remedy(spec: QuorumSpec, facts: Certificates, ca: Authority) -> str:
    provided = facts.source.trusted if facts.source is not None else frozenset[str]()
    if spec.tls.mode == "Secret" and ca.fingerprint in provided:
        return f"remove it from ca.crt of Secret {spec.tls.secret_name}"
    return "the operator removes it once every pod reports the certificate that it has now"


def _ending(what: str, certificate: Authority | Leaf, now_s: int) -> Fault:
    end_s = certificate.not_after_s
    if end_s <= now_s:
        return "Expired", f"{what} expired at {moment(end_s)}"
    return "Expiring", f"{what} expires at {moment(end_s)}"


def _in_last_sixth(certificate: Authority | Leaf, now_s: int) -> bool:
    begin_s, end_s = certificate.not_before_s, certificate.not_after_s
    return now_s >= end_s - (end_s - begin_s) // 6


def _leaves(store: KeyStore | None) -> tuple[tuple[str, Leaf], ...]:
    return store.leaves if store is not None else ()


def _authorities(facts: Certificates) -> tuple[Authority, ...]:
    return facts.nodes.authorities if facts.nodes is not None else ()


def short(ca: Authority) -> str:
    """The begin of a CA's fingerprint, as messages and metrics have it."""
    return ca.fingerprint[:16]
