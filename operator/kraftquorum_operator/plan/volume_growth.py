"""Larger volumes: each claim of a replica grows to `spec.storage.size`, one after the other.

No pod and no claim ends for this. It needs no leader, and waits for no repair: more space may be
what brings back replicas that stopped because their disks are full. Nothing else waits for it.
"""

from __future__ import annotations

from kraftquorum_operator.judge.volume_growth import used_claims
from kraftquorum_operator.model.observation import Claim
from kraftquorum_operator.model.quantity import size_bytes
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Decision, GrowClaim, Wait
from kraftquorum_operator.plan.guards import Case, first_block


def _smaller(case: Case) -> list[Claim]:
    """The claims that ask for less than is wanted: those of replicas that are not well first."""
    wanted, quorum = size_bytes(case.spec.storage.size), case.observation.quorum
    fresh = {v.replica.node_id for v in quorum.voters if v.fresh} if quorum else set[int]()
    leader = quorum.leader.node_id if quorum else None
    smaller = (
        claim
        for claim in used_claims(case.observation)
        if claim.requested_bytes is not None and claim.requested_bytes < wanted
    )
    return sorted(smaller, key=lambda c: (c.ordinal == leader, c.ordinal in fresh, c.ordinal))


def _subject(case: Case, claim: Claim) -> Case:
    return Case(case.spec, case.observation, case.now_ms, ordinal=claim.ordinal)


def grow_claim(case: Case) -> GrowClaim | None:
    """Have the next claim ask for the wanted size, once no other is growing."""
    if any(claim.grows for claim in used_claims(case.observation)):
        return None
    for claim in _smaller(case):
        if first_block(_subject(case, claim), guards.claim_growth_accepted) is None:
            return GrowClaim(claim.name, claim.uid, case.spec.storage.size, claim.version)
    return None


def awaits_only_volumes(decision: Decision) -> bool:
    """Whether a quorum has nothing left to do except to wait for its volumes."""
    names = {guards.volume_has_grown.name, guards.claim_growth_accepted.name}
    return isinstance(decision, Wait) and decision.guard in names


def await_volumes(case: Case) -> Wait | None:
    """Wait for claims that grow, and for those that may not."""
    growing = (claim for claim in used_claims(case.observation) if claim.grows)
    for claim in (*growing, *_smaller(case)):
        wait = first_block(
            _subject(case, claim), guards.volume_has_grown, guards.claim_growth_accepted
        )
        if wait is not None:
            return wait
    return None
