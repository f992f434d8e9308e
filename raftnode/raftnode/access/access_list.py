"""An access file, ready to be asked: who a request is from, and whether it may do something.

Decisions are made on hashes of tokens and on verified names; no token gets here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from raftnode.access.document import AccessDocument, GrantEntry
from raftnode.access.roles import EVERYTHING, OF_ITS_NODE, ROLES_FOR, Role, Verb


class Reason(StrEnum):
    """Why a request is refused; the value is a metric's label."""

    NO_CREDENTIALS = "no_credentials"
    UNKNOWN_CREDENTIALS = "unknown_credentials"
    ROLE_MISSING = "role_missing"
    OUTSIDE_PREFIXES = "outside_prefixes"
    OTHER_CLUSTER = "other_cluster"


UNAUTHENTICATED = frozenset({Reason.NO_CREDENTIALS, Reason.UNKNOWN_CREDENTIALS})
"""Reasons with which other credentials may help: who asks is not known."""


class How(StrEnum):
    """By what a subject is known."""

    TOKEN = "token"  # noqa: S105 - a way, not a token
    CERTIFICATE = "certificate"
    SERVICE_ACCOUNT = "service_account"
    NODE = "node"
    SYSTEM = "system"
    """The user of the machine, who runs a command on the node's files."""
    QUORUM = "quorum"
    """The leader, by the peers' protocol."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Denied:
    """A refusal.

    Attributes:
        reason: as a metric has it.
        message: for the client; it has no secret.
    """

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Presented:
    """What a request presents, verified but not yet known to be a subject's.

    Attributes:
        token_hash: of the bearer token, as the access file has it; None: no token.
        problem: what is wrong with the credentials; None: they can be looked up.
        uri_names: those of the client's verified certificate.
        common_names: those of the client's verified certificate.
        service_account: namespace and name in a token that the cluster signed.
        expires_s: Unix time at which the token or certificate ends; None: it does not say.
        signed_with: the cluster's key that signed the token; None: no key of the cluster did.
    """

    token_hash: str | None = None
    problem: str | None = None
    uri_names: tuple[str, ...] = ()
    common_names: tuple[str, ...] = ()
    service_account: str | None = None
    expires_s: float | None = None
    signed_with: str | None = None

    @property
    def nothing(self) -> bool:
        """Whether the request has no credentials at all."""
        return not (
            self.token_hash
            or self.problem
            or self.uri_names
            or self.common_names
            or self.service_account
        )


NOTHING = Presented()
"""A request without credentials."""

Grants = Mapping[Role, tuple[bytes, ...]]
"""For each role the prefixes of the keys that it is for; an empty prefix: everything."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of the access file."""

    name: str
    grants: Grants


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a request is from.

    Attributes:
        how: by what it is known.
        subject: of the access file; None: a client without credentials, or the node itself.
        denied: why its credentials are refused; None: they are not.
    """

    how: How
    subject: Subject | None = None
    denied: Denied | None = None

    @property
    def name(self) -> str | None:
        """The subject's name; None: it has none."""
        return self.subject.name if self.subject is not None else None


ANONYMOUS = Identity(How.NONE)


def token_hash(token: bytes) -> str:
    """The hash of a token, as the access file has it."""
    return f"sha256:{hashlib.sha256(token).hexdigest()}"


@dataclass(frozen=True, slots=True)
class AccessList:
    """What an access file allows.

    A token decides before a certificate: what a client presents on purpose is never ignored.
    """

    by_token: Mapping[str, Subject] = field(default_factory=dict[str, Subject])
    by_uri_name: Mapping[str, Subject] = field(default_factory=dict[str, Subject])
    by_common_name: Mapping[str, Subject] = field(default_factory=dict[str, Subject])
    by_service_account: Mapping[str, Subject] = field(default_factory=dict[str, Subject])
    anonymous: Grants = field(default_factory=dict[Role, tuple[bytes, ...]])
    all_subjects: tuple[Subject, ...] = ()

    @classmethod
    def of(cls, document: AccessDocument) -> AccessList:
        """Prepare a document that was checked."""
        subjects = [
            (entry, Subject(entry.name, _grants(entry.grants))) for entry in document.subjects
        ]
        return cls(
            {name: subject for entry, subject in subjects for name in entry.token_hashes},
            {name: subject for entry, subject in subjects for name in entry.certificate_uri_names},
            {
                name: subject
                for entry, subject in subjects
                for name in entry.certificate_common_names
            },
            {name: subject for entry, subject in subjects for name in entry.service_accounts},
            _grants(document.anonymous.grants) if document.anonymous is not None else {},
            tuple(subject for _, subject in subjects),
        )

    def identify(self, presented: Presented, node_uri: str | None, now_s: float) -> Identity:
        """Tell who a request is from.

        Args:
            presented: with the request.
            node_uri: the name in this node's own certificate; None: it has no cluster yet.
            now_s: Unix time.
        """
        if presented.nothing:
            return ANONYMOUS
        if presented.problem is not None:
            return _unknown(How.NONE, presented.problem)
        if presented.service_account is not None:
            return self._of_account(presented, presented.service_account, now_s)
        if presented.token_hash is not None:
            subject = self.by_token.get(presented.token_hash)
            if subject is None:
                return _unknown(How.TOKEN, "the token is of no subject in the access file")
            return Identity(How.TOKEN, subject)
        if _has_ended(presented, now_s):
            return _unknown(How.CERTIFICATE, "the certificate has expired")
        for names, subjects in (
            (presented.uri_names, self.by_uri_name),
            (presented.common_names, self.by_common_name),
        ):
            for name in names:
                if (subject := subjects.get(name)) is not None:
                    return Identity(How.CERTIFICATE, subject)
        if node_uri is not None and node_uri in presented.uri_names:
            return Identity(How.NODE)
        return _unknown(How.CERTIFICATE, "the certificate is of no subject in the access file")

    def _of_account(self, presented: Presented, account: str, now_s: float) -> Identity:
        if _has_ended(presented, now_s):
            return _unknown(How.SERVICE_ACCOUNT, "the token has expired")
        subject = self.by_service_account.get(account)
        if subject is None:
            return _unknown(
                How.SERVICE_ACCOUNT,
                f"the ServiceAccount {account} is of no subject in the access file",
            )
        return Identity(How.SERVICE_ACCOUNT, subject)

    def decide(self, identity: Identity, verb: Verb, target: bytes = EVERYTHING) -> Denied | None:
        """Decide on a request.

        Args:
            identity: who it is from.
            verb: what it does.
            target: the key, the prefix of the keys, or `EVERYTHING`.

        Returns:
            None: it is allowed.
        """
        roles = ROLES_FOR.get(verb)
        if roles is None:
            return None
        if identity.denied is not None:
            return identity.denied
        subject = identity.subject
        held = subject.grants if subject is not None else _NO_GRANTS
        restricted = False
        for grants in (held, self.anonymous):
            for role in roles:
                prefixes = grants.get(role)
                if prefixes is None:
                    continue
                if verb not in _OF_KEYS or target.startswith(prefixes):
                    return None
                restricted = True
        if identity.how is How.NODE:
            return None if verb in OF_ITS_NODE else _of_a_node(verb)
        if subject is None:
            return Denied(
                Reason.NO_CREDENTIALS,
                f"{verb} needs credentials: a bearer token or a client certificate",
            )
        if restricted:
            return Denied(
                Reason.OUTSIDE_PREFIXES,
                f"{subject.name} may {verb} the keys that begin with its key_prefixes alone, and "
                f"the request is for {'all keys or the log' if not target else 'another key'}",
            )
        needed = " or ".join(sorted(roles))
        return Denied(
            Reason.ROLE_MISSING, f"{subject.name} lacks the role {needed}, which {verb} needs"
        )


_NO_GRANTS: Grants = {}
_OF_KEYS = frozenset({Verb.READ, Verb.WRITE})


def _grants(entries: Iterable[GrantEntry]) -> Grants:
    grants: dict[Role, tuple[bytes, ...]] = {}
    for entry in entries:
        prefixes = tuple(prefix.encode() for prefix in entry.key_prefixes or ("",))
        for role in entry.roles:
            grants[role] = (*grants.get(role, ()), *prefixes)
    return grants


def _has_ended(presented: Presented, now_s: float) -> bool:
    return presented.expires_s is not None and now_s >= presented.expires_s


def _unknown(how: How, message: str) -> Identity:
    return Identity(how, denied=Denied(Reason.UNKNOWN_CREDENTIALS, message))


def _of_a_node(verb: Verb) -> Denied:
    return Denied(
        Reason.ROLE_MISSING,
        f"a node's certificate allows to describe that node and to make it resign, not to {verb}",
    )
