"""What is known of a quorum's certificates: facts of Secrets and nodes, never a key.

An observation may be logged, so nothing here holds a secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kraftquorum_operator.model.tls import TlsLevel

OPERATOR = "operator"
"""The name of the operator's own certificate among those of the pods."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA's certificate."""

    fingerprint: str
    """SHA-256 of its DER, in lower-case hex; so for each fingerprint here."""
    not_before_s: int
    not_after_s: int
    """Seconds since 1970; so for each time here."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate of a node or of the operator, whose key belongs to it."""

    fingerprint: str
    issuer: str
    """Fingerprint of the CA that signed it; empty: none of those beside it in its Secret."""
    not_before_s: int
    not_after_s: int
    uris: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    """DNS names and IP addresses."""

    @property
    def renew_at_s(self) -> int:
        """When two thirds of its lifetime are over."""
        return self.not_before_s + (self.not_after_s - self.not_before_s) * 2 // 3


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A Secret with CAs and certificates, or the ConfigMap with the CAs alone.

    Attributes:
        uid: of the object.
        version: its resourceVersion.
        authorities: the trusted CAs.
        leaves: by the names of pods, and `OPERATOR`.
        faults: why a certificate of it cannot be used, a sentence each.
        marks: the annotations of the operator on it.
    """

    uid: str
    version: str
    authorities: tuple[Authority, ...] = ()
    leaves: tuple[tuple[str, Leaf], ...] = ()
    faults: tuple[str, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()

    @property
    def trusted(self) -> frozenset[str]:
        """Fingerprints of the trusted CAs."""
        return frozenset(authority.fingerprint for authority in self.authorities)

    def leaf(self, name: str) -> Leaf | None:
        """The certificate of a name; None: there is none that can be used."""
        return dict(self.leaves).get(name)


@dataclass(frozen=True, slots=True)
class AuthoritySecret:
    """The Secret `<quorum>-ca`, which only the operator reads.

    Attributes:
        uid: of the object.
        version: its resourceVersion.
        owner_uid: UID of the resource that it was last used for.
        cluster_id: the cluster id in the certificates that it signs.
        signing: the CA that signs; None: it has none that can be used.
        prepared: the CA that signs once all nodes trust it.
        rotation: the last rotation that a person asked for.
        issued_pods: below which ordinal pods may have Certificates of cert-manager; 0: none has.
    """

    uid: str
    version: str
    owner_uid: str = ""
    cluster_id: str = ""
    signing: Authority | None = None
    prepared: Authority | None = None
    rotation: str = ""
    issued_pods: int = 0

    @property
    def authorities(self) -> tuple[Authority, ...]:
        """The CAs that nodes are to trust, by what this Secret has."""
        return tuple(part for part in (self.signing, self.prepared) if part is not None)


@dataclass(frozen=True, slots=True)
class Reissue:
    """What cert-manager was asked to issue again, before the certificate's time.

    Attributes:
        asked: the renewal that the operator asked for last; empty: none.
        replaces: the content of the Secret that it is to replace; empty: there was none.
        since_s: since when cert-manager issues the certificate again; None: it does not.
        failed_at_s: when that failed last; None: it did not fail, or begins again.
        failure: why it failed, as cert-manager says it.
    """

    asked: str = ""
    replaces: str = ""
    since_s: int | None = None
    failed_at_s: int | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A Certificate of cert-manager, and the Secret that cert-manager writes for it.

    Attributes:
        name: of the pod, or `OPERATOR`.
        applied: whether there is the Certificate.
        ready: whether cert-manager reports it as ready.
        since_s: since when it is ready or not.
        message: why it is not ready, as cert-manager says it; empty: it says nothing.
        written: whether there is the Secret.
        foreign: whether another program wrote the Secret.
        faults: why what the Secret holds cannot be used, a sentence each.
        content: SHA-256 of the certificate in the Secret, usable or not; empty: there is none.
        again: whether it is issued again.
    """

    name: str
    applied: bool = False
    ready: bool = False
    since_s: int = 0
    message: str = ""
    written: bool = False
    foreign: bool = False
    faults: tuple[str, ...] = ()
    content: str = ""
    again: Reissue = Reissue()

    @property
    def gone(self) -> bool:
        """Whether there is neither the Certificate nor its Secret."""
        return not self.applied and (not self.written or self.foreign)


@dataclass(frozen=True, slots=True)
class CertManager:
    """What cert-manager has of a quorum.

    Attributes:
        issued: for the operator, and for each pod that may have a Certificate.
        unavailable: a reason and a sentence, if Certificates cannot be read.
        installed: whether the API server knows Certificates.
        issuer: why the issuer cannot sign; empty: it can, or that is not known.
    """

    issued: tuple[IssuedCertificate, ...] = ()
    unavailable: tuple[str, str] | None = None
    installed: bool = True
    issuer: str = ""

    def of(self, name: str) -> IssuedCertificate | None:
        """That of a pod, or of the operator."""
        return next((part for part in self.issued if part.name == name), None)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The objects that hold the certificates of a quorum, as they are now.

    Attributes:
        now_s: the wall clock.
        authority: `<quorum>-ca`; None: there is none.
        nodes: `<quorum>-node-tls`, which the pods mount.
        operator: `<quorum>-operator-tls`.
        clients: `<quorum>-client-ca`.
        source: the Secret of `spec.tls.secretName`, in mode `Secret`; in mode `CertManager` the
            Secrets of cert-manager, as one.
        cert_manager: what cert-manager has; None: neither the mode nor an earlier one is
            `CertManager`.
        unreadable: why they cannot be read; then the parts are missing.
        renewal: the renewal of all certificates that a person asked for last.
        rotation: the rotation of the CA that a person asked for last.
    """

    now_s: int
    authority: AuthoritySecret | None = None
    nodes: KeyStore | None = None
    operator: KeyStore | None = None
    clients: KeyStore | None = None
    source: KeyStore | None = None
    cert_manager: CertManager | None = None
    unreadable: str = ""
    renewal: str = ""
    rotation: str = ""


@dataclass(frozen=True, slots=True)
class ListenerCertificate:
    """What one listener of a node presents and trusts."""

    listener: str
    fingerprint: str
    trusted: frozenset[str] = frozenset()


def highest(levels: Iterable[TlsLevel]) -> TlsLevel:
    """The strictest of some levels; `disabled` without any."""
    present = set(levels)
    if "required" in present:
        return "required"
    return "permissive" if "permissive" in present else "disabled"
