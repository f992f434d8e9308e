"""The resource is being deleted: what to take away before the finalizer goes.

Nothing here waits for a pod or a node, so that a dead machine cannot hold the
resource; claims that are still mounted end with their pods.
"""

from __future__ import annotations

from kraftquorum_operator.plan.actions import (
    Action,
    DeleteClaim,
    DeleteLatch,
    DeleteStatefulSet,
    Done,
)
from kraftquorum_operator.plan.guards import Case


def delete(case: Case) -> Action | Done:
    """The next thing to delete; Done when the finalizer may go.

    With `Retain` the claims stay and so does the latch, which says what the data belongs to.
    """
    seen = case.seen
    ours = seen.statefulset is not None and seen.statefulset.owner_uid == seen.uid
    if seen.statefulset is not None and ours and not seen.statefulset.terminating:
        return DeleteStatefulSet(seen.statefulset.uid)
    if case.spec.deletion.claims == "Retain":
        return Done("deleted; its volume claims are kept")
    for claim in seen.claims:
        if claim.owner_uid == seen.uid and not claim.terminating:
            return DeleteClaim(claim.name, claim.uid, "deletion.claims is Delete")
    if seen.latch is not None:
        return DeleteLatch(seen.uid)
    return Done("deleted, with its volume claims")
