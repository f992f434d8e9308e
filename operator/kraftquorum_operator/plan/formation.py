"""Forming the quorum once, by the latch, or adopting one that is there already (S18 to S20).

What must not live here: anything that forms a second time. Once the latch is
there, the only thing that this file ever does is to send it, as read back, to
blank nodes that it lists by (id, UUID).
"""

from __future__ import annotations

from kraftquorum_operator import names
from kraftquorum_operator.judge.certificates import reserved_cluster_id
from kraftquorum_operator.model.observation import LatchVoter, ReplicaId
from kraftquorum_operator.plan import guards
from kraftquorum_operator.plan.actions import (
    AdoptQuorum,
    CreateLatch,
    CreateStatefulSet,
    SendLatch,
    SetReplicas,
    Wait,
)
from kraftquorum_operator.plan.guards import Case, first_block


def first_replicas(case: Case) -> int:
    """How many pods to start with: the wanted voters, and every claim that is there (S18).

    An earlier quorum may need all of its members to elect a leader. A claim that only has a
    name like ours is none of them, and no replica ever had a larger ordinal than the largest.
    """
    known = (claim.ordinal + 1 for claim in case.observation.claims if not claim.foreign_owner)
    return min(names.NODES_MAX, max([case.spec.voters, *known]))


def create(case: Case) -> CreateStatefulSet | Wait | None:
    """Create the StatefulSet if there is none."""
    if case.observation.statefulset is not None:
        return None
    replicas = first_replicas(case)
    subject = Case(case.spec, case.observation, case.now_ms, replicas=replicas)
    wait = first_block(
        subject,
        guards.kubernetes_version_supported,
        guards.claims_are_ours,
        guards.config_accepted,
        guards.access_file_written,
        guards.network_policy_written,
        guards.certificates_usable,
        guards.certificates_issued,
    )
    return wait or CreateStatefulSet(replicas)


RESTART_PATIENCE_MS = 120_000
"""How long the operator waits for restarting pods before every claim gets its pod."""


def raise_replicas(case: Case) -> SetReplicas | None:
    """Give every known voter its pod back if another client lowered the replicas (S25).

    Without a leader the last known set counts. A set that only the latch lists may be older than
    the voters; then every claim gets its pod back. Raising the replicas is harmless, but useless
    while existing pods may soon answer and name the voters, as after a restart of all pods.
    """
    statefulset = case.observation.statefulset
    if statefulset is None:
        return None
    if case.observation.quorum is not None:
        floor = case.observation.quorum.highest_voter + 1
    else:
        known = [replica.node_id + 1 for replica in case.observation.known_voters()]
        reported = any(not node.blank and node.voters for node in case.observation.nodes)
        if not reported and _may_answer_soon(case):
            return None
        floor = max(known) if reported and known else max([*known, first_replicas(case)])
    if statefulset.replicas < floor:
        return SetReplicas(statefulset.uid, statefulset.resource_version, floor)
    return None


def _may_answer_soon(case: Case) -> bool:
    """Whether a pod that was ready a moment ago, on a bound claim, is only restarting."""
    observation = case.observation
    replicas = observation.statefulset.replicas if observation.statefulset else 0
    for pod in observation.pods:
        claim = observation.claim(pod.ordinal)
        if pod.ordinal >= replicas or claim is None or claim.phase != "Bound":
            continue
        if observation.node(pod.ordinal) is not None or (pod.restarts and pod.fails_to_start):
            continue
        if pod.unready_ms is not None and pod.unready_ms < RESTART_PATIENCE_MS:
            return True
    return False


def _first_voters(case: Case) -> tuple[LatchVoter, ...]:
    nodes = [case.observation.node(ordinal) for ordinal in range(case.spec.voters)]
    return tuple(LatchVoter(node.replica, node.peer_endpoint) for node in nodes if node)


def _adopted_voters(case: Case, committed: tuple[ReplicaId, ...]) -> tuple[LatchVoter, ...]:
    endpoints = {node.replica: node.peer_endpoint for node in case.observation.nodes}
    return tuple(LatchVoter(replica, endpoints.get(replica)) for replica in committed)


def latch(case: Case) -> CreateLatch | AdoptQuorum | Wait | None:
    """Create the latch: for the quorum that is there, or for blank nodes that form one.

    Returns None once the latch is there.
    """
    observation = case.observation
    if observation.latch is not None:
        return None
    if observation.quorum is not None:
        wait = first_block(case, guards.confirmed_voters_required, guards.epoch_committed)
        if wait is not None:
            return wait
        return AdoptQuorum(
            observation.quorum.cluster_id, _adopted_voters(case, observation.quorum.committed)
        )
    wait = first_block(
        case,
        guards.never_rebootstrap,
        guards.claims_are_ours,
        guards.no_earlier_claims,
        guards.earlier_quorum_elects_leader,
        guards.config_accepted,
        guards.certificates_usable,
        guards.all_blank_before_formation,
        guards.certificates_presented,
    )
    if wait is not None:
        return wait
    return CreateLatch(_first_voters(case), reserved_cluster_id(case.spec, observation))


def send_latch(case: Case) -> SendLatch | None:
    """Send the latch to a blank node that it lists by (id, UUID).

    A node with another UUID never gets it (S19): it becomes an observer, and a voter only
    through the quorum. Nor does a replica that the quorum has removed since.
    """
    observation = case.observation
    if observation.latch is None or observation.latch.adopted:
        return None
    for node in observation.nodes:
        if not node.blank or not observation.latch.lists(node.replica):
            continue
        if observation.quorum is None or node.replica in observation.quorum.replicas:
            return SendLatch(node.replica, observation.latch)
    return None
