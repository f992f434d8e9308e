"""Larger volumes: each claim of a replica grows to `spec.storage.size`.

Those that the quorum stands on grow one after the other; a growth that is stuck delays no replica
that has to come back. No pod and no claim ends for this. It needs no leader, and waits for no
repair: more space may be what brings back replicas that stopped because their disks are full.
Nothing else waits for it.
"""

from __future__ import annotations

from kraftquorum_operator.judge.volume_growth import asks_for_less, used_claims
from kraftquorum_operator.model.observation import Claim, Observation
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Decision, GrowClaim, Wait
from kraftquorum_operator.plan.guards import Case, first_block


def _well(observation: Observation) -> set[int]:
    """The replicas that the quorum stands on: the caught-up voters; with no leader, the ready."""
    quorum = observation.quorum
    if quorum is None or not quorum.confirmed:
        return {pod.ordinal for pod in observation.pods if pod.ready}
    return {voter.replica.node_id for voter in quorum.voters if voter.fresh}


def _smaller(case: Case) -> list[Claim]:
    """The claims that ask for less than is wanted: those of replicas that are not well first.

    A volume that no pod has mounted may be unable to grow, so it comes last.
    """
    quorum = case.observation.quorum
    well, leader = _well(case.observation), quorum.leader.node_id if quorum else None
    started = {pod.ordinal for pod in case.observation.pods if not pod.never_started}
    smaller = (
        claim
        for claim in used_claims(case.observation)
        if asks_for_less(claim, case.spec.storage.size)
    )
    return sorted(
        smaller,
        key=lambda c: (
            c.ordinal not in started,
            c.ordinal == leader,
            c.ordinal in well,
            c.ordinal,
        ),
    )


def _subject(case: Case, claim: Claim) -> Case:
    return Case(case.spec, case.observation, case.now_ms, ordinal=claim.ordinal)


def grow_claim(case: Case) -> GrowClaim | None:
    """Have the next claim ask for the wanted size.

    Of the replicas that are well, a driver that fails must not take two. One that is not well has
    nothing to lose, and grows beside the others.
    """
    well = _well(case.observation)
    claims = (c for c in used_claims(case.observation) if c.ordinal in well)
    busy = any(claim.grows or claim.capacity_bytes is None for claim in claims)
    failed = dict(case.observation.failed_growths).keys() - case.observation.due_growths
    for claim in _smaller(case):
        if (busy and claim.ordinal in well) or claim.uid in failed:
            continue
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
            _subject(case, claim), guards.claim_growth_accepted, guards.volume_has_grown
        )
        if wait is not None:
            return wait
    return None
