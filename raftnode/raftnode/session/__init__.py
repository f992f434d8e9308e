"""The session protocol: many operations of one client on one WebSocket, as bytes.

A client sends *operations*, each with an id of its own; the node sends an *answer* to each, in
any order. One WebSocket message holds as many of them as were ready. The node grants *credits*:
the bytes of operations that may be unanswered at once.

- `operations`: what a client asks, and the messages that hold it;
- `answers`: what a node answers, and its greeting;
- `framing`: what the messages of both have in common.

The package is pure: bytes in, values out. `raftnode.api.session` serves a session,
`raftnode.client.session` holds one. docs/reference/session-protocol.md has the format.
"""

PATH = "/v1/session"
"""Where a node serves sessions, on its API's listener."""

SUBPROTOCOL = "kraftquorum.session.v1"
"""The version of the format, as the WebSocket's subprotocol."""
