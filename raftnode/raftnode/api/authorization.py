"""Applies the access file and the cluster id to the requests and sessions of one listener.

Without an access file every request is allowed. A request for another cluster, by its header, is
refused in any case, and so is one on a connection whose client certificate has expired or was
verified by a CA that the listener trusts no more. A caller is looked up again whenever the access
file, the cluster's keys or the trusted CAs have changed, so a session that was opened before the
change is bound by it, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol
from urllib.parse import quote

import structlog
from aiohttp import web

from raftnode.access.access_file import AccessFile
from raftnode.access.access_list import (
    ANONYMOUS,
    NOTHING,
    UNAUTHENTICATED,
    AccessList,
    Denied,
    How,
    Identity,
    Presented,
    Reason,
    token_hash,
)
from raftnode.access.audit_log import QUEUE_LINES, AuditLog, AuditRecord
from raftnode.access.roles import EVERYTHING, Verb
from raftnode.access.service_accounts import (
    AccountTokens,
    KeySet,
    TokenRefusedError,
    looks_signed,
)
from raftnode.api.client_certificate import ClientCertificate, names_of
from raftnode.api.client_connection import ClientConnection
from raftnode.api.errors import refusal
from raftnode.api.listeners import EVERY_PART, Serving
from raftnode.api.media import HEADER_CLUSTER_ID
from raftnode.api.needs import Need
from raftnode.errors import RequestError
from raftnode.limits.addresses import address_of
from raftnode.log_limit import LineBudget
from raftnode.tls.certificates import Certificate

_log = structlog.get_logger(__name__)

CHALLENGE = {"WWW-Authenticate": "Bearer"}
"""The header of each answer 401."""

_BEARER = "bearer"
_CHANGES = frozenset({Verb.ADMIN, Verb.RESIGN})
"""What the audit log has a line for even if it is allowed."""

_READS = frozenset({Verb.READ, Verb.DESCRIBE, Verb.METRICS})
"""What may wait before it answers, and then must still be allowed."""


_NO_LIST = AccessList()
"""Without an access file it decides about refused certificates alone."""


def _refused(why: str) -> Identity:
    return Identity(How.CERTIFICATE, denied=Denied(Reason.UNKNOWN_CREDENTIALS, why))


_FORMER = _refused(
    "a CA that the node no longer trusts verified the certificate of this connection; "
    "connect again, with a certificate of another CA"
)
_EXPIRED = _refused(
    "the certificate of this connection has expired; connect again, with one that is valid"
)


class Own(Protocol):
    """The node's own ids; `raftnode.api.service.NodeService` has them."""

    @property
    def node_id(self) -> int:
        """The node's id."""
        ...

    @property
    def cluster_id(self) -> str | None:
        """The id of its cluster; None: it is blank."""
        ...


class AccessObserver(Protocol):
    """Is called for each refusal; `raftnode.api.metrics.AccessMetrics` implements it."""

    def note_refused(self, reason: Reason, listener: str) -> None:
        """Note a refusal."""
        ...


class Caller:
    """Who a request or a session is from, by the access file in force.

    Args:
        gate: has the access file.
        presented: with the request, or when the session was opened.
        address: where it comes from.
        certificate: of its connection; None: it has none.

    Attributes:
        operation: what it asked for, by the API's name.
        target: what a change is about, for the audit log.
    """

    __slots__ = (
        "_access",
        "_certificate",
        "_expires_s",
        "_gate",
        "_identity",
        "_keys",
        "_trusted",
        "address",
        "operation",
        "presented",
        "target",
    )

    def __init__(
        self,
        gate: Gate,
        presented: Presented,
        address: str,
        certificate: ClientCertificate | None = None,
    ) -> None:
        self._gate = gate
        self._certificate = certificate
        ends_s = (presented.expires_s, certificate.expires_s if certificate is not None else None)
        self._expires_s = min((end_s for end_s in ends_s if end_s is not None), default=None)
        self._trusted: tuple[Certificate, ...] | None = None
        self._access: AccessList | None = None
        self._keys: KeySet | None = None
        self._identity = ANONYMOUS
        self.presented = presented
        self.address = address
        self.operation = ""
        self.target = ""

    @property
    def identity(self) -> Identity:
        """Who it is now."""
        if self.outdated or (self._expires_s is not None and time.time() >= self._expires_s):
            self._look_up()
        return self._identity

    def _look_up(self) -> None:
        gate = self._gate
        access = self._access = gate.access
        self._keys = gate.keys
        trusted = self._trusted = gate.trusted
        certificate, now_s = self._certificate, time.time()
        if certificate is not None and now_s >= certificate.expires_s:
            self._identity = _EXPIRED
        elif certificate is not None and certificate.verified_by.isdisjoint(
            ca.authority for ca in trusted
        ):
            self._identity = _FORMER
        elif access is None:
            self._identity = ANONYMOUS
        else:
            node_uri = gate.node_uri if self.presented.uri_names else None
            presented = gate.still_valid(self.presented)
            self._identity = access.identify(presented, node_uri, now_s)

    @property
    def is_limited(self) -> bool:
        """Whether there is an access file, or a client certificate; both may lose their force."""
        return self._gate.access is not None or self._certificate is not None

    @property
    def outdated(self) -> bool:
        """Whether the access file, the cluster's keys or the CAs have changed since."""
        return (
            self._gate.access is not self._access
            or self._gate.keys is not self._keys
            or self._gate.trusted is not self._trusted
        )

    def check(self, verb: Verb, target: bytes = EVERYTHING) -> None:
        """Refuse what the access file does not allow, and all with a certificate without force.

        Raises:
            RequestError: AUTHENTICATION_FAILED, AUTHORIZATION_FAILED.
        """
        identity = self.identity
        access = self._access
        if access is None:
            if identity.denied is None:
                return
            access = _NO_LIST
        denied = access.decide(identity, verb, target)
        if denied is not None:
            raise self._gate.refuse(self, verb, denied)


CALLER = web.RequestKey("caller", Caller)
"""Where a request has its caller."""


class Gate:
    """Lets requests of one listener pass, or refuses them.

    Args:
        own: the node's ids.
        access_file: None: every request is allowed.
        accounts: checks tokens of ServiceAccounts; None: there are none.
        serving: which part of the API the listener serves, and where the node serves the others.
        observer: is called for each refusal; None: no observer.
        audit: gets changes and refusals; None: no audit log.
        trusted: the CAs of client certificates that the listener trusts now; the same tuple until
            they change.
    """

    def __init__(
        self,
        own: Own,
        access_file: AccessFile | None = None,
        accounts: AccountTokens | None = None,
        *,
        serving: Serving = EVERY_PART,
        observer: AccessObserver | None = None,
        audit: AuditLog | None = None,
        trusted: Callable[[], tuple[Certificate, ...]] = tuple,
    ) -> None:
        self._own = own
        self._trusted = trusted
        self._audit = audit
        self._file = access_file
        self._accounts = accounts
        self.serving = serving
        self._listener = serving.listener.value
        self._observer = observer
        self._lines = LineBudget()

    @property
    def access(self) -> AccessList | None:
        """The access list in force; None: every request is allowed."""
        return None if self._file is None else self._file.current

    @property
    def keys(self) -> KeySet | None:
        """The cluster's keys in force; None: tokens of ServiceAccounts are not accepted."""
        return None if self._accounts is None else self._accounts.file.current

    @property
    def trusted(self) -> tuple[Certificate, ...]:
        """The CAs of client certificates in force."""
        return self._trusted()

    def still_valid(self, presented: Presented) -> Presented:
        """What was presented, or what is wrong with it now: its key may have been withdrawn."""
        signed_with = presented.signed_with
        if signed_with is None or (self._accounts and self._accounts.trusts(signed_with)):
            return presented
        return Presented(problem="the token is signed with a key that the node has no longer")

    @property
    def node_uri(self) -> str | None:
        """The name in this node's own certificate; None: it has no cluster yet."""
        cluster_id = self._own.cluster_id
        if cluster_id is None:
            return None
        return f"spiffe://kraftquorum/cluster/{quote(cluster_id, safe='')}/node/{self._own.node_id}"

    def identify(self, request: web.Request) -> Caller:
        """Note the caller of a request; refuses nothing."""
        presented = NOTHING if self._file is None else self._presented(request)
        connection = request.protocol
        certificate = connection.certificate if isinstance(connection, ClientConnection) else None
        caller = Caller(self, presented, address_of(request.transport), certificate)
        request[CALLER] = caller
        return caller

    def _presented(self, request: web.Request) -> Presented:
        given = request.headers.getall("Authorization", [])
        if given:
            scheme, _, token = given[0].partition(" ")
            token = token.strip()
            if len(given) > 1:
                return Presented(problem="the request has two Authorization headers; send one")
            if scheme.lower() != _BEARER or not token:
                return Presented(
                    problem="the Authorization header is not 'Bearer' and a token; send a token"
                )
            return self._of_token(token)
        names = names_of(request.transport)
        return Presented(
            uri_names=names.uri_names, common_names=names.common_names, expires_s=names.expires_s
        )

    def _of_token(self, token: str) -> Presented:
        hashed = token_hash(token.encode(errors="surrogateescape"))
        access = self.access
        listed = access is not None and hashed in access.by_token
        if listed or self._accounts is None or not looks_signed(token):
            return Presented(token_hash=hashed)
        try:
            account = self._accounts.verify(token, hashed)
        except TokenRefusedError as error:
            return Presented(problem=str(error))
        return Presented(
            service_account=account.name,
            expires_s=account.expires_s,
            signed_with=account.signed_with,
        )

    def permit(self, request: web.Request, need: Need, operation: str) -> None:
        """Refuse a request that the access file does not allow, or that is for another cluster.

        Raises:
            RequestError: AUTHENTICATION_FAILED, AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID.
        """
        caller = request[CALLER]
        caller.operation = operation
        if caller.is_limited:
            caller.check(need.verb, need.target(request))
        for meant in request.headers.getall(HEADER_CLUSTER_ID, []):
            own = self._own.cluster_id
            if own is not None and meant != own:
                denied = Denied(
                    Reason.OTHER_CLUSTER,
                    f"{HEADER_CLUSTER_ID} is {meant[:64]!r}; this node belongs to {own!r}",
                )
                raise self.refuse(caller, need.verb, denied)

    def permit_body(self, request: web.Request, need: Need) -> None:
        """Refuse what was allowed when its head came, and is not now that its body has arrived.

        Raises:
            RequestError: AUTHENTICATION_FAILED, AUTHORIZATION_FAILED.
        """
        if request[CALLER].is_limited:
            request[CALLER].check(need.verb, need.target(request))

    def permit_answer(self, request: web.Request, need: Need) -> None:
        """Refuse to answer a read that waited while the access file or the CAs changed.

        Raises:
            RequestError: AUTHENTICATION_FAILED, AUTHORIZATION_FAILED.
        """
        caller = request[CALLER]
        if caller.is_limited and need.verb in _READS and caller.outdated:
            caller.check(need.verb, need.target(request))

    def refuse(self, caller: Caller, verb: Verb, denied: Denied) -> RequestError:
        """Count and log a refusal; return the error to raise."""
        if self._observer is not None:
            self._observer.note_refused(denied.reason, self._listener)
        self._lines.say(
            _log.warning,
            "access_denied",
            denied.reason,
            reason=denied.reason.value,
            subject=caller.identity.name,
            verb=verb.value,
            by=caller.address,
            listener=self._listener,
        )
        if denied.reason is Reason.OTHER_CLUSTER:
            error = "INCONSISTENT_CLUSTER_ID"
        elif denied.reason in UNAUTHENTICATED:
            error = "AUTHENTICATION_FAILED"
        else:
            error = "AUTHORIZATION_FAILED"
        if self._audit is not None:
            record = self._record("refused", caller, verb, "not_done", error)
            self._audit.refusal(replace(record, reason=denied.reason.value))
        return refusal(error, denied.message)

    @contextmanager
    def audited(self, request: web.Request, need: Need) -> Generator[None]:
        """Write the outcome of a change of the quorum, or of the node, into the audit log.

        Raises:
            RequestError: AUDIT_LOG_FULL: there would be no line about the change.
        """
        audit, caller = self._audit, request[CALLER]
        if audit is None or need.verb not in _CHANGES:
            yield
            return
        has_place = audit.reserve()
        if not has_place and need.verb is not Verb.RESIGN:  # A pod that ends must not wait for it.
            raise refusal(
                "AUDIT_LOG_FULL",
                f"{QUEUE_LINES} lines of the audit log wait for its file, which does not take "
                "them; the node did nothing. Ask again once the file of audit_log can be written",
            )
        outcome, error = "unknown", "INTERNAL"
        try:
            yield
            outcome, error = "done", None
        except RequestError as refused:
            outcome, error = refused.outcome, refused.error
            raise
        except asyncio.CancelledError:
            error = None  # the client has gone, and the change may go on
            raise
        finally:
            record = self._record("changed", caller, need.verb, outcome, error)
            if has_place:
                audit.reserved_change(record)
            else:
                audit.change(record)

    def _record(
        self, event: str, caller: Caller, verb: Verb, outcome: str, error: str | None
    ) -> AuditRecord:
        identity = caller.identity
        return AuditRecord(
            event,
            subject=identity.name,
            authenticated_by=identity.how.value,
            remote=caller.address,
            listener=self._listener,
            verb=verb.value,
            operation=caller.operation,
            target=caller.target,
            outcome=outcome,
            error=error,
        )


def note_target(request: web.Request, target: object) -> None:
    """Note what a change is about, for the audit log."""
    caller = request.get(CALLER)
    if caller is not None:
        caller.target = str(target)


def holder_of(request: web.BaseRequest, address: str) -> str:
    """Whose share a request takes: its subject's, or its address's."""
    caller = request.get(CALLER)
    name = caller.identity.name if caller is not None else None
    return address if name is None else f"subject {name}"
