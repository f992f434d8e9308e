"""The conditions of a KRaftQuorum; docs/reference/conditions.md is generated from this table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kraftquorum_operator.judge.access import access_obstacle
from kraftquorum_operator.judge.copies import copied_voters, why_copied
from kraftquorum_operator.judge.disks import damaged_storage, low_disks
from kraftquorum_operator.judge.given_up import failing_in_a_row
from kraftquorum_operator.judge.log_size import why_log_outgrows
from kraftquorum_operator.judge.scale_up import why_deferred
from kraftquorum_operator.judge.volume_growth import why_volumes_grow
from kraftquorum_operator.model.observation import AS_LAST_KNOWN, Observation, majority
from kraftquorum_operator.model.status import Condition
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import Decision, Done, Wait, describe, without_pause
from kraftquorum_operator.report.stamp import Stamp, Truth, camel

Answer = tuple[bool, str, str]
"""Whether the condition holds, its reason and its message."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a condition is judged on: the observation, the spec's wishes and the decision."""

    observation: Observation
    wanted: int
    decision: Decision
    size: str = "0"
    """`spec.storage.size`."""

    @property
    def unpaused(self) -> Decision:
        """The decision without a pause, which holds it back."""
        return without_pause(self.decision)


def _why(decision: Decision) -> tuple[str, str]:
    match decision:
        case Wait(guard, why):
            return camel(guard), why
        case Done(why):
            return "Done", why
        case _:
            return type(decision).__name__, describe(decision)


def _ready(context: Context) -> Answer:
    """The quorum has every wanted voter, all are caught up, and the operator has nothing to do."""
    unpaused = context.unpaused
    reason, why = _why(unpaused)
    return isinstance(unpaused, Done), reason, why


def _available(context: Context) -> Answer:
    """A majority has confirmed the leader: clients can write."""
    quorum = context.observation.quorum
    if quorum is None:
        unpaused = context.unpaused
        reason, why = _why(unpaused)
        return False, reason if isinstance(unpaused, Wait) else "NoLeader", why
    if not quorum.confirmed:
        return False, "NotConfirmed", "no majority has confirmed the leader"
    if not quorum.formation_completed:
        return False, "Forming", "not all first voters have the first records yet"
    leader = context.observation.node(quorum.leader.node_id)
    if leader is not None and leader.replica == quorum.leader and leader.disk_low:
        low = next(map(str, low_disks(context.observation)), "")
        return False, "DiskLow", f"leader {quorum.leader} refuses writes: {low}"
    return True, "LeaderConfirmed", f"{quorum.leader} leads in epoch {quorum.epoch}"


def _progressing(context: Context) -> Answer:
    """The operator is changing the quorum, or waits until it can.

    While a scale-up is deferred for a rolling restart, the message has both.
    """
    reason, why = _why(context.decision)
    deferral = why_deferred(context.observation, context.wanted)
    if deferral is not None and deferral not in why:
        why = f"{why}; {deferral}"
    stuck = isinstance(context.decision, Wait) and guards.needs_person(context.decision.guard)
    return not isinstance(context.decision, Done) and not stuck, reason, why


def _degraded(context: Context) -> Answer:
    """The quorum tolerates fewer failures than `spec.voters` voters would."""
    quorum = context.observation.quorum
    if quorum is None:
        return context.observation.latch is not None, "NoLeader", "no leader has answered"
    tolerance, full = (
        fault_tolerance(context.observation),
        context.wanted - majority(context.wanted),
    )
    lagging = [str(v.replica) for v in quorum.voters if not v.fresh]
    text = f"the quorum tolerates {max(tolerance, 0)} of {full} failures"
    if lagging:
        text += f"; not caught up: {', '.join(lagging)}"
    return tolerance < full or bool(lagging), "FaultTolerance", text


def quorum_lost(observation: Observation, decision: Decision) -> tuple[str, str] | None:
    """Why the quorum is lost, as a reason and a message; None: nothing indicates that it is.

    A reported loss stays reported while too few replicas answer to refute it.
    """
    unpaused = without_pause(decision)
    if isinstance(unpaused, Wait) and unpaused.guard == guards.never_rebootstrap.name:
        return camel(unpaused.guard), unpaused.why
    if observation.last is None or not observation.last.lost:
        return None
    if observation.quorum is not None or observation.majority_answers():
        return None
    return AS_LAST_KNOWN, observation.last.lost


def _quorum_lost(context: Context) -> Answer:
    """A majority of the voters has lost its storage: a person must decide."""
    lost = quorum_lost(context.observation, context.decision)
    if lost is not None:
        return True, *lost
    return (
        False,
        "NotLost",
        "a leader answers" if context.observation.quorum else "no storage is known to be lost",
    )


def _formation_blocked(context: Context) -> Answer:
    """The operator cannot form the quorum until a person acts."""
    unpaused = context.unpaused
    if context.observation.latch is None and isinstance(unpaused, Wait):
        guard = guards.GUARDS.get(unpaused.guard)
        if guard is not None and guard.formation is not None:
            return guard.formation == "blocked", camel(guard.name), unpaused.why
    return False, "NotBlocked", "formed" if context.observation.latch else "forming"


def _volume_from_copy(context: Context) -> Answer:
    """A replica's volume was restored from a copy; the replica counts in no majority."""
    copied = copied_voters(context.observation)
    # Content that was restored below the same claim, which no record shows: a peer has noticed it.
    stale = [
        pod
        for pod in context.observation.pods
        if (ended := context.observation.engine.storage_exit(pod.exit_code)) is not None
        and ended.fault == "stale"
        and not pod.ready
    ]
    if stale and not copied:
        return True, "StorageStale", "; ".join(f"pod {pod.name}: {pod.detail}" for pod in stale)
    if not copied:
        return False, "AsRecorded", "every voter that answers uses its recorded claim"
    nodes = [node for node in context.observation.nodes if node.replica in copied]
    reasons = "; ".join(
        f"{node.replica}: {why_copied(context.observation, node)}" for node in nodes
    )
    return True, camel(guards.claim_is_the_recorded_one.name), reasons


def _storage_damaged(context: Context) -> Answer:
    """A replica's scrub or start-up found corruption in its storage; see `VolumeFromCopy` too."""
    damaged = damaged_storage(context.observation)
    if not damaged:
        return False, "NotDamaged", "no replica has found corruption in its storage"
    return True, damaged[0].reason, "; ".join(map(str, damaged))


def _disk_low(context: Context) -> Answer:
    """A replica's disk is full or nearly full; the message names pod, claim and volume."""
    low = low_disks(context.observation)
    if not low:
        return (
            False,
            "RoomEnough",
            "every replica that answers has more free space than its reserve",
        )
    return True, low[0].reason, "; ".join(map(str, low))


def _volumes_failing(context: Context) -> Answer:
    """New volumes of a replica failed one after the other; the operator waits longer each time."""
    failing = failing_in_a_row(context.observation)
    if not failing:
        return False, "NotFailing", "no two new volumes of a replica failed in a row"
    counts = (f"replica {n}: {count} new volumes in a row" for n, count in failing)
    return (
        True,
        camel(guards.replacements_spaced.name),
        f"failed before they were used: {'; '.join(counts)}",
    )


def _volumes_growing(context: Context) -> Answer:
    """Volumes do not have the larger `spec.storage.size` yet; the message says why."""
    why = why_volumes_grow(context.observation, context.size)
    if why is None:
        return False, "NotGrowing", "every volume has the wanted size"
    return True, *why


def _config_rejected(context: Context) -> Answer:
    """Nodes would refuse `spec.config`. The message says why; the operator changes no pod."""
    if not context.observation.config_faults:
        return False, "ConfigAccepted", "nodes accept spec.config"
    return True, "InvalidConfig", "; ".join(context.observation.config_faults)


def _certificates_failing(context: Context) -> Answer:
    """Certificates cannot be used, or expire soon because the operator could not renew them."""
    why = context.observation.certificates_failing
    if why is None:
        return False, "CertificatesUsable", "the certificates can be used, or there are none"
    return True, why[0], why[1]


def _access_ready(context: Context) -> Answer:
    """Every node has the access file that `spec.access` describes; shown while it is set."""
    why = access_obstacle(context.observation)
    if why is not None:
        return False, *why
    return True, "Enforced", "the nodes refuse what no entry of spec.access allows"


def _log_outgrows_disk(context: Context) -> Answer:
    """The settings do not keep the log smaller than its volume; a full volume refuses writes."""
    why = why_log_outgrows(context.observation)
    if why is None:
        return False, "LogBounded", "the nodes trim the log before it fills its volume"
    return True, why[0], why[1]


def _pods_blocked(context: Context) -> Answer:
    """A pod cannot start or a claim has no volume; reason and message are those of Kubernetes."""
    if not context.observation.troubles:
        return False, "NotBlocked", "nothing keeps a pod or a claim from starting"
    return (
        True,
        context.observation.troubles[0].reason,
        "; ".join(map(str, context.observation.troubles)),
    )


def _failing(context: Context) -> Answer:
    """Requests of the operator to the API server or to a node fail; the operator retries them."""
    if context.observation.failure is None:
        return False, "NotFailing", "the operator's last request succeeded"
    return True, *context.observation.failure


def _paused(context: Context) -> Answer:
    """`spec.pause` is set: the operator changes nothing, and still reports the other conditions."""
    if isinstance(context.decision, Wait) and context.decision.held_back is not None:
        return True, camel(context.decision.guard), context.decision.why
    return False, "NotSet", "spec.pause is not set"


ACCESS_READY = "AccessReady"

CONDITIONS: dict[str, Callable[[Context], Answer]] = {
    "Ready": _ready,
    "Available": _available,
    "Progressing": _progressing,
    "Degraded": _degraded,
    "QuorumLost": _quorum_lost,
    "FormationBlocked": _formation_blocked,
    "VolumeFromCopy": _volume_from_copy,
    "StorageDamaged": _storage_damaged,
    "DiskLow": _disk_low,
    "VolumesFailing": _volumes_failing,
    "VolumesGrowing": _volumes_growing,
    "LogOutgrowsDisk": _log_outgrows_disk,
    "ConfigRejected": _config_rejected,
    "CertificatesFailing": _certificates_failing,
    ACCESS_READY: _access_ready,
    "PodsBlocked": _pods_blocked,
    "Failing": _failing,
    "Paused": _paused,
}


STANDING = ("Ready", "Available", "Progressing", "Degraded", "QuorumLost")
"""Conditions that a status always has, in this order; the others only while they are not False."""


BY_REPLICAS = frozenset({"Ready", "Available", "Degraded"})
"""Conditions that only replicas can report: Unknown while no replica answers."""

BY_REPLICAS_OR_PODS = frozenset({"VolumeFromCopy", "StorageDamaged", "DiskLow"})
"""Conditions that a pod's exit code can set to True as well, but not to False."""


def _why_no_answers(observation: Observation) -> str | None:
    """Why the replicas' state is unknown: none answers, but Kubernetes reports some as ready.

    Replicas that Kubernetes does not report as ready either are down, and their state is known.
    """
    ready = [pod.name for pod in observation.pods if pod.ready and not pod.terminating]
    if observation.nodes or not ready:
        return None
    listed = ", ".join(ready)
    return f"no replica answers the operator, but Kubernetes reports as ready: {listed}"


def why_unknown(name: str, observation: Observation, *, holds: bool) -> str | None:
    """Why a condition is Unknown; None: it is True or False."""
    asked = name in BY_REPLICAS or (name in BY_REPLICAS_OR_PODS and not holds)
    return _why_no_answers(observation) if asked else None


def _is_shown(name: str, status: str, observation: Observation) -> bool:
    """Whether a status has a condition."""
    if name == ACCESS_READY:
        return observation.access is not None
    return status != "False" or name in STANDING


NOT_OBSERVED = "NotObserved"
"""The reason of every condition that is Unknown."""


def fault_tolerance(observation: Observation) -> int:
    """How many more voters may fail: caught-up voters minus the majority of the set."""
    if observation.quorum is None:
        return 0
    fresh = sum(1 for voter in observation.quorum.voters if voter.fresh)
    return fresh - majority(len(observation.quorum.voters))


def conditions(
    observation: Observation,
    wanted: int,
    decision: Decision,
    before: Sequence[Condition],
    stamp: Stamp,
    size: str = "0",
) -> list[Condition]:
    """The conditions to report."""
    context = Context(observation, wanted, decision, size)
    result: list[Condition] = []
    for name, judge in CONDITIONS.items():
        holds, reason, message = judge(context)
        status: Truth = "True" if holds else "False"
        if (why := why_unknown(name, observation, holds=holds)) is not None:
            last_answer = (
                f"at {stamp.last_answer_at}"
                if stamp.last_answer_at
                else "before this operator started"
            )
            status, reason = "Unknown", NOT_OBSERVED
            message = f"{why}; the last answer came {last_answer}"
        if not _is_shown(name, status, observation):
            continue
        result.append(stamp.condition(name, status, reason, message, before))
    return result
