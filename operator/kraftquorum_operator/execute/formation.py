"""Actions of formation: create the latch, send what was read back (S18)."""

from __future__ import annotations

import base64
import uuid
from contextlib import suppress
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.errors import ConflictError, KubeError
from kraftquorum_operator.execute.tools import Tools
from kraftquorum_operator.model.observation import LatchVoter
from kraftquorum_operator.plan.actions import AdoptQuorum, CreateLatch, SendLatch
from kraftquorum_operator.resources.latch import latch
from kraftquorum_operator.resources.metadata import selector
from raftnode.api.model import FormRequest, VoterSpec


def random_cluster_id() -> str:
    """A cluster id as Kafka writes them: 22 characters, the first a letter or a digit."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if text[0] not in "-_":
            return text


async def _create(cluster_id: str, voters: tuple[LatchVoter, ...], tools: Tools, how: str) -> str:
    body = latch(tools.owner, cluster_id, voters, adopted=how == "adopted")
    try:
        await tools.kube.create(body)
    except ConflictError:
        return "another operator has created the latch already; its latch counts"
    return f"cluster {cluster_id}, voters {', '.join(str(v.replica) for v in voters)}"


async def create_latch(action: CreateLatch, tools: Tools) -> str:
    """Create the latch once. An operator that comes second uses the latch that it reads back."""
    cluster_id = action.cluster_id or random_cluster_id()
    return await _create(cluster_id, action.voters, tools, "formed")


async def adopt_quorum(action: AdoptQuorum, tools: Tools) -> str:
    """Create the latch for an existing quorum, so that no operator forms another one.

    This first deletes the latch of a deleted resource of this name, if it is of the same quorum:
    the new latch replaces it. It keeps another quorum's latch, whose data may still be on a volume.
    """
    with suppress(KubeError):
        await _delete_superseded(action.cluster_id, tools)
    return await _create(action.cluster_id, action.voters, tools, "adopted")


async def _delete_superseded(cluster_id: str, tools: Tools) -> None:
    owner = tools.owner
    wanted = ",".join(f"{key}={value}" for key, value in selector(owner).items())
    for body in await tools.kube.list("ConfigMap", owner.namespace, wanted):
        meta = body["metadata"]
        labels = cast("dict[str, str]", meta.get("labels") or {})
        data = cast("dict[str, str]", body.get("data") or {})
        uid = labels.get(names.LABEL_OWNER_UID, owner.uid)
        superseded = uid != owner.uid and meta["name"] == names.latch(uid)
        if superseded and data.get("clusterId") == cluster_id:
            tools.failpoints.before_delete()
            await tools.kube.delete("ConfigMap", owner.namespace, meta["name"], uid=meta["uid"])


async def send_latch(action: SendLatch, tools: Tools) -> str:
    """Send the latch; a node accepts it only if the node is blank and in the latch."""
    voters = tuple(
        VoterSpec(
            node_id=voter.replica.node_id,
            directory_id=voter.replica.directory_id,
            endpoint=voter.endpoint,
        )
        for voter in action.latch.voters
    )
    request = FormRequest(cluster_id=action.latch.cluster_id, voters=voters)
    await tools.nodes.form(tools.address(action.replica.node_id), request)
    return str(action.replica)
