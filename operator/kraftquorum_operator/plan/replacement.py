"""Replaces a wanted voter whose storage is lost, broken or about to be deleted.

Each node id has its own small state machine, derived from the observation. The first
that can act does, so that a blocked one delays no other. The order is KIP-856's: join,
catch up, AddVoter(new), RemoveVoter(old); an engine that takes no second voter of an id
has the last two the other way round. The operator deletes the claim first, then
the pod; otherwise the new pod would run on the old data.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftquorum_operator.judge.copies import unrecorded
from kraftquorum_operator.model.observation import Node, Pod, ReplicaId
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import (
    Action,
    AddVoter,
    DeleteClaim,
    DeletePod,
    EvictPod,
    JoinNode,
    MoveLeadership,
    RecordClaims,
    RecountBudget,
    RemoveVoter,
    Wait,
)
from kraftquorum_operator.plan.guards import VOTER_CHANGE, Case, Guard, first_block
from kraftquorum_operator.plan.restart import restart

STUCK_POD_MS = 10_000
"""How long a pod may wait for a missing claim before the operator recreates the pod."""

STORAGE_LOST = "the replica's storage is lost"
COPIED = "its volume was restored from a copy"
DAMAGED = "the replica's storage is damaged"

Step = Action | Wait | None


def repair(case: Case) -> Step:
    """The next repair of any wanted voter; None if all of them are healthy."""
    waits: list[Wait] = []
    for step in _steps(case):
        if isinstance(step, Wait):
            waits.append(step)
        elif step is not None:
            return step
    # A volume restored from a copy is reported before a voter that is only down.
    urgent = {guards.claim_is_the_recorded_one.name, guards.storage_undamaged.name}
    grave = [wait for wait in waits if wait.guard in urgent]
    return next(iter([*grave, *waits]), None)


def _steps(case: Case) -> Iterator[Step]:
    quorum = case.observation.quorum
    if quorum is None:
        return
    # A replica about to be removed is not repaired first (S24): wanted ids only.
    ids = sorted({r.node_id for r in quorum.replicas if r.node_id < case.spec.voters})
    # The most advanced replacements first: the quorum tolerates the fewest failures then (S23).
    yield from (_finish(case, node_id) for node_id in ids)
    yield from (_replace(case, node_id) for node_id in ids)
    yield _add_back(case)


def _add_back(case: Case) -> Action | None:
    """Add a wanted replica that was a voter before, as its record says, and is none now.

    With `order: RemoveFirst`, or an engine that takes no second voter of an id, the lost voter is
    removed before its replacement is added. Until then one failure less is tolerated, so nothing
    that an operation waits for may hold this back. What blocks here is reported by `grow`, which
    does the same for new replicas.
    """
    quorum, statefulset = case.observation.quorum, case.observation.statefulset
    if quorum is None or statefulset is None or len(quorum.voters) >= case.spec.voters:
        return None
    present = {replica.node_id for replica in quorum.replicas}
    for ordinal in range(min(case.spec.voters, statefulset.replicas)):
        if ordinal in present or statefulset.record(ordinal) is None:
            continue
        step = first_block(case, guards.formation_complete) or admit(case, ordinal, replaces=None)
        if not isinstance(step, Wait):
            return step
    return None


def _case(case: Case, ordinal: int, *, old: ReplicaId | None, new: ReplicaId | None = None) -> Case:
    return Case(case.spec, case.observation, case.now_ms, ordinal=ordinal, old=old, new=new)


def _live(case: Case, ordinal: int) -> tuple[Node | None, tuple[ReplicaId, ...]]:
    """The node of an ordinal, and the voters of its id that are not its storage."""
    node = case.observation.node(ordinal)
    voters = case.observation.quorum.voters_of(ordinal) if case.observation.quorum else ()
    dead = tuple(v.replica for v in voters if node is not None and v.replica != node.replica)
    return node, dead


def _finish(case: Case, ordinal: int) -> Step:
    """Remove the old replica once the new one is a voter, or dead ones that are too many."""
    node, dead = _live(case, ordinal)
    quorum = case.observation.quorum
    if node is None or quorum is None or not dead:
        return None
    if node.replica not in quorum.replicas and len(dead) == 1:
        return None
    return remove(case, ordinal, dead[0])


def remove(case: Case, ordinal: int, old: ReplicaId) -> Action | Wait:
    """Remove a lost replica, if the rest is enough."""
    subject = _case(case, ordinal, old=old)
    wait = first_block(
        subject,
        *VOTER_CHANGE,
        guards.replica_silent_for_grace_period,
        guards.majority_survives_removal,
    )
    if wait is not None or case.observation.quorum is None:
        return wait or Wait(guards.leader_elected.name, "no leader has answered yet")
    return RemoveVoter(old, case.observation.quorum.basis)


def _replace(case: Case, ordinal: int) -> Step:
    node, dead = _live(case, ordinal)
    quorum = case.observation.quorum
    if quorum is None:
        return None
    if node is None:
        return _silent_voter(case, ordinal)
    if node.replica in quorum.replicas:
        if node.blank:
            # Listed in a formation whose latch is gone: under this UUID it has neither voted nor
            # acknowledged anything, so it comes in as an empty replica does.
            blocked = first_block(_case(case, ordinal, old=None), guards.confirmed_voters_required)
            return blocked or JoinNode(node.replica, quorum.cluster_id)
        voters = quorum.voters_of(ordinal)
        if any(voter.copied for voter in voters):
            return _replace_unreliable(case, node.replica, guards.claim_is_the_recorded_one, COPIED)
        if any(voter.damaged for voter in voters):
            return _replace_unreliable(case, node.replica, guards.storage_undamaged, DAMAGED)
        pod = case.observation.pod(ordinal)
        return (_outdated(case, pod) if pod is not None else None) or first_block(
            _case(case, ordinal, old=None), guards.node_catches_up
        )
    wait = first_block(_case(case, ordinal, old=None), guards.replacement_policy_allows)
    return wait or admit(case, ordinal, replaces=dead[0])


def _replace_unreliable(
    case: Case, old: ReplicaId, wrong: Guard, reason: str
) -> Action | Wait | None:
    """A voter that answers, but on storage that a guard reports as unreliable.

    Either a volume that was restored from a copy (S3), or one with corruption that its scrub found.
    If that is a mistake, no data is lost: the operator deletes the volume only while all other
    voters have every committed record.
    """
    subject = _case(case, old.node_id, old=old)
    reported = first_block(subject, wrong)
    blocked = first_block(
        subject,
        *VOTER_CHANGE,
        guards.survivors_caught_up,
        guards.majority_survives_loss,
        guards.deletion_policy_allows,
    )
    if blocked is not None and reported is not None:
        held_back = f"not replaced, {blocked.guard}: {blocked.why}"
        return Wait(reported.guard, f"{reported.why}; {held_back}")
    if case.must_resign(old):
        return move_leadership(subject)
    return _replace_storage(case, old.node_id, reason) or reported


def admit(case: Case, ordinal: int, *, replaces: ReplicaId | None) -> Action | Wait:
    """Bring the node of an ordinal into the voter set: join, catch up, AddVoter.

    Args:
        case: the wanted state and the observation.
        ordinal: the node's ordinal; it answers and is not a voter.
        replaces: the lost voter of the same id; None when the quorum grows.
    """
    node, quorum = case.observation.node(ordinal), case.observation.quorum
    if node is None or quorum is None:
        return _silent_observer(case, ordinal)
    subject = _case(case, ordinal, old=replaces, new=node.replica)
    wait = first_block(subject, guards.no_foreign_data)
    if wait is not None:
        return wait
    leaving = _leaving_observer(case, subject)
    if leaving is not None:
        return leaving
    if node.blank:
        return JoinNode(node.replica, quorum.cluster_id)
    wait = first_block(subject, guards.claim_bound_and_unshared, guards.new_replica_caught_up)
    if wait is not None:
        return wait
    if replaces is not None:
        # The probe comes first, so that it takes place within the grace period.
        wait = _probe(case, subject, node) or first_block(
            subject, guards.replica_silent_for_grace_period
        )
        if wait is not None:
            return wait
        if case.engine.one_voter_per_id or case.spec.replacement.order == "RemoveFirst":
            return remove(case, ordinal, replaces)
    wait = first_block(
        subject,
        guards.claim_is_the_recorded_one,
        guards.storage_undamaged,
        *VOTER_CHANGE,
        guards.survivors_caught_up,
        guards.majority_survives_addition,
    )
    record = unrecorded(case.observation, node.replica)
    if wait is None and record is not None and case.observation.statefulset is not None:
        return RecordClaims(case.observation.statefulset.uid, (record,))
    return wait or AddVoter(node.replica, node.peer_endpoint, quorum.basis, replaces)


def _leaving_observer(case: Case, subject: Case) -> Action | Wait | None:
    """Restart a replica that is not a voter and whose claim was deleted: it gets a new claim."""
    claim, pod = case.observation.claim(subject.ordinal), case.observation.pod(subject.ordinal)
    if claim is None or not claim.terminating or pod is None or pod.terminating:
        return None
    wait = first_block(subject, guards.confirmed_voters_required, guards.deletion_policy_allows)
    return wait or restart(subject, pod, "its volume claim is being deleted")


def _probe(case: Case, subject: Case, node: Node) -> Action | Wait | None:
    """Restart a replacement once before it becomes a voter (S23)."""
    wait = first_block(subject, guards.new_replica_survived_probe)
    pod = case.observation.pod(node.replica.node_id)
    if wait is None or node.incarnation > 1 or pod is None or pod.terminating:
        return wait
    unsure = first_block(subject, guards.confirmed_voters_required)
    return unsure or restart(subject, pod, "probe whether the new storage survives a restart")


def _silent_voter(case: Case, ordinal: int) -> Step:
    """A voter whose node does not answer: its storage is broken or lost, or it is only down."""
    quorum = case.observation.quorum
    if quorum is None:
        return None
    old = quorum.voters_of(ordinal)[0].replica
    subject, waiting = _case(case, ordinal, old=old), _unanswered(case, ordinal)
    first = _before_giving_up(case, ordinal, waiting)
    if first is not None:
        return first
    blocked = first_block(
        subject,
        guards.confirmed_voters_required,
        guards.replica_silent_for_grace_period,
        guards.survivors_caught_up,
        guards.majority_survives_loss,
        guards.deletion_policy_allows,
    )
    reasons = {"stale": "the replica's storage is an old copy", "corrupt": DAMAGED}
    pod = case.observation.pod(ordinal)
    storage_exit = case.engine.storage_exit(pod.exit_code if pod is not None else None)
    reason = reasons.get(storage_exit.fault, STORAGE_LOST) if storage_exit else STORAGE_LOST
    return blocked or _replace_storage(case, ordinal, reason) or waiting


def _silent_observer(case: Case, ordinal: int) -> Action | Wait:
    """A replica that is to become a voter does not answer: its disk has no data that is needed."""
    subject, waiting = _case(case, ordinal, old=None), _unanswered(case, ordinal)
    first = _before_giving_up(case, ordinal, waiting)
    if first is not None:
        return first
    blocked = first_block(
        subject,
        guards.confirmed_voters_required,
        guards.fresh_claim_uid,
        guards.deletion_policy_allows,
    )
    return blocked or _replace_storage(case, ordinal) or waiting


def _unanswered(case: Case, ordinal: int) -> Wait:
    wait = first_block(_case(case, ordinal, old=None), guards.node_answers)
    return wait or Wait(
        guards.node_answers.name, "it has just answered; the operator observes it again"
    )


def _before_giving_up(case: Case, ordinal: int, waiting: Wait) -> Action | Wait | None:
    """What to do about a silent replica before the operator gives up its disk; None if it may.

    Its pod may be of an older template. While the operator knows no fault of the disk, it waits
    for the replica without a limit.
    """
    pod, claim = case.observation.pod(ordinal), case.observation.claim(ordinal)
    if pod is not None and (roll := _outdated(case, pod)) is not None:
        return roll
    sound = claim is not None and not claim.terminating and not _is_broken(case, pod, claim.phase)
    return waiting if sound else None


def _is_broken(case: Case, pod: Pod | None, phase: str) -> bool:
    if phase == "Lost":
        return True
    if pod is None or pod.ready:
        return False
    storage_exit = case.engine.storage_exit(pod.exit_code)
    if storage_exit is None or storage_exit.restarts is None:
        return False
    return pod.restarts >= storage_exit.restarts


def _replace_storage(case: Case, ordinal: int, reason: str = STORAGE_LOST) -> Action | Wait | None:
    """Delete the claim first, then the pod; recreate a pod that waits for a missing claim."""
    pod, claim = case.observation.pod(ordinal), case.observation.claim(ordinal)
    if claim is not None and not claim.terminating:
        wait = first_block(
            _case(case, ordinal, old=None),
            guards.replacements_spaced,
            guards.claim_deletion_accepted,
        )
        return wait or DeleteClaim(claim.name, claim.uid, reason, ordinal)
    if pod is None or pod.terminating:
        return None
    if claim is None and pod.age_ms < STUCK_POD_MS:
        return None  # the StatefulSet controller creates the claim of a pending pod itself
    pod_reason = "its volume claim is gone or being deleted"
    step = restart(case, pod, pod_reason)
    by_own_budget = guards.budget_allows_eviction.name
    waits = isinstance(step, Wait) and step.guard == by_own_budget
    if waits and _others_are_ready(case, ordinal):
        # The budget keeps its number for a larger quorum to come, not for a disruption, and that
        # scale-up waits for this repair. The guards checked the replica's loss before its claim was
        # deleted.
        return DeletePod(pod.name, pod.uid, pod_reason)
    return step


def _others_are_ready(case: Case, ordinal: int) -> bool:
    """Whether no other voter's pod is missing, not ready or terminating."""
    others = {voter.node_id for voter in case.observation.known_voters()} - {ordinal}
    ready = {pod.ordinal for pod in case.observation.pods if pod.ready and not pod.terminating}
    return others <= ready


def is_outdated(case: Case, pod: Pod) -> bool:
    """Whether a pod has another template than the StatefulSet has now."""
    revision = case.observation.statefulset.revision if case.observation.statefulset else None
    return revision is not None and pod.revision not in {None, revision}


def _outdated(case: Case, pod: Pod) -> Action | Wait | None:
    """A pod of an older template that is not ready, perhaps because of that template.

    The operator recreates it at once, before it restarts healthy pods: that costs no vote. A pod
    whose container runs may hold data that a majority needs, so the other voters must be a majority
    without it.
    """
    quorum = case.observation.quorum
    if quorum is None or pod.ready or pod.terminating or not is_outdated(case, pod):
        return None
    voters = quorum.voters_of(pod.ordinal)
    if any(voter.fresh for voter in voters):
        return None
    old = voters[0].replica if voters else None
    subject = _case(case, pod.ordinal, old=old)
    wait = first_block(subject, guards.confirmed_voters_required)
    if wait is None and voters and pod.phase == "Running":
        wait = first_block(
            subject,
            guards.current_template_starts,
            guards.survivors_caught_up,
            guards.majority_survives_loss,
        )
    return wait or restart(subject, pod, "it is not ready and its template is outdated")


def retire(case: Case) -> Step:
    """Restart healthy voters whose claims were deleted, one by one, followers first.

    The next restart of such a voter would lose its data. A guard that blocks here holds nothing
    else back, since the quorum may have to grow first: see `retire_waits`.
    """
    step = _retire(case)
    return None if isinstance(step, Wait) else step


def retire_waits(case: Case) -> Step:
    """What a voter with a deleted claim waits for, if the operator has nothing else to do."""
    return _retire(case)


def _retire(case: Case) -> Step:
    quorum = case.observation.quorum
    if quorum is None:
        return None
    steps = [
        _retire_one(case, voter.node_id)
        for voter in quorum.replicas
        if voter.node_id < case.spec.voters
    ]
    waits = [step for step in steps if isinstance(step, Wait)]
    restarts = [step for step in steps if isinstance(step, DeletePod | EvictPod | RecountBudget)]
    moves = [step for step in steps if isinstance(step, MoveLeadership)]
    if waits:
        # The same guard may block the next leader, and leadership would return.
        moves = [move for move in moves if _stays(case, move.preferred)]
    return next(iter([*restarts, *moves, *waits]), None)


def _retire_one(
    case: Case, ordinal: int
) -> DeletePod | EvictPod | RecountBudget | MoveLeadership | Wait | None:
    claim, pod, node = (
        case.observation.claim(ordinal),
        case.observation.pod(ordinal),
        case.observation.node(ordinal),
    )
    quorum = case.observation.quorum
    if claim is None or not claim.terminating or pod is None or node is None or quorum is None:
        return None
    if pod.terminating or node.replica not in quorum.replicas:
        return None
    subject = _case(case, ordinal, old=node.replica)
    wait = first_block(
        subject,
        *VOTER_CHANGE,
        guards.survivors_caught_up,
        guards.majority_survives_loss,
        guards.deletion_policy_allows,
    )
    if wait is not None:
        return wait
    step = restart(subject, pod, "its volume claim is being deleted")
    if case.must_resign(node.replica) and isinstance(step, DeletePod | EvictPod):
        return move_leadership(subject)
    return step


def _stays(case: Case, replica: ReplicaId) -> bool:
    """Whether a voter is wanted and no known reason is about to restart it."""
    claim, pod = case.observation.claim(replica.node_id), case.observation.pod(replica.node_id)
    terminating = claim is not None and claim.terminating
    return (
        replica.node_id < case.spec.voters
        and not terminating
        and not (pod is not None and is_outdated(case, pod))
    )


def move_leadership(case: Case) -> MoveLeadership | Wait:
    """Transfer leadership from `case.old` to the lowest caught-up voter that stays."""
    wait = first_block(case, guards.leader_can_move)
    if wait is not None or case.old is None:
        return wait or Wait(
            guards.leader_can_move.name, "there is no leader to transfer leadership from"
        )
    able = [voter.replica for voter in case.survivors if voter.fresh]

    def rank(replica: ReplicaId) -> tuple[bool, bool, ReplicaId]:
        return replica.node_id >= case.spec.voters, not _stays(case, replica), replica

    return MoveLeadership(case.old, min(able, key=rank))
