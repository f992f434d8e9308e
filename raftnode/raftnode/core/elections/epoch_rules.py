"""The epochs that a replica believes: one rule for every message with a higher epoch (S9).

Any replica can raise its epoch alone, in an election that it loses. A leader that follows such an
epoch leads no more. So a replica takes over only an epoch that it needs:

- an epoch **with its leader**, no matter which replica names it: a majority has elected that
  leader, so no leader of a lower epoch commits anything any more. Its log may add voters that this
  one lacks, so the replica that answers, and the leader itself, may be strangers here;
- an epoch **without a leader**, from a replica whose vote or acknowledgements count here: that
  replica gives none below the epoch. Such replicas are the voters in force in the own log, and for
  a leader also a replica that it was asked to make a voter. Only a leader, or a replica that may be
  elected, needs them: a plain observer would take an epoch in which there may never be a leader,
  and it cannot start an election;
- the epoch **of a vote that it gives**, which is stored with the vote (P8).

The replica refuses every other epoch: it answers and keeps its own. A replica outside the set that
knows a higher epoch than the leader follows the next leader that is above it.
"""

from __future__ import annotations

from raftnode.core.replica import Replica
from raftnode.core.roles import Leader
from raftnode.core.types import Epoch, ReplicaKey


def believed(replica: Replica, source: ReplicaKey, epoch: Epoch, leader: ReplicaKey | None) -> bool:
    """Whether a replica goes over to a higher epoch.

    Args:
        replica: the replica that receives the message.
        source: the sender; the connection proved it.
        epoch: the sender's epoch; False unless it is higher than the replica's own.
        leader: the leader that the sender names for that epoch; None: none.
    """
    if epoch <= replica.epoch:
        return False
    return leader is not None or (_may_lead(replica) and counts(replica, source))


def counts(replica: Replica, source: ReplicaKey) -> bool:
    """Whether votes and acknowledgements of another replica count here, or are about to."""
    if source in replica.log.voters:
        return True
    role = replica.role
    if not isinstance(role, Leader):
        return False
    asked = any(change.kind == "add" and change.key == source for change in role.changes)
    return asked or source in replica.log.target_voters


def _may_lead(replica: Replica) -> bool:
    return replica.may_stand or replica.is_called or isinstance(replica.role, Leader)
