"""Ties the parts together for the supervisor: DNS, the scheduler, volumes, the nodes."""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import structlog

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.controlplane import ControlPlane, PlaneProfile
from kraftquorum_devcluster.errors import ApiError, StartError
from kraftquorum_devcluster.files import write_atomically
from kraftquorum_devcluster.informer import Informer
from kraftquorum_devcluster.kubeconfig import write_kubeconfig
from kraftquorum_devcluster.objects import Json, child, children
from kraftquorum_devcluster.processes import Child, spawn
from kraftquorum_devcluster.processnode.provisioner import (
    OWN_FILE_SYSTEM,
    STORAGE_CLASS_OBJECT,
    Provisioner,
)
from kraftquorum_devcluster.tasks import TaskSet

from .addresses import RealNetwork, node_name
from .cgroups import cgroup_name, remove_cgroups
from .disks import DiskStore
from .links import HUB, Links
from .machine import Machine
from .policies import PolicyAgent
from .settings import NodePlan, corefile, images_in_memory

_log = structlog.get_logger(__name__)

_READY_TIMEOUT_S = 90.0
_RESTART_S = 0.5
DISK_CLASS = "kraftquorum-disk"
"""Storage class whose volumes have a file system of their own, of the size that was asked for."""

_SCHEDULER = "system:kube-scheduler"
_PROXY = "system:kube-proxy"
_DNS = "devcluster-dns"


def plane_profile(network: RealNetwork, nodes: int) -> PlaneProfile:
    """How the control plane differs from the one over the process node."""
    names = [node_name(index) for index in range(1, nodes + 1)]
    return PlaneProfile(
        apiserver=(
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-cluster-ip-range={network.services}",
            "--allow-privileged=true",
        ),
        names=(
            network.api_service,
            "kubernetes.default.svc.cluster.local",
            "kubernetes.default",
            "kubernetes",
            *(network.node(index) for index in range(1, nodes + 1)),
        ),
        identities={
            _SCHEDULER: _SCHEDULER,
            _PROXY: _PROXY,
            _DNS: "system:masters",
            **{f"system:node:{name}": "system:nodes" for name in names},
        },
    )


class RealNodes:
    """The nodes and what they share.

    `prepare` comes before the control plane, which listens in the network that it makes;
    `start` after it; `stop` and then `clean_up` at the end, whatever was reached.
    """

    def __init__(self, state_dir: Path, binaries: Path, network: RealNetwork, nodes: int) -> None:
        self._state_dir = state_dir
        self._binaries = binaries
        self._network = network
        self._indices = range(1, nodes + 1)
        self._links = Links(state_dir / "netns", network, nodes)
        self._machines: dict[str, Machine] = {}
        self._shared: list[Child] = []
        self._tasks = TaskSet("nodes")
        self._api: ApiClient | None = None
        self._store: DiskStore | None = None

    @property
    def first_pids(self) -> Mapping[str, int]:
        """First process of each node, by the node's name."""
        return {name: machine.first_pid for name, machine in self._machines.items()}

    def prepare(self) -> None:
        """Make the network and the place of the volumes.

        Raises:
            StartError: Naming what failed.
        """
        try:
            remove_cgroups(self._state_dir)
            self._store = DiskStore(self._state_dir / "volumes")
        except OSError as error:
            raise StartError("node", str(error)) from error
        self._links.create()

    async def start(self, control_plane: ControlPlane) -> None:
        """Start everything; returns when all nodes are ready.

        Raises:
            StartError: Naming the node and the end of its kubelet's log.
        """
        tokens = control_plane.tokens.others
        owner = str(self._state_dir)
        in_memory = images_in_memory(_available_bytes(), len(self._indices))
        for index in self._indices:
            plan = NodePlan(index, self._network, cgroup_name(self._state_dir))
            machine = Machine(
                plan,
                self._state_dir,
                self._links.path(plan.name),
                self._binaries,
                control_plane.server_url,
                in_memory=in_memory,
            )
            self._machines[plan.name] = machine
            own = {"kubelet": tokens[f"system:node:{plan.name}"], "kube-proxy": tokens[_PROXY]}
            await machine.start(own, self._state_dir / "pki", owner)
        await self._start_shared(control_plane)
        await self._start_provisioner(control_plane)
        assert self._api is not None  # noqa: S101 - the provisioner's
        agent = PolicyAgent(self._api, {name: self._links.path(name) for name in self._machines})
        await agent.start(self._tasks)
        await self._await_ready()

    async def stop(self) -> None:
        """End everything that was started."""
        await self._tasks.cancel_all()
        for process in self._shared:
            await process.stop(0)
        async with asyncio.TaskGroup() as group:
            for machine in self._machines.values():
                group.create_task(machine.stop())
        if self._api is not None:
            await self._api.close()

    def clean_up(self) -> None:
        """Remove what the kernel keeps after the last process. Mounts go with their namespace."""
        try:
            self._links.remove()
            remove_cgroups(self._state_dir)
        except (OSError, StartError) as error:
            _log.warning("not all removed", error=str(error))

    async def _start_shared(self, control_plane: ControlPlane) -> None:
        server, authority = control_plane.server_url, control_plane.pki.ca.certificate
        tokens = control_plane.tokens.others
        dns = write_kubeconfig(
            self._state_dir / "coredns.kubeconfig", server, tokens[_DNS], authority
        )
        scheduler = write_kubeconfig(
            self._state_dir / "scheduler.kubeconfig", server, tokens[_SCHEDULER], authority
        )
        core = self._state_dir / "Corefile"
        write_atomically(core, corefile(dns))
        await self._keep(
            "coredns",
            [
                *["nsenter", f"--net={self._links.path(HUB)}"],
                *[str(self._binaries / "coredns"), f"-conf={core}"],
            ],
        )
        await self._keep(
            "kube-scheduler",
            [
                str(self._binaries / "kube-scheduler"),
                f"--kubeconfig={scheduler}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
        )

    async def _keep(self, name: str, command: list[str]) -> None:
        """Start a program and start it again whenever it ends."""

        async def launch() -> Child:
            return await spawn(
                name,
                command,
                log=self._state_dir / "logs" / f"{name}.log",
                cwd=self._state_dir,
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._state_dir)},
                owner=str(self._state_dir),
            )

        async def keep(running: Child) -> None:
            while True:
                code = await running.process.wait()
                self._shared.remove(running)
                _log.warning("component ended, starting it again", component=name, exit_code=code)
                await asyncio.sleep(_RESTART_S)
                running = await launch()
                self._shared.append(running)

        first = await launch()
        self._shared.append(first)
        self._tasks.start(keep(first), name)

    async def _start_provisioner(self, control_plane: ControlPlane) -> None:
        api = ApiClient(
            control_plane.server_url,
            control_plane.tokens.node,
            control_plane.pki.ca.certificate,
        )
        api.open()
        self._api = api
        for storage_class in (STORAGE_CLASS_OBJECT, _disk_class()):
            try:
                await api.post("/apis/storage.k8s.io/v1/storageclasses", storage_class)
            except ApiError as error:
                if error.status != 409:
                    raise
        provisioner: Provisioner | None = None

        def changed(_kind: str, _thing: Json) -> None:
            if provisioner is not None:
                provisioner.wake.set()

        claims = Informer(api, "/api/v1/persistentvolumeclaims", changed)
        volumes = Informer(api, "/api/v1/persistentvolumes", changed)
        classes = Informer(api, "/apis/storage.k8s.io/v1/storageclasses", changed)
        for informer in (classes, volumes, claims):
            self._tasks.start(informer.run(), "informer")
            await informer.synced.wait()
        assert self._store is not None  # noqa: S101 - `prepare` comes first
        provisioner = Provisioner(
            api, self._store, claims, volumes, classes, default_node=node_name(1)
        )
        self._tasks.start(provisioner.run(), "provisioner")

    async def _await_ready(self) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        waiting = set(self._machines)
        assert self._api is not None  # noqa: S101 - `_start_provisioner` comes first
        while waiting:
            for name in sorted(waiting):
                with contextlib.suppress(ApiError, aiohttp.ClientError, TimeoutError):
                    if _is_ready(await self._api.get(f"/api/v1/nodes/{name}")):
                        waiting.discard(name)
            if waiting and time.monotonic() > deadline:
                name = min(waiting)
                raise StartError(name, self._log_tail(name))
            await asyncio.sleep(0.1)

    def _log_tail(self, name: str, lines: int = 15) -> str:
        path = self._state_dir / "logs" / name / "kubelet.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return f"not ready after {_READY_TIMEOUT_S:.0f} s\n" + "\n".join(text.splitlines()[-lines:])


def _available_bytes() -> int:
    """Memory that programs can still have, as the kernel estimates it."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:"))


def _is_ready(node: Json) -> bool:
    conditions = children(child(node, "status"), "conditions")
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _disk_class() -> Json:
    return {
        **STORAGE_CLASS_OBJECT,
        "metadata": {"name": DISK_CLASS},
        "parameters": {OWN_FILE_SYSTEM: "true"},
    }
