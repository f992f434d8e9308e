"""One pod from its binding to its deletion."""

import asyncio
import signal
from pathlib import Path

import aiohttp
import structlog

from kraftquorum_devcluster import clock
from kraftquorum_devcluster.apiclient import STRATEGIC_MERGE
from kraftquorum_devcluster.errors import ApiError, NotReadyToRunError, UnsupportedPodError
from kraftquorum_devcluster.files import remove_tree
from kraftquorum_devcluster.objects import Json, child, children, texts
from kraftquorum_devcluster.paths import private_dir
from kraftquorum_devcluster.state import programs_dir
from kraftquorum_devcluster.tasks import TaskSet

from .container import Container, ContainerHooks, ContainerPolicy, Launch, base_path
from .context import NodeContext
from .environment import container_environment, expand, own_address
from .hosts import HostEntry
from .mounts import Mount, PathRewriter
from .podspec import check_pullable, check_supported
from .sources import named_sources, read_sources, read_volume
from .status import ContainerState, pod_status
from .volumes import materialise, volume_path

_log = structlog.get_logger(__name__)

_RETRY_S = 0.3
_STOP_S = 20.0
"""How long the stop of the cluster waits for killed processes."""
_DEFAULT_TERMINATION_PATH = "/dev/termination-log"


class PodWorker:
    """Runs the containers of one pod and reports its status.

    `run` ends once the processes are gone and the pod's object is deleted.
    """

    def __init__(self, context: NodeContext, pod: Json) -> None:
        self.pod = pod
        self.namespace: str = pod["metadata"]["namespace"]
        self.name: str = pod["metadata"]["name"]
        self.uid: str = pod["metadata"]["uid"]
        self.address = ""
        self.containers: list[Container] = []
        self._context = context
        self._work_dir = context.pods_dir / self.uid
        self._ending = asyncio.Event()
        self._dirty = asyncio.Event()
        self._forced = False
        self._refused: str | None = None
        self._start_time = child(pod, "status").get("startTime") or clock.now()
        self._conditions: list[Json] = children(child(pod, "status"), "conditions")
        self._reported: Json | None = None
        self._tasks = TaskSet(f"pod/{self.namespace}/{self.name}")

    # -- told by the node ------------------------------------------------------------------

    def update(self, pod: Json) -> None:
        """Take note of a newer version of the pod's object."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            if self._ending.is_set():  # deleted again, perhaps with less grace
                self._kill_after(self._grace_s())
            self._ending.set()
        ready = {c["type"]: c["status"] for c in children(child(pod, "status"), "conditions")}
        mine = {c["type"]: c["status"] for c in self._conditions}
        # The controller manager marks pods of a silent node as not ready and never takes it back.
        if self._reported is not None and ready.get("Ready") != mine.get("Ready"):
            self._reported = None
            self._dirty.set()

    def deleted(self) -> None:
        """The object is gone, by force: end the processes."""
        self._forced = True
        if self._ending.is_set():
            self._kill_after(self._grace_s())
        self._ending.set()

    def _kill_after(self, grace_s: float) -> None:
        """Cut a grace short that is already running."""

        def kill() -> None:
            for container in self.containers:
                if container.child is not None and container.child.running:
                    container.child.signal(signal.SIGKILL)

        asyncio.get_running_loop().call_later(grace_s, kill)

    # -- life ------------------------------------------------------------------------------

    async def run(self, predecessor: asyncio.Event | None, gone: asyncio.Event) -> None:
        """Live through the pod's whole life.

        Args:
            predecessor: Set once an earlier pod of the same name is gone.
            gone: Set by this method at its end, whatever happens.
        """
        try:
            if predecessor is not None:
                await predecessor.wait()
            await self._live()
        finally:
            await self._end(grace_s=0)
            gone.set()

    async def _live(self) -> None:
        try:
            check_supported(self.pod)
        except UnsupportedPodError as error:
            self._refused = str(error)
            self._tell("UnsupportedPodSpec", str(error), True)
        private_dir(self._work_dir / "tmp")
        self.address = self._context.addresses.take(self.namespace, self.name)
        self._register_names()
        self.containers = [self._container(spec) for spec in self.pod["spec"]["containers"]]
        self._dirty.set()
        self._tasks.start(self._report(), "report")
        if self._refused is None and not self._ending.is_set():
            for container in self.containers:
                self._tasks.start(container.run(), container.spec["name"])
            self._tasks.start(self._refresh_volumes(), "volumes")
        await self._ending.wait()
        await self._end(self._grace_s(), hooks=not self._forced)
        await self._delete_object()

    async def stop(self) -> None:
        """End the processes because the whole cluster stops; the object stays."""
        grace_s = self._context.settings.shutdown_grace_s
        try:
            async with asyncio.timeout(grace_s + _STOP_S):
                await self._end(grace_s)
        except TimeoutError:
            _log.warning("pod left behind", pod=self.name)

    async def _end(self, grace_s: float, *, hooks: bool = False) -> None:
        await self._tasks.cancel_all()
        async with asyncio.TaskGroup() as group:
            for container in self.containers:
                group.create_task(container.stop(grace_s, hook=hooks))
        self.containers = []
        if self.address:
            self._context.hosts.drop(self.namespace, self.name)
            self._context.addresses.give_back(self.namespace, self.name)
            self.address = ""
        try:
            await asyncio.to_thread(remove_tree, self._work_dir)
        except OSError as error:  # a leftover must not keep the pod's object from going
            _log.warning("working directory not removed", pod=self.name, error=str(error))

    def _grace_s(self) -> float:
        if self._forced:
            return self._context.settings.force_grace_s
        return float(self.pod["metadata"].get("deletionGracePeriodSeconds") or 0)

    async def _delete_object(self) -> None:
        options: Json = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        while not self._forced:
            try:
                await self._context.api.delete(self._path(), options)
            except ApiError as error:
                if error.status in (404, 409):
                    return
                _log.warning("pod not deleted yet", pod=self.name, error=str(error))
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                _log.info("pod not deleted yet", pod=self.name, error=repr(error))
            else:
                return
            await asyncio.sleep(_RETRY_S)

    # -- containers ------------------------------------------------------------------------

    def _container(self, spec: Json) -> Container:
        statuses = children(child(self.pod, "status"), "containerStatuses")
        before = next((s for s in statuses if s["name"] == spec["name"]), None)
        grace_s = self.pod["spec"].get("terminationGracePeriodSeconds")
        container = Container(
            spec,
            policy=ContainerPolicy(
                restart=self.pod["spec"].get("restartPolicy") or "Always",
                grace_s=30.0 if grace_s is None else float(grace_s),
            ),
            address=self.address,
            owner=self._context.owner,
            logs_dir=self._context.pod_logs_dir(self.namespace, self.name, self.uid) / spec["name"],
            settings=self._context.settings,
            hooks=ContainerHooks(self._prepare, self._dirty.set, self._tell),
            before=before,
        )
        if self._refused is not None:
            container.state.waiting = ("UnsupportedPodSpec", self._refused)
        return container

    async def _prepare(self, spec: Json) -> Launch:
        check_pullable(spec.get("image") or "")
        sources = await read_sources(
            self._context.api, self.namespace, named_sources(self.pod["spec"])
        )
        volumes = {
            volume["name"]: await self._host_path(volume)
            for volume in children(self.pod["spec"], "volumes")
        }
        for volume in children(self.pod["spec"], "volumes"):
            if not volume.get("persistentVolumeClaim"):
                materialise(volume, volumes[volume["name"]], sources)
        mounts: list[Mount] = []
        for mount in children(spec, "volumeMounts"):
            host = volumes[mount["name"]] / (mount.get("subPath") or "")
            if mount.get("subPath") and not host.exists():
                host.mkdir(parents=True)
            mounts.append(Mount(mount["mountPath"], host))
        termination_file = self._work_dir / f"termination-{spec['name']}"
        termination_file.write_bytes(b"")
        termination_path = spec.get("terminationMessagePath") or _DEFAULT_TERMINATION_PATH
        rewriter = PathRewriter([*mounts, Mount(termination_path, termination_file)])
        own = container_environment(spec, self.pod, sources, self.address, self._context.host_ip)
        words = [*spec["command"], *texts(spec, "args")]
        env = {
            "PATH": base_path(programs_dir(self._context.state_dir)),
            "HOME": str(self._work_dir),
            "TMPDIR": str(self._work_dir / "tmp"),
            "HOSTNAME": self.pod["spec"].get("hostname") or self.name,
            "LANG": "C.UTF-8",
            # A development environment's hypothesis, which kio imports where it finds it, would
            # otherwise spend a second of each start on a cache in the working directory.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self._context.state_dir / "hypothesis"),
            **own_address(spec, self.address),
            **{name: rewriter.rewrite(value) for name, value in own.items()},
            "KRAFTQUORUM_HOSTS_FILE": str(self._context.hosts.path(self.namespace)),
            "TERMINATION_LOG": str(termination_file),
        }
        cwd = Path(rewriter.rewrite(spec["workingDir"])) if spec.get("workingDir") else None
        return Launch(
            command=[rewriter.rewrite(expand(word, own)) for word in words],
            env=env,
            cwd=cwd if cwd is not None and cwd.is_dir() else self._work_dir,
            termination_file=termination_file,
            rewriter=rewriter,
        )

    async def _host_path(self, volume: Json) -> Path:
        source = volume.get("persistentVolumeClaim")
        if source is None:
            return self._work_dir / "volumes" / volume["name"]
        persistent = await read_volume(self._context.api, self.namespace, source["claimName"])
        return volume_path(persistent)

    async def _refresh_volumes(self) -> None:
        """Bring changed ConfigMaps and Secrets into mounted files, as the kubelet does."""
        volumes = [
            volume
            for volume in children(self.pod["spec"], "volumes")
            if volume.get("configMap") or volume.get("secret")
        ]
        while volumes:
            await asyncio.sleep(self._context.settings.refresh_s)
            try:
                sources = await read_sources(
                    self._context.api, self.namespace, named_sources(self.pod["spec"])
                )
                for volume in volumes:
                    materialise(volume, await self._host_path(volume), sources)
            except (ApiError, NotReadyToRunError, aiohttp.ClientError, OSError) as error:
                _log.info("mounted files not refreshed", pod=self.name, error=str(error))

    def _register_names(self) -> None:
        spec: Json = self.pod["spec"]
        hostname = spec.get("hostname") or self.name
        entry = HostEntry(self.namespace, hostname, spec.get("subdomain") or "", self.address)
        self._context.hosts.set(self.name, entry)

    # -- report ----------------------------------------------------------------------------

    async def _report(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            states: list[ContainerState] = [c.state for c in self.containers]
            status = pod_status(
                states,
                pod_ip=self.address,
                host_ip=self._context.host_ip,
                start_time=self._start_time,
                before=self._conditions,
                now=clock.now(),
            )
            if status == self._reported:
                continue
            self._conditions = status["conditions"]
            body: Json = {"metadata": {"uid": self.uid}, "status": status}
            try:
                await self._context.api.patch(self._path() + "/status", body, STRATEGIC_MERGE)
                self._reported = status
            except ApiError as error:
                if error.status in (404, 409):
                    continue  # gone, or another pod of this name: DELETED will come
                _log.warning("status not reported", pod=self.name, error=str(error))
                self._dirty.set()
                await asyncio.sleep(_RETRY_S)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                _log.info("status not reported", pod=self.name, error=repr(error))
                self._dirty.set()
                await asyncio.sleep(_RETRY_S)

    def _tell(self, reason: str, message: str, warning: bool) -> None:  # noqa: FBT001 - a hook
        self._context.events.emit(self.pod, "Pod", reason, message, warning=warning)

    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
