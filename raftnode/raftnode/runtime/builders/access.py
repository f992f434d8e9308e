"""Access control of a node: its files, read before anything else, and followed while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from raftnode.access.access_file import AccessFile, FollowedFile, open_access_file
from raftnode.access.service_accounts import AccountTokens, KeySet
from raftnode.api.authorization import Gate
from raftnode.api.listeners import Listener, Serving
from raftnode.api.metrics import AccessMetrics
from raftnode.api.service import NodeService
from raftnode.core.types import Endpoint
from raftnode.runtime.process.tasks import Tasks

if TYPE_CHECKING:
    from raftnode.settings import NodeSettings


@dataclass(frozen=True, slots=True)
class Access:
    """The files of access control.

    Attributes:
        file: the access file; None: every request is allowed.
        accounts: checks tokens of ServiceAccounts; None: there are none.
    """

    file: AccessFile | None = None
    accounts: AccountTokens | None = None

    def gates(
        self,
        service: NodeService,
        registry: CollectorRegistry,
        addresses: Mapping[Listener, Endpoint],
    ) -> dict[Listener, Gate]:
        """Make what checks the requests of each listener for clients."""
        metrics = AccessMetrics(registry, addresses)
        if self.file is not None:
            self.file.observe(metrics)
        if self.accounts is not None:
            self.accounts.file.observe(metrics)
        return {
            listener: Gate(
                service,
                self.file,
                self.accounts,
                serving=Serving(listener, addresses),
                observer=metrics,
            )
            for listener in addresses
        }

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
    return Access(
        None if path is None else open_access_file(path),
        None
        if keys is None
        else AccountTokens(
            FollowedFile("access_jwks_file", keys, KeySet.parse),
            audience=settings.access_token_audience,
            issuer=settings.access_token_issuer,
        ),
    )
