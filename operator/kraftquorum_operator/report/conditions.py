"""The conditions of a KRaftQuorum; docs/reference/conditions.md is generated from this table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kraftquorum_operator.model.status import Condition
from kraftquorum_operator.observe.copies import STALE, copied_voters, why_copied
from kraftquorum_operator.observe.disks import damaged_storage, low_disks
from kraftquorum_operator.observe.snapshot import Snapshot, majority
from kraftquorum_operator.plan.actions import Decision, Done, Wait, beneath, describe

Answer = tuple[bool, str, str]
"""Whether it holds, a reason in one word, and a sentence."""

QUORUM_LOST = frozenset({"never_rebootstrap"})
FORMATION = frozenset({"no_earlier_claims", "never_rebootstrap", "all_blank_before_formation"})


def camel(name: str) -> str:
    """A guard's name as a condition's reason."""
    return "".join(part.capitalize() for part in name.split("_"))


def _why(decision: Decision) -> tuple[str, str]:
    match decision:
        case Wait(guard, why):
            return camel(guard), why
        case Done(why):
            return "Done", why
        case _:
            return type(decision).__name__, describe(decision)


def _ready(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """Every wanted voter is there, caught up, and nothing is left to do."""
    del wanted, seen
    truth = beneath(decision)
    reason, why = _why(truth)
    return isinstance(truth, Done), reason, why


def _available(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """A leader is confirmed by a majority: clients can write."""
    del wanted
    quorum = seen.quorum
    if quorum is None:
        truth = beneath(decision)
        reason, why = _why(truth)
        return False, reason if isinstance(truth, Wait) else "NoLeader", why
    if not quorum.confirmed:
        return False, "NotConfirmed", "the leader is not confirmed by a majority"
    if not quorum.formation_completed:
        return False, "Forming", "not all first voters have the first records yet"
    leader = seen.node(quorum.leader.node_id)
    if leader is not None and leader.replica == quorum.leader and leader.disk_low:
        told = next(map(str, low_disks(seen)), "")
        return False, "DiskLow", f"leader {quorum.leader} refuses writes: {told}"
    return True, "LeaderConfirmed", f"{quorum.leader} leads in epoch {quorum.epoch}"


def _progressing(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """The operator is changing something or waits to."""
    del wanted, seen
    reason, why = _why(decision)
    stuck = isinstance(decision, Wait) and decision.guard in NEEDS_PERSON
    return not isinstance(decision, Done) and not stuck, reason, why


def _degraded(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """Fewer voters may fail than the wanted number allows."""
    del decision
    quorum = seen.quorum
    if quorum is None:
        return seen.latch is not None, "NoLeader", "no leader has answered"
    tolerance, full = fault_tolerance(seen), wanted - majority(wanted)
    late = [str(v.replica) for v in quorum.voters if not v.fresh]
    text = f"{max(tolerance, 0)} of {full} failures can be tolerated"
    if late:
        text += f"; not caught up: {', '.join(late)}"
    return tolerance < full or bool(late), "FaultTolerance", text


def _quorum_lost(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """A majority of the voters has lost its storage: a person must decide."""
    del wanted
    truth = beneath(decision)
    if isinstance(truth, Wait) and truth.guard in QUORUM_LOST:
        return True, camel(truth.guard), truth.why
    return False, "NotLost", "a leader answers" if seen.quorum else "no sign of lost storage"


def _formation_blocked(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """The quorum cannot be formed without a person."""
    del wanted
    truth = beneath(decision)
    if seen.latch is None and isinstance(truth, Wait) and truth.guard in FORMATION:
        waits = truth.guard == "all_blank_before_formation"
        return not waits, camel(truth.guard), truth.why
    return False, "NotBlocked", "formed" if seen.latch else "forming"


def _volume_from_copy(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """A replica's volume was put back from a copy; it counts in no majority."""
    del wanted, decision
    copied = copied_voters(seen)
    stale = [pod for pod in seen.pods if pod.exit_code == STALE and not pod.ready]
    if stale and not copied:
        return True, "StorageStale", "; ".join(f"pod {pod.name}: {pod.detail}" for pod in stale)
    if not copied:
        return False, "AsRecorded", "every voter that answers is on its recorded claim"
    nodes = [node for node in seen.nodes if node.replica in copied]
    reasons = "; ".join(f"{node.replica}: {why_copied(seen, node)}" for node in nodes)
    return True, camel("claim_is_the_recorded_one"), reasons


def _storage_damaged(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """A replica's storage is damaged, as its scrub or its start found; see `VolumeFromCopy` too."""
    del wanted, decision
    found = damaged_storage(seen)
    if not found:
        return False, "NotDamaged", "no replica has found damage in its storage"
    return True, found[0].reason, "; ".join(map(str, found))


def _disk_low(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """A replica's disk is full or nearly so; the message names pod, claim and volume."""
    del wanted, decision
    found = low_disks(seen)
    if not found:
        return False, "RoomEnough", "every replica that answers has more room than its reserve"
    return True, found[0].reason, "; ".join(map(str, found))


def _pods_blocked(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """A pod or a claim cannot start; the reason and the message are Kubernetes' own."""
    del wanted, decision
    if not seen.troubles:
        return False, "NotBlocked", "nothing keeps a pod or a claim from starting"
    return True, seen.troubles[0].reason, "; ".join(map(str, seen.troubles))


def _failing(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """What the operator asks of the API server or of a node is not done; it is tried again."""
    del wanted, decision
    if seen.failure is None:
        return False, "NotFailing", "what was asked for last was done"
    return True, *seen.failure


def _paused(seen: Snapshot, wanted: int, decision: Decision) -> Answer:
    """`spec.pause` is set: nothing is done; the other conditions go on telling how it is."""
    del wanted, seen
    if isinstance(decision, Wait) and decision.held_back is not None:
        return True, camel(decision.guard), decision.why
    return False, "NotSet", "spec.pause is not set"


ALARMS = frozenset(
    {
        "claim_is_the_recorded_one",
        "storage_undamaged",
        "objects_written",
        "kubernetes_version_supported",
    }
)
"""Guards that are told at once, as warnings, whether or not a person has to do something."""

NEEDS_PERSON = frozenset(
    {
        "not_paused",
        "objects_are_ours",
        "no_earlier_claims",
        "never_rebootstrap",
        "latch_and_quorum_agree",
        "replacement_policy_allows",
        "deletion_policy_allows",
        "no_foreign_data",
    }
)
"""Guards that stay until a person does something: told at once, as warnings."""

CONDITIONS: dict[str, Callable[[Snapshot, int, Decision], Answer]] = {
    "Ready": _ready,
    "Available": _available,
    "Progressing": _progressing,
    "Degraded": _degraded,
    "QuorumLost": _quorum_lost,
    "FormationBlocked": _formation_blocked,
    "VolumeFromCopy": _volume_from_copy,
    "StorageDamaged": _storage_damaged,
    "DiskLow": _disk_low,
    "PodsBlocked": _pods_blocked,
    "Failing": _failing,
    "Paused": _paused,
}


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a status is written, and about which generation."""

    now: str
    generation: int


def fault_tolerance(seen: Snapshot) -> int:
    """How many more voters may fail: caught-up voters minus the majority of the set."""
    if seen.quorum is None:
        return 0
    fresh = sum(1 for voter in seen.quorum.voters if voter.fresh)
    return fresh - majority(len(seen.quorum.voters))


def conditions(
    seen: Snapshot, wanted: int, decision: Decision, before: Sequence[Condition], stamp: Stamp
) -> list[Condition]:
    """All conditions; the time of one moves only when it turns."""
    earlier = {condition.type: condition for condition in before}
    result: list[Condition] = []
    for name, judge in CONDITIONS.items():
        holds, reason, message = judge(seen, wanted, decision)
        status: Literal["True", "False"] = "True" if holds else "False"
        last = earlier.get(name)
        since = last.last_transition_time if last and last.status == status else stamp.now
        result.append(
            Condition(
                type=name,
                status=status,
                reason=reason[:128],
                message=message[:4000],
                last_transition_time=since,
                observed_generation=stamp.generation,
            )
        )
    return result
