"""The results of `decide`: one action, a wait with its guard's name, or done.

Every action is idempotent and has the identities of its targets: UIDs of objects,
(id, UUID) of replicas, what a voter change was decided on. An action that a second operator
or a paused one executes late does nothing (S11, S21).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kraftquorum_operator.model.objects import ObjectRef
from kraftquorum_operator.model.observation import (
    Basis,
    ClaimRecord,
    Deferral,
    Latch,
    LatchVoter,
    ReplicaId,
)


@dataclass(frozen=True, slots=True)
class ApplyObjects:
    """Write the objects that are missing or outdated, and delete those that are not wanted."""

    objects: tuple[ObjectRef, ...]


@dataclass(frozen=True, slots=True)
class CreateStatefulSet:
    """Create the StatefulSet, once, with its first number of replicas."""

    replicas: int


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Change the StatefulSet's replicas, if no other client changed it meanwhile."""

    uid: str
    resource_version: str
    replicas: int
    deferral: Deferral | None = None
    """The scale-up that is deferred by this, to record; None: none is deferred any longer."""


@dataclass(frozen=True, slots=True)
class CreateLatch:
    """Create the formation latch with these voters, and a random cluster id if none is given."""

    voters: tuple[LatchVoter, ...]
    cluster_id: str | None = None
    """The one that the nodes' certificates have already."""


@dataclass(frozen=True, slots=True)
class CreateAuthority:
    """Create the Secret with the quorum's CA, once."""

    cluster_id: str | None
    """In the certificates that it signs; None: a random one."""
    signs: bool = True
    """Whether it gets a CA; without one it says only which cluster id certificates have."""


AuthorityChange = Literal["identify", "prepare", "promote", "renew", "count"]


@dataclass(frozen=True, slots=True)
class ChangeAuthority:
    """Change the Secret with the CA, if it is as it was observed.

    `identify`: the certificates are to have another cluster id. `prepare`: make the next CA.
    `promote`: sign with the CA that was prepared. `renew`: replace a CA that cannot be used.
    `count`: record how many pods may have Certificates of cert-manager.
    """

    change: AuthorityChange
    uid: str
    version: str
    cluster_id: str | None = None
    """For `identify`; None: a random one."""
    pods: int = 0
    """For `count`."""


@dataclass(frozen=True, slots=True)
class IssueCertificates:
    """Bring the certificates of the nodes and of the operator up to date.

    Attributes:
        authorities: fingerprints of the CAs to trust.
        names: pods, and the operator, that get another certificate.
        dropped: pods whose certificate is removed; the operator's likewise.
        cluster_id: in the certificates.
        versions: of the Secrets that it is made from, as they were observed.
        reason: why, in words.
    """

    authorities: frozenset[str]
    names: tuple[str, ...]
    dropped: tuple[str, ...]
    cluster_id: str
    versions: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteIssued:
    """Delete a Certificate of cert-manager, or its Secret, by its UID."""

    ref: ObjectRef
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteAuthority:
    """Delete the Secret with the CA of a deleted resource, if it is the one observed."""

    uid: str


@dataclass(frozen=True, slots=True)
class AdoptQuorum:
    """Create the latch for a quorum that exists already, so that none is formed beside it."""

    cluster_id: str
    voters: tuple[LatchVoter, ...]


@dataclass(frozen=True, slots=True)
class SendLatch:
    """Send the latch, as read back, to a blank node that it lists."""

    replica: ReplicaId
    latch: Latch


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Send the cluster id to a blank node, which becomes an observer."""

    replica: ReplicaId
    cluster_id: str


@dataclass(frozen=True, slots=True)
class AddVoter:
    """Make a caught-up observer a voter."""

    replica: ReplicaId
    endpoint: str
    basis: Basis
    replaces: ReplicaId | None = None


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """Take a replica out of the voter set."""

    replica: ReplicaId
    basis: Basis


@dataclass(frozen=True, slots=True)
class MoveLeadership:
    """Have the leader resign in favour of another voter."""

    leader: ReplicaId
    preferred: ReplicaId


@dataclass(frozen=True, slots=True)
class CountPod:
    """Have the disruption budget select a pod, by its name, or no longer (S22)."""

    pod: str
    voter: bool
    """Whether the pod is to be in the budget, which counts voters."""
    version: str | None = None
    """The budget's resourceVersion; the operator changes the budget only unchanged."""


@dataclass(frozen=True, slots=True)
class RecountBudget:
    """Touch the disruption budget, so that its controller counts the voters' pods again (S22)."""

    uid: str
    mark: str
    """Why it is touched; the same mark again changes nothing."""


@dataclass(frozen=True, slots=True)
class SetClaimOwner:
    """Mark the claim of an adopted replica as created for this resource."""

    claim: str
    uid: str


@dataclass(frozen=True, slots=True)
class RecordClaims:
    """Record which claim each directory id is on (S3), on the claims and the StatefulSet."""

    statefulset_uid: str
    claims: tuple[tuple[str, int, ClaimRecord], ...]
    """Name of the claim, ordinal, and what to record."""


@dataclass(frozen=True, slots=True)
class GrowClaim:
    """Have one volume claim ask for more, if no other client changed it meanwhile."""

    claim: str
    uid: str
    size: str
    version: str | None = None
    """Its resourceVersion: a late request must not lower what a later one asked for."""


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete one volume claim, by its UID."""

    claim: str
    uid: str
    reason: str
    gives_up: int | None = None
    """The ordinal whose storage is given up for a new one; the operator records that first."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete one pod, by its UID; the StatefulSet recreates it."""

    pod: str
    uid: str
    reason: str
    version: str | None = None
    """Its resourceVersion, if it may be deleted only unchanged: not if it has started since."""


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict one healthy pod, by its UID, if the disruption budget allows it (S22)."""

    pod: str
    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteStatefulSet:
    """Delete the StatefulSet and, in the background, its pods."""

    uid: str


@dataclass(frozen=True, slots=True)
class DeleteLatch:
    """Delete the latch, after the data that it belongs to."""

    resource_uid: str


Action = (
    ApplyObjects
    | CreateStatefulSet
    | SetReplicas
    | CreateAuthority
    | ChangeAuthority
    | IssueCertificates
    | DeleteIssued
    | DeleteAuthority
    | CreateLatch
    | AdoptQuorum
    | SendLatch
    | JoinNode
    | AddVoter
    | RemoveVoter
    | MoveLeadership
    | CountPod
    | RecountBudget
    | SetClaimOwner
    | RecordClaims
    | GrowClaim
    | DeleteClaim
    | DeletePod
    | EvictPod
    | DeleteStatefulSet
    | DeleteLatch
)


@dataclass(frozen=True, slots=True)
class Wait:
    """The operator must not act now: which guard blocks, and why."""

    guard: str
    why: str
    held_back: Decision | None = None
    """The decision without the pause; None unless the operator waits for the end of a pause."""


@dataclass(frozen=True, slots=True)
class Done:
    """The operator has nothing left to do."""

    why: str


Decision = Action | Wait | Done


def without_pause(decision: Decision) -> Decision:
    """The decision without a pause: the state of the quorum, also while the operator is paused."""
    if isinstance(decision, Wait) and decision.held_back is not None:
        return decision.held_back
    return decision


def summary(decision: Decision) -> str | None:
    """A decision in a word or two, for a column: `AddVoter 1`, or the guard that blocks."""
    match decision:
        case Done():
            return None
        case Wait(guard):
            return guard
        case (
            AddVoter(replica) | RemoveVoter(replica) | JoinNode(replica) | SendLatch(replica)
        ) as action:
            return f"{type(action).__name__} {replica.node_id}"
        case action:
            return type(action).__name__


def describe(action: Action) -> str:
    """An action in one line, for the status and events: its name and its target."""
    match action:
        case AddVoter(replica, _, _, None):
            return f"AddVoter {replica}"
        case AddVoter(replica, _, _, replaces):
            return f"AddVoter {replica} replacing {replaces}"
        case RemoveVoter(replica):
            return f"RemoveVoter {replica}"
        case JoinNode(replica) | SendLatch(replica):
            return f"{type(action).__name__} {replica}"
        case MoveLeadership(leader, preferred):
            return f"MoveLeadership {leader} to {preferred}"
        case SetReplicas(_, _, replicas, Deferral(why=why)):
            return f"SetReplicas {replicas} (the scale-up waits for a roll: {why})"
        case SetReplicas(_, _, replicas) | CreateStatefulSet(replicas):
            return f"{type(action).__name__} {replicas}"
        case CountPod(pod, voter):
            return f"CountPod {'on' if voter else 'off'} {pod}"
        case DeletePod(pod, _, reason) | EvictPod(pod, _, reason):
            return f"{type(action).__name__} {pod} ({reason})"
        case DeleteClaim(claim, _, reason):
            return f"DeleteClaim {claim} ({reason})"
        case GrowClaim(claim, _, size):
            return f"GrowClaim {claim} to {size}"
        case SetClaimOwner(claim):
            return f"SetClaimOwner {claim}"
        case RecordClaims(_, claims):
            return f"RecordClaims {', '.join(name for name, _, _ in claims)}"
        case AdoptQuorum(cluster_id):
            return f"AdoptQuorum {cluster_id}"
        case ApplyObjects(objects):
            return f"ApplyObjects {', '.join(map(str, objects))}"
        case ChangeAuthority("count", pods=pods):
            return f"ChangeAuthority count {pods}"
        case ChangeAuthority(change):
            return f"ChangeAuthority {change}"
        case DeleteIssued(ref):
            return f"DeleteIssued {ref}"
        case IssueCertificates(reason=reason):
            return f"IssueCertificates ({reason})"
        case (
            CreateLatch()
            | RecountBudget()
            | DeleteStatefulSet()
            | DeleteLatch()
            | CreateAuthority()
            | DeleteAuthority()
        ):
            return type(action).__name__
