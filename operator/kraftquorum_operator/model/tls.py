"""`spec.tls`: whether nodes and clients speak TLS, and where the certificates come from."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kraftquorum_operator.model.spec_base import SpecModel, rules

TlsLevel = Literal["disabled", "permissive", "required"]
"""What a node's listeners accept: plain connections, both kinds, or TLS alone."""

NAME = r"^([a-z0-9][-a-z0-9.]*)?[a-z0-9]$"
LIFETIME = r"^[0-9]{1,5}h$"

_LEAF, _CA = "self.certificateLifetime", "self.caLifetime"


class QuorumTls(SpecModel):
    """TLS between the nodes, and between nodes and clients.

    A change of `mode` or `plaintext` restarts the nodes one by one, and twice where that is needed
    so that each node understands the others at any time.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "self.mode != 'Secret' || has(self.secretName)",
                "fieldPath": ".secretName",
                "message": "tls.mode Secret needs tls.secretName: the Secret with the certificates",
            },
            {
                "rule": "self.mode == 'Secret' || !has(self.secretName)",
                "fieldPath": ".secretName",
                "message": "tls.secretName is for tls.mode Secret only: set that mode, or remove "
                "the name",
            },
            {
                "rule": "self.mode != 'Disabled' || self.plaintext == 'Refused'",
                "fieldPath": ".plaintext",
                "message": "tls.plaintext Accepted needs TLS: set tls.mode to Managed or Secret, "
                "or remove tls.plaintext",
            },
            {
                "rule": f"duration({_LEAF}) >= duration('1h')",
                "fieldPath": ".certificateLifetime",
                "message": "tls.certificateLifetime must be at least 1h: the operator renews a "
                "certificate after two thirds of it",
            },
            {
                "rule": f"duration({_CA}).getHours() >= 3 * duration({_LEAF}).getHours()",
                "fieldPath": ".caLifetime",
                "message": "tls.caLifetime must be at least three times tls.certificateLifetime: "
                "no certificate may outlive its CA",
            },
        )
    )

    mode: Literal["Disabled", "Managed", "Secret"] = "Disabled"
    """`Disabled`: plain connections. `Managed`: the operator has a CA for the quorum, and issues
    and renews the certificates. `Secret`: you provide them in `secretName`."""
    plaintext: Literal["Refused", "Accepted"] = "Refused"
    """Whether nodes accept plain connections beside TLS. `Accepted` is for the time until all
    clients use TLS: nodes then speak TLS with each other and with clients that begin it."""
    secret_name: Annotated[str, Field(max_length=253, pattern=NAME)] | None = None
    """For mode `Secret`: a Secret of the quorum's namespace. `ca.crt`: the CAs. `tls.crt` and
    `tls.key`: a certificate for all pods; or `<pod>.crt` and `<pod>.key` for each. Optional:
    `operator.crt` and `operator.key`, which the operator presents to nodes."""
    certificate_lifetime: Annotated[str, Field(max_length=6, pattern=LIFETIME)] = "168h"
    """For mode `Managed`: the lifetime of a node's certificate, in hours, such as `168h`. The
    operator renews it after two thirds. At least `1h`."""
    ca_lifetime: Annotated[str, Field(max_length=6, pattern=LIFETIME)] = "8760h"
    """For mode `Managed`: the lifetime of the CA, in hours. The operator replaces it after two
    thirds, with overlap. At least three times `certificateLifetime`."""

    @property
    def level(self) -> TlsLevel:
        """The level that the listeners are to have in the end."""
        if self.mode == "Disabled":
            return "disabled"
        return "permissive" if self.plaintext == "Accepted" else "required"

    @property
    def certificate_lifetime_s(self) -> int:
        """`certificate_lifetime` in seconds."""
        return _seconds(self.certificate_lifetime)

    @property
    def ca_lifetime_s(self) -> int:
        """`ca_lifetime` in seconds."""
        return _seconds(self.ca_lifetime)


def _seconds(hours: str) -> int:
    number = re.match(r"\d+", hours)
    return int(number.group()) * 3600 if number else 0
