"""The two HTTP servers: for peers, and for clients."""

from __future__ import annotations

from dataclasses import dataclass

import structlog
from aiohttp import web

from raftnode.api.guard import Guard
from raftnode.api.http import ApiLimits
from raftnode.api.metrics import HttpMetrics, LimitMetrics, SessionMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.core.types import Endpoint
from raftnode.errors import ConfigurationError
from raftnode.limits.model import ClientLimits
from raftnode.runtime.builders.base import Base
from raftnode.runtime.peers.peer_messages import PEER_CONNECTIONS_MAX
from raftnode.runtime.process.process_setup import descriptors_for_clients, raise_file_limit
from raftnode.runtime.service import Service
from raftnode.settings import NodeSettings
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
    limits = ApiLimits(
        record_max_bytes=settings.record_max_bytes, batch_max_bytes=settings.max_batch_bytes
    )
    app = make_app(
        service,
        registry=base.registry,
        version=version,
        limits=limits,
        observer=HttpMetrics(base.registry),
        session_observer=SessionMetrics(base.registry),
        guard=Guard(
            client_limits(settings),
            LimitMetrics(base.registry),
            body_max_bytes=limits.json_body_max_bytes,
        ),
    )
    return Listeners(
        ApiServer(
            peer_app,
            shutdown_grace_ms=200,
            connections_max=PEER_CONNECTIONS_MAX,
            on_connection=peer_server.lobby.enter,
        ),
        ApiServer(app, shutdown_grace_ms=500),
    )


def client_limits(settings: NodeSettings) -> ClientLimits:
    """Take the limits from the settings; the system may allow fewer open files than they need."""
    files = descriptors_for_clients(raise_file_limit())
    reserved = min(ClientLimits().reserved_max, files // 2)
    files -= reserved
    return ClientLimits(
        reserved_max=reserved,
        connections_max=min(settings.api_connections_max, files),
        address_connections_max=min(settings.api_address_connections_max, files),
        requests_max=settings.api_requests_max,
        holder_requests_max=settings.api_holder_requests_max,
        sessions_max=settings.api_sessions_max,
        holder_sessions_max=settings.api_holder_sessions_max,
        bodies_max_bytes=settings.api_bodies_max_bytes,
        unread_max_bytes=settings.api_unread_max_bytes,
        head_timeout_ms=settings.api_head_timeout_ms,
        body_timeout_ms=settings.api_body_timeout_ms,
        unread_timeout_ms=settings.api_unread_timeout_ms,
        idle_timeout_ms=settings.api_idle_timeout_ms,
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
