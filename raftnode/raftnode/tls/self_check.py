"""A handshake of a node's certificate with itself, in memory, as its peers would verify it."""

from __future__ import annotations

import ssl

_STEPS_MAX = 16


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Let two contexts shake hands, without a socket.

    Raises:
        ssl.SSLError: one end refuses the other.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    for _ in range(_STEPS_MAX):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
        if not waiting:
            return
    raise ssl.SSLError("the handshake does not end")
