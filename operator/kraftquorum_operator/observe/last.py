"""What the last status said of a quorum while somebody could say it: kept to be shown again.

A report for people. Guards name replicas by it where no replica answers; whether they block, and
what is done, never depends on it (S11).
"""

from __future__ import annotations

from kraftquorum_operator.model.status import QuorumStatus
from kraftquorum_operator.observe.snapshot import LastKnown, Replica

AS_LAST_KNOWN = "AsLastKnown"
"""Reason of a condition that goes on holding because nothing answers that could end it."""


def last_known(reported: QuorumStatus | None) -> LastKnown | None:
    """What is worth showing again of the last status; None if it says nothing of voters."""
    if reported is None:
        return None
    voters = reported.voters or reported.last_known_voters
    lost = next((c for c in reported.conditions if c.type == "QuorumLost"), None)
    why = ""
    if lost is not None and lost.status == "True":
        again = lost.reason == AS_LAST_KNOWN
        since = f"lost since {lost.last_transition_time}, as last known"
        why = lost.message if again else f"{since}: {lost.message}"
    elif lost is not None and lost.status == "Unknown" and reported.phase == "QuorumLost":
        why = lost.message  # it says itself when it was observed, and how it was
    if not voters and not why:
        return None
    return LastKnown(
        voters=tuple(Replica(voter.node_id, voter.directory_id) for voter in voters),
        at=reported.leader_seen_at or "",
        lost=why,
    )
