"""The sizes of the volumes, and what Kubernetes reports of those that grow. Pure."""

from __future__ import annotations

from kraftquorum_operator.model.observation import Claim, Observation
from kraftquorum_operator.model.quantity import canonical, size_bytes


def used_claims(observation: Observation) -> tuple[Claim, ...]:
    """The bound claims of this resource that its StatefulSet has pods for."""
    replicas = observation.statefulset.replicas if observation.statefulset is not None else 0
    return tuple(
        claim
        for claim in observation.claims
        if claim.ordinal < replicas
        and claim.owner_uid == observation.uid
        and claim.phase == "Bound"
        and not claim.terminating
    )


def first_size(observation: Observation, wanted: str) -> str:
    """The size that the claims of the quorum were first made with, as a quantity.

    The claim template has it and keeps it, and the operator's defaults for the log depend on it. So
    larger volumes restart no pod, and a log never gets the bound of a volume that has not grown. If
    the StatefulSet was deleted, the smallest claim has it. A new quorum has the wanted size.
    """
    statefulset = observation.statefulset
    if statefulset is not None:
        return str(canonical(statefulset.claim_size or wanted))
    ours = (c for c in observation.claims if c.owner_uid == observation.uid and not c.terminating)
    sizes = [size for c in ours for size in (c.requested_bytes, c.capacity_bytes) if size]
    return str(canonical(min([*sizes, size_bytes(wanted)])))


def smallest_size(observation: Observation, otherwise: str) -> str:
    """The size of the smallest volume in use, as a quantity.

    Args:
        observation: of the quorum.
        otherwise: if no claim in use has a volume yet.
    """
    sizes = [claim.capacity_bytes for claim in used_claims(observation) if claim.capacity_bytes]
    return str(canonical(min(sizes))) if sizes else otherwise


def growth_of(claim: Claim) -> str:
    """How far a claim that grows is, in a sentence."""
    size, wanted = canonical(claim.capacity_bytes), canonical(claim.requested_bytes)
    detail = f": {claim.resize}" if claim.resize else ""
    return f"claim {claim.name} has {size} of {wanted}{detail}"


def why_volumes_grow(observation: Observation) -> tuple[str, str] | None:
    """The claims that grow or may not, as a condition's reason and message; None: there is none."""
    reasons: list[tuple[str, str]] = []
    for claim in used_claims(observation):
        refused = observation.why_growth_refused(claim.uid)
        if refused is not None:
            of = f"of StorageClass {claim.storage_class or '(none)'}"
            reasons.append(("Refused", f"claim {claim.name} {of} cannot grow: {refused}"))
        elif claim.grows:
            reasons.append((claim.resize.partition(":")[0] or "Requested", growth_of(claim)))
    if not reasons:
        return None
    return reasons[0][0], "; ".join(why for _, why in reasons)
