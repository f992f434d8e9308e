"""Says hello to every voter, so that each knows of this start before it may matter (S3).

Followers have nothing to say to each other until there is an election, and then it is too
late to learn that one of them is an old copy. A replica that is the only voter needs nobody
for an election: it says hello wherever the quorum might be, for it may be an old copy of one
that has grown since.
"""

from __future__ import annotations

import asyncio

from raftnode.core.replica import Replica
from raftnode.transport import PeerPool

INTERVAL_S = 1.0
"""Between two looks at who is not connected."""


async def greet_voters(pool: PeerPool, replica: Replica) -> None:
    """Keep a connection to each voter, for ever; the only one, to each bootstrap address."""
    while True:
        if replica.log.voters and replica.needs_no_other:
            pool.greet_bootstrap()
        connected = {peer.key for peer in pool.connected}
        for key in replica.log.voters:
            if key not in connected:
                pool.greet(key)
        await asyncio.sleep(INTERVAL_S)
