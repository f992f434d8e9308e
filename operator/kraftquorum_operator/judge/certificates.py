"""What the certificates of a quorum mean: who presents and trusts what, and what is wrong. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kraftquorum_operator import names
from kraftquorum_operator.judge.cert_manager import issuing_faults, why_not_issuing
from kraftquorum_operator.judge.expiry import expiry_faults
from kraftquorum_operator.judge.leaves import (
    known_cluster_id,
    leaf_faults,
    name_faults,
    needed_pods,
)
from kraftquorum_operator.model.certificates import OPERATOR, Certificates, KeyStore
from kraftquorum_operator.model.observation import Observation, Pod
from kraftquorum_operator.model.spec import QuorumSpec

Check = Callable[[frozenset[str], str], bool]
"""Asked of each listener: the CAs that it trusts, and the certificate that it presents."""

_NODE = re.compile(rf"{re.escape(names.SPIFFE)}/([A-Za-z0-9][A-Za-z0-9_-]{{0,63}})/node/(\d+)")


def tls_pods(observation: Observation) -> list[Pod]:
    """The pods whose node may present or trust a certificate now.

    A pod that has not started yet reads the Secret as it is then.
    """
    return [pod for pod in observation.pods if pod.tls != "disabled" and not pod.never_started]


def not_trusting(observation: Observation, authority: str) -> list[str]:
    """The pods that do not report that they trust a CA on every listener.

    A node that does not answer may still run with the files that it read last.
    """
    return [
        pod.name
        for pod in tls_pods(observation)
        if not _reports(observation, pod, lambda trusted, _: authority in trusted)
    ]


def not_presenting(observation: Observation) -> list[str]:
    """The pods that do not report that they present the certificate that their Secret has."""
    store = observation.certificates.nodes if observation.certificates is not None else None
    waiting: list[str] = []
    for pod in tls_pods(observation):
        leaf = store.leaf(pod.name) if store is not None else None
        wanted = leaf.fingerprint if leaf is not None else None
        if not _reports(observation, pod, lambda _, shown, wanted=wanted: shown == wanted):
            waiting.append(pod.name)
    return waiting


def _reports(observation: Observation, pod: Pod, holds: Check) -> bool:
    node = observation.node(pod.ordinal)
    listeners = node.certificates if node is not None else ()
    return bool(listeners) and all(holds(part.trusted, part.fingerprint) for part in listeners)


def store_cluster_id(store: KeyStore | None) -> str | None:
    """The cluster id in the certificates of a store; None: they have none, or several."""
    identities = {
        match.group(1)
        for name, leaf in (store.leaves if store is not None else ())
        if name != OPERATOR
        for uri in leaf.uris
        if (match := _NODE.fullmatch(uri))
    }
    return identities.pop() if len(identities) == 1 else None


def reserved_cluster_id(spec: QuorumSpec, observation: Observation) -> str | None:
    """The cluster id that a new quorum gets, since its nodes' certificates have it."""
    statefulset = observation.statefulset
    if statefulset is None or statefulset.tls == "disabled":
        return None
    return certified_cluster_id(spec, observation)


def certified_cluster_id(spec: QuorumSpec, observation: Observation) -> str | None:
    """The cluster id that the certificates name, whether a node has them or not."""
    facts = observation.certificates
    if facts is None:
        return None
    if spec.tls.mode == "Secret":
        return store_cluster_id(facts.nodes)
    authority = facts.authority
    return (authority.cluster_id or None) if authority is not None else None


def is_issued(spec: QuorumSpec, observation: Observation) -> bool:
    """Whether every pod finds its certificate in the Secret that it mounts."""
    facts = observation.certificates
    store = facts.nodes if facts is not None else None
    if facts is None or store is None or facts.operator is None:
        return False
    pods = needed_pods(spec, observation)
    return bool(store.authorities) and all(store.leaf(pod) is not None for pod in pods)


def _has_expired(facts: Certificates) -> bool:
    leaves = facts.nodes.leaves if facts.nodes is not None else ()
    return any(leaf.not_after_s <= facts.now_s for _, leaf in leaves)


def certificate_faults(spec: QuorumSpec, observation: Observation) -> tuple[str, ...]:
    """Why the certificates that the resource names cannot be used, a sentence each."""
    facts = observation.certificates
    if facts is None or spec.tls.mode == "Disabled":
        return ()
    where = f"spec.tls.secretName: Secret {spec.tls.secret_name}"
    if facts.unreadable:
        field = where if spec.tls.mode == "Secret" else f"spec.tls.mode: {spec.tls.mode}"
        why = f"the Secrets with the certificates cannot be read: {facts.unreadable}"
        return (f"{field}: {why}",)
    if spec.tls.mode == "CertManager":
        # What the pods mount was checked before; only what they lack depends on cert-manager.
        usable = is_issued(spec, observation) and not _has_expired(facts)
        return () if usable else tuple(text for _, text in issuing_faults(spec, observation))
    if spec.tls.mode != "Secret":
        return ()
    if facts.source is None:
        return (f"{where} does not exist; create it with ca.crt, tls.crt and tls.key",)
    if facts.source.faults:
        return tuple(f"{where}: {fault}" for fault in facts.source.faults)
    faults = _source_faults(spec, observation, facts.source)
    return tuple(f"{where}: {fault}" for fault in faults)


def _source_faults(spec: QuorumSpec, observation: Observation, source: KeyStore) -> Iterator[str]:
    facts = observation.certificates
    now_s = facts.now_s if facts is not None else 0
    cluster_id = known_cluster_id(observation) or store_cluster_id(source)
    if cluster_id is None:
        identity = names.node_identity("<cluster id>", 0)
        yield (
            f"its certificates name no cluster id, or several; each needs a URI such as {identity}"
        )
        return
    for name in needed_pods(spec, observation):
        leaf = source.leaf(name)
        if leaf is None:
            yield f"it has neither {name}.crt nor tls.crt"
            return
        yield from name_faults(observation, cluster_id, name, leaf)
        yield from leaf_faults(f"the certificate of {name}", leaf, now_s)
    operator = source.leaf(OPERATOR)
    if operator is not None:
        yield from leaf_faults("operator.crt", operator, now_s)


def why_failing(spec: QuorumSpec, observation: Observation) -> tuple[str, str] | None:
    """What is wrong with the certificates, as a reason and a sentence; None: nothing."""
    facts = observation.certificates
    if facts is None:
        return None
    faults = certificate_faults(spec, observation)
    if facts.unreadable and faults:
        return "Unreadable", "; ".join(faults)
    if why := why_not_issuing(spec, observation):
        return why
    if faults:
        return "InvalidSecret", "; ".join(faults)
    faults_of_time = expiry_faults(spec, observation)
    if not faults_of_time:
        return None
    return faults_of_time[0][0], "; ".join(text for _, text in faults_of_time)
