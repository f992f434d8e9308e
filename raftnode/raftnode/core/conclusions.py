"""The conclusions of a leader: the one place where they are drawn, after each event.

The handlers note what an event says and answer the event itself. What follows from all that the
leader knows by then is decided here, in this order:

1. what is committed, so that clients hear of it before the peers do;
2. whether this replica still leads;
3. the next step of voter changes, an upgrade, a reassignment and a leadership transfer;
4. what the peers are sent.

A leader that resigns answers the Fetches that wait first (`leadership.resign`).
"""

from __future__ import annotations

from raftnode.core.elections import leadership_transfer
from raftnode.core.membership import raft_version, reassignment, voter_changes
from raftnode.core.replica import Replica
from raftnode.core.replication import leadership
from raftnode.core.roles import Leader


def draw(replica: Replica, role: Leader) -> None:
    """Do all that is due now on a leader, whatever the event was."""
    leadership.after_progress(replica, role)
    for step in (
        _resign_without_majority,
        voter_changes.advance,
        raft_version.advance,
        reassignment.advance,
        leadership_transfer.advance,
        _resign_without_space,
        leadership.tell_voters,
        leadership.answer_parked,
    ):
        step(replica, role)
        if replica.role is not role:
            return


def deadlines(replica: Replica, role: Leader) -> list[int | None]:
    """When a conclusion is due without any other event; None: never."""
    voters = replica.log.voters
    times: list[int | None] = [fetch.until_ms for fetch in role.parked.values()]
    times.append(leadership.majority_lost_at(replica, role))
    if not replica.has_stalled_disk:  # later a Fetch may find others that can lead
        times.append(replica.disk_stalls_at_ms)
    times += [
        progress.begin_at_ms
        for key, progress in role.progress.items()
        if not (progress.begin_done or progress.begin_in_flight) and key in voters
    ]
    times += [c.deadline_ms for c in role.changes if c.request_ids or c.appended is None]
    times += [wait.deadline_ms for wait in (role.upgrade, role.target) if wait]
    times.append(role.transfer.until_ms if role.transfer else None)
    return times


def _resign_without_majority(replica: Replica, role: Leader) -> None:
    lost_at = leadership.majority_lost_at(replica, role)
    if lost_at is not None and lost_at <= replica.now_ms:
        replica.fact("majority_lost")
        leadership.resign(replica, role)
    elif leadership.others_can_lead_instead(replica, role):
        replica.fact(
            "leadership_resigned", reason="disk_stalled", durable_end=replica.log.durable_end
        )
        leadership.resign(replica, role)


def _resign_without_space(replica: Replica, role: Leader) -> None:
    if (
        replica.disk_low
        and replica.now_ms >= role.transfer_at_ms
        and voter_changes.caught_up_voters(replica, role, replica.log.voters)
    ):
        replica.fact("leadership_resigned", reason="disk_low")
        leadership.resign(replica, role)
