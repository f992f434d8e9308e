"""The cluster, the operator and the clients of a demo: their files, their start, their end."""

import asyncio
import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from aiohttp.abc import AbstractResolver, ResolveResult

from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.binaries import ensure_binaries, missing_programs
from kraftquorum_devcluster.errors import CommandError, DevClusterError
from kraftquorum_devcluster.files import remove_tree
from kraftquorum_devcluster.network import free_port
from kraftquorum_devcluster.paths import private_dir
from kraftquorum_devcluster.processes import kill_owned
from kraftquorum_operator import names
from proofkit.faultynode import NodeFaults
from raftnode.client import QuorumClient
from raftnode.core.types import Endpoint

from . import hanging_disk
from .access_check import NodeListeners
from .credentials import ClientFiles
from .errors import DeadlineError, SetupError
from .processes import OperatorProcess

NAMESPACE = "default"
LEFT_BEHIND = (
    *("state", "data", "logs", "report.json", "writes.jsonl", "timeline.png", "env"),
    *("events.json", "pipeline", "report.html", "credentials"),
)
_METRICS_PORT = 9180
_FIRST_ENDPOINTS = 3
_PROBE_ADDRESS = "127.76.0.1"
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Places:
    """Files of the demo.

    Attributes:
        out: The folder that all is left in.
        manifest: The resource that is applied.
        crds: The CustomResourceDefinition.
    """

    out: Path
    manifest: Path
    crds: Path

    @property
    def state(self) -> Path:
        """The cluster's state directory."""
        return self.out / "state"

    @property
    def data(self) -> Path:
        """Each replica's directory as it ended."""
        return self.out / "data"

    @property
    def logs(self) -> Path:
        """Logs of the operator and of the nodes."""
        return self.out / "logs"

    @property
    def owner(self) -> str:
        """Mark on the operator's process."""
        return f"{self.out}/operator"

    @property
    def pipeline_owner(self) -> str:
        """Mark on the pipeline's processes."""
        return f"{self.out}/pipeline"

    @staticmethod
    def shown(path: Path) -> Path:
        """A path as people want to read it: from here, if it lies below."""
        here = Path.cwd()
        return path.relative_to(here) if path.is_relative_to(here) else path


@contextlib.contextmanager
def locked(out: Path) -> Generator[None]:
    """Hold the output folder for this process's life.

    Raises:
        SetupError: Another demo runs in it, or it cannot be written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / "lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise SetupError(f"cannot write to {out}: {error.strerror}; --out names another") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise SetupError(
                f"another demo is running in {out} (process {lock.read().strip() or 'unknown'}); "
                "stop it with Ctrl-C, or use another folder with --out"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def check_ports() -> None:
    """Make sure that the nodes will be able to listen.

    Every pod has a loopback address of its own, so only a program that listens on all
    addresses can be in the way.

    Raises:
        SetupError: One is.
    """
    for port in (names.PEER_PORT, names.API_PORT):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_PROBE_ADDRESS, port))
            except OSError as error:
                raise SetupError(
                    f"port {port} is not free: {error.strerror}. The nodes listen on port {port} "
                    "of loopback addresses of their own, so another program must be listening on "
                    f"all addresses; find it with `ss -ltnp 'sport = :{port}'` and stop it"
                ) from None


@dataclass(slots=True)
class Environment:
    """The cluster, the operator, and clients of the quorum.

    Attributes:
        name: Of the resource.
        wanted: Its number of voters.
        seconds: What the set-up took, by part.
    """

    places: Places
    name: str = ""
    wanted: int = 0
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    cluster: DevCluster = field(init=False)
    operator: OperatorProcess = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = DevCluster(self.places.state, keep_data=True)

    def prepare(self) -> None:
        """Read the resource, clear away what an earlier demo left, check what is needed.

        Raises:
            SetupError: Something is missing or in the way.
        """
        for path in (self.places.manifest, self.places.crds):
            if not path.exists():
                raise SetupError(f"{path} does not exist; run the demo from the repository's root")
        body = yaml.safe_load(self.places.manifest.read_text(encoding="utf-8"))
        self.name, self.wanted = body["metadata"]["name"], body["spec"]["voters"]
        kill_owned(self.places.owner)
        kill_owned(self.places.pipeline_owner)
        self.cluster.stop()
        for left in LEFT_BEHIND:
            remove_tree(self.places.out / left)
        private_dir(self.places.logs)
        self.client_files.make()
        check_ports()

    def build(self) -> None:
        """Build the programs of the cluster, if they are not in the cache.

        Raises:
            BuildError: They could not be made.
        """
        if missing_programs():
            with self.timed("build"):
                ensure_binaries()

    def start_cluster(self) -> None:
        """Start the cluster.

        Raises:
            DevClusterError: It did not start.
        """
        with self.timed("cluster"):
            self.cluster.start()
            hanging_disk.install(self.cluster.programs_dir)
        self.operator = OperatorProcess(
            self.cluster.kubeconfig,
            self.places.logs / "operator.log",
            self.places.owner,
            (self.host, free_port(self.host, _METRICS_PORT)),
        )

    @property
    def host(self) -> str:
        """The control plane's address, which no other cluster uses."""
        return self.cluster.server_url.removeprefix("https://").rpartition(":")[0]

    async def apply_crds(self, within_s: float) -> None:
        """Apply the CustomResourceDefinition and return when its resources can be asked for.

        `kubectl wait` would fail on a definition that has no conditions yet.

        Raises:
            DeadlineError: They cannot, within the time given.
            CommandError: It was not taken.
        """
        await self.cluster.kubectl_async("apply", "-f", str(self.places.crds))
        said = ""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    try:
                        await self.cluster.kubectl_async("get", names.PLURAL, "--all-namespaces")
                    except CommandError as error:
                        said = str(error)
                        await asyncio.sleep(_LOOK_S)
                    else:
                        return
        except TimeoutError:
            raise DeadlineError(f"{names.PLURAL} are served", within_s, said) from None

    def stop(self) -> None:
        """End every process that was started; files stay."""
        kill_owned(self.places.owner)
        self.cluster.stop()

    @contextlib.contextmanager
    def timed(self, part: str) -> Generator[None]:
        """Note how long a part of the set-up took."""
        began = time.monotonic()
        yield
        self.seconds[part] = time.monotonic() - began

    @property
    def resource_path(self) -> str:
        """Of the resource at the API server."""
        group = f"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}"
        return f"{group}/{names.PLURAL}/{self.name}"

    @property
    def pods_path(self) -> str:
        """Of the pods at the API server."""
        return f"/api/v1/namespaces/{NAMESPACE}/pods"

    @property
    def client_files(self) -> ClientFiles:
        """The CA and the tokens of clients."""
        return ClientFiles(self.places.out / "credentials")

    @property
    def trusted_path(self) -> str:
        """Of the ConfigMap with the CAs that clients trust, at the API server."""
        return f"/api/v1/namespaces/{NAMESPACE}/configmaps/{names.client_ca(self.name)}"

    def listeners(self, node_id: int) -> NodeListeners:
        """Where a node listens."""
        pod = self.pod(node_id)
        address = self.cluster.pod_address(NAMESPACE, pod)
        return NodeListeners(pod, address, names.API_PORT, names.PEER_PORT)

    def pod(self, node_id: int) -> str:
        """Name of a node's pod."""
        return names.pod(self.name, node_id)

    def volume(self, node_id: int) -> Path:
        """The directory behind a node's disk."""
        return self.cluster.volume_dir(NAMESPACE, names.claim(self.name, node_id))

    def disk_faults(self, node_id: int) -> NodeFaults:
        """What makes a node's disk hang."""
        return hanging_disk.faults_of(self.volume(node_id))

    def pid(self, node_id: int) -> int | None:
        """Process id of a node; None while it has none."""
        try:
            return self.cluster.pod_process(NAMESPACE, self.pod(node_id))
        except DevClusterError:
            return None

    def endpoint(self, node_id: int) -> Endpoint:
        """Where a node answers its API, by its name in the cluster."""
        domain = f"{names.headless_service(self.name)}.{NAMESPACE}.svc.cluster.local"
        return Endpoint(f"{self.pod(node_id)}.{domain}", names.API_PORT)

    def client(self, name: str) -> QuorumClient:
        """A client with its token. It knows the first nodes; they lead it to the leader."""
        endpoints = [self.endpoint(node_id) for node_id in range(_FIRST_ENDPOINTS)]
        return QuorumClient(
            endpoints,
            hosts_file=self.cluster.hosts_file,
            resolver=NoDns(),
            credentials=self.client_files.credentials(name),
        )


class NoDns(AbstractResolver):
    """Resolves no name: a name outside the hosts file does not exist, and no call waits for DNS."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See aiohttp's AbstractResolver."""
        del port, family
        raise OSError(None, f"{host} is not in the hosts file")

    async def close(self) -> None:
        """See aiohttp's AbstractResolver."""
