"""The cluster domain in the addresses of a quorum."""

from __future__ import annotations

from collections.abc import Sequence

from kraftquorum_operator import names
from kraftquorum_operator.model.observation import Claim, StatefulSet


def cluster_domain_of(
    statefulset: StatefulSet | None, claims: Sequence[Claim], configured: str
) -> str:
    """The domain that a quorum was made with; the configured one if the quorum is new.

    A replica with another domain in its address would not count as the quorum's, and another
    domain in the template would restart every pod. So a changed setting holds for new quorums only.

    Args:
        statefulset: of the quorum.
        claims: of the quorum's name.
        configured: of the operator's settings.
    """
    if statefulset is not None:
        return statefulset.cluster_domain or names.CLUSTER_DOMAIN
    claim = next((claim for claim in claims if not claim.foreign_owner or claim.doubtful), None)
    return configured if claim is None else claim.cluster_domain or names.CLUSTER_DOMAIN
