"""Frames between replicas: one aiohttp WebSocket for each ordered pair of peers.

- hello: the first frame of both ends; it decides whether they accept each other (S6).
- server: answers requests of other replicas; connection_limits: which connections it keeps.
- gate: judges each hello, by what is remembered of a replica's storage (S3).
- peers: sends this replica's requests; link: one peer's connection; dial, backoff: how and when it
  is made; outbox: frames that wait for it; failure: why a request got no response.
- context, settings, spawner: what both sides share.
- peer_tls: whom the certificate at the other end has to name.
- addresses, hosts: where a replica might listen; never its identity.

A callback gets a request's answer, or the reason why there is none. The transport never blocks
its caller and does not know what a message means.
"""

from __future__ import annotations

from raftnode.transport.addresses import AddressBook
from raftnode.transport.context import PeerContext
from raftnode.transport.failure import Failure, FailureReason
from raftnode.transport.hello import Identity, RefusalReason
from raftnode.transport.hosts import HostsFileResolver
from raftnode.transport.peer_tls import PeerTls
from raftnode.transport.peers import PeerPool
from raftnode.transport.server import PeerServer
from raftnode.transport.settings import TransportSettings
from raftnode.transport.spawner import TaskSpawner

__all__ = [
    "AddressBook",
    "Failure",
    "FailureReason",
    "HostsFileResolver",
    "Identity",
    "PeerContext",
    "PeerPool",
    "PeerServer",
    "PeerTls",
    "RefusalReason",
    "TaskSpawner",
    "TransportSettings",
]
