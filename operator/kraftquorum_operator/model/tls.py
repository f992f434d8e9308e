"""`spec.tls`: whether nodes and clients speak TLS, and where the certificates come from."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kraftquorum_operator import names
from kraftquorum_operator.model.spec_base import SpecModel, rules

TlsLevel = Literal["disabled", "permissive", "required"]
"""What a node's listeners accept: plain connections, both kinds, or TLS alone."""

NAME = r"^([a-z0-9][-a-z0-9.]*)?[a-z0-9]$"
LIFETIME = r"^[0-9]{1,5}h$"

_LEAF, _CA = "self.certificateLifetime", "self.caLifetime"
_BEFORE = "self.renewBefore"

CERT_MANAGER_GROUP = "cert-manager.io"


class IssuerReference(SpecModel):
    """An issuer of cert-manager."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": f"self.group != '{CERT_MANAGER_GROUP}' || "
                "self.kind in ['Issuer', 'ClusterIssuer']",
                "fieldPath": ".kind",
                "message": "tls.issuerRef.kind must be Issuer or ClusterIssuer; for an issuer of "
                "another project, set tls.issuerRef.group, too",
            },
        )
    )

    name: Annotated[str, Field(max_length=253, pattern=NAME)]
    """Its name."""
    kind: Annotated[str, Field(max_length=63, pattern=r"^[A-Z][A-Za-z0-9]*$")] = "Issuer"
    """`Issuer`: of the quorum's namespace. `ClusterIssuer`: of the whole cluster. With another
    `group`: a kind of that group."""
    group: Annotated[str, Field(max_length=253, pattern=NAME)] = CERT_MANAGER_GROUP
    """Its API group: another one than `cert-manager.io` for an issuer of another project."""


class QuorumTls(SpecModel):
    """TLS between the nodes, and between nodes and clients.

    A change of `mode` or `plaintext` restarts the nodes one by one, and twice where that is needed
    so that each node understands the others at any time.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "!has(self.mode) || self.mode != 'Secret' || has(self.secretName)",
                "fieldPath": ".secretName",
                "message": "tls.mode Secret needs tls.secretName: the Secret with the certificates",
            },
            {
                "rule": "(has(self.mode) && self.mode == 'Secret') || !has(self.secretName)",
                "fieldPath": ".secretName",
                "message": "tls.secretName is for tls.mode Secret only: set that mode, or remove "
                "the name",
            },
            {
                "rule": "!has(self.mode) || self.mode != 'CertManager' || has(self.issuerRef)",
                "fieldPath": ".issuerRef",
                "message": "tls.mode CertManager needs tls.issuerRef: the issuer of cert-manager "
                "that signs the certificates",
            },
            {
                "rule": "(has(self.mode) && self.mode == 'CertManager') || !has(self.issuerRef)",
                "fieldPath": ".issuerRef",
                "message": "tls.issuerRef is for tls.mode CertManager only: set that mode, or "
                "remove the reference",
            },
            {
                "rule": f"(has(self.mode) && self.mode == 'CertManager') || !has({_BEFORE})",
                "fieldPath": ".renewBefore",
                "message": "tls.renewBefore is for tls.mode CertManager only: set that mode, or "
                "remove it",
            },
            {
                "rule": f"!has({_BEFORE}) || (duration({_BEFORE}) >= duration('1h') && "
                f"duration({_BEFORE}) < duration({_LEAF}))",
                "fieldPath": ".renewBefore",
                "message": "tls.renewBefore must be at least 1h and less than "
                "tls.certificateLifetime",
            },
            {
                "rule": "!has(self.mode) || self.mode != 'Disabled' || self.plaintext == 'Refused'",
                "fieldPath": ".plaintext",
                "message": "tls.plaintext Accepted needs TLS: set tls.mode to Managed, Secret or "
                "CertManager, or remove tls.plaintext",
            },
            {
                "rule": f"duration({_LEAF}) >= duration('1h')",
                "fieldPath": ".certificateLifetime",
                "message": "tls.certificateLifetime must be at least 1h: the operator renews a "
                "certificate after two thirds of it",
            },
            {
                "rule": "(has(self.mode) && self.mode == 'CertManager') || "
                f"duration({_CA}).getHours() >= 3 * duration({_LEAF}).getHours()",
                "fieldPath": ".caLifetime",
                "message": "tls.caLifetime must be at least three times tls.certificateLifetime: "
                "no certificate may outlive its CA",
            },
        )
    )

    mode: Literal["Disabled", "Managed", "Secret", "CertManager"] | None = None
    """`Disabled`: plain connections. `Managed`: the operator has a CA for the quorum, and issues
    and renews the certificates. `Secret`: you provide them in `secretName`. `CertManager`:
    cert-manager issues and renews them by the issuer of `issuerRef`. Unset: `Managed`, but a
    quorum that an operator before this default made stays `Disabled`."""
    plaintext: Literal["Refused", "Accepted"] = "Refused"
    """Whether nodes accept plain connections beside TLS. `Accepted` is for the time until all
    clients use TLS: nodes then speak TLS with each other and with clients that begin it."""
    secret_name: Annotated[str, Field(max_length=253, pattern=NAME)] | None = None
    """For mode `Secret`: a Secret of the quorum's namespace. `ca.crt`: the CAs. `tls.crt` and
    `tls.key`: a certificate for all pods; or `<pod>.crt` and `<pod>.key` for each. Optional:
    `operator.crt` and `operator.key`, which the operator presents to nodes."""
    issuer_ref: IssuerReference | None = None
    """For mode `CertManager`: the issuer that signs the certificates. It must keep URI names, and
    say its CA (`ca.crt`), as the issuers `CA` and `Vault` of cert-manager do."""
    certificate_lifetime: Annotated[str, Field(max_length=6, pattern=LIFETIME)] = "168h"
    """For the modes `Managed` and `CertManager`: the lifetime of a node's certificate, in hours,
    such as `168h`. The operator renews it after two thirds. At least `1h`."""
    renew_before: Annotated[str, Field(max_length=6, pattern=LIFETIME)] | None = None
    """For mode `CertManager`: how long before its end cert-manager renews a certificate, in hours;
    unset: a third of its lifetime. At least `1h`, and less than `certificateLifetime`."""
    ca_lifetime: Annotated[str, Field(max_length=6, pattern=LIFETIME)] = "8760h"
    """For mode `Managed`: the lifetime of the CA, in hours. The operator replaces it after two
    thirds, with overlap. At least three times `certificateLifetime`."""

    def chosen(self, defaults: str | None) -> QuorumTls:
        """The same with a mode.

        Args:
            defaults: the mark of the operator's defaults that hold for the quorum. A quorum of an
                earlier operator keeps its plain clients.
        """
        if self.mode is not None:
            return self
        mode = "Managed" if defaults in names.DEFAULTS_WITH_TLS else "Disabled"
        return self.model_copy(update={"mode": mode})

    @property
    def level(self) -> TlsLevel:
        """The level that the listeners are to have in the end."""
        if self.mode in {None, "Disabled"}:
            return "disabled"
        return "permissive" if self.plaintext == "Accepted" else "required"

    @property
    def certificate_lifetime_s(self) -> int:
        """`certificate_lifetime` in seconds."""
        return _seconds(self.certificate_lifetime)

    @property
    def renew_before_s(self) -> int | None:
        """`renew_before` in seconds."""
        return None if self.renew_before is None else _seconds(self.renew_before)

    @property
    def ca_lifetime_s(self) -> int:
        """`ca_lifetime` in seconds."""
        return _seconds(self.ca_lifetime)


def _seconds(hours: str) -> int:
    number = re.match(r"\d+", hours)
    return int(number.group()) * 3600 if number else 0
