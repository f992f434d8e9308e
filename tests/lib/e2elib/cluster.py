"""Which cluster the suite runs on, and what can be done to it.

`E2eCluster` knows a kubeconfig and no more, so that it serves anybody's cluster. `OwnCluster` is the
one of real kubelets that we started ourselves: it also breaks volumes and the API server.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Literal, Self

from aiohttp.abc import AbstractResolver

from kraftquorum_demo.faults import wipe
from kraftquorum_devcluster.binaries import ensure_binaries
from kraftquorum_devcluster.errors import CommandError, NotRunningError
from kraftquorum_devcluster.external import current_kubeconfig
from kraftquorum_devcluster.images.build import REGISTRY, TARGETS
from kraftquorum_devcluster.realcluster import RealCluster
from kraftquorum_devcluster.realnode.addresses import RealNetwork
from kraftquorum_devcluster.realnode.links import BRIDGE_FILTER
from kraftquorum_devcluster.realnode.nodes import DISK_CLASS

from .api import Api, Json, kubectl_env
from .reach import Forward, PodResolver, RelayResolver, start_relay

TOOLS_NAMESPACE = "kraftquorum-e2e"
"""Where the suite's own pods are, on a cluster that is not ours."""

_WIPE = """
import pathlib, shutil
for path in pathlib.Path("/var/lib/raftnode").iterdir():
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
"""
_KILLED = 137
"""Exit code of a command in a container whose first process ended."""
_KILL = """
import os, sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        cgroup = open(f"/proc/{pid}/cgroup").read()
        status = open(f"/proc/{pid}/status").read()
    except OSError:
        continue
    inner = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1]
    if sys.argv[1] in cgroup and inner == "1":
        os.kill(int(pid), 9)
        print("killed", pid)
        break
else:
    sys.exit("no such container on this node")
"""


class Choice(StrEnum):
    """Values of the environment variable ``CLUSTER`` for `make e2e`."""

    CURRENT = "current"
    KIND = "kind"
    KUBELET = "kubelet"


def choose(environment: dict[str, str] | None = None) -> Choice:
    """Which cluster to run on: what was asked for, else kind if it can be had, else our own.

    Raises:
        NotRunningError: ``CLUSTER`` has an unknown value.
    """
    value = (os.environ if environment is None else environment).get("CLUSTER", "")
    if not value:
        return Choice.KIND if _kind_works() else Choice.KUBELET
    try:
        return Choice(value)
    except ValueError:
        raise NotRunningError(f"CLUSTER={value} is none of {', '.join(Choice)}") from None


def _kind_works() -> bool:
    docker = shutil.which("docker")
    if docker is None or shutil.which("kind") is None:
        return False
    command = [docker, "info", "--format", "{{.ServerVersion}}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


class NotHereError(Exception):
    """This cannot be done to this cluster."""


@dataclass(frozen=True, slots=True)
class Tags:
    """The images that are under test.

    Attributes:
        now: Tag that the operator and the quorums are installed with.
        next: Tag that they are upgraded to.
    """

    now: str = "e2e"
    next: str = "e2e-next"
    registry: str = REGISTRY

    def image(self, target: str, tag: str) -> str:
        """Name of an image."""
        if target not in TARGETS:
            raise ValueError(f"{target} is none of {', '.join(TARGETS)}")
        return f"{self.registry}/{target}:{tag}"


class E2eCluster:
    """Any cluster, by its kubeconfig. A context manager.

    Args:
        kubeconfig: Of an administrator.
        tags: Images that the cluster's nodes have or can pull.
        title: What the report calls it.
    """

    small_disks: str | None = None
    """Storage class whose volumes have the size that was asked for, and can be broken."""

    def __init__(self, kubeconfig: Path, tags: Tags, title: str) -> None:
        self.kubeconfig = kubeconfig
        self.tags = tags
        self.title = title
        self._kubectl = ensure_binaries() / "kubectl"
        self._env = kubectl_env(kubeconfig)
        self.api = Api(self._kubectl, self._env)
        self._forward: Forward | None = None
        self._has_tools = False

    def __enter__(self) -> Self:
        """Begin to read objects.

        Raises:
            StartError: The API server cannot be read.
        """
        self.api.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._forward is not None:
            self._forward.stop()
        if self._has_tools:
            self.kubectl("delete", "namespace", TOOLS_NAMESPACE, "--wait=false")
        self.api.__exit__()

    def forward(self, namespace: str, pod: str, port: int) -> Forward:
        """A `kubectl port-forward` to a port of a pod; `stop` ends it."""
        return Forward(self._kubectl, self._env, namespace, pod, port)

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 120) -> str:
        """Run kubectl as the administrator; returns what it printed.

        Raises:
            CommandError: It ended with an error.
        """
        done = subprocess.run(
            [str(self._kubectl), *arguments],
            input=stdin,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(f"kubectl {' '.join(arguments)}", done.returncode, done.stderr)
        return done.stdout

    def version(self) -> str:
        """Version of the API server."""
        return str(self.api.get("version")["gitVersion"])

    # -- reach -------------------------------------------------------------------------------

    def resolver(self) -> AbstractResolver:
        """Names of pods, for a client on this machine.

        Raises:
            StartError, CommandError: The relay did not start.
        """
        if self._forward is None:
            self._create_tools_namespace()
            start_relay(self.kubectl, TOOLS_NAMESPACE, self.tags.image("node", self.tags.now))
            self._forward = Forward(self._kubectl, self._env, TOOLS_NAMESPACE)
        self._forward.port()
        return RelayResolver(self._forward.port)

    def clients(self) -> list[Json]:
        """This machine's clients as the peers of a network policy."""
        selector = {"matchLabels": {"kubernetes.io/metadata.name": TOOLS_NAMESPACE}}
        return [{"namespaceSelector": selector}]

    def require_policies(self) -> None:
        """Return if the network of this cluster has to enforce NetworkPolicies.

        Raises:
            NotHereError: Its plugin may ignore them.
        """
        raise NotHereError("the network of this cluster enforces no policies")

    # -- what breaks -------------------------------------------------------------------------

    def kill(self, namespace: str, pod: str) -> None:
        """End the first process of a pod's first container without warning.

        Raises:
            CommandError: It does not run, or privileged pods are not allowed.
        """
        body = self.api.one("pods", pod, namespace)
        running = _first_container(body) if body is not None else None
        if body is None or running is None:
            raise CommandError(f"kill {namespace}/{pod}", 1, "no container runs in it")
        name = f"kill-{time.monotonic_ns() % 10**9}"
        image = self.tags.image("node", self.tags.now)
        killer = _killer_pod(name, body["spec"]["nodeName"], image, running)
        self._create_tools_namespace()
        place = ("--namespace", TOOLS_NAMESPACE)
        self.kubectl(*place, "create", "-f", "-", stdin=json.dumps(killer))
        done = "--for=jsonpath={.status.phase}=Succeeded"
        self.kubectl(*place, "wait", done, f"pod/{name}", "--timeout=60s")

    def _create_tools_namespace(self) -> None:
        if self.api.one("namespaces", TOOLS_NAMESPACE) is None:
            self.kubectl("create", "namespace", TOOLS_NAMESPACE)
        self._has_tools = True

    def wipe(self, namespace: str, pod: str, claim: str) -> None:
        """Empty a pod's volume under its running process (S4).

        Raises:
            CommandError: The pod's container does not run.
            NotRunningError: The claim has no volume.
        """
        self.wiper(namespace, pod, claim)()

    def wiper(self, namespace: str, pod: str, claim: str) -> Callable[[], object]:
        """What empties the volume that a pod has now: for when its claim is gone.

        Raises:
            NotRunningError: The claim has no volume.
        """
        del claim
        return partial(self._wipe_inside, namespace, pod)

    def _wipe_inside(self, namespace: str, pod: str) -> None:
        try:
            self.kubectl("--namespace", namespace, "exec", pod, "--", "python", "-c", _WIPE)
        except CommandError as error:
            if error.exit_code != _KILLED:  # the node saw it, and ended, before we did
                raise

    def break_volume(
        self, namespace: str, claim: str, how: Literal["full", "read-only", "dead", "hung"]
    ) -> None:
        """Let a volume run full, refuse writes, fail, or stop answering.

        Raises:
            NotHereError: Not on this cluster.
        """
        raise NotHereError(f"{namespace}/{claim}: {how} volumes are made on our own nodes only")

    def fix_volume(self, namespace: str, claim: str) -> None:
        """Make room on a volume that is full, and let one that hangs answer again.

        Raises:
            NotHereError: Not on this cluster.
        """
        raise NotHereError(f"{namespace}/{claim}: volumes are broken on our own nodes only")

    def restart_apiserver(self) -> None:
        """Kill the API server and return when its successor is ready.

        Raises:
            NotHereError: Not on this cluster.
        """
        raise NotHereError("only the API server of our own nodes is ours to kill")

    def logs(self) -> Iterable[Path]:
        """Directories with logs of the cluster's own programs."""
        return ()


class OwnCluster(E2eCluster):
    """The cluster of real kubelets that this project starts."""

    small_disks = DISK_CLASS

    def __init__(self, cluster: RealCluster, tags: Tags) -> None:
        super().__init__(
            cluster.kubeconfig, tags, f"{len(cluster.nodes)} kubelets with containerd, one machine"
        )
        self._cluster = cluster

    def resolver(self) -> AbstractResolver:
        """Names of pods; their addresses are reached from here."""

        def address(namespace: str, pod: str) -> str | None:
            body = self.api.one("pods", pod, namespace, patience_s=0)
            return None if body is None else body["status"].get("podIP")

        return PodResolver(address)

    def clients(self) -> list[Json]:
        """This machine's clients as the peers of a network policy."""
        network = RealNetwork(self._cluster.info.subnet)
        return [{"ipBlock": {"cidr": f"{network.control}/32"}}]

    def require_policies(self) -> None:
        """Return if the network of this cluster has to enforce NetworkPolicies: ours does.

        Raises:
            NotHereError: The kernel cannot filter what a bridge forwards.
        """
        if not BRIDGE_FILTER.exists():
            raise NotHereError(
                "policies do not hold between two pods of one node: this kernel lacks br_netfilter"
            )

    def kill(self, namespace: str, pod: str) -> None:
        """End the first process of a pod's first container without warning.

        Raises:
            UnknownPodError: It does not run.
        """
        os.kill(self._cluster.pod_process(namespace, pod), signal.SIGKILL)

    def wiper(self, namespace: str, pod: str, claim: str) -> Callable[[], object]:
        """What empties the volume that a pod has now: for when its claim is gone.

        Raises:
            NotRunningError: The claim has no volume.
        """
        del pod
        return partial(wipe, self._cluster.volume_dir(namespace, claim))

    def break_volume(
        self, namespace: str, claim: str, how: Literal["full", "read-only", "dead", "hung"]
    ) -> None:
        """Let a volume run full, refuse writes, fail, or stop answering.

        Raises:
            VolumeFaultError: It has no file system of its own.
        """
        self._cluster.break_volume(namespace, claim, how)

    def fix_volume(self, namespace: str, claim: str) -> None:
        """Make room on a volume that is full, and let one that hangs answer again."""
        self._cluster.fix_volume(namespace, claim)

    def restart_apiserver(self) -> None:
        """Kill the API server and return when its successor is ready."""
        self._cluster.restart_apiserver()

    def logs(self) -> Iterable[Path]:
        """Logs of the control plane, and of each node's programs."""
        return (self._cluster.logs_dir,)


def current_cluster(tags: Tags) -> E2eCluster:
    """The cluster that kubectl uses.

    Raises:
        NotRunningError: There is no kubeconfig.
    """
    return E2eCluster(current_kubeconfig(), tags, "the cluster of KUBECONFIG")


def _first_container(body: Json) -> str | None:
    """Id of a pod's first container, if it runs."""
    statuses: list[Json] = body["status"].get("containerStatuses") or []
    if not statuses or "running" not in statuses[0]["state"]:
        return None
    return str(statuses[0]["containerID"]).rpartition("/")[2]


def _killer_pod(name: str, node: str, image: str, container: str) -> Json:
    """Sees the node's processes, and kills one: a container's first ignores its own kin."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "hostPID": True,
            "restartPolicy": "Never",
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "kill",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python", "-c", _KILL, container],
                    "securityContext": {"privileged": True, "runAsUser": 0},
                }
            ],
        },
    }
