"""`spec.access`: which clients there are, how a node knows each of them, and what each may do.

A token stands in a Secret, never in the resource. What the API server can check of an entry, rules
check at apply; what stands in the Secrets, the operator checks (`resources/access_file.py`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from kraftquorum_operator.model.spec_base import Rule, SpecModel, rules

SECRET_NAME = r"^([a-z0-9][-a-z0-9.]*)?[a-z0-9]$"  # noqa: S105 - a pattern
SECRET_KEY = r"^[-._a-zA-Z0-9]+$"  # noqa: S105 - a pattern
SUBJECT_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@/-]*$"
NAMESPACE_NAME = r"^([a-z0-9][-a-z0-9]*)?[a-z0-9]$"
URI = r"^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$"

Role = Literal["read", "write", "admin", "metrics"]
Roles = Annotated[tuple[Role, ...], Field(min_length=1, max_length=4)]
KeyPrefixes = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=256)], ...],
    Field(min_length=1, max_length=32),
]

_PREFIXES: Rule = {
    "rule": "!has(self.keyPrefixes) || self.roles.exists(role, role in ['read', 'write'])",
    "fieldPath": ".keyPrefixes",
    "message": "keyPrefixes restrict the roles read and write, and roles has neither",
}


class TokenSecret(SpecModel):
    """A bearer token in a Secret of the quorum's namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=SECRET_NAME)]
    """Name of the Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=SECRET_KEY)] = "token"
    """Key of the token in its data."""

    @property
    def place(self) -> tuple[str, str]:
        """Name and key."""
        return self.name, self.key


class ClientCertificate(SpecModel):
    """Names in a client's certificate, which a CA of the nodes has signed."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "has(self.uriNames) || has(self.commonNames)",
                "message": "set uriNames or commonNames",
            }
        )
    )

    uri_names: (
        Annotated[
            tuple[Annotated[str, Field(max_length=2048, pattern=URI)], ...],
            Field(min_length=1, max_length=16),
        ]
        | None
    ) = None
    """URIs among the subject's alternative names; one that is there is enough."""
    common_names: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=256)], ...],
            Field(min_length=1, max_length=16),
        ]
        | None
    ) = None
    """Common names; a certificate has one."""


class ServiceAccountName(SpecModel):
    """A ServiceAccount, whose pods present the tokens that Kubernetes gives them."""

    namespace: Annotated[str, Field(min_length=1, max_length=63, pattern=NAMESPACE_NAME)]
    """Its namespace."""
    name: Annotated[str, Field(min_length=1, max_length=253, pattern=SECRET_NAME)]
    """Its name."""


class AccessClient(SpecModel):
    """A client: how it is known, and what it may do."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            {
                "rule": "[has(self.tokenSecret), has(self.certificate), has(self.serviceAccount)]"
                ".filter(given, given).size() == 1",
                "message": "set one of tokenSecret, certificate and serviceAccount",
            },
            _PREFIXES,
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=SUBJECT_NAME)]
    """Its name in messages and in the audit log."""
    roles: Roles
    """What it may do: `read` and `write` records, `admin` changes the quorum, `metrics` reads the
    metrics."""
    key_prefixes: KeyPrefixes | None = None
    """It may read and write only keys that begin with one of these. Unset: all keys, and the
    log."""
    token_secret: TokenSecret | None = None
    """It presents the token in this Secret."""
    certificate: ClientCertificate | None = None
    """It presents a certificate with one of these names."""
    service_account: ServiceAccountName | None = None
    """It presents the token of this ServiceAccount."""

    @model_validator(mode="after")
    def _is_known_by_one(self) -> AccessClient:
        """The rule above, for a resource that no API server has checked."""
        given = (self.token_secret, self.certificate, self.service_account)
        if sum(way is not None for way in given) != 1:
            raise ValueError("set one of tokenSecret, certificate and serviceAccount")
        return self


class AnonymousAccess(SpecModel):
    """What clients without credentials may do."""

    model_config = ConfigDict(json_schema_extra=rules(_PREFIXES))

    roles: Roles
    """As for a client."""
    key_prefixes: KeyPrefixes | None = None
    """As for a client."""


class QuorumAccess(SpecModel):
    """Who may do what on the nodes.

    With it, a node refuses each request that no entry allows, apart from health probes.
    """

    clients: Annotated[tuple[AccessClient, ...], Field(max_length=256)] = Field(
        default=(),
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    """The clients. The operator itself needs no entry."""
    anonymous: AnonymousAccess | None = None
    """What clients without credentials may do; unset: nothing."""
    token_overlap_seconds: Annotated[int, Field(ge=0, le=604_800)] = 600
    """How long a token stays valid after its Secret has another one, so that clients have time to
    take the new one. Nodes learn of a new token within two minutes. 0: not at all."""
