"""Access control of a node: its files, read before anything else, and followed while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry

from raftnode.access.access_file import AccessFile, FollowedFile, open_access_file
from raftnode.access.access_list import How
from raftnode.access.audit_log import AuditLog, AuditRecord, formatted, open_audit_log
from raftnode.access.service_accounts import AccountTokens, KeySet
from raftnode.api.authorization import Gate
from raftnode.api.listeners import Listener, Serving
from raftnode.api.metrics import AccessMetrics
from raftnode.api.service import NodeService
from raftnode.core.types import Endpoint, ReplicaKey
from raftnode.runtime.process.tasks import Tasks
from raftnode.storage.directory.directory import DataDirectory
from raftnode.tls.certificates import Certificate
from raftnode.tls.failures import Reason
from raftnode.transport.hello import RefusalReason

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings

_log = structlog.get_logger("raftnode")

AUDITED_FACTS = frozenset(
    {"cluster_joined", "snapshot_installed", "voters_changed", "voters_reverted"}
)
"""What a leader makes this node do, which no request to the API shows."""

_NO_REFUSALS = frozenset({Reason.REFUSED, Reason.TIMEOUT})
"""The other end refused this node, or did not go on."""


@dataclass(frozen=True, slots=True)
class Access:
    """The files of access control.

    Attributes:
        file: the access file; None: every request is allowed.
        accounts: checks tokens of ServiceAccounts; None: there are none.
        audit: gets changes and refusals; None: no audit log.
    """

    file: AccessFile | None = None
    accounts: AccountTokens | None = None
    audit: AuditLog | None = None

    def gates(
        self,
        service: NodeService,
        registry: CollectorRegistry,
        addresses: Mapping[Listener, Endpoint],
        trusted: Callable[[], tuple[Certificate, ...]],
    ) -> dict[Listener, Gate]:
        """Make what checks the requests of each listener for clients.

        Args:
            service: the node.
            registry: of the metrics.
            addresses: of the listeners.
            trusted: the CAs of client certificates that the listeners trust now.
        """
        metrics = AccessMetrics(registry, addresses)
        if self.file is not None:
            self.file.observe(metrics)
        if self.accounts is not None:
            self.accounts.file.observe(metrics)
        audit = self.audit
        if audit is not None:
            audit.observe(metrics.audit_lines_lost.inc)
            metrics.audit_lines_waiting.set_function(lambda: audit.waiting)
        return {
            listener: Gate(
                service,
                self.file,
                self.accounts,
                serving=Serving(listener, addresses),
                observer=metrics,
                audit=audit,
                trusted=trusted,
            )
            for listener in addresses
        }

    def note_opened(self, directory: DataDirectory) -> None:
        """Write the format that the opening of the directory made into the audit log."""
        if self.audit is not None and directory.formatted is not None:
            self.audit.change(formatted(directory.formatted.key, directory.cluster_id))

    def note_fact(self, name: str, fields: Mapping[str, object]) -> None:
        """Write what the quorum has decided into the audit log, if it concerns access."""
        if self.audit is not None and name in AUDITED_FACTS:
            self.audit.change(
                AuditRecord(
                    name, authenticated_by=How.QUORUM.value, target=json.dumps(fields, default=str)
                )
            )

    def note_refused_connection(self, listener: str, reason: Reason, address: str) -> None:
        """Write a connection that this node refused in the handshake into the audit log.

        Args:
            listener: `peer` or `api`; `dialled`, for a connection that this node made, has no line.
            reason: why it did not come about.
            address: of the other end.
        """
        if self.audit is None or listener == "dialled" or reason in _NO_REFUSALS:
            return
        self.audit.refusal(_refused(address, listener, reason))

    def note_refused_hello(
        self, reason: RefusalReason, replica: ReplicaKey | None, address: str
    ) -> None:
        """Write a peer whose hello this node refused into the audit log.

        Args:
            reason: why; a refused certificate has its line from `note_refused_connection`.
            replica: that the hello names; None: it could not be read.
            address: of the other end.
        """
        if self.audit is None or reason is RefusalReason.WRONG_CERTIFICATE:
            return
        target = None if replica is None else str(replica)
        self.audit.refusal(_refused(address, "peer", reason, target))

    def close(self) -> None:
        """Close the audit log."""
        if self.audit is not None:
            self.audit.close()

    def follow(self, tasks: Tasks) -> None:
        """Read the files again whenever they change."""
        if self.file is not None:
            tasks(self.file.follow(), name="access-file")
        if self.accounts is not None:
            tasks(self.accounts.file.follow(), name="access-keys")


def read_access(settings: NodeSettings) -> Access:
    """Read the files that the settings name.

    Raises:
        ConfigurationError: one cannot be used.
    """
    path, keys = settings.access_file, settings.access_jwks_file
    if path is None and settings.api_tls_ca_file is not None:
        problem = "api_tls_ca_file is set without access_file, so every client may do everything"
        _log.warning("client_certificates_ignored", problem=problem)
    return Access(
        None if path is None else open_access_file(path),
        None
        if keys is None
        else AccountTokens(
            FollowedFile("access_jwks_file", keys, KeySet.parse),
            audience=settings.access_token_audience,
            issuer=settings.access_token_issuer,
        ),
        open_audit_log(settings.audit_log, by_default=_is_secured(settings)),
    )


def _refused(
    address: str, listener: str, reason: Reason | RefusalReason, target: str | None = None
) -> AuditRecord:
    """The line about a connection that got no further."""
    return AuditRecord(
        "refused",
        remote=address,
        listener=listener,
        target=target,
        outcome="not_done",
        reason=reason.value,
    )


def _is_secured(settings: NodeSettings) -> bool:
    """Whether some client or peer may be refused for what it presents."""
    modes = {settings.api_tls, settings.peer_tls}
    return settings.access_file is not None or modes != {"disabled"}
