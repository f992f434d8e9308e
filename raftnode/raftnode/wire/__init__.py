"""The encoding of the messages between replicas (S28). Pure: no I/O, no asyncio.

- frame: one binary WebSocket message, `envelope` plus body.
- envelope: our header with sender, receiver, cluster and API, and in responses the leader; with
  tagged extensions for what Kafka's message lacks.
- body: Kafka's own message, written by `kio`, read by the bounded reader of `reader`; `kafka` has
  what all bodies share, and `fetch`, `fetch_snapshot`, `vote`, `begin_quorum_epoch` and
  `end_quorum_epoch` have a message each. `compact_fetch` is the Fetch that our nodes send each
  other: a fixed layout of our own.
- codec: whole frames, from and to the core's messages; errors: what a bad frame raises.

Any bytes decode to a message or raise `DecodeError`; there is no third outcome.
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
