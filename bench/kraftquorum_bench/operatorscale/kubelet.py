"""A small kubelet for simulated nodes: it binds pods, makes volumes and reports each pod's status.

The StatefulSet, disruption and volume controllers of the controller manager are real.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from kraftquorum_bench.operatorscale.nodes import SimulatedNodes
from kraftquorum_bench.operatorscale.replicas import Disk, SimulatedQuorum, new_directory_id
from kraftquorum_devcluster import clock
from kraftquorum_devcluster.apiclient import STRATEGIC_MERGE, ApiClient
from kraftquorum_devcluster.errors import ApiError
from kraftquorum_devcluster.informer import Informer, Key, key_of
from kraftquorum_devcluster.objects import Json, child
from kraftquorum_devcluster.processnode.addresses import AddressBook
from kraftquorum_devcluster.processnode.context import NODE_NAME, STORAGE_CLASS
from kraftquorum_devcluster.processnode.provisioner import (
    STORAGE_CLASS_OBJECT,
    is_garbage,
    volume_name,
    volume_object,
)
from kraftquorum_devcluster.processnode.status import ContainerState, Terminated, pod_status
from kraftquorum_devcluster.tasks import TaskSet
from kraftquorum_operator import names

WORKERS = 16
"""How many objects are attended to at once."""
RETRY_S = 0.5
LOST_EXIT_CODE = 13
"""Of a node that finds no identity on its disk: it must be replaced."""


class Pod:
    """A running pod: its address, its disk and what was reported last."""

    def __init__(self, body: Json, address: str, claim_uid: str) -> None:
        self.uid: str = body["metadata"]["uid"]
        self.address = address
        self.claim_uid = claim_uid
        self.started_at = clock.now()
        self.conditions: list[Json] = []
        self.reported: Json | None = None
        self.state = ContainerState(names.CONTAINER, str(body["spec"]["containers"][0]["image"]))
        self.state.running_since = self.started_at
        self.state.started = True


class SimulatedKubelet:
    """Gives the pods of all quorums their status, and starts and ends their nodes.

    Args:
        api: of the API server; its owner closes it.
        addresses: of the pods.
        host_ip: of the machine.
    """

    def __init__(self, api: ApiClient, addresses: AddressBook, host_ip: str) -> None:
        self.nodes = SimulatedNodes(self._quorum_changed)
        self._api, self._addresses, self._host_ip = api, addresses, host_ip
        self._tasks = TaskSet("kubelet")
        self._queue: asyncio.Queue[tuple[str, Key]] = asyncio.Queue()
        self._queued: set[tuple[str, Key]] = set()
        self._busy: set[tuple[str, Key]] = set()
        self._pods: dict[Key, Pod] = {}
        self._disks: dict[str, Disk] = {}
        """By UID of the claim."""
        self._pod_objects = Informer(api, "/api/v1/pods", self._pod_changed)
        self._claims = Informer(api, "/api/v1/persistentvolumeclaims", self._claim_changed)
        self._volumes = Informer(api, "/api/v1/persistentvolumes", self._volume_changed)

    async def start(self) -> None:
        """Begin; returns once all objects are known."""
        storage_class = STORAGE_CLASS_OBJECT | {"volumeBindingMode": "Immediate"}
        await self._api.post("/apis/storage.k8s.io/v1/storageclasses", storage_class)
        for number in range(WORKERS):
            self._tasks.start(self._work(), f"worker {number}")
        for informer in (self._volumes, self._claims, self._pod_objects):
            self._tasks.start(informer.run(), "informer")
            await informer.synced.wait()

    async def stop(self) -> None:
        """End all nodes."""
        await self._tasks.cancel_all()
        await self.nodes.close()

    async def lose_disk(self, namespace: str, pod_name: str) -> None:
        """Empty the disk of a pod: its node ends, and starts again with a new directory id."""
        key = (namespace, pod_name)
        pod, body = self._pods[key], self._pod_objects.get(*key)
        assert body is not None
        quorum, node_id = self._replica(key)
        quorum.await_action()
        self.nodes.stop(pod.address)
        now = clock.now()
        pod.state.last = Terminated(LOST_EXIT_CODE, pod.started_at, now, "")
        pod.state.restart_count += 1
        pod.state.running_since = now
        self._disks[pod.claim_uid] = Disk(new_directory_id())
        await self.nodes.start(quorum, node_id, pod.address, self._disks[pod.claim_uid])

    # -- what changed ----------------------------------------------------------------------------

    def _pod_changed(self, _kind: str, pod: Json) -> None:
        self._enqueue("Pod", key_of(pod))

    def _claim_changed(self, _kind: str, claim: Json) -> None:
        self._enqueue("Claim", key_of(claim))
        namespace, name = key_of(claim)
        self._enqueue("Pod", (namespace, name.removeprefix(f"{names.CLAIM_TEMPLATE}-")))

    def _volume_changed(self, _kind: str, volume: Json) -> None:
        self._enqueue("Volume", key_of(volume))

    def _quorum_changed(self, quorum: SimulatedQuorum) -> None:
        for node_id in quorum.running:
            self._enqueue("Pod", (quorum.namespace, names.pod(quorum.name, node_id)))

    def _enqueue(self, kind: str, key: Key) -> None:
        if (kind, key) not in self._queued:
            self._queued.add((kind, key))
            self._queue.put_nowait((kind, key))

    async def _work(self) -> None:
        attend = {"Pod": self._attend_pod, "Claim": self._provision, "Volume": self._clean_up}
        while True:
            item = await self._queue.get()
            if item in self._busy:  # another worker has it: once more, afterwards
                await asyncio.sleep(0.01)
                self._queue.put_nowait(item)
                continue
            self._queued.discard(item)
            self._busy.add(item)
            try:
                await attend[item[0]](item[1])
            except ApiError as error:
                if error.status not in (404, 409):
                    self._again(item)
            except (aiohttp.ClientError, TimeoutError, OSError):
                self._again(item)
            finally:
                self._busy.discard(item)

    def _again(self, item: tuple[str, Key]) -> None:
        asyncio.get_running_loop().call_later(RETRY_S, self._enqueue, *item)

    # -- pods ------------------------------------------------------------------------------------

    async def _attend_pod(self, key: Key) -> None:
        body, pod = self._pod_objects.get(*key), self._pods.get(key)
        if pod is not None and (body is None or body["metadata"]["uid"] != pod.uid):
            self._end(key, pod)
            pod = None
        if body is None:
            return
        metadata: Json = body["metadata"]
        if metadata.get("deletionTimestamp"):
            if pod is not None:
                self._end(key, pod)
            options: Json = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            await self._api.delete(_path(key), options)
        elif not body["spec"].get("nodeName"):
            await self._bind(key, metadata["uid"])
        else:
            pod = pod or await self._begin(key, body)
            if pod is not None:
                await self._report(key, pod)

    async def _bind(self, key: Key, uid: str) -> None:
        binding: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key[1], "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME},
        }
        await self._api.post(f"{_path(key)}/binding", binding)

    async def _begin(self, key: Key, body: Json) -> Pod | None:
        """Start the node of a pod once its claim is bound."""
        claim = self._claims.get(key[0], f"{names.CLAIM_TEMPLATE}-{key[1]}")
        if claim is None or child(claim, "status").get("phase") != "Bound":
            return None
        pod = Pod(body, self._addresses.take(*key), claim["metadata"]["uid"])
        self._pods[key] = pod
        quorum, node_id = self._replica(key)
        disk = self._disks.setdefault(pod.claim_uid, Disk())
        await self.nodes.start(quorum, node_id, pod.address, disk)
        return pod

    def _end(self, key: Key, pod: Pod) -> None:
        self.nodes.stop(pod.address)
        self._addresses.give_back(*key)
        del self._pods[key]

    async def _report(self, key: Key, pod: Pod) -> None:
        quorum, node_id = self._replica(key)
        pod.state.ready = quorum.is_ready(node_id)
        now = clock.now()
        status = pod_status(
            [pod.state],
            pod_ip=pod.address,
            host_ip=self._host_ip,
            start_time=pod.started_at,
            before=pod.conditions,
            now=now,
        )
        if status == pod.reported:
            return
        change: Json = {"metadata": {"uid": pod.uid}, "status": status}
        await self._api.patch(f"{_path(key)}/status", change, STRATEGIC_MERGE)
        pod.reported, pod.conditions = status, status["conditions"]

    def _replica(self, key: Key) -> tuple[SimulatedQuorum, int]:
        name, _, ordinal = key[1].rpartition("-")
        return self.nodes.quorum(key[0], name), int(ordinal)

    # -- volumes ---------------------------------------------------------------------------------

    async def _provision(self, key: Key) -> None:
        claim = self._claims.get(*key)
        if (
            claim is None
            or claim["spec"].get("volumeName")
            or claim["metadata"].get("deletionTimestamp")
            or self._volumes.get("", volume_name(claim)) is not None
        ):
            return
        storage_class: Json = {"metadata": {"name": STORAGE_CLASS}}
        volume = volume_object(claim, storage_class, Path("/simulated"), NODE_NAME)
        await self._api.post("/api/v1/persistentvolumes", volume)

    async def _clean_up(self, key: Key) -> None:
        volume = self._volumes.get(*key)
        if volume is not None and is_garbage(volume):
            self._disks.pop(volume["spec"]["claimRef"]["uid"], None)
            await self._api.delete(f"/api/v1/persistentvolumes/{key[1]}")


def _path(key: Key) -> str:
    return f"/api/v1/namespaces/{key[0]}/pods/{key[1]}"
