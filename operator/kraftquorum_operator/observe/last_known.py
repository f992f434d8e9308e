"""What the last status reported of a quorum while a replica answered: kept to be shown again.

A report for people. Guards name replicas by it if no replica answers; no decision depends on it
(S11).
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import AS_LAST_KNOWN, LastKnown, ReplicaId
from kraftquorum_operator.model.status import QuorumStatus


def last_known(reported: QuorumStatus | None) -> LastKnown | None:
    """The voters and the loss in the last status; None if it has neither."""
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
        why = lost.message  # it has the time and the result of the last observation
    if not voters and not why:
        return None
    return LastKnown(
        voters=tuple(ReplicaId(voter.node_id, voter.directory_id) for voter in voters),
        at=reported.leader_seen_at or "",
        lost=why,
    )
