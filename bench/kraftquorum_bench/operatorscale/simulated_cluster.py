"""An API server with simulated nodes under it, for one case of the bench."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kraftquorum_bench.operatorscale.alarms import AlarmWatch
from kraftquorum_bench.operatorscale.audit import OPERATOR_USER, AuditLog, arguments
from kraftquorum_bench.operatorscale.kubelet import SimulatedKubelet
from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.binaries import ensure_binaries
from kraftquorum_devcluster.controlplane import PROCESS_NODE, ControlPlane
from kraftquorum_devcluster.errors import ApiError
from kraftquorum_devcluster.informer import Informer
from kraftquorum_devcluster.kubeconfig import write_kubeconfig
from kraftquorum_devcluster.network import claim_subnet
from kraftquorum_devcluster.objects import Json
from kraftquorum_devcluster.paths import private_dir
from kraftquorum_devcluster.processnode.addresses import AddressBook
from kraftquorum_devcluster.processnode.registration import Registration
from kraftquorum_devcluster.tasks import TaskSet
from kraftquorum_operator import names
from kraftquorum_operator.model.crd import crd

CONTROLLERS = (
    # The defaults, 20 and 30, would need minutes for the pods of 500 quorums.
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
    "--concurrent-statefulset-syncs=20",
)
KUBELET_PORT = 10250
HEARTBEAT_S = 10.0
RESOURCES = f"/apis/{names.API_VERSION}/{names.PLURAL}"


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """What a case stands on.

    Attributes:
        root: where files go.
        api: as the administrator.
        kubelet: the simulated nodes.
        audit: the operator's requests.
        alarms: what the operator reports.
        kubeconfig: of the operator's user.
    """

    root: Path
    api: ApiClient
    kubelet: SimulatedKubelet
    audit: AuditLog
    alarms: AlarmWatch
    kubeconfig: Path

    async def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        await self.api.post("/api/v1/namespaces", {"metadata": {"name": name}})

    async def create_quorum(self, namespace: str, name: str) -> None:
        """Create a resource with three voters, and without TLS: simulated nodes have none."""
        path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}"
        body: Json = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name},
            "spec": {"voters": 3, "tls": {"mode": "Disabled"}},
        }
        await self.api.post(path, body)


@asynccontextmanager
async def simulated_cluster(root: Path) -> AsyncGenerator[SimulatedCluster]:
    """Start an API server with the CRD and a simulated kubelet; end all of it afterwards.

    Raises:
        StartError: a part did not come up.
    """
    subnet = claim_subnet()
    log = private_dir(root) / "audit.log"
    async with AsyncExitStack() as stack:
        stack.callback(subnet.claim.close)
        profile = replace(
            PROCESS_NODE,
            apiserver=(*PROCESS_NODE.apiserver, *arguments(root / "audit-policy.json", log)),
            identities={OPERATOR_USER: "system:masters"},
            controllers=CONTROLLERS,
        )
        plane = ControlPlane(root, ensure_binaries(), subnet.control_address, profile)
        stack.push_async_callback(plane.stop)
        await plane.start()
        kubeconfig = write_kubeconfig(
            root / "operator.kubeconfig",
            plane.server_url,
            plane.tokens.others[OPERATOR_USER],
            plane.pki.ca.certificate,
        )
        api = ApiClient(plane.server_url, plane.tokens.admin, plane.pki.ca.certificate)
        api.open()
        stack.push_async_callback(api.close)
        tasks = TaskSet("bench")
        stack.push_async_callback(tasks.cancel_all)
        node = Registration(api, subnet.control_address, KUBELET_PORT, HEARTBEAT_S)
        await node.beat()
        tasks.start(node.run(), "heartbeat")
        kubelet = SimulatedKubelet(api, AddressBook(subnet.number), subnet.control_address)
        stack.push_async_callback(kubelet.stop)
        await kubelet.start()
        await _create_crd(api)
        alarms = AlarmWatch(kubelet.nodes)
        resources = Informer(api, RESOURCES, alarms.changed)
        tasks.start(resources.run(), "resources")
        await resources.synced.wait()
        yield SimulatedCluster(root, api, kubelet, AuditLog(log), alarms, kubeconfig)


async def _create_crd(api: ApiClient) -> None:
    """Create the CRD; its API may come a moment later, which the informer waits for."""
    try:
        await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    except ApiError as error:
        if error.status != 409:
            raise
