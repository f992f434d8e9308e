"""Frames between replicas: one aiohttp WebSocket for each ordered pair of peers.

- hello: what both ends say first; decides whether they talk at all (S6).
- server: answers requests that other replicas send to this one; room: whom it has room for.
- peers: sends this replica's requests; link: one peer's connection.
- addresses, hosts: where a replica might be found; never who it is.

A request's answer, or why there is none, arrives by callback; nothing here blocks
its caller, and nothing here knows what a message means.
"""

from __future__ import annotations

from raftnode.transport.addresses import AddressBook
from raftnode.transport.failure import Failure, FailureReason
from raftnode.transport.hello import Identity, RefusalReason
from raftnode.transport.hosts import HostsFileResolver
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
    "PeerPool",
    "PeerServer",
    "RefusalReason",
    "TaskSpawner",
    "TransportSettings",
]
