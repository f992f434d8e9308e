"""Ties the process node together: watches pods, claims and volumes, runs workers."""

import asyncio
from pathlib import Path

import structlog

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import ApiError
from kraftquorum_devcluster.informer import Informer, Key
from kraftquorum_devcluster.network import free_port
from kraftquorum_devcluster.objects import Json, child
from kraftquorum_devcluster.paths import private_dir
from kraftquorum_devcluster.pki import Pki
from kraftquorum_devcluster.tasks import TaskSet

from .addresses import AddressBook
from .binder import Binder
from .context import NODE_NAME, NodeContext, NodeSettings
from .events import EventSink
from .hosts import HostsFiles
from .kubelet_api import KubeletApi
from .provisioner import STORAGE_CLASS_OBJECT, Provisioner
from .registration import Registration
from .volumes import VolumeStore
from .worker import PodWorker

_log = structlog.get_logger(__name__)
_PREFERRED_PORT = 10250
_RETRY_S = 1.0


class ProcessNode:
    """The node; `start` returns once it is registered and ready for pods."""

    def __init__(
        self,
        *,
        state_dir: Path,
        server_url: str,
        pki: Pki,
        token: str,
        admin_token: str,
        subnet_number: int,
        host_ip: str,
        settings: NodeSettings,
    ) -> None:
        self.hosts = HostsFiles(state_dir / "hosts")
        self.kubelet_api = KubeletApi(pki, [token, admin_token], self.find)
        self.kubelet_port = free_port(host_ip, _PREFERRED_PORT)
        api = ApiClient(server_url, token, pki.ca.certificate)
        self._context = NodeContext(
            api=api,
            settings=settings,
            addresses=AddressBook(subnet_number),
            hosts=self.hosts,
            events=EventSink(api, NODE_NAME),
            state_dir=state_dir,
            owner=str(state_dir),
            host_ip=host_ip,
        )
        self._host_ip = host_ip
        self._api = api
        self._tasks = TaskSet("node")
        self._workers: dict[Key, PodWorker] = {}
        self._gone: dict[Key, asyncio.Event] = {}
        self._stopping = False
        self._make_informers(state_dir)

    def _make_informers(self, state_dir: Path) -> None:
        self._pods = Informer(self._api, "/api/v1/pods", self._pod_changed)
        self._claims = Informer(self._api, "/api/v1/persistentvolumeclaims", self._changed)
        self._volumes = Informer(self._api, "/api/v1/persistentvolumes", self._changed)
        self._classes = Informer(self._api, "/apis/storage.k8s.io/v1/storageclasses", self._changed)
        self._nodes = Informer(self._api, "/api/v1/nodes", self._changed)
        self._binder = Binder(self._api, self._pods, self._nodes)
        store = VolumeStore(private_dir(state_dir / "volumes"))
        self._provisioner = Provisioner(
            self._api, store, self._claims, self._volumes, self._classes
        )

    async def start(self) -> None:
        """Register the node and begin to run pods."""
        self._api.open()
        private_dir(self._context.pods_dir)
        await self.kubelet_api.start(self._host_ip, self.kubelet_port)
        await self._create_storage_class()
        registration = Registration(
            self._api, self._host_ip, self.kubelet_port, self._context.settings.heartbeat_s
        )
        await registration.beat()
        for informer in (self._nodes, self._classes, self._volumes, self._claims, self._pods):
            self._tasks.start(informer.run(), "informer")
            await informer.synced.wait()
        self._tasks.start(registration.run(), "heartbeat")
        self._tasks.start(self._context.events.run(), "events")
        self._tasks.start(self._binder.run(), "binder")
        self._tasks.start(self._provisioner.run(), "provisioner")

    async def stop(self) -> None:
        """End all pods' processes; the objects stay."""
        self._stopping = True
        async with asyncio.TaskGroup() as group:
            for worker in self._workers.values():
                group.create_task(worker.stop())
        await self._tasks.cancel_all()
        await self.kubelet_api.stop()
        await self._api.close()

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a pod."""
        return self._workers.get((namespace, name))

    async def _create_storage_class(self) -> None:
        try:
            await self._api.post("/apis/storage.k8s.io/v1/storageclasses", STORAGE_CLASS_OBJECT)
        except ApiError as error:
            if error.status != 409:
                raise

    def _changed(self, _kind: str, _thing: Json) -> None:
        self._binder.wake.set()
        self._provisioner.wake.set()

    def _pod_changed(self, kind: str, pod: Json) -> None:
        self._binder.wake.set()
        if pod["spec"].get("nodeName") != NODE_NAME or self._stopping:
            return
        key: Key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        worker = self._workers.get(key)
        same = worker is not None and worker.uid == pod["metadata"]["uid"]
        if kind == "DELETED":
            if worker is not None and same:
                worker.deleted()
        elif worker is not None and same:
            worker.update(pod)
        elif not _finished(pod):
            if worker is not None:
                worker.deleted()
            self._begin(key, pod)

    def _begin(self, key: Key, pod: Json) -> None:
        worker = PodWorker(self._context, pod)
        worker.update(pod)
        self._workers[key] = worker
        before, gone = self._gone.get(key), asyncio.Event()
        self._gone[key] = gone
        self._tasks.start(self._run(key, worker, before, gone), f"pod {key[0]}/{key[1]}")

    async def _run(
        self, key: Key, worker: PodWorker, before: asyncio.Event | None, gone: asyncio.Event
    ) -> None:
        ended = False
        try:
            await worker.run(before, gone)
            ended = True
        finally:
            if self._workers.get(key) is worker:
                del self._workers[key]
                del self._gone[key]
            if not ended:  # its failure is logged; nothing else runs or ends this pod
                asyncio.get_running_loop().call_later(_RETRY_S, self._again, key, worker.uid)

    def _again(self, key: Key, uid: str) -> None:
        pod = self._pods.get(*key)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self._pod_changed("MODIFIED", pod)


def _finished(pod: Json) -> bool:
    phase = child(pod, "status").get("phase")
    return phase in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")
