"""From an action to its function."""

from __future__ import annotations

from typing import assert_never

from kraftquorum_operator.execute import certificates, formation, objects, voters
from kraftquorum_operator.execute.tools import Tools
from kraftquorum_operator.plan import actions
from kraftquorum_operator.plan.actions import Action


async def run(action: Action, tools: Tools) -> str:
    """Carry one action out and say what was done.

    Raises:
        KubeError: the API server did not do it.
        NodeError: the replica did not do it, or it is not known whether it did.
    """
    tools.failpoints.before_action()
    match action:
        case actions.ApplyObjects():
            return await objects.apply_objects(action, tools)
        case actions.CreateStatefulSet():
            return await objects.create_statefulset(action, tools)
        case actions.SetReplicas():
            return await objects.set_replicas(action, tools)
        case actions.CountPod():
            return await objects.count_pod(action, tools)
        case actions.RecountBudget():
            return await objects.recount_budget(action, tools)
        case actions.SetClaimOwner():
            return await objects.set_claim_owner(action, tools)
        case actions.RecordClaims():
            return await objects.record_claims(action, tools)
        case actions.GrowClaim():
            return await objects.grow_claim(action, tools)
        case actions.DeleteClaim():
            return await objects.delete_claim(action, tools)
        case actions.DeletePod():
            return await objects.delete_pod(action, tools)
        case actions.EvictPod():
            return await objects.evict_pod(action, tools)
        case actions.DeleteStatefulSet():
            return await objects.delete_statefulset(action, tools)
        case actions.DeleteLatch():
            return await objects.delete_latch(action, tools)
        case actions.CreateAuthority():
            return await certificates.create_authority(action, tools)
        case actions.ChangeAuthority():
            return await certificates.change_authority(action, tools)
        case actions.IssueCertificates():
            return await certificates.issue_certificates(action, tools)
        case actions.DeleteIssued():
            return await certificates.delete_issued(action, tools)
        case actions.DeleteAuthority():
            return await certificates.delete_authority(action, tools)
        case actions.CreateLatch():
            return await formation.create_latch(action, tools)
        case actions.AdoptQuorum():
            return await formation.adopt_quorum(action, tools)
        case actions.SendLatch():
            return await formation.send_latch(action, tools)
        case actions.JoinNode():
            return await voters.join_node(action, tools)
        case actions.AddVoter():
            return await voters.add_voter(action, tools)
        case actions.RemoveVoter():
            return await voters.remove_voter(action, tools)
        case actions.MoveLeadership():
            return await voters.move_leadership(action, tools)
        case _:
            assert_never(action)
