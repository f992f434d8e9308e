"""Says hello to every voter, so that each knows of this start before it may matter (S3).

Followers send each other nothing until there is an election, and then it is too late to learn
that a follower is an old copy. The only voter of a quorum needs no other vote for an election.
It says hello wherever the quorum might be before it may start an election: it may be an old copy,
from before the quorum grew.
"""

from __future__ import annotations

import asyncio

from raftnode.core.replica import Replica
from raftnode.transport import PeerPool

INTERVAL_S = 1.0
"""The time between two checks for voters that are not connected."""
ALONE_INTERVAL_S = 30.0
"""The time between two rounds of the only voter: a replica that counts it as a voter dials it each
second."""


async def greet_before_leading(pool: PeerPool, replica: Replica) -> None:
    """Let the only voter learn that it is an old copy while it cannot lead yet.

    Each address gets one attempt, of `connect_timeout_ms` at most: an unreachable address must not
    keep a quorum of one voter from its work.
    """
    if _is_alone(replica):
        await pool.greet_bootstrap()


async def greet_voters(pool: PeerPool, replica: Replica) -> None:
    """Keep a connection to each voter, for ever; the only voter, to each bootstrap address."""
    loop = asyncio.get_running_loop()
    greeted_at = loop.time()  # `greet_before_leading` has begun the first round
    while True:
        if _is_alone(replica) and loop.time() - greeted_at >= ALONE_INTERVAL_S:
            await pool.greet_bootstrap()
            greeted_at = loop.time()
        connected = {peer.key for peer in pool.connected}
        for key in replica.log.voters:
            if key not in connected:
                pool.greet(key)
        await asyncio.sleep(INTERVAL_S)


def _is_alone(replica: Replica) -> bool:
    return bool(replica.log.voters) and replica.knows_no_other_voter
