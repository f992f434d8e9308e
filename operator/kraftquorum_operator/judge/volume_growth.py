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


def asks_for_less(claim: Claim, wanted: str) -> bool:
    """Whether a claim still has to be asked to grow; not so if its size is not known."""
    return claim.requested_bytes is not None and claim.requested_bytes < size_bytes(wanted)


def advice(claim: Claim, why: str) -> str:
    """What to do about a refusal, if its message tells what it is about."""
    if "quota" in why.lower():
        return ". Raise the quota of the namespace"
    if not any(word in why.lower() for word in ("expan", "resize")):
        return ""
    return (
        f". If the driver of StorageClass {claim.storage_class or '(none)'} can expand volumes, "
        "set allowVolumeExpansion: true on the class"
    )


def next_growth_of(claim: Claim, wanted: str) -> str:
    """From where to where a claim is to grow, in a sentence."""
    return f"claim {claim.name} asks for {canonical(claim.requested_bytes)} of {wanted} so far"


def growth_of(claim: Claim) -> str:
    """How far a claim that grows is, in a sentence."""
    size, wanted = canonical(claim.capacity_bytes), canonical(claim.requested_bytes)
    detail = f": {claim.resize}" if claim.resize else ""
    return f"claim {claim.name} has {size} of {wanted}{detail}"


def why_volumes_grow(observation: Observation, wanted: str) -> tuple[str, str] | None:
    """The claims that grow, may not or still have to, as a condition's reason and message.

    None: all have the wanted size. A refusal comes first: a person must act.
    """
    reasons: list[tuple[str, str]] = []
    for claim in used_claims(observation):
        refused, less = observation.why_growth_refused(claim.uid), asks_for_less(claim, wanted)
        if refused is not None and less:
            of = f"of StorageClass {claim.storage_class or '(none)'}"
            reasons.append(("Refused", f"claim {claim.name} {of} cannot grow: {refused}"))
        elif claim.grows:
            reasons.append((claim.resize.partition(":")[0] or "Requested", growth_of(claim)))
        elif less:
            reasons.append(("Waiting", next_growth_of(claim, wanted)))
    if not reasons:
        return None
    reasons.sort(key=lambda entry: (entry[0] != "Refused", entry[0] == "Waiting"))
    return reasons[0][0], "; ".join(why for _, why in reasons)
