"""The guards: every rule that can hold an action back, in one table.

What a guard is: `guard.py`. Those of formation are in `formation_guards.py`, those of
Kubernetes objects in `object_guards.py`; all are imported from here.

Longer than most modules: it is one table, and a rule is found in one place.
"""

from __future__ import annotations

from kraftquorum_operator.judge.copies import why_copied
from kraftquorum_operator.judge.disks import why_damaged
from kraftquorum_operator.judge.given_up import in_a_row, wait_ms
from kraftquorum_operator.judge.scale_up import why_deferred
from kraftquorum_operator.model.observation import ReplicaId, majority
from kraftquorum_operator.plan.access_guards import access_file_written, network_policy_written
from kraftquorum_operator.plan.case import Case
from kraftquorum_operator.plan.certificate_guards import (
    certificates_issued,
    certificates_presented,
    certificates_usable,
    tls_level_reached,
)
from kraftquorum_operator.plan.formation_guards import (
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
from kraftquorum_operator.plan.guard import (
    GUARDS,
    Guard,
    first_block,
    guard,
    needs_person,
    replica_names,
)
from kraftquorum_operator.plan.object_guards import (
    budget_allows_eviction,
    budget_counts_voters,
    claim_deletion_accepted,
    claim_growth_accepted,
    current_template_starts,
    eviction_accepted,
    fresh_claim_uid,
    pod_gone_before_next_step,
    pod_uncounted_before_removal,
    replicas_never_below_highest_voter,
    volume_has_grown,
)

__all__ = [
    "GUARDS",
    "Case",
    "Guard",
    "access_file_written",
    "all_blank_before_formation",
    "budget_allows_eviction",
    "budget_counts_voters",
    "certificates_issued",
    "certificates_presented",
    "certificates_usable",
    "claim_deletion_accepted",
    "claim_growth_accepted",
    "claims_are_ours",
    "current_template_starts",
    "doubtful_claim",
    "earlier_quorum_elects_leader",
    "eviction_accepted",
    "first_block",
    "formation_complete",
    "fresh_claim_uid",
    "latch_and_quorum_agree",
    "needs_person",
    "network_policy_written",
    "never_rebootstrap",
    "no_earlier_claims",
    "pod_gone_before_next_step",
    "pod_uncounted_before_removal",
    "replicas_never_below_highest_voter",
    "tls_level_reached",
    "volume_has_grown",
]

KUBERNETES_MIN = (1, 29)
"""As in the chart."""

# --- the resource itself -------------------------------------------------------------------------


@guard(needs_person=True)
def not_paused(case: Case) -> str | None:
    """`spec.pause` is not set. While it is set, the operator only observes and reports."""
    return "spec.pause is set" if case.spec.pause else None


@guard(needs_person=True)
def objects_are_ours(case: Case) -> str | None:
    """The StatefulSet was created for this resource, not for an earlier one of the same name.

    Delete the old StatefulSet (its claims stay) or give the resource another name.
    """
    statefulset = case.observation.statefulset
    if statefulset is None:
        return None
    if statefulset.terminating:
        return "the StatefulSet is being deleted"
    if statefulset.owner_uid != case.observation.uid:
        return (
            f"StatefulSet {case.observation.name} belongs to resource {statefulset.owner_uid}, "
            f"not to this one ({case.observation.uid})"
        )
    return None


@guard(alarms=True)
def kubernetes_version_supported(case: Case) -> str | None:
    """The cluster runs Kubernetes 1.29 or later.

    Asked before the operator creates a StatefulSet. Kubernetes 1.27 and earlier do not give a pod
    its ordinal; 1.28 is not tested. The operator keeps an existing quorum on any version.
    """
    version = case.observation.kubernetes
    if version is None or version >= KUBERNETES_MIN:
        return None
    actual, required = (".".join(map(str, v)) for v in (version, KUBERNETES_MIN))
    return f"this cluster runs Kubernetes {actual}; the operator needs {required} or later"


@guard(alarms=True)
def objects_written(case: Case) -> str | None:
    """The API server accepts the Services, the budget, the network policy and the StatefulSet.

    The operator writes a refused object again after pauses that grow to a minute, and likewise an
    object that another client or an admission webhook changes again at once: stop that. It never
    overwrites an object of the same name that another owner created: delete that object, or give
    the resource another name. Formation and repair continue without the object, except that a new
    quorum waits for its policy; growing, shrinking and rolling restarts wait for every object.
    """
    # Objects that failed together share a reason.
    reasons = dict.fromkeys(why for _, why in case.observation.refused)
    if not reasons:
        return None
    return f"{', '.join(str(ref) for ref, _ in case.observation.refused)}: {'; '.join(reasons)}"


@guard(needs_person=True, formation="blocked")
def config_accepted(case: Case) -> str | None:
    """A node accepts `spec.config`, which the operator checks as a whole by the node's own rules.

    Until then the operator does not create the StatefulSet, does not change its pod template,
    restarts no pod for another template and forms no quorum. It applies no part of the change, and
    no change of the image that came with it. Pods keep their settings, and repairs continue with
    them. The operator still restores what protects the quorum in the StatefulSet (update strategy,
    claim retention, ordinals, labels) when a person changes it.
    """
    faults = case.observation.config_faults
    return (
        f"{'; '.join(faults)}; the operator changes no pod until this is fixed" if faults else None
    )


# --- the quorum ----------------------------------------------------------------------------------


@guard()
def majority_reachable(case: Case) -> str | None:
    """A majority of the last known voters answers, each with its own storage."""
    if case.observation.majority_answers():
        return None
    alive = {node.replica for node in case.observation.nodes}
    known, source = named_voters(case.observation)
    silent = tuple(replica for replica in known if replica not in alive)
    return f"{len(silent)} of {len(known)} voters do not answer: {replica_names(silent)}{source}"


@guard()
def leader_elected(case: Case) -> str | None:
    """A leader has answered."""
    return None if case.quorum is not None else "no leader has answered yet"


@guard()
def confirmed_voters_required(case: Case) -> str | None:
    """A majority confirmed the leader after the operator had asked it for its voters.

    Asked before every voter change and every deletion.
    """
    # S11.
    if case.quorum is not None and case.quorum.confirmed:
        return None
    return "no majority has confirmed the leader's answer"


@guard()
def epoch_committed(case: Case) -> str | None:
    """The leader's own LeaderChange record is committed."""
    # P28.
    if case.quorum is not None and case.quorum.epoch_committed:
        return None
    return "the leader has not committed a record of its own epoch yet"


@guard()
def one_voter_change_at_a_time(case: Case) -> str | None:
    """No voter change is pending or uncommitted."""
    # P28 and P31.
    quorum = case.quorum
    if quorum is None:
        return "no leader has answered yet"
    if quorum.pending is not None:
        change = quorum.pending
        return f"{change.kind} {change.replica} is pending: {change.waiting_for}"
    if not quorum.record_committed:
        return f"{quorum.basis} is not committed yet"
    return None


@guard()
def survivors_caught_up(case: Case) -> str | None:
    """Every voter that stays is caught up.

    The operator does not wait for voters that are themselves lost or damaged, or silent for the
    grace period. `majority_survives_removal`, `majority_survives_addition` and
    `majority_survives_loss` check whether the other voters are enough.
    """
    # S23.
    lagging = tuple(
        voter.replica
        for voter in case.survivors
        if voter.replica.node_id < case.spec.voters
        and not voter.fresh
        and not voter.damaged
        and not case.is_silent(voter)
        and not (case.new is not None and voter.replica.node_id == case.new.node_id)
    )
    return f"not caught up: {replica_names(lagging)}" if lagging else None


@guard()
def heal_before_shrink(case: Case) -> str | None:
    """Every wanted voter is caught up before an unwanted voter is removed."""
    lagging = tuple(
        voter.replica
        for voter in case.survivors
        if voter.replica.node_id < case.spec.voters and not voter.fresh
    )
    return f"not caught up: {replica_names(lagging)}" if lagging else None


@guard()
def majority_survives_removal(case: Case) -> str | None:
    """The caught-up voters that stay are a majority of the set without the removed voter."""
    survivors = case.survivors
    fresh = sum(1 for voter in survivors if voter.fresh)
    if survivors and fresh >= majority(len(survivors)):
        return None
    return (
        f"without {case.old} only {fresh} of {len(survivors)} voters would be caught up; "
        f"{majority(len(survivors))} are needed"
    )


@guard()
def majority_survives_loss(case: Case) -> str | None:
    """The caught-up voters that stay are a majority of the set as it is.

    Asked before the operator stops a voter that stays in the set until it has restarted or its
    replacement is a voter.
    """
    voters = case.quorum.voters if case.quorum else ()
    fresh = sum(1 for voter in case.survivors if voter.fresh)
    if fresh >= majority(len(voters)):
        return None
    return (
        f"while {case.old} is down only {fresh} of {len(voters)} voters would be caught up; "
        f"{majority(len(voters))} are needed"
    )


@guard()
def majority_survives_addition(case: Case) -> str | None:
    """The caught-up voters, with the new one, are a majority of the enlarged set."""
    voters = case.quorum.voters if case.quorum else ()
    fresh = sum(1 for voter in voters if voter.fresh) + 1
    needed = majority(len(voters) + 1)
    if fresh >= needed:
        return None
    return f"with {case.new} only {fresh} voters would be caught up; {needed} are needed"


@guard()
def leader_can_move(case: Case) -> str | None:
    """Another voter that stays is caught up and can become the leader."""
    if any(voter.fresh for voter in case.survivors):
        return None
    return f"no caught-up voter can become the leader in place of {case.old}"


# --- replacing and adding ------------------------------------------------------------------------


@guard(needs_person=True)
def replacement_policy_allows(case: Case) -> str | None:
    """`spec.replacement.policy` is not `Disabled`."""
    if case.spec.replacement.policy == "Disabled":
        return f"storage of replica {case.ordinal} is lost and spec.replacement.policy is Disabled"
    return None


@guard(needs_person=True)
def deletion_policy_allows(case: Case) -> str | None:
    """`spec.replacement.policy` is `Automatic`. The operator deletes a broken volume only then.

    Asked last, once all other voters are caught up and are a majority without it.
    """
    if case.spec.replacement.policy == "Automatic":
        return None
    return (
        f"the volume of replica {case.ordinal} must be replaced and spec.replacement.policy is "
        f"{case.spec.replacement.policy}: delete its claim, then its pod"
    )


@guard(alarms=True)
def replacements_spaced(case: Case) -> str | None:
    """The operator gives up further volumes of a replica only after pauses that grow.

    A storage class or a machine whose volumes all fail would otherwise cost one volume after the
    other. The operator gives up a new volume at once if it fails before its replica is a voter. It
    gives up the next one after a minute, then after 4, 16 and 60 minutes. It gives up at most four
    volumes of one replica within an hour. The StatefulSet's annotation `kraftquorum.io/given-up-N`
    records them; when the cause is fixed you can remove it, and the replacement continues at once.
    The operator ignores an entry whose time lies more than five minutes in the future, because a
    clock was wrong when it was written.
    """
    claim, statefulset = case.observation.claim(case.ordinal), case.observation.statefulset
    if claim is None or statefulset is None:
        return None
    notes = statefulset.given_up_of(case.ordinal)
    left_ms = wait_ms(notes)
    if left_ms == 0 or any(note.claim_uid == claim.uid for note in notes):
        return None
    return (
        f"volume {claim.name} has failed; the operator gave up {len(notes)} volumes of this "
        f"replica before it, {in_a_row(notes)} of them new, and gives this one up in "
        f"{left_ms // 60_000 + 1} min. Check its storage class and its node: "
        f"{_ended(case) or 'the pod does not report why'}"
    )


def _ended(case: Case) -> str:
    pod = case.observation.pod(case.ordinal)
    return pod.detail if pod is not None else ""


@guard()
def replica_silent_for_grace_period(case: Case) -> str | None:
    """The old replica has been silent for `spec.replacement.gracePeriodSeconds`."""
    # S23.
    quorum = case.quorum
    voter = next((v for v in quorum.voters if v.replica == case.old), None) if quorum else None
    if voter is None or case.is_silent(voter):
        return None
    if voter.silent_since_ms is None:
        return f"the leader still hears from {case.old}"
    grace_s = case.spec.replacement.grace_period_seconds
    return f"{case.old} has not been silent for {grace_s} s yet"


@guard(alarms=True)
def claim_is_the_recorded_one(case: Case) -> str | None:
    """The replica answers from the claim on which the operator recorded its directory id.

    A volume that was restored from a snapshot or a backup lacks votes and acknowledged records.
    Such a voter counts in no majority. With policy `Automatic` the operator replaces it, claim
    then pod, once all other voters are caught up and are a majority without it. With another
    policy a person decides. Delete its claim and pod at such a time. Or, to accept the volume as
    it is, set the claim's annotations `kraftquorum.io/directory-id` to the replica's directory id
    and `kraftquorum.io/claim-uid` to the claim's own UID. The operator trusts a claim from before
    these annotations existed once, and records it.
    """
    # S3.
    node = case.observation.node(case.ordinal)
    why = why_copied(case.observation, node) if node is not None else None
    return f"{why}: its volume was restored from a copy" if why else None


@guard(alarms=True)
def storage_undamaged(case: Case) -> str | None:
    """The replica has found no corruption in its storage.

    A replica whose scrub finds corruption continues to run, and counts in no majority. With policy
    `Automatic` the operator replaces it, claim then pod, once all other voters are caught up and
    are a majority without it. With another policy a person decides. The operator does not add such
    a replica as a voter.
    """
    node = case.observation.node(case.ordinal)
    why = why_damaged(node)
    return f"storage of {node.replica} is damaged: {why}" if node is not None and why else None


@guard()
def claim_bound_and_unshared(case: Case) -> str | None:
    """The new replica's claim is bound, belongs to it alone, and is not being deleted."""
    # S23.
    claim = case.observation.claim(case.ordinal)
    if claim is None:
        return f"replica {case.ordinal} has no claim"
    if claim.terminating:
        return f"claim {claim.name} is being deleted"
    if claim.phase != "Bound":
        return f"claim {claim.name} is {claim.phase}"
    return f"claim {claim.name} is shared" if claim.shared else None


@guard()
def new_replica_caught_up(case: Case) -> str | None:
    """The leader reports the new replica as an observer that keeps up.

    A replica that knows a higher epoch than the leader cannot catch up. The operator requests
    AddVoter for it first: the leader raises the epoch and adds nothing, and the replica catches up.
    """
    # P28 and S13.
    if case.new is None or case.quorum is None:
        return "no new replica"
    observer = case.quorum.observer(case.new)
    if observer is None:
        return f"the leader has not heard from {case.new} yet"
    if observer.fresh or (observer.higher_epoch or -1) > case.quorum.epoch:
        return None
    return f"{case.new} is {observer.lag} records behind"


@guard()
def new_replica_survived_probe(case: Case) -> str | None:
    """The new replica has kept its directory id over a restart, and holds what it fsynced.

    A replica whose volume is empty after a restart (a tmpfs, a wrong mount) never becomes a voter.
    """
    # S23.
    node = case.observation.node(case.ordinal)
    if node is None or node.replica != case.new:
        return f"replica {case.ordinal} does not answer"
    if node.incarnation < 2:
        return f"{case.new} has not been restarted yet"
    if node.durable_end_offset < node.high_watermark:
        return f"{case.new} has not fsynced what it knows to be committed"
    return None


@guard(needs_person=True)
def no_foreign_data(case: Case) -> str | None:
    """The replica's volume is empty or holds data of this quorum, not of another cluster."""
    node = case.observation.node(case.ordinal)
    if node is None or node.blank or case.quorum is None:
        return None
    if node.cluster_id == case.quorum.cluster_id:
        return None
    return (
        f"replica {node.replica} holds data of cluster {node.cluster_id}, perhaps the only copy; "
        "the operator leaves it as it is, and a person must decide what to do with it"
    )


@guard()
def node_answers(case: Case) -> str | None:
    """The replica's pod runs and its API answers."""
    if case.observation.node(case.ordinal) is not None:
        return None
    pod = case.observation.pod(case.ordinal)
    if pod is None:
        troubles = [
            str(trouble) for trouble in case.observation.troubles if trouble.ordinal == case.ordinal
        ]
        return "; ".join([f"replica {case.ordinal} has no pod yet", *troubles])
    state = "being deleted" if pod.terminating else pod.phase
    return f"pod {pod.name} is {state} and does not answer{': ' if pod.detail else ''}{pod.detail}"


@guard()
def node_catches_up(case: Case) -> str | None:
    """A voter that was down has fetched the records that it missed."""
    voters = case.quorum.voters_of(case.ordinal) if case.quorum else ()
    lagging = [voter for voter in voters if not voter.fresh]
    if not lagging:
        return None
    fenced = ", and fenced: it lost records that it had acknowledged" if lagging[0].fenced else ""
    return f"voter {lagging[0].replica} is not caught up{fenced}"


# --- rolling -------------------------------------------------------------------------------------


@guard()
def all_voters_caught_up(case: Case) -> str | None:
    """Every voter is caught up before the operator restarts a healthy pod.

    Both the leader and the voter must report it, and the voter's pod must be ready: after a restart
    the leader's report may be out of date.
    """
    voters = case.quorum.voters if case.quorum else ()
    lagging = tuple(v.replica for v in voters if not (v.fresh and _is_caught_up(case, v.replica)))
    return f"not caught up: {replica_names(lagging)}" if lagging else None


@guard()
def scale_up_not_deferred(case: Case) -> str | None:
    """No scale-up waits for a rolling restart.

    If the cluster has had no room for a new pod for a minute and other pods have an older template,
    the operator takes the new pod away, restarts the other pods one by one, and then creates the
    new pod again. It does so only from three voters on: a smaller quorum has no majority while a
    pod restarts. The StatefulSet's annotation `kraftquorum.io/scale-up-deferred` records it; if you
    remove the annotation, the operator creates the new pod at once.
    """
    return why_deferred(case.observation, case.spec.voters)


def _is_caught_up(case: Case, voter: ReplicaId) -> bool:
    node, pod = case.observation.node(voter.node_id), case.observation.pod(voter.node_id)
    known = node is not None and node.replica == voter and node.caught_up
    return known and pod is not None and pod.ready


VOTER_CHANGE: tuple[Guard, ...] = (
    confirmed_voters_required,
    epoch_committed,
    one_voter_change_at_a_time,
)
"""Asked before every voter change."""
