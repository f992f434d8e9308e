"""How what replicas say to each other becomes bytes and back (S28). Pure: no I/O, no asyncio.

- frame: one binary WebSocket message, `envelope` plus body.
- envelope: our header: who speaks to whom, in which cluster, about which API,
  and, in responses, who leads; with tagged extensions for what Kafka's message lacks.
- body: Kafka's own message, written by `kio`, read by the bounded reader of `reader`.

Any bytes decode to a message or raise `DecodeError`; nothing else happens.
"""

from __future__ import annotations

from raftnode.wire.codec import Codec, ErrorFrame, Frame, RequestFrame, ResponseFrame
from raftnode.wire.envelope import Envelope
from raftnode.wire.errors import MessageError

__all__ = [
    "Codec",
    "Envelope",
    "ErrorFrame",
    "Frame",
    "MessageError",
    "RequestFrame",
    "ResponseFrame",
]
