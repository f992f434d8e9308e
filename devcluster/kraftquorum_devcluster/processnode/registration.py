"""The Node object: registered, kept alive by lease and status."""

import asyncio

import aiohttp
import structlog

from kraftquorum_devcluster import clock
from kraftquorum_devcluster.apiclient import STRATEGIC_MERGE, ApiClient
from kraftquorum_devcluster.errors import ApiError
from kraftquorum_devcluster.objects import Json
from kraftquorum_devcluster.versions import KUBERNETES_VERSION

from .context import NODE_NAME

_log = structlog.get_logger(__name__)

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_SECONDS = 40


def node_object() -> Json:
    """The Node as it is registered."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": NODE_NAME,
            "labels": {
                "kubernetes.io/hostname": NODE_NAME,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": "local",
            },
        },
    }


def node_status(address: str, kubelet_port: int, now: str) -> Json:
    """Status of a healthy node; all of it is sent at each heartbeat.

    A renewed lease alone does not undo ``Unknown`` after a pause.
    """
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti"}
    kinds = {
        "Ready": ("True", "KubeletReady"),
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
    }
    return {
        "addresses": [
            {"$patch": "replace"},
            {"type": "InternalIP", "address": address},
        ],
        "capacity": capacity,
        "allocatable": capacity,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": "",
            "osImage": "process node of kraftquorum devcluster",
            "containerRuntimeVersion": "process://1",
            "kubeletVersion": f"v{KUBERNETES_VERSION}",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "",
        },
        "conditions": [
            {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now}
            for kind, (status, reason) in kinds.items()
        ],
    }


class Registration:
    """Creates the Node object, and renews its lease and heartbeat."""

    def __init__(self, api: ApiClient, address: str, kubelet_port: int, heartbeat_s: float) -> None:
        self._api = api
        self._address = address
        self._port = kubelet_port
        self._heartbeat_s = heartbeat_s

    async def run(self) -> None:
        """Send heartbeats until cancelled, and register a deleted Node again."""
        while True:
            pause_s = self._heartbeat_s
            try:
                await self.beat()
            except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
                _log.info("heartbeat failed", error=repr(error))
                pause_s = 0.5
            await asyncio.sleep(pause_s)

    async def beat(self) -> None:
        """Register if need be, renew the lease, report the status."""
        status = {"status": node_status(self._address, self._port, clock.now())}
        path = f"/api/v1/nodes/{NODE_NAME}/status"
        try:
            await self._api.patch(path, status, STRATEGIC_MERGE)
        except ApiError as error:
            if error.status != 404:
                raise
            await self._api.post("/api/v1/nodes", node_object())
            await self._api.patch(path, status, STRATEGIC_MERGE)
        spec: Json = {
            "holderIdentity": NODE_NAME,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": clock.now_micro(),
        }
        try:
            await self._api.patch(f"{_LEASES}/{NODE_NAME}", {"spec": spec})
        except ApiError as error:
            if error.status != 404:
                raise
            await self._api.post(_LEASES, {"metadata": {"name": NODE_NAME}, "spec": spec})
