"""`RealCluster`: the same handle, on a cluster whose nodes have a real kubelet."""

import contextlib
import json
import os
import signal
import time
import urllib.error
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from .binaries import ensure_binaries
from .cluster import DevCluster
from .errors import NotRunningError, StartError, UnknownPodError
from .processes import owned_pids
from .processnode.volumes import claim_dir
from .realnode.addresses import NODES_MAX
from .realnode.disks import FILLER, fill, hang, make_read_only, shut_down
from .realnode.frozen_file_system import Frozen
from .realnode.images import import_archives, sandbox_archive
from .realnode.machine import run_on_node
from .realnode.packages import ensure_packages
from .versions import NODE

_HIDDEN = (Path("/run"), Path("/var/lib"), Path("/var/log"))
"""What a node has of its own, so that a state directory there would not be seen."""
_APISERVER_TIMEOUT_S = 60.0


class RealCluster(DevCluster):
    """A real Kubernetes with kubelets and containers, as root on one machine.

    Args:
        state_dir: Where the cluster keeps all it has; a temporary directory,
            removed by `stop`, if None.
        keep_data: Whether `stop` leaves the state directory.
        nodes: How many nodes, at most nine.
        images: Archives that every node gets beside the sandbox's image.
    """

    def __init__(
        self,
        state_dir: Path | None = None,
        *,
        keep_data: bool = False,
        nodes: int = 3,
        images: Iterable[Path] = (),
    ) -> None:
        super().__init__(state_dir, keep_data=keep_data)
        self._nodes = nodes
        self._images = list(images)
        self._hung: dict[tuple[str, str], Frozen] = {}

    def stop(self) -> None:
        """Stop it; a volume that hangs would outlive it."""
        for frozen in self._hung.values():
            frozen.thaw()
        self._hung.clear()
        super().stop()

    def _prepare(self) -> None:
        if not 1 <= self._nodes <= NODES_MAX:
            raise StartError("node", f"1 to {NODES_MAX} nodes, not {self._nodes}")
        if any(self.state_dir.is_relative_to(hidden) for hidden in _HIDDEN):
            places = ", ".join(map(str, _HIDDEN))
            raise StartError("node", f"{self.state_dir}: choose a place outside of {places}")
        sandbox_archive()
        ensure_packages()
        ensure_binaries()
        ensure_binaries(wanted=NODE)

    def _command(self) -> list[str]:
        # Its mounts are its own, and end with it.
        own_mounts = ["unshare", "--mount", "--propagation=slave"]
        return [*own_mounts, *super()._command(), f"--kubelets={self._nodes}"]

    def _await_ready(self) -> None:
        super()._await_ready()
        self.import_images(dict.fromkeys([sandbox_archive(), *self._images]))

    # -- nodes -------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return sorted(self.info.nodes)

    def import_images(self, archives: Iterable[Path]) -> None:
        """Bring images to every node.

        Raises:
            CommandError: An archive is not one.
        """
        import_archives(self.info.nodes, archives)

    def run_on_node(self, node: str, *command: str) -> str:
        """Run a program on a node, as root, and return what it printed.

        Raises:
            NotRunningError: There is no such node.
            CommandError: The program ended with an error.
        """
        pid = self.info.nodes.get(node)
        if pid is None:
            raise NotRunningError(f"no node {node}; there are {', '.join(self.nodes)}")
        return run_on_node(pid, *command)

    def restart_apiserver(self) -> None:
        """Kill the API server and return when its successor is ready."""
        killed = self._apiserver_pids()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + _APISERVER_TIMEOUT_S
        while set(self._apiserver_pids()) <= set(killed) or not self._answers():
            if time.monotonic() > deadline:
                raise StartError("kube-apiserver", "not ready after it was killed")
            time.sleep(0.1)

    def _apiserver_pids(self) -> list[int]:
        def name(pid: int) -> str:
            with contextlib.suppress(OSError):
                return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
            return ""

        return [p for p in owned_pids(str(self.state_dir)) if name(p) == "kube-apiserver"]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            self._request("GET", f"{self.server_url}/readyz")
            return True
        return False

    # -- pods and volumes ----------------------------------------------------------------------

    def volume_dir(self, namespace: str, claim: str) -> Path:
        """The directory behind a claim; it is reached through the supervisor's own mounts.

        Raises:
            NotRunningError: No volume was made for the claim.
        """
        path = claim_dir(self.state_dir, namespace, claim)
        if path is None:
            raise NotRunningError(f"claim {namespace}/{claim} has no volume")
        return Path(f"/proc/{self.info.pid}/root") / path.relative_to("/")

    def break_volume(
        self, namespace: str, claim: str, how: Literal["full", "read-only", "dead", "hung"]
    ) -> None:
        """Let a volume of the class with own file systems run full, refuse writes, fail, or hang.

        Raises:
            NotRunningError: No volume was made for the claim.
            VolumeFaultError: It has no file system of its own.
            FrozenError: It hangs already.
        """
        path = self.volume_dir(namespace, claim)
        match how:
            case "full":
                fill(path)
            case "read-only":
                make_read_only(path)
            case "dead":
                shut_down(path)
            case "hung":
                self._hung[namespace, claim] = hang(path)

    def fix_volume(self, namespace: str, claim: str) -> None:
        """Let a volume that hangs answer again, and make room on one that is full."""
        if (frozen := self._hung.pop((namespace, claim), None)) is not None:
            frozen.thaw()
        (self.volume_dir(namespace, claim) / FILLER).unlink(missing_ok=True)

    def pod_address(self, namespace: str, pod: str) -> str:
        """The pod's address; this machine reaches it.

        Raises:
            UnknownPodError: No node runs such a pod.
        """
        address: str = self._pod(namespace, pod)["status"].get("podIP", "")
        if not address:
            raise UnknownPodError(f"{namespace}/{pod} has no address")
        return address

    def pod_process(self, namespace: str, pod: str, container: str | None = None) -> int:
        """Process id, as this machine counts, of a container's first process.

        Raises:
            UnknownPodError: There is no such pod, or the container does not run just now.
        """
        body = self._pod(namespace, pod)
        statuses: list[dict[str, Any]] = body["status"].get("containerStatuses", [])
        status = next((s for s in statuses if container in (None, s["name"])), None)
        if status is None or "running" not in status["state"]:
            raise UnknownPodError(f"container {container!r} of {namespace}/{pod} does not run")
        node: str = body["spec"]["nodeName"]
        identity = str(status["containerID"]).removeprefix("containerd://")
        inner = ""
        for line in self.run_on_node(node, "ctr", "-n", "k8s.io", "tasks", "ls").splitlines():
            if line.startswith(identity):
                inner = line.split()[1]
        pid = _outer_pid(self.info.nodes[node], inner)
        if pid is None:
            raise UnknownPodError(f"container {container!r} of {namespace}/{pod} does not run")
        return pid

    def _pod(self, namespace: str, pod: str) -> dict[str, Any]:
        try:
            url = f"{self.server_url}/api/v1/namespaces/{namespace}/pods/{pod}"
            body: dict[str, Any] = json.loads(self._request("GET", url))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            raise UnknownPodError(f"there is no pod {namespace}/{pod}") from None
        return body


def _outer_pid(first_pid: int, inner: str) -> int | None:
    """The process of a node's namespace by its number in there."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            status = (entry / "status").read_text(encoding="utf-8")
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
            # Its own namespace may be a container's, below the node's: the node's comes second.
            words = numbers.split()[1:]
            if len(words) > 1 and words[1] == inner and _below(int(entry.name), first_pid):
                return int(entry.name)
    return None


def _below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        pid = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    return False
