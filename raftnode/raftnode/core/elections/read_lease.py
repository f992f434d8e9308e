"""Lease reads: a leader answers alone while a majority has promised not to vote (S11, S33).

Leases are off unless the configuration says how far clocks may run apart. Then each voter
promises, with every answer of its leader, not to vote for a fetch timeout, not for itself either,
and says so in its next Fetch. The Fetch echoes the newest round token that came with such an
answer. The leader knows when it gave that token out, so it knows that the promise was made no
earlier. It counts the promise from then on, shortened by what the clocks may differ.

What keeps the promise:

- it outlives the role: a higher epoch, which frees a voter of its leader, does not end it;
- it outlives the process: a voter does not vote for as long after each start (`quiet_ms`, which
  the storage remembers);
- only the leader itself ends it early, by EndQuorumEpoch, once it leads no more;
- a leader counts only a voter that says that it promised, and for no longer than the voter said
  or the leader would promise itself.

The leader reads the clock after the request came. So the answer was true at some time between
request and answer, however long the process stood still afterwards.
"""

from __future__ import annotations

from raftnode.core.messages import FetchRequest
from raftnode.core.replica import Replica
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Leader

_TICK_MS = 2
"""Clocks are read in whole milliseconds, here and there."""


def begin_round(replica: Replica, role: Leader) -> None:
    """Give out a token that no replica can have echoed yet, and remember when (S11)."""
    role.round_token += 1
    promise_ms = replica.config.promise_ms
    if promise_ms:
        role.rounds[role.round_token] = replica.now_ms
        # No promise since an older token is still in force.
        while role.rounds[oldest := next(iter(role.rounds))] <= replica.now_ms - promise_ms:
            del role.rounds[oldest]


def note_promise(replica: Replica, role: Leader, progress: Progress, request: FetchRequest) -> None:
    """Note until when a fetcher does not vote, by this leader's clock."""
    began_ms = role.rounds.get(request.round_token)
    if began_ms is None:
        return  # too old a round, or none
    promise_ms = min(request.promise_ms, replica.config.promise_ms)
    lease_ms = promise_ms * (100 - replica.config.lease_clock_drift_percent) // 100 - _TICK_MS
    progress.promised_until_ms = max(progress.promised_until_ms, began_ms + lease_ms)


def covers_reads(replica: Replica, role: Leader) -> bool:
    """Whether no other leader can have been elected by now."""
    if not replica.config.promise_ms:
        return False
    others = [role.progress.get(key) for key in replica.log.voters if key != replica.key]
    promised = sum(
        at is not None and not at.fenced and replica.now_ms < at.promised_until_ms for at in others
    )
    # A leader votes for no other replica.
    return promised + replica.is_voter >= replica.log.voters.majority


def wants_round(replica: Replica, role: Leader) -> bool:
    """Whether it is time to let the voters renew their promises, before they end."""
    newest_ms = role.rounds.get(role.round_token)
    return newest_ms is None or replica.now_ms - newest_ms >= replica.config.promise_ms // 4
