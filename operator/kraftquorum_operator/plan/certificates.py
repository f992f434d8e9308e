"""Certificates, step by step: issued, renewed, and moved from one CA to the next with overlap.

No step is remembered. Each follows from the Secrets and from what the nodes present and trust:

1. The next CA is made, and trusted beside the other.
2. Once every node reports that it trusts the next CA, that CA signs.
3. The certificates of nodes and operator are issued by it.
4. Once every node presents its new certificate, the old CA is not trusted any more.

Certificates that a person or cert-manager provides move by steps 1, 3 and 4, whichever of them
changes.
What must not live here: a key, or a request.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftquorum_operator import names
from kraftquorum_operator.judge.cert_manager import cannot_look, usable_source
from kraftquorum_operator.judge.certificates import (
    certificate_faults,
    not_presenting,
    not_trusting,
    store_cluster_id,
)
from kraftquorum_operator.judge.leaves import known_cluster_id, needed_pods, wanted_leaf
from kraftquorum_operator.model.certificates import (
    OPERATOR,
    AuthoritySecret,
    Certificates,
    KeyStore,
    Leaf,
)
from kraftquorum_operator.plan.actions import (
    Action,
    ChangeAuthority,
    CreateAuthority,
    IssueCertificates,
)
from kraftquorum_operator.plan.case import Case


def certificates(case: Case) -> Action | None:
    """The next step; None: the certificates are as they should be, or a step has to wait."""
    facts, mode = case.observation.certificates, case.spec.tls.mode
    if facts is None or facts.unreadable:
        return None
    if mode == "CertManager":
        return _delegate(case, facts) or _copy(case, facts, usable_source(case.observation))
    counted = _count(facts, 0)
    if counted is not None or certificate_faults(case.spec, case.observation):
        return counted
    if mode == "Secret":
        return _copy(case, facts, facts.source)
    if mode == "Managed" or _is_signed_by(facts.nodes, facts.authority):
        return _authority(case, facts) or _issue(case, facts)
    return None


def _is_signed_by(store: KeyStore | None, authority: AuthoritySecret | None) -> bool:
    """Whether the operator's CA signed the certificates that are in use while TLS ends."""
    if store is None or authority is None:
        return False
    ours = {part.fingerprint for part in authority.authorities}
    return any(leaf.issuer in ours for _, leaf in store.leaves)


# --- cert-manager ----------------------------------------------------------------------------


def _delegate(case: Case, facts: Certificates) -> Action | None:
    """Record which cluster id the Certificates have, and how many there may be.

    `compare` then writes them, and deletes those of pods that are gone.
    """
    known, authority = known_cluster_id(case.observation), facts.authority
    if facts.cert_manager is None or facts.cert_manager.unavailable is not None:
        return None
    if authority is None:
        known = known or store_cluster_id(facts.nodes)
        unknown = known is None and _may_be_earlier(case)
        return None if unknown else CreateAuthority(known, signs=False)
    pods = len(needed_pods(case.spec, case.observation))
    return _identify(case, authority, known) or _count(facts, pods)


def _count(facts: Certificates, wanted: int) -> Action | None:
    """Raise the number of pods before their Certificates; lower it once these are gone."""
    authority, cert_manager = facts.authority, facts.cert_manager
    if authority is None or cert_manager is None or authority.issued_pods == wanted:
        return None
    pods = set(range(wanted))
    excess = [
        part
        for part in cert_manager.issued
        if part.name == OPERATOR or int(part.name.rpartition("-")[2]) not in pods
    ]
    if wanted:
        excess = [part for part in excess if part.name != OPERATOR]
    left = cannot_look(cert_manager) or any(not part.gone for part in excess)
    if authority.issued_pods > wanted and left:
        return None
    return ChangeAuthority("count", authority.uid, authority.version, pods=wanted)


# --- the CA ----------------------------------------------------------------------------------


def _authority(case: Case, facts: Certificates) -> Action | None:
    known, authority = known_cluster_id(case.observation), facts.authority
    if authority is None:
        known = known or store_cluster_id(facts.nodes)
        return None if known is None and _may_be_earlier(case) else CreateAuthority(known)
    if authority.signing is None or authority.signing.not_after_s <= facts.now_s:
        # No node accepts what it has signed, so none has to trust the next one before.
        prepared = authority.prepared
        ready = prepared is not None and prepared.not_after_s > facts.now_s
        return ChangeAuthority("promote" if ready else "renew", authority.uid, authority.version)
    return _identify(case, authority, known) or _rotate(case, facts, authority)


def _may_be_earlier(case: Case) -> bool:
    """Whether replicas may belong to a quorum whose cluster id is not known yet."""
    return case.observation.statefulset is not None or any(
        not claim.foreign_owner for claim in case.observation.claims
    )


def _identify(case: Case, authority: AuthoritySecret, known: str | None) -> Action | None:
    """Have the certificates name this quorum.

    The CA of an earlier resource names the quorum that its claims may hold. If they turn out to
    hold none, the new quorum gets a cluster id of its own (S18).
    """
    ours = authority.owner_uid == case.observation.uid and bool(authority.cluster_id)
    if known is not None:
        done = ours and authority.cluster_id == known
    else:
        done = ours or (_may_be_earlier(case) and not _is_blank(case))
    if done:
        return None
    return ChangeAuthority("identify", authority.uid, authority.version, known)


def _is_blank(case: Case) -> bool:
    """Whether every replica answers and none belongs to a quorum."""
    nodes, statefulset = case.observation.nodes, case.observation.statefulset
    replicas = statefulset.replicas if statefulset is not None else 0
    return 0 < replicas <= len(nodes) and all(node.blank for node in nodes)


def _rotate(case: Case, facts: Certificates, authority: AuthoritySecret) -> Action | None:
    signing, prepared, nodes = authority.signing, authority.prepared, facts.nodes
    if signing is None or nodes is None:
        return None
    if prepared is not None:
        trusted = _is_trusted(facts, prepared.fingerprint)
        if trusted and not not_trusting(case.observation, prepared.fingerprint):
            return ChangeAuthority("promote", authority.uid, authority.version)
        return None
    life_s = signing.not_after_s - signing.not_before_s
    due = facts.now_s >= signing.not_before_s + life_s * 2 // 3
    if (due or facts.rotation != authority.rotation) and nodes.trusted == frozenset(
        {signing.fingerprint}
    ):
        return ChangeAuthority("prepare", authority.uid, authority.version)
    return None


def _is_trusted(facts: Certificates, fingerprint: str) -> bool:
    """Whether nodes, operator and clients get a CA."""
    stores = (facts.nodes, facts.operator, facts.clients)
    return all(store is not None and fingerprint in store.trusted for store in stores)


# --- the certificates ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the Secrets are to hold in the end."""

    authorities: frozenset[str]
    cluster_id: str
    outdated: tuple[str, ...]
    """Whose certificate is not the wanted one, or is to be renewed."""
    pods: tuple[str, ...]
    versions: tuple[str, ...]


def _issue(case: Case, facts: Certificates) -> Action | None:
    authority = facts.authority
    if authority is None or authority.signing is None:
        return None
    pods = needed_pods(case.spec, case.observation)
    signer = authority.signing.fingerprint
    outdated = tuple(name for name in (*pods, OPERATOR) if _is_outdated(case, facts, name, signer))
    return _distribute(
        case,
        facts,
        _Wanted(
            frozenset(part.fingerprint for part in authority.authorities),
            authority.cluster_id,
            outdated,
            pods,
            (authority.version,),
        ),
    )


def _is_outdated(case: Case, facts: Certificates, name: str, signer: str) -> bool:
    authority, store = facts.authority, facts.operator if name == OPERATOR else facts.nodes
    leaf = store.leaf(name) if store is not None else None
    if leaf is None or store is None or authority is None:
        # A pod cannot start without; the operator is admitted without, but not with an unknown CA.
        return name != OPERATOR or not not_trusting(case.observation, signer)
    if leaf.issuer != signer:
        # Replaced only once every node trusts the CA that signs now.
        return leaf.not_after_s <= facts.now_s or not not_trusting(case.observation, signer)
    wanted = wanted_leaf(case.observation, authority.cluster_id, name)
    return (
        facts.now_s >= leaf.renew_at_s
        or dict(store.marks).get(names.ANNOTATION_RENEW, "") != facts.renewal
        or leaf.uris != wanted.uris
        or leaf.hosts != wanted.hosts
    )


def _copy(case: Case, facts: Certificates, source: KeyStore | None) -> Action | None:
    cluster_id = known_cluster_id(case.observation) or store_cluster_id(source)
    if source is None or cluster_id is None or not source.authorities:
        return None
    pods = needed_pods(case.spec, case.observation)
    outdated = tuple(
        name
        for name in (*pods, OPERATOR)
        if (leaf := source.leaf(name)) is not None and _is_other(case, facts, name, leaf)
    )
    return _distribute(
        case, facts, _Wanted(source.trusted, cluster_id, outdated, pods, (source.version,))
    )


def _is_other(case: Case, facts: Certificates, name: str, leaf: Leaf) -> bool:
    """Whether a provided certificate is new, and the nodes accept it already."""
    store = facts.operator if name == OPERATOR else facts.nodes
    current = store.leaf(name) if store is not None else None
    if current is None:
        return name != OPERATOR or not not_trusting(case.observation, leaf.issuer)
    if current.not_after_s <= facts.now_s:
        return True
    if current.fingerprint == leaf.fingerprint:
        return False
    return current.issuer == leaf.issuer or not not_trusting(case.observation, leaf.issuer)


def _distribute(case: Case, facts: Certificates, wanted: _Wanted) -> Action | None:
    """Write the CAs and certificates; a CA goes only when nothing depends on it."""
    present = dict(facts.nodes.leaves) if facts.nodes is not None else {}
    dropped = (*sorted(set(present) - set(wanted.pods)), *_dropped_operator(case, facts, wanted))
    extra = frozenset[str]()
    if facts.nodes is not None and _depends_on_others(case, facts, wanted):
        extra = facts.nodes.trusted - wanted.authorities
    authorities = wanted.authorities | extra
    stores = (facts.nodes, facts.operator, facts.clients)
    trusting = all(store is not None and store.trusted == authorities for store in stores)
    if trusting and not wanted.outdated and not dropped:
        return None
    return IssueCertificates(
        authorities,
        wanted.outdated,
        dropped,
        wanted.cluster_id,
        (*wanted.versions, *_versions(facts)),
        _reason(wanted.outdated, trusting=trusting),
    )


def _dropped_operator(case: Case, facts: Certificates, wanted: _Wanted) -> tuple[str, ...]:
    """The operator's own certificate, if a person provides none and its CA is not trusted."""
    leaf = facts.operator.leaf(OPERATOR) if facts.operator is not None else None
    if leaf is None or OPERATOR in wanted.outdated or facts.source is None:
        return ()
    if case.spec.tls.mode == "CertManager":
        # It may be about to be issued again.
        return ()
    provided = facts.source.leaf(OPERATOR) is not None
    return () if provided or leaf.issuer in wanted.authorities else (OPERATOR,)


def _versions(facts: Certificates) -> tuple[str, ...]:
    return tuple(
        store.version if store is not None else "" for store in (facts.nodes, facts.operator)
    )


def _reason(outdated: tuple[str, ...], *, trusting: bool) -> str:
    certificates_of = f"certificates of {', '.join(outdated)}" if outdated else ""
    return "; ".join(filter(None, (certificates_of, "" if trusting else "trusted CAs")))


def _depends_on_others(case: Case, facts: Certificates, wanted: _Wanted) -> bool:
    """Whether a certificate in use is signed by a CA that is not wanted any more.

    A node that does not report the certificate of its Secret may present any earlier one.
    """
    if (
        wanted.outdated
        or _dropped_operator(case, facts, wanted)
        or not_presenting(case.observation)
    ):
        return True
    leaves = [
        leaf
        for store in (facts.nodes, facts.operator)
        if store is not None
        for name, leaf in store.leaves
        if name == OPERATOR or name in wanted.pods
    ]
    return any(leaf.issuer not in wanted.authorities for leaf in leaves)
