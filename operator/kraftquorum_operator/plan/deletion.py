"""The resource is being deleted: what to delete before the finalizer is removed.

Nothing here waits for a pod or a node, so that a machine that is down cannot delay the
deletion; Kubernetes deletes claims that are still mounted with their pods.
"""

from __future__ import annotations

from kraftquorum_operator.model.observation import PendingDeletion
from kraftquorum_operator.plan.actions import (
    Action,
    ChangeAuthority,
    DeleteAuthority,
    DeleteClaim,
    DeleteIssued,
    DeleteLatch,
    DeleteStatefulSet,
    Done,
)


def delete(deletion: PendingDeletion) -> Action | Done:
    """The next thing to delete; Done when the finalizer may go.

    Certificates of cert-manager go, since it would renew them forever. With `Retain` the claims
    stay, and so do the latch, which says what the data belongs to, and the Secret with the CA,
    which has the cluster id of the certificates.
    """
    if deletion.orphaned:
        return Done("deleted; all of its objects stay as they are (--cascade=orphan)")
    statefulset = deletion.statefulset
    ours = statefulset is not None and statefulset.owner_uid == deletion.uid
    if statefulset is not None and ours and not statefulset.terminating:
        return DeleteStatefulSet(statefulset.uid)
    if deletion.issued is not None:
        if deletion.issued.objects:
            return DeleteIssued(*deletion.issued.objects[0])
        if not deletion.delete_claims:
            return ChangeAuthority(
                "count", deletion.issued.authority_uid, deletion.issued.authority_version
            )
    if not deletion.delete_claims:
        return Done("deleted; its volume claims are kept")
    for claim in deletion.claims:
        if claim.owner_uid == deletion.uid and not claim.terminating:
            return DeleteClaim(claim.name, claim.uid, "deletion.claims is Delete")
    if deletion.authority_uid is not None:
        return DeleteAuthority(deletion.authority_uid)
    return (
        DeleteLatch(deletion.uid) if deletion.latched else Done("deleted, with its volume claims")
    )
