"""What the dialling and the dialled side of the transport share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from raftnode.transport.gate import Gate, OpenGate
from raftnode.transport.hello import Identity
from raftnode.transport.peer_tls import PeerTls
from raftnode.transport.settings import TransportSettings
from raftnode.transport.spawner import TaskSpawner
from raftnode.wire import Codec


@dataclass(frozen=True, slots=True)
class PeerContext:
    """This replica, as its connections know it.

    Attributes:
        codec: between messages and frames.
        identity: this replica's identity for the next hello.
        spawn: starts tasks.
        gate: admits or refuses the replica at the other end.
        settings: timeouts and limits.
        tls: of both sides; None: connections are plain.
    """

    codec: Codec
    identity: Callable[[], Identity]
    spawn: TaskSpawner
    gate: Gate = field(default_factory=OpenGate)
    settings: TransportSettings = field(default_factory=TransportSettings)
    tls: PeerTls | None = None
