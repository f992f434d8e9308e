"""The scheduler's part: pods go to this node once their claims are bound."""

import asyncio

import aiohttp
import structlog

from kraftquorum_devcluster import clock
from kraftquorum_devcluster.apiclient import STRATEGIC_MERGE, ApiClient
from kraftquorum_devcluster.errors import ApiError
from kraftquorum_devcluster.informer import Informer
from kraftquorum_devcluster.objects import Json, child, children

from .context import NODE_NAME
from .podspec import claim_names
from .sources import read_claim

_log = structlog.get_logger(__name__)

SELECTED_NODE = "volume.kubernetes.io/selected-node"
_RECHECK_S = 5.0
_RETRY_S = 0.3


def is_waiting(pod: Json) -> bool:
    """Whether the pod wants a node and none has it."""
    spec: Json = pod["spec"]
    return (
        not spec.get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName") in (None, "default-scheduler")
    )


class Binder:
    """Looks at all waiting pods whenever something changed."""

    def __init__(self, api: ApiClient, pods: Informer, nodes: Informer) -> None:
        self._api = api
        self._pods = pods
        self._nodes = nodes
        self._bound: set[str] = set()
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Bind until cancelled."""
        while True:
            self.wake.clear()
            for pod in self._pods:
                if is_waiting(pod) and pod["metadata"]["uid"] not in self._bound:
                    await self._attend(pod)
            try:
                async with asyncio.timeout(_RECHECK_S):
                    await self.wake.wait()
            except TimeoutError:
                self._bound.clear()  # a binding that was lost would be tried again

    async def _attend(self, pod: Json) -> None:
        try:
            obstacle = self._node_obstacle(pod) or await self._claims_obstacle(pod)
            if obstacle is None:
                await self._bind(pod)
            else:
                await self._say_unschedulable(pod, obstacle)
        except ApiError as error:
            if error.status not in (404, 409):
                _log.warning("pod not bound", pod=pod["metadata"]["name"], error=str(error))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.info("pod not bound", pod=pod["metadata"]["name"], error=repr(error))
            await asyncio.sleep(_RETRY_S)
            self.wake.set()

    def _node_obstacle(self, pod: Json) -> str | None:
        node = self._nodes.get("", NODE_NAME)
        if node is None or node["spec"].get("unschedulable"):
            return "0/1 nodes are available: 1 node(s) were unschedulable"
        labels: Json = child(node["metadata"], "labels")
        wanted: Json = child(pod["spec"], "nodeSelector")
        if any(labels.get(key) != value for key, value in wanted.items()):
            return "0/1 nodes are available: 1 node(s) didn't match the node selector"
        return None

    async def _claims_obstacle(self, pod: Json) -> str | None:
        namespace = pod["metadata"]["namespace"]
        obstacles: list[str] = []
        for name in claim_names(pod):
            claim = await read_claim(self._api, namespace, name)
            if claim is None:
                obstacles.append(f'persistentvolumeclaim "{name}" not found')
            elif claim["metadata"].get("deletionTimestamp"):
                obstacles.append(f'persistentvolumeclaim "{name}" is being deleted')
            elif child(claim, "status").get("phase") != "Bound":
                obstacles.append(f'persistentvolumeclaim "{name}" is not bound')
                await self._select_node(claim)
        return "; ".join(obstacles) or None

    async def _select_node(self, claim: Json) -> None:
        metadata: Json = claim["metadata"]
        if child(metadata, "annotations").get(SELECTED_NODE) != NODE_NAME:
            await self._api.patch(
                f"/api/v1/namespaces/{metadata['namespace']}"
                f"/persistentvolumeclaims/{metadata['name']}",
                {"metadata": {"uid": metadata["uid"], "annotations": {SELECTED_NODE: NODE_NAME}}},
            )

    async def _bind(self, pod: Json) -> None:
        metadata: Json = pod["metadata"]
        self._bound.add(metadata["uid"])
        await self._api.post(
            f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME},
            },
        )

    async def _say_unschedulable(self, pod: Json, message: str) -> None:
        conditions = children(child(pod, "status"), "conditions")
        before = next((c for c in conditions if c["type"] == "PodScheduled"), None)
        if before is not None and before.get("message") == message:
            return
        metadata: Json = pod["metadata"]
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": clock.now(),
        }
        await self._api.patch(
            f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status",
            {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}},
            STRATEGIC_MERGE,
        )
