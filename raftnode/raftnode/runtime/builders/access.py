"""Access control of a node: its files, read before anything else, and followed while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from raftnode.access.access_file import AccessFile, open_access_file
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
    """

    file: AccessFile | None = None

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
        return {
            listener: Gate(
                service, self.file, serving=Serving(listener, addresses), observer=metrics
            )
            for listener in addresses
        }

    def follow(self, tasks: Tasks) -> None:
        """Read the files again whenever they change."""
        if self.file is not None:
            tasks(self.file.follow(), name="access-file")


def read_access(settings: NodeSettings) -> Access:
    """Read the files that the settings name.

    Raises:
        ConfigurationError: one cannot be used.
    """
    path = settings.access_file
    return Access(open_access_file(path) if path is not None else None)
