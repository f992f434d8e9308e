"""Reads what cert-manager has of a quorum: Certificates, their Secrets, and the issuer, by name.

The Secrets count as one source, as if a person had provided all of it in one Secret. What must not
live here: a decision on what a certificate has to have.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.clients.cache import KubeReader
from kraftquorum_operator.clients.handshake import why_refused
from kraftquorum_operator.errors import KubeError, NotFoundError, RefusedError
from kraftquorum_operator.model.certificates import (
    OPERATOR,
    Authority,
    Certificates,
    CertManager,
    IssuedCertificate,
    KeyStore,
    Leaf,
    Reissue,
)
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.tls import CERT_MANAGER_GROUP, IssuerReference, QuorumTls
from kraftquorum_operator.observe.certificates import CA, data_of, read_store

CERTIFICATE_NAME = "cert-manager.io/certificate-name"
"""cert-manager's annotation on each Secret that it writes."""

Answer = Body | KubeError | None


@dataclass(frozen=True, slots=True)
class ReadIssued:
    """What was read: facts, the Secrets as one source, and the objects.

    Without the Secrets that another program wrote.
    """

    facts: CertManager | None = None
    source: KeyStore | None = None
    bodies: tuple[Body, ...] = ()


def issued_names(quorum: str, pods: int) -> tuple[str, ...]:
    """The operator, and the pods below an ordinal."""
    return OPERATOR, *(names.pod(quorum, ordinal) for ordinal in range(pods))


async def read_issued(
    kube: KubeReader, owner: Owner, tls: QuorumTls, certificates: Certificates | None
) -> ReadIssued:
    """Read it, if the resource or an earlier state of it uses cert-manager.

    Whatever cannot be read is a fact: it must not hold back the quorum.
    """
    authority = certificates.authority if certificates is not None else None
    pods = authority.issued_pods if authority is not None else 0
    if certificates is None or certificates.unreadable:
        return ReadIssued()
    if tls.mode != "CertManager" and not pods:
        return ReadIssued()
    wanted = issued_names(owner.name, pods)
    objects = [names.issued(owner.name, name) for name in wanted]
    # Certificates first: cert-manager writes a Secret before it reports the end of the renewal.
    resources = await asyncio.gather(*(_get(kube, "Certificate", owner, name) for name in objects))
    secrets, issuer = await asyncio.gather(
        asyncio.gather(*(_get(kube, "Secret", owner, name) for name in objects)),
        _why_no_issuer(kube, owner, tls.issuer_ref),
    )
    bodies = [body for body in resources if isinstance(body, dict)]
    stores: dict[str, KeyStore] = {}
    issued: list[IssuedCertificate] = []
    for name, resource, secret in zip(wanted, resources, secrets, strict=True):
        facts = _read_secret(
            _read_resource(name, resource, certificates.now_s),
            secret,
            names.issued(owner.name, name),
        )
        if isinstance(secret, dict) and not facts.foreign:
            stores[name] = read_issued_secret(name, secret)
            facts = replace(facts, faults=stores[name].faults, content=_content(secret))
            bodies.append(secret)
        issued.append(facts)
    unavailable = next((_why_unavailable(a) for a in resources if isinstance(a, KubeError)), None)
    return ReadIssued(
        CertManager(
            tuple(issued),
            unavailable,
            not any(isinstance(answer, NotFoundError) for answer in resources),
            issuer,
        ),
        _as_one(stores) if tls.mode == "CertManager" else None,
        tuple(bodies),
    )


async def _get(kube: KubeReader, kind: str, owner: Owner, name: str) -> Answer:
    try:
        return await kube.get(kind, owner.namespace, name)
    except KubeError as error:
        return error


def _why_unavailable(error: KubeError) -> tuple[str, str]:
    if isinstance(error, NotFoundError):
        return "CertManagerMissing", (
            "tls.mode is CertManager, and the API server does not know Certificates of "
            f"{CERT_MANAGER_GROUP}/v1; install cert-manager with its CRDs, or set another tls.mode"
        )
    if isinstance(error, RefusedError):
        return "CertManagerForbidden", (
            f"the operator may not read Certificates of cert-manager: {error}; install the chart "
            "with rbac.certManager=true"
        )
    return "CertManagerUnavailable", f"Certificates of cert-manager cannot be read: {error}"


def _read_resource(name: str, body: Answer, now_s: int) -> IssuedCertificate:
    if not isinstance(body, dict):
        return IssuedCertificate(name)
    generation = int(body["metadata"].get("generation") or 0)
    status = cast("Body", body.get("status") or {})
    conditions = {str(c["type"]): c for c in cast("list[Body]", status.get("conditions") or [])}
    condition, issuing = conditions.get("Ready", {}), conditions.get("Issuing", {})
    since = condition.get("lastTransitionTime") or body["metadata"].get("creationTimestamp")
    again = _read_reissue(body, issuing)
    said = [str(condition.get("message") or ""), again.failure]
    if condition and int(condition.get("observedGeneration") or generation) < generation:
        # cert-manager has not seen the last change yet.
        return IssuedCertificate(name, applied=True, since_s=now_s, again=again)
    return IssuedCertificate(
        name,
        applied=True,
        ready=condition.get("status") == "True",
        since_s=_seconds(since),
        message="; ".join(filter(None, said))[:500],
        again=again,
    )


def _read_reissue(body: Body, issuing: Body) -> Reissue:
    """What the operator asked for, and what the condition Issuing says of it."""
    annotations = cast("dict[str, str]", body["metadata"].get("annotations") or {})
    asked = Reissue(
        annotations.get(names.ANNOTATION_RENEW, ""), annotations.get(names.ANNOTATION_REPLACES, "")
    )
    changed_s = _seconds(issuing.get("lastTransitionTime"))
    if issuing.get("status") == "True":
        return replace(asked, since_s=changed_s)
    if issuing.get("status") == "False":
        # After a failure or a refusal; cert-manager takes the condition away after a success.
        return replace(
            asked, failed_at_s=changed_s, failure=str(issuing.get("message") or "")[:500]
        )
    return asked


def _seconds(moment: object) -> int:
    """A time of Kubernetes, in seconds since 1970; 0: there is none."""
    return int(datetime.fromisoformat(str(moment)).timestamp()) if moment else 0


def _read_secret(facts: IssuedCertificate, secret: Answer, name: str) -> IssuedCertificate:
    if isinstance(secret, KubeError):
        return replace(facts, written=True, foreign=True, faults=(f"it cannot be read: {secret}",))
    if secret is None:
        return facts
    annotations = cast("dict[str, str]", secret["metadata"].get("annotations") or {})
    if annotations.get(CERTIFICATE_NAME) == name:
        return replace(facts, written=True)
    fault = "it exists already and is not cert-manager's; delete it or rename the resource"
    return replace(facts, written=True, foreign=True, faults=(fault,))


def read_issued_secret(name: str, body: Body) -> KeyStore:
    """Facts of a Secret of cert-manager; its faults are why nodes would refuse what it holds.

    Args:
        name: of the pod, or `OPERATOR`.
        body: of the Secret.
    """
    data = data_of(body)
    if not data.get("tls.crt"):
        return replace(read_store(body, {}), faults=("it has no certificate yet",))
    if not data.get(CA):
        fault = (
            f"it has no {CA}: the issuer does not say its CA; use an issuer that does, such as a "
            "CA issuer"
        )
        return replace(read_store(body, {}), faults=(fault,))
    store = read_store(body, {name: "tls"})
    if store.faults:
        return store
    why = why_refused(data[CA], data["tls.crt"] + b"\n" + data["tls.key"])
    return replace(store, faults=(f"nodes would refuse tls.crt: {why}",)) if why else store


def _content(secret: Body) -> str:
    """By what a renewal is recognized: a certificate that cannot be used is to be replaced, too."""
    certificate = data_of(secret).get("tls.crt", b"")
    return hashlib.sha256(certificate).hexdigest() if certificate else ""


def _as_one(stores: Mapping[str, KeyStore]) -> KeyStore:
    """All Secrets without a fault, as one with all CAs and certificates."""
    authorities: dict[str, Authority] = {}
    leaves: list[tuple[str, Leaf]] = []
    for store in stores.values():
        if not store.faults:
            authorities |= {part.fingerprint: part for part in store.authorities}
            leaves += store.leaves
    versions = {name: store.version for name, store in stores.items()}
    return KeyStore("", joined(versions), tuple(authorities.values()), tuple(leaves))


def joined(versions: Mapping[str, str]) -> str:
    """The versions of several Secrets as one."""
    return " ".join(f"{name}={version}" for name, version in sorted(versions.items()))


def as_one_secret(secrets: Mapping[str, Body]) -> tuple[dict[str, bytes], str]:
    """The entries of several Secrets as those of one, and the version of it.

    Args:
        secrets: by the name of the pod, or `OPERATOR`.

    Returns:
        `ca.crt` with all CAs, and a certificate and a key for each name.
    """
    data: dict[str, bytes] = {CA: b""}
    for name, body in secrets.items():
        entries = data_of(body)
        data[CA] += entries.get(CA, b"") + b"\n"
        data |= {f"{name}.{kind}": entries.get(f"tls.{kind}", b"") for kind in ("crt", "key")}
    versions = {name: str(body["metadata"]["resourceVersion"]) for name, body in secrets.items()}
    return data, joined(versions)


async def _why_no_issuer(kube: KubeReader, owner: Owner, wanted: IssuerReference | None) -> str:
    """Why an issuer cannot sign; empty if it can, or if the operator may not look."""
    if wanted is None or wanted.group != CERT_MANAGER_GROUP:
        return ""
    what = f"{wanted.kind} {wanted.name}"
    try:
        body = await kube.get(wanted.kind, owner.namespace, wanted.name)
    except KubeError:
        return ""
    if body is None:
        where = f" in namespace {owner.namespace}" if wanted.kind == "Issuer" else ""
        return f"there is no {what}{where}; create it, or correct tls.issuerRef"
    status = cast("Body", body.get("status") or {})
    for condition in cast("list[Body]", status.get("conditions") or []):
        if condition.get("type") == "Ready" and condition.get("status") == "False":
            return f"{what} is not ready: {condition.get('message') or condition.get('reason')}"
    return ""
