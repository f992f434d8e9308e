"""Lost disks: emptied under the process, or the claim and the volume deleted as well."""

from contextlib import suppress

import pytest

from kraftquorum_devcluster.errors import CommandError

ROLES = pytest.mark.parametrize(
    "role", [pytest.param("follower", marks=pytest.mark.nightly), "leader"]
)


@ROLES
def test_disk_emptied(case, role):
    """A volume emptied under the running process"""
    quorum = case.formed(3)
    voters, node_id = quorum.voters(), quorum.one(role)
    pod = quorum.pod(node_id)
    claims = quorum.uids("persistentvolumeclaims")
    with case.timed(quorum):
        case.e2e_cluster.wipe(quorum.namespace, pod, quorum.claim(pod))
        quorum.until_replaced(node_id, voters[node_id])
    assert _others(quorum.voters(), node_id) == _others(voters, node_id)
    assert quorum.uids("persistentvolumeclaims") == claims
    case.figures.measures[f"disk_recovery_{role}_s"] = case.figures.seconds


@ROLES
def test_claim_deleted(case, role):
    """Claim, volume and data deleted under the running process"""
    quorum = case.formed(3)
    voters, node_id = quorum.voters(), quorum.one(role)
    pod = quorum.pod(node_id)
    claim = quorum.claim(pod)
    body = case.e2e_cluster.api.one("persistentvolumeclaims", claim, quorum.namespace)
    empty = case.e2e_cluster.wiper(quorum.namespace, pod, claim)
    with case.timed(quorum):
        both = (f"pvc/{claim}", f"pv/{body['spec']['volumeName']}")
        quorum.kubectl("delete", *both, "--wait=false")
        # The operator deletes the pod of such a claim: the volume may be gone before us.
        with suppress(FileNotFoundError, CommandError):
            empty()
        quorum.until_replaced(node_id, voters[node_id])
    assert _others(quorum.voters(), node_id) == _others(voters, node_id)
    assert quorum.uids("persistentvolumeclaims")[claim] != body["metadata"]["uid"]
    case.figures.measures[f"claim_recovery_{role}_s"] = case.figures.seconds


def _others(voters, node_id):
    return {found: uuid for found, uuid in voters.items() if found != node_id}
