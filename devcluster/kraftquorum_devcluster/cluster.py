"""`DevCluster`: a cluster as tests and the demo hold it in their hands.

The cluster itself runs in another process (`supervisor`), so a test's event
loop, a debugger or a busy caller never holds it up. The methods here are plain
blocking calls; from a coroutine use ``async with`` and the ``…_async`` ones.
"""

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from .binaries import ensure_binaries
from .errors import (
    AlreadyRunningError,
    CommandError,
    NotRunningError,
    StartError,
    UnknownPodError,
)
from .files import remove_tree
from .paths import binaries_dir, private_dir
from .processes import kill_owned
from .processnode.volumes import claim_dir
from .realnode.cgroups import remove_cgroups
from .state import FAILED, LOCK, READY, ClusterInfo, is_locked, programs_dir, supervisor_pid

_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.05


class DevCluster:
    """A real Kubernetes API with a process node under it.

    Args:
        state_dir: Where the cluster keeps all it has; a temporary directory,
            removed by `stop`, if None.
        keep_data: Whether `stop` leaves the state directory.
    """

    def __init__(self, state_dir: Path | None = None, *, keep_data: bool = False) -> None:
        self._temporary = state_dir is None
        if state_dir is None:
            state_dir = Path(tempfile.mkdtemp(prefix="kraftquorum-devcluster-"))
        self.state_dir = state_dir.absolute()
        self._keep_data = keep_data
        self._process: subprocess.Popen[bytes] | None = None
        self._info: ClusterInfo | None = None

    # -- life --------------------------------------------------------------------------------

    def start(self, *, detached: bool = False) -> Self:
        """Start and return when the cluster is ready for pods.

        The first call on a machine builds the programs, which takes minutes.

        Args:
            detached: Let the cluster outlive this process; else it ends with
                it, however that ends.

        Raises:
            BuildError: The programs could not be made.
            AlreadyRunningError: A cluster lives in this state directory.
            StartError: A part did not come up.
        """
        self._prepare()
        private_dir(self.state_dir)
        if any(self.state_dir.iterdir()) and not (self.state_dir / LOCK).exists():
            raise StartError("cluster", f"{self.state_dir} is not empty, and not a cluster's")
        if is_locked(self.state_dir):
            raise AlreadyRunningError(f"a cluster is already up in {self.state_dir}")
        (self.state_dir / FAILED).unlink(missing_ok=True)
        (self.state_dir / READY).unlink(missing_ok=True)
        command = self._command()
        with (self.state_dir / "supervisor.log").open("ab") as log:
            self._process = subprocess.Popen(
                command if detached else [*command, "--attached"],
                stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.state_dir,
                start_new_session=True,
            )
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def _prepare(self) -> None:
        """Get what the cluster is made of; takes minutes the first time."""
        ensure_binaries()

    def _command(self) -> list[str]:
        """Command line of the supervisor."""
        return [sys.executable, "-m", "kraftquorum_devcluster.supervisor", str(self.state_dir)]

    def attach(self) -> Self:
        """Use a cluster that is already up in the state directory.

        Raises:
            NotRunningError: There is none.
        """
        path = self.state_dir / READY
        if not is_locked(self.state_dir) or not path.exists():
            raise NotRunningError(f"no cluster is up in {self.state_dir}")
        self._info = ClusterInfo(**json.loads(path.read_text(encoding="utf-8")))
        return self

    def stop(self) -> None:
        """End every process of the cluster; remove its files unless ``keep_data``.

        Also cleans up after a supervisor that was killed.
        """
        process, self._process = self._process, None
        pid = process.pid if process is not None else supervisor_pid(self.state_dir)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            self._await_end(pid, process)
        kill_owned(str(self.state_dir))
        remove_cgroups(self.state_dir)
        self._info = None
        if not self._keep_data and (self._temporary or (self.state_dir / LOCK).exists()):
            remove_tree(self.state_dir)

    def wait(self) -> None:
        """Wait until the cluster ends by itself or is stopped by another."""
        while is_locked(self.state_dir):
            time.sleep(_POLL_S * 10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    def _await_ready(self) -> None:
        assert self._process is not None  # noqa: S101 - only called by `start`
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if (self.state_dir / READY).exists():
                self.attach()
                return
            if self._process.poll() is not None:
                failed = self.state_dir / FAILED
                log = self.state_dir / "supervisor.log"
                text = (failed if failed.exists() else log).read_text(encoding="utf-8")
                raise StartError("cluster", text[-2000:])
            time.sleep(_POLL_S)
        raise StartError("cluster", f"not ready after {_START_TIMEOUT_S:.0f} s")

    def _await_end(self, pid: int, process: subprocess.Popen[bytes] | None) -> None:
        if process is not None and process.stdin is not None:
            process.stdin.close()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while process.poll() is None if process is not None else _runs(pid):
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_S)

    # -- facts -------------------------------------------------------------------------------

    @property
    def info(self) -> ClusterInfo:
        """What the supervisor says of itself.

        Raises:
            NotRunningError: The cluster is not up.
        """
        if self._info is None:
            raise NotRunningError(f"no cluster is up in {self.state_dir}")
        return self._info

    @property
    def server_url(self) -> str:
        """URL of the API server."""
        return self.info.server_url

    @property
    def token(self) -> str:
        """Bearer token of the administrator."""
        return self.info.token

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.state_dir / "kubeconfig"

    @property
    def ca_file(self) -> Path:
        """Certificate authority of the API server."""
        return self.state_dir / "pki" / "ca.crt"

    @property
    def logs_dir(self) -> Path:
        """Logs of the control plane, and of pods under ``pods/``."""
        return self.state_dir / "logs"

    @property
    def programs_dir(self) -> Path:
        """Folder of programs that pods find before all others, in the place of images' ones.

        A cluster has none by itself; what is put there counts from a container's next start on.
        """
        return programs_dir(self.state_dir)

    @property
    def hosts_file(self) -> Path:
        """Names of all pods, for programs outside the cluster."""
        return self.state_dir / "hosts" / "all"

    # -- pods and volumes --------------------------------------------------------------------

    def volume_dir(self, namespace: str, claim: str) -> Path:
        """The directory behind a claim, to be wiped, filled or made read-only.

        Raises:
            NotRunningError: No volume was made for the claim.
        """
        path = claim_dir(self.state_dir, namespace, claim)
        if path is None:
            raise NotRunningError(f"claim {namespace}/{claim} has no volume")
        return path

    def pod_address(self, namespace: str, pod: str) -> str:
        """The pod's loopback address.

        Raises:
            UnknownPodError: The node runs no such pod.
        """
        return str(self._pod(namespace, pod)["address"])

    def pod_process(self, namespace: str, pod: str, container: str | None = None) -> int:
        """Process id of a container (the first, if not named); also its process group.

        Raises:
            UnknownPodError: The node runs no such pod, or the container no process just now.
        """
        containers: dict[str, dict[str, Any]] = self._pod(namespace, pod)["containers"]
        name = container or next(iter(containers), "")
        pid: int | None = containers.get(name, {}).get("pid")
        if pid is None:
            raise UnknownPodError(f"container {name!r} of {namespace}/{pod} runs no process")
        return pid

    def restart_apiserver(self) -> None:
        """Kill the API server and return when its successor is ready (about 2 s)."""
        self._ask("POST", "/devcluster/restart-apiserver")

    def back_up_etcd(self, target: Path) -> None:
        """Copy all that the API server remembers; it is away meanwhile (about 3 s).

        Args:
            target: A directory that is not there yet.
        """
        self._ask("POST", f"/devcluster/etcd/back-up?path={quote(str(target.absolute()))}")

    def restore_etcd(self, source: Path) -> None:
        """Put the API server back to an earlier copy; pods and volumes stay as they are.

        The process node then does what a kubelet does: it ends pods whose objects are gone.
        """
        self._ask("POST", f"/devcluster/etcd/restore?path={quote(str(source.absolute()))}")

    def _pod(self, namespace: str, pod: str) -> dict[str, Any]:
        try:
            return self._ask("GET", f"/devcluster/pods/{namespace}/{pod}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            raise UnknownPodError(f"the node runs no pod {namespace}/{pod}") from None

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._request(method, self.info.kubelet_url + path))
        return result

    def _request(self, method: str, url: str) -> bytes:
        request = urllib.request.Request(
            url,
            method=method,
            headers={"Authorization": f"Bearer {self.token}"},
        )
        context = ssl.create_default_context(cafile=str(self.ca_file))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=120) as answer:
            body: bytes = answer.read()
            return body

    # -- kubectl -----------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> str:
        """Run kubectl as the administrator; returns what it printed.

        Raises:
            CommandError: It ended with an error.
        """
        command = [str(binaries_dir() / "kubectl"), *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            env=self.kubectl_env(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(f"kubectl {' '.join(arguments)}", done.returncode, done.stderr)
        return done.stdout

    async def kubectl_async(self, *arguments: str, stdin: str | None = None) -> str:
        """`kubectl` without holding up the event loop."""
        return await asyncio.to_thread(self.kubectl, *arguments, stdin=stdin)

    def kubectl_env(self) -> dict[str, str]:
        """The environment for a kubectl that talks to this cluster."""
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.state_dir / "kubectl-cache"),
        }


def _runs(pid: int) -> bool:
    """Whether a process, which need not be a child of this one, has not ended yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return not status.rpartition(")")[2].lstrip().startswith("Z")
