"""The guards: every rule that can hold an action back, in one table.

What a guard is: `guarding.py`. Those of formation are in `formationguards.py`; all are imported
from here.

Longer than most modules: it is one table, and a rule is found in one place.
"""

from __future__ import annotations

from kraftquorum_operator.observe.copies import why_copied
from kraftquorum_operator.observe.disks import why_damaged
from kraftquorum_operator.observe.given_up import in_a_row, wait_ms
from kraftquorum_operator.observe.snapshot import Replica, majority
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.formationguards import (
    all_blank_before_formation,
    claims_are_ours,
    doubtful_claim,
    earlier_quorum_elects_leader,
    formation_complete,
    latch_and_quorum_agree,
    named_voters,
    never_rebootstrap,
    no_earlier_claims,
)
from kraftquorum_operator.plan.guarding import GUARDS, Guard, first_block, guard, replica_names

__all__ = [
    "GUARDS",
    "Case",
    "Guard",
    "all_blank_before_formation",
    "claims_are_ours",
    "doubtful_claim",
    "earlier_quorum_elects_leader",
    "first_block",
    "formation_complete",
    "latch_and_quorum_agree",
    "never_rebootstrap",
    "no_earlier_claims",
]

KUBERNETES_MIN = (1, 29)
"""As in the chart."""

# --- the resource itself -------------------------------------------------------------------------


@guard
def not_paused(case: Case) -> str | None:
    """`spec.pause` is not set. While it is, the operator observes and reports only."""
    return "spec.pause is set" if case.spec.pause else None


@guard
def objects_are_ours(case: Case) -> str | None:
    """The StatefulSet was made for this resource, not for an earlier one of the same name.

    Delete the old StatefulSet (its claims stay) or give the resource another name.
    """
    statefulset = case.seen.statefulset
    if statefulset is None:
        return None
    if statefulset.terminating:
        return "the StatefulSet is being deleted"
    if statefulset.owner_uid != case.seen.uid:
        return (
            f"StatefulSet {case.seen.name} belongs to resource {statefulset.owner_uid}, "
            f"not to this one ({case.seen.uid})"
        )
    return None


@guard
def kubernetes_version_supported(case: Case) -> str | None:
    """The API server is Kubernetes 1.29 or later, before anything is made.

    1.27 and earlier do not tell a pod its ordinal; 1.28 is not tested. A quorum that is there
    is kept on any.
    """
    version = case.seen.kubernetes
    if version is None or version >= KUBERNETES_MIN:
        return None
    found, least = (".".join(map(str, v)) for v in (version, KUBERNETES_MIN))
    return f"this cluster is Kubernetes {found}, {least} or later is needed"


@guard
def objects_written(case: Case) -> str | None:
    """The API server takes the Services, the disruption budget and the StatefulSet.

    The operator writes a refused object again after pauses that grow to a minute. It never
    overwrites an object of the same name that another owner created: delete that object, or give
    the resource another name. Formation and repair go on without it; growing, shrinking and
    rolling do not.
    """
    # Objects that failed together share a reason.
    reasons = dict.fromkeys(why for _, why in case.seen.refused)
    if not reasons:
        return None
    return f"{', '.join(key for key, _ in case.seen.refused)}: {'; '.join(reasons)}"


@guard
def config_accepted(case: Case) -> str | None:
    """A node takes `spec.config`, checked as a whole by the node's own rules.

    Until it does, the StatefulSet is not created and its pod template stays as it is, no pod is
    restarted for another template, and no quorum is formed: nothing of the change is done, nor of
    a change of the image that came with it. Pods keep the settings that they have, and repairs go
    on with them. What protects the quorum in the StatefulSet (update strategy, claim retention,
    ordinals, labels) is restored all the same when it is changed by hand.
    """
    faults = case.seen.config_faults
    return f"{'; '.join(faults)}; until then no pod is changed" if faults else None


# --- the quorum ----------------------------------------------------------------------------------


@guard
def majority_reachable(case: Case) -> str | None:
    """A majority of the last known voters answers, with its own storage."""
    if case.seen.majority_answers():
        return None
    alive = {node.replica for node in case.seen.nodes}
    known, source = named_voters(case.seen)
    silent = tuple(replica for replica in known if replica not in alive)
    return f"{len(silent)} of {len(known)} voters do not answer: {replica_names(silent)}{source}"


@guard
def leader_elected(case: Case) -> str | None:
    """A leader has answered."""
    return None if case.quorum is not None else "no leader has answered yet"


@guard
def confirmed_voters_required(case: Case) -> str | None:
    """The leader's voters were confirmed by a majority after they were asked for (S11).

    Asked before every voter change and every deletion.
    """
    if case.quorum is not None and case.quorum.confirmed:
        return None
    return "the leader's answer is not confirmed by a majority"


@guard
def epoch_committed(case: Case) -> str | None:
    """The leader's own LeaderChange record is committed (P28)."""
    if case.quorum is not None and case.quorum.epoch_committed:
        return None
    return "the leader has not committed a record of its own epoch yet"


@guard
def one_voter_change_at_a_time(case: Case) -> str | None:
    """No voter change is pending or uncommitted (P28, P31)."""
    quorum = case.quorum
    if quorum is None:
        return "no leader has answered yet"
    if quorum.pending is not None:
        change = quorum.pending
        return f"{change.kind} {change.replica} is pending: {change.waiting_for}"
    if not quorum.record_committed:
        return f"the voter record at offset {quorum.record.offset} is not committed yet"
    return None


@guard
def survivors_caught_up(case: Case) -> str | None:
    """Every voter that stays is caught up (S23).

    Those that are themselves lost or damaged, or silent for the grace period, are not waited for:
    whether the rest is enough is the matter of `majority_survives_removal`,
    `majority_survives_addition` and `majority_survives_loss`.
    """
    late = tuple(
        voter.replica
        for voter in case.survivors
        if voter.replica.node_id < case.spec.voters
        and not voter.fresh
        and not voter.damaged
        and not case.is_silent(voter)
        and not (case.new is not None and voter.replica.node_id == case.new.node_id)
    )
    return f"not caught up: {replica_names(late)}" if late else None


@guard
def heal_before_shrink(case: Case) -> str | None:
    """Every wanted voter is caught up before an unwanted voter is removed."""
    late = tuple(
        voter.replica
        for voter in case.survivors
        if voter.replica.node_id < case.spec.voters and not voter.fresh
    )
    return f"not caught up: {replica_names(late)}" if late else None


@guard
def majority_survives_removal(case: Case) -> str | None:
    """The caught-up voters that stay are a majority of the set without the removed one."""
    survivors = case.survivors
    fresh = sum(1 for voter in survivors if voter.fresh)
    if survivors and fresh >= majority(len(survivors)):
        return None
    return (
        f"without {case.old} only {fresh} of {len(survivors)} voters would be caught up, "
        f"{majority(len(survivors))} are needed"
    )


@guard
def majority_survives_loss(case: Case) -> str | None:
    """The caught-up voters that stay are a majority of the set as it is.

    Asked before a replica is ended whose place in the set is filled only later.
    """
    voters = case.quorum.voters if case.quorum else ()
    fresh = sum(1 for voter in case.survivors if voter.fresh)
    if fresh >= majority(len(voters)):
        return None
    return (
        f"while {case.old} is away only {fresh} of {len(voters)} voters would be caught up, "
        f"{majority(len(voters))} are needed"
    )


@guard
def majority_survives_addition(case: Case) -> str | None:
    """The caught-up voters, with the new one, are a majority of the enlarged set."""
    voters = case.quorum.voters if case.quorum else ()
    fresh = sum(1 for voter in voters if voter.fresh) + 1
    needed = majority(len(voters) + 1)
    if fresh >= needed:
        return None
    return f"with {case.new} only {fresh} voters would be caught up, {needed} are needed"


@guard
def leader_can_move(case: Case) -> str | None:
    """Another voter that stays is caught up and can take leadership over."""
    if any(voter.fresh for voter in case.survivors):
        return None
    return f"no caught-up voter can take leadership over from {case.old}"


# --- replacing and adding ------------------------------------------------------------------------


@guard
def replacement_policy_allows(case: Case) -> str | None:
    """`spec.replacement.policy` is not `Off`."""
    if case.spec.replacement.policy == "Off":
        return f"storage of replica {case.ordinal} is lost and spec.replacement.policy is Off"
    return None


@guard
def deletion_policy_allows(case: Case) -> str | None:
    """`spec.replacement.policy` is `Automatic`: only then is a broken volume deleted.

    Asked last, once all other voters are caught up and are a majority without it.
    """
    if case.spec.replacement.policy == "Automatic":
        return None
    return (
        f"the volume of replica {case.ordinal} must be replaced and spec.replacement.policy is "
        f"{case.spec.replacement.policy}: delete its claim, then its pod"
    )


@guard
def replacements_spaced(case: Case) -> str | None:
    """A replica's volume is given up again only after a pause that grows.

    A storage class or a machine whose volumes all fail would cost one volume after the other. A
    new volume that fails before its replica is a voter is given up at once; the next one after a
    minute, then 4, 16 and 60 minutes. Of one replica no more than four volumes are given up
    within an hour. The StatefulSet's annotation `kraftquorum.io/given-up-N` counts; once the
    cause is gone you can remove it, and the replacement goes on at once. A note whose time lies
    more than five minutes in the future does not count: a clock was wrong when it was written.
    """
    claim, statefulset = case.seen.claim(case.ordinal), case.seen.statefulset
    if claim is None or statefulset is None:
        return None
    notes = statefulset.given_up_of(case.ordinal)
    left_ms = wait_ms(notes)
    if left_ms == 0 or any(note.claim_uid == claim.uid for note in notes):
        return None
    return (
        f"volume {claim.name} has failed and {len(notes)} volumes of this replica were given up "
        f"before it, {in_a_row(notes)} of them new; the next one is given up in "
        f"{left_ms // 60_000 + 1} min. Check its storage class and its node: "
        f"{_ended(case) or 'the pod does not say why'}"
    )


def _ended(case: Case) -> str:
    pod = case.seen.pod(case.ordinal)
    return pod.detail if pod is not None else ""


@guard
def replica_silent_for_grace_period(case: Case) -> str | None:
    """The old (id, UUID) has been silent for `spec.replacement.gracePeriodSeconds` (S23)."""
    quorum = case.quorum
    voter = next((v for v in quorum.voters if v.replica == case.old), None) if quorum else None
    if voter is None or case.is_silent(voter):
        return None
    if voter.silent_since_ms is None:
        return f"the leader still hears from {case.old}"
    return f"{case.old} is silent for {case.now_ms - voter.silent_since_ms} ms"


@guard
def claim_is_the_recorded_one(case: Case) -> str | None:
    """The replica answers from the claim that its storage UUID was recorded on (S3).

    A volume put back from a snapshot or a backup has forgotten votes and acknowledged records.
    Such a voter is not counted in any majority. With policy `Automatic` it is replaced, claim
    then pod, once all other voters are caught up and are a majority without it; else a person
    decides: delete its claim and pod at such a time, or, to accept the volume as it is, set the
    claim's annotations `kraftquorum.io/directory-id` to the replica's storage UUID and
    `kraftquorum.io/claim-uid` to the claim's own UID. Claims from before there were such
    annotations are trusted once, and recorded.
    """
    node = case.seen.node(case.ordinal)
    why = why_copied(case.seen, node) if node is not None else None
    return f"{why}: its volume was put back from a copy" if why else None


@guard
def storage_undamaged(case: Case) -> str | None:
    """The replica has found no damage in its storage.

    Rot that its scrub found, while it goes on. Such a voter is not counted in any majority. With
    policy `Automatic` it is replaced, claim then pod, once all other voters are caught up and are
    a majority without it; else a person decides. A replica that is no voter yet is not added.
    """
    node = case.seen.node(case.ordinal)
    why = why_damaged(node)
    return f"storage of {node.replica} is damaged: {why}" if node is not None and why else None


@guard
def claim_bound_and_unshared(case: Case) -> str | None:
    """The new replica's claim is Bound, its own, and not being deleted (S23)."""
    claim = case.seen.claim(case.ordinal)
    if claim is None:
        return f"replica {case.ordinal} has no claim"
    if claim.terminating:
        return f"claim {claim.name} is being deleted"
    if claim.phase != "Bound":
        return f"claim {claim.name} is {claim.phase}"
    return f"claim {claim.name} is shared" if claim.shared else None


@guard
def new_replica_caught_up(case: Case) -> str | None:
    """The leader sees the new replica as an observer that keeps up (P28, S13).

    A replica that knows a higher epoch than the leader cannot catch up: the operator asks for
    AddVoter first. The leader then raises the epoch, adds nothing, and the replica catches up.
    """
    if case.new is None or case.quorum is None:
        return "no new replica"
    observer = case.quorum.observer(case.new)
    if observer is None:
        return f"the leader has not heard from {case.new} yet"
    if observer.fresh or (observer.higher_epoch or -1) > case.quorum.epoch:
        return None
    return f"{case.new} is {observer.lag} records behind"


@guard
def new_replica_survived_probe(case: Case) -> str | None:
    """The new UUID has survived a restart and holds what it fsynced (S23).

    A disk that forgets at restart (a tmpfs, a wrong mount) never becomes a voter.
    """
    node = case.seen.node(case.ordinal)
    if node is None or node.replica != case.new:
        return f"replica {case.ordinal} does not answer"
    if node.incarnation < 2:
        return f"{case.new} has not been restarted yet"
    if node.durable_end_offset < node.high_watermark:
        return f"{case.new} has not fsynced what it knows to be committed"
    return None


@guard
def no_foreign_data(case: Case) -> str | None:
    """The replica's volume is empty or of this quorum, never of another cluster."""
    node = case.seen.node(case.ordinal)
    if node is None or node.blank or case.quorum is None:
        return None
    if node.cluster_id == case.quorum.cluster_id:
        return None
    return (
        f"replica {node.replica} holds data of cluster {node.cluster_id}, perhaps the only copy; "
        "it is left as it is, and a person must decide what becomes of it"
    )


@guard
def node_answers(case: Case) -> str | None:
    """The replica's pod runs and its API answers."""
    if case.seen.node(case.ordinal) is not None:
        return None
    pod = case.seen.pod(case.ordinal)
    if pod is None:
        told = [str(trouble) for trouble in case.seen.troubles if trouble.ordinal == case.ordinal]
        return "; ".join([f"replica {case.ordinal} has no pod yet", *told])
    state = "being deleted" if pod.terminating else pod.phase
    return f"pod {pod.name} is {state} and does not answer{': ' if pod.detail else ''}{pod.detail}"


@guard
def node_catches_up(case: Case) -> str | None:
    """A voter that was away has fetched what it missed."""
    voters = case.quorum.voters_of(case.ordinal) if case.quorum else ()
    late = [voter for voter in voters if not voter.fresh]
    if not late:
        return None
    fenced = " and fenced: its storage lost what it had acknowledged" if late[0].fenced else ""
    return f"voter {late[0].replica} is not caught up{fenced}"


# --- Kubernetes objects --------------------------------------------------------------------------


@guard
def replicas_never_below_highest_voter(case: Case) -> str | None:
    """The StatefulSet keeps a pod for every voter, whatever the spec says (S25)."""
    highest = case.quorum.highest_voter if case.quorum else None
    if highest is None or case.replicas <= highest:
        return f"replica {highest} is a voter, so replicas cannot be {case.replicas}"
    return None


@guard
def voter_label_off_before_removal(case: Case) -> str | None:
    """A pod leaves the disruption budget before its replica leaves the voters (S22)."""
    pod = case.seen.pod(case.ordinal)
    if pod is None or not pod.voter_label:
        return None
    return f"pod {pod.name} still carries the voter label"


@guard
def budget_counts_voters(case: Case) -> str | None:
    """The disruption budget counts the pods that carry the voter label now (S22).

    Asked before a voter is removed. Kubernetes counts again when a pod of the budget changes, but
    not when a pod leaves it, and would let one voter too many be evicted meanwhile. So the operator
    touches the budget and waits for the count.
    """
    budget, labelled = case.seen.budget, case.seen.labelled
    if budget is None or budget.counted == labelled:
        return None
    counts = "has not counted since it changed" if budget.counted is None else "is not up to date"
    return f"the disruption budget {counts}: {labelled} pods carry the voter label"


@guard
def budget_allows_eviction(case: Case) -> str | None:
    """The disruption budget allows one more of its pods to be evicted now (S22).

    Asked before a healthy voter's pod is restarted, so that a drain and a roll never take two
    voters together. The pod is then evicted, not deleted: the API server checks the budget once
    more. It waits while another voter's pod is away or a node is being drained.
    """
    pod, budget = case.seen.pod(case.ordinal), case.seen.budget
    if pod is None or not pod.voter_label or budget is None:
        return None
    if budget.allowed is None:
        return f"pod {pod.name}: the disruption budget has not counted since it changed"
    if budget.allowed > 0:
        return None
    return (
        f"pod {pod.name}: the disruption budget allows no eviction now; another voter's pod is "
        "away, not ready or being drained"
    )


@guard
def eviction_accepted(case: Case) -> str | None:
    """The API server accepts the eviction, or the deletion, of the pod.

    After a refusal the operator asks again after 2 seconds, then after pauses that grow to a
    minute, and does what else there is to do meanwhile. It never deletes a healthy pod whose
    eviction is refused. A refusal lasts where a second disruption budget selects the same pods
    (Kubernetes then refuses every eviction with status 500), where a budget never allows one, or
    where an admission webhook denies it: remove the cause.
    """
    pod = case.seen.pod(case.ordinal)
    why = case.seen.why_refused(pod.uid) if pod is not None else None
    return f"pod {pod.name} cannot be restarted: {why}" if pod is not None and why else None


@guard
def claim_deletion_accepted(case: Case) -> str | None:
    """The API server accepts the deletion of the volume claim.

    After a refusal the operator asks again as for `eviction_accepted`.
    """
    claim = case.seen.claim(case.ordinal)
    why = case.seen.why_refused(claim.uid) if claim is not None else None
    return f"claim {claim.name} cannot be deleted: {why}" if claim is not None and why else None


@guard
def pod_gone_before_next_step(case: Case) -> str | None:
    """The pod of a removed replica has ended before its claim or the next one is touched."""
    pod = case.seen.pod(case.ordinal)
    return None if pod is None else f"pod {pod.name} has not ended yet"


@guard
def fresh_claim_uid(case: Case) -> str | None:
    """The claim was made for this resource, and no voter's storage is on it (S21, S25)."""
    claim = case.seen.claim(case.ordinal)
    if claim is None:
        return None
    if claim.owner_uid != case.seen.uid:
        return f"claim {claim.name} was made for another resource"
    if case.quorum is None or case.quorum.voters_of(case.ordinal):
        return f"claim {claim.name} holds a voter's storage"
    return None


@guard
def current_template_starts(case: Case) -> str | None:
    """No pod of the present template fails to start.

    Asked before the operator recreates a pod of an older template that crashes again and again:
    it would not start either. A pod that has never started is recreated in any case.
    """
    statefulset = case.seen.statefulset
    current = statefulset.revision if statefulset else None
    stuck = [pod for pod in case.seen.pods if pod.revision == current and pod.fails_to_start]
    if not stuck:
        return None
    why = f": {stuck[0].detail}" if stuck[0].detail else ""
    return f"pod {stuck[0].name} has the present template and does not start{why}"


# --- rolling -------------------------------------------------------------------------------------


@guard
def all_voters_caught_up(case: Case) -> str | None:
    """Every voter is caught up before a healthy pod is restarted.

    In the leader's eyes, which may lag behind a restart, and in its own: its pod is ready.
    """
    voters = case.quorum.voters if case.quorum else ()
    late = tuple(v.replica for v in voters if not (v.fresh and _says_it_is_well(case, v.replica)))
    return f"not caught up: {replica_names(late)}" if late else None


def _says_it_is_well(case: Case, voter: Replica) -> bool:
    node, pod = case.seen.node(voter.node_id), case.seen.pod(voter.node_id)
    known = node is not None and node.replica == voter and node.caught_up
    return known and pod is not None and pod.ready


VOTER_CHANGE: tuple[Guard, ...] = (
    confirmed_voters_required,
    epoch_committed,
    one_voter_change_at_a_time,
)
"""Asked before every voter change."""
