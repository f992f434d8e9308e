"""The two HTTP servers: for peers, and for clients."""

from __future__ import annotations

from dataclasses import dataclass

import structlog
from aiohttp import web

from raftnode.api.http import ApiLimits
from raftnode.api.metrics import HttpMetrics, SessionMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.core.types import Endpoint
from raftnode.errors import ConfigurationError
from raftnode.runtime.builders.base import Base
from raftnode.runtime.peers.peer_messages import PEER_CONNECTIONS_MAX
from raftnode.runtime.process.process_setup import descriptors_for_clients, raise_file_limit
from raftnode.runtime.service import Service
from raftnode.transport import PeerServer
from raftnode.transport.dial import PATH as PEER_PATH

_log = structlog.get_logger("raftnode")


@dataclass(frozen=True, slots=True)
class Listeners:
    """Both servers, not started yet."""

    peer: ApiServer
    api: ApiServer

    async def start(self, base: Base) -> tuple[Endpoint, Endpoint]:
        """Listen; return the endpoints that are advertised to peers and to clients.

        Raises:
            ConfigurationError: the node cannot listen on an address.
        """
        settings = base.settings
        peer = await _listen(self.peer, settings.peer_listen, "peer_listen")
        api = await _listen(self.api, settings.api_listen, "api_listen")
        return (
            _with_port(settings.peer_endpoint, peer.port),
            _with_port(settings.api_endpoint, api.port),
        )

    async def stop(self) -> None:
        """Stop both, the clients' first."""
        await self.api.stop()
        await self.peer.stop()


def build_listeners(
    base: Base, service: Service, peer_server: PeerServer, version: str
) -> Listeners:
    """Build both."""
    peer_app = web.Application()
    peer_app.router.add_get(PEER_PATH, peer_server.handle)
    settings = base.settings
    app = make_app(
        service,
        registry=base.registry,
        version=version,
        limits=ApiLimits(
            record_max_bytes=settings.record_max_bytes, batch_max_bytes=settings.max_batch_bytes
        ),
        observer=HttpMetrics(base.registry),
        session_observer=SessionMetrics(base.registry),
    )
    return Listeners(
        ApiServer(
            peer_app,
            shutdown_grace_ms=200,
            connections_max=PEER_CONNECTIONS_MAX,
            on_connection=peer_server.lobby.enter,
        ),
        ApiServer(
            app, shutdown_grace_ms=500, connections_max=descriptors_for_clients(raise_file_limit())
        ),
    )


async def _listen(listener: ApiServer, endpoint: Endpoint, name: str) -> Endpoint:
    try:
        bound = await listener.start(endpoint)
    except OSError as error:
        raise ConfigurationError(f"{name}: cannot listen on {endpoint}: {error}") from error
    _log.info("listener_started", what=name, endpoint=str(bound))
    return bound


def _with_port(endpoint: Endpoint, bound: int) -> Endpoint:
    """The advertised endpoint, with the port that was bound."""
    return endpoint if endpoint.port else Endpoint(endpoint.host, bound)
