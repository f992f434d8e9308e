"""Says hello to every voter, so that each knows of this start before it may matter (S3).

Followers have nothing to say to each other until there is an election, and then it is too
late to learn that one of them is an old copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from raftnode.core.types import ReplicaKey
from raftnode.transport import PeerPool

INTERVAL_S = 1.0
"""Between two looks at who is not connected."""


async def greet_voters(pool: PeerPool, voters: Callable[[], Iterable[ReplicaKey]]) -> None:
    """Keep a connection to each voter, for ever."""
    while True:
        connected = {peer.key for peer in pool.connected}
        for key in voters():
            if key not in connected:
                pool.greet(key)
        await asyncio.sleep(INTERVAL_S)
