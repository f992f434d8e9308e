"""The HTTP servers: for peers, for clients, and those of metrics and administration if set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import structlog
from aiohttp import web

from raftnode.api.guard import Guard
from raftnode.api.http import ApiLimits
from raftnode.api.listeners import SETTINGS, Listener
from raftnode.api.metrics import HttpMetrics, LimitMetrics, SessionMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.core.types import Endpoint
from raftnode.errors import ConfigurationError
from raftnode.limits.model import ClientLimits
from raftnode.runtime.builders.access import Access
from raftnode.runtime.builders.base import Base
from raftnode.runtime.builders.tls import Tls
from raftnode.runtime.peers.peer_messages import PEER_CONNECTIONS_MAX
from raftnode.runtime.process.process_setup import descriptors_for_clients, raise_file_limit
from raftnode.runtime.service import Service
from raftnode.settings import NodeSettings
from raftnode.transport import PeerServer
from raftnode.transport.dial import PATH as PEER_PATH

_log = structlog.get_logger("raftnode")

OWN_CONNECTIONS_MAX = 128
"""Connections of a listener for metrics or administration: Prometheus, probes and people."""
OWN_RESERVED_MAX = 16
"""Connections beyond these."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """All servers, not started yet.

    Attributes:
        peer: for peers.
        api: for clients, and the others if they are set, by what they are for.
        addresses: where those of `api` listen; complete after the start.
    """

    peer: ApiServer
    api: Mapping[Listener, ApiServer]
    addresses: dict[Listener, Endpoint]

    async def start(self, base: Base) -> tuple[Endpoint, Endpoint]:
        """Listen; return the endpoints that are advertised to peers and to clients.

        Raises:
            ConfigurationError: the node cannot listen on an address.
        """
        settings = base.settings
        peer = await _listen(self.peer, settings.peer_listen, "peer_listen")
        for listener, server in self.api.items():
            bound = await _listen(server, self.addresses[listener], SETTINGS[listener])
            self.addresses[listener] = Endpoint(settings.api_endpoint.host, bound.port)
        return (
            _with_port(settings.peer_endpoint, peer.port),
            _with_port(settings.api_endpoint, self.addresses[Listener.API].port),
        )

    def end_former(self) -> None:
        """End the connections of clients that were verified by a CA that is trusted no more."""
        for server in self.api.values():
            server.end_former()

    async def stop(self) -> None:
        """Stop all, that of the peers last."""
        for server in self.api.values():
            await server.stop()
        await self.peer.stop()


def build_listeners(
    base: Base,
    service: Service,
    peer_server: PeerServer,
    tls: Tls,
    access: Access,
) -> Listeners:
    """Build all that the settings ask for."""
    peer_app = web.Application()
    peer_app.router.add_get(PEER_PATH, peer_server.handle)
    settings = base.settings
    limits = ApiLimits(
        record_max_bytes=settings.record_max_bytes, batch_max_bytes=settings.max_batch_bytes
    )
    addresses = listen_addresses(settings)
    client, own = listener_limits(settings, len(addresses) - 1)
    observer, sessions = HttpMetrics(base.metrics.registry), SessionMetrics(base.metrics.registry)
    refusals = LimitMetrics(base.metrics.registry)
    gates = access.gates(service, base.metrics.registry, addresses, tls.trusted_by_api)
    apps = {
        listener: make_app(
            service,
            registry=base.metrics.registry,
            version=base.process.version,
            limits=limits,
            observer=observer,
            session_observer=sessions,
            guard=Guard(
                client if listener is Listener.API else own,
                refusals.of(listener),
                body_max_bytes=limits.json_body_max_bytes,
            ),
            gate=gate,
        )
        for listener, gate in gates.items()
    }
    return Listeners(
        ApiServer(
            peer_app,
            shutdown_grace_ms=200,
            connections_max=PEER_CONNECTIONS_MAX,
            on_connection=peer_server.lobby.enter,
            on_gone=peer_server.lobby.leave,
            tls=tls.peer,
        ),
        {
            listener: ApiServer(app, shutdown_grace_ms=500, tls=tls.api)
            for listener, app in apps.items()
        },
        addresses,
    )


def listen_addresses(settings: NodeSettings) -> dict[Listener, Endpoint]:
    """The listeners for clients that are set, and where they are to listen."""
    wanted = {
        Listener.API: settings.api_listen,
        Listener.ADMIN: settings.admin_listen,
        Listener.METRICS: settings.metrics_listen,
    }
    return {listener: address for listener, address in wanted.items() if address is not None}


def listener_limits(settings: NodeSettings, others: int) -> tuple[ClientLimits, ClientLimits]:
    """The limits of the client listener, and those of each other listener.

    Args:
        settings: of the node.
        others: how many other listeners there are; each has a few connections of its own.
    """
    files = descriptors_for_clients(raise_file_limit())
    most = min(OWN_CONNECTIONS_MAX, settings.api_connections_max, files // 8)
    client = client_limits(settings, files - others * (most + OWN_RESERVED_MAX))
    own = replace(
        client,
        connections_max=most,
        address_connections_max=min(most, settings.api_address_connections_max),
        reserved_max=OWN_RESERVED_MAX,
    )
    return client, own


def client_limits(settings: NodeSettings, files: int) -> ClientLimits:
    """Take the limits from the settings; the system may allow fewer open files than they need."""
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
