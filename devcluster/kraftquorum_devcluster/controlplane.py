"""etcd, kube-apiserver and kube-controller-manager as child processes.

Knows nothing of nodes and pods. Every client stops before `ControlPlane.stop`,
since the API server otherwise waits a minute for their watches; so it is killed.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import structlog

from .connections import TlsConnector
from .errors import StartError
from .files import write_atomically
from .kubeconfig import write_kubeconfig
from .network import free_port
from .paths import private_dir
from .pki import Pki, create_pki
from .processes import Child, spawn
from .tasks import TaskSet

_log = structlog.get_logger(__name__)

_READY_TIMEOUT_S = 90.0
"""Seconds until a component must answer; a start takes 3 to 5 on two idle cores."""
_RESTART_DELAY_S = 0.2
_BIND_ATTEMPTS = 5
_ETCD_SOCKET = "unix://localhost:2379"
"""etcd names a unix socket by host and port and makes it in its working directory."""


@dataclass(frozen=True, slots=True)
class PlaneProfile:
    """What differs between the kinds of node.

    Attributes:
        names: Further names and addresses of the server certificate.
        apiserver: Further arguments of the API server.
        left_out: Controllers that do not run.
        identities: Further users with a token, and the group that each is in.
        controllers: Further arguments of the controller manager.
    """

    apiserver: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    identities: Mapping[str, str] = field(default_factory=dict[str, str])
    controllers: tuple[str, ...] = ()


PROCESS_NODE = PlaneProfile(
    apiserver=(
        "--endpoint-reconciler-type=none",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        # It would mount tokens where a process without a mount namespace cannot see them.
        "--disable-admission-plugins=ServiceAccount",
    ),
    # The endpoints controllers refuse loopback addresses (422) and would retry for ever.
    left_out=(
        "endpoints-controller",
        "endpointslice-controller",
        "endpointslice-mirroring-controller",
    ),
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Bearer tokens of the static token file.

    Attributes:
        others: By user.
        groups: The group of each of the others.
    """

    admin: str
    controller_manager: str
    node: str
    others: Mapping[str, str]
    groups: Mapping[str, str]

    @classmethod
    def random(cls, identities: Mapping[str, str]) -> "Tokens":
        """New tokens that cannot be guessed."""
        admin, controller_manager, node = (secrets.token_urlsafe(32) for _ in range(3))
        others = {user: secrets.token_urlsafe(32) for user in identities}
        return cls(admin, controller_manager, node, others, identities)

    def as_csv(self) -> str:
        """The token file: token, user, uid, groups."""
        rows = [
            (self.admin, "devcluster-admin", "system:masters"),
            (self.controller_manager, "devcluster-controller-manager", "system:masters"),
            (self.node, "devcluster-node", "system:masters"),
            *((token, user, self.groups[user]) for user, token in self.others.items()),
        ]
        return "".join(f'{token},{user},{user},"{groups}"\n' for token, user, groups in rows)


class ControlPlane:
    """The three server processes, restarted when they end unasked."""

    def __init__(
        self,
        state_dir: Path,
        binaries: Path,
        address: str,
        profile: PlaneProfile = PROCESS_NODE,
    ) -> None:
        self.logs_dir = private_dir(state_dir / "logs")
        self.kubeconfig = state_dir / "kubeconfig"
        self.tokens = Tokens.random(profile.identities)
        self.port = 0
        self.pki: Pki = create_pki(
            state_dir / "pki",
            ["localhost", "127.0.0.1", address, "kubernetes.default.svc", *profile.names],
        )
        self._owner = str(state_dir)
        self._state_dir = state_dir
        self._binaries = binaries
        self._address = address
        self._profile = profile
        self._children: dict[str, Child] = {}
        self._tasks = TaskSet("control-plane")
        self._may_run = asyncio.Event()
        self._may_run.set()
        self._stopping = False

    @property
    def server_url(self) -> str:
        """URL of the API server."""
        return f"https://{self._address}:{self.port}"

    async def start(self) -> None:
        """Start all and return once the API server says that it is ready.

        Raises:
            StartError: Naming the part and the end of its log.
        """
        private_dir(self._state_dir / "etcd")
        write_atomically(self._state_dir / "tokens.csv", self.tokens.as_csv())
        await self._launch("etcd", self._etcd_arguments())
        await self._start_apiserver()
        write_kubeconfig(
            self._state_dir / "controller-manager.kubeconfig",
            self.server_url,
            self.tokens.controller_manager,
            self.pki.ca.certificate,
        )
        await self._launch("kube-controller-manager", self._controller_manager_arguments())
        write_kubeconfig(
            self.kubeconfig, self.server_url, self.tokens.admin, self.pki.ca.certificate
        )
        for name, arguments in (
            ("etcd", self._etcd_arguments),
            ("kube-apiserver", self._apiserver_arguments),
            ("kube-controller-manager", self._controller_manager_arguments),
        ):
            self._tasks.start(self._keep_running(name, arguments), name)

    async def restart_apiserver(self) -> None:
        """Kill the API server; returns when its successor is ready, on the same port."""
        killed = self._children["kube-apiserver"]
        await killed.stop(0)
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while (  # noqa: ASYNC110 - it is the server that is asked
                self._children["kube-apiserver"] is killed  # until `_keep_running` replaces it
                or await self._apiserver_state() != "ready"
            ):
                await asyncio.sleep(0.05)

    async def back_up_etcd(self, target: Path) -> None:
        """Copy etcd's data, which is at rest meanwhile, to a directory that is not there yet."""
        async with self._halted():
            await asyncio.to_thread(shutil.copytree, self._etcd_data, target)

    async def restore_etcd(self, source: Path) -> None:
        """Restore an earlier copy, as after a disaster, and restart all servers."""
        async with self._halted():
            await asyncio.to_thread(shutil.rmtree, self._etcd_data)
            await asyncio.to_thread(shutil.copytree, source, self._etcd_data)

    @property
    def _etcd_data(self) -> Path:
        return self._state_dir / "etcd" / "data"

    @contextlib.asynccontextmanager
    async def _halted(self) -> AsyncGenerator[None]:
        """No server runs within; afterwards the API server is ready again."""
        self._may_run.clear()
        killed = dict(self._children)
        try:
            for child in killed.values():
                await child.stop(0)
            yield
        finally:
            self._may_run.set()
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while (  # noqa: ASYNC110 - it is the server that is asked
                any(self._children[name] is child for name, child in killed.items())
                or await self._apiserver_state() != "ready"
            ):
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """End all processes. Duty of the caller: stop every client first."""
        self._stopping = True
        await self._tasks.cancel_all()
        for name in ("kube-controller-manager", "kube-apiserver", "etcd"):
            if child := self._children.pop(name, None):
                await child.stop(0)

    async def _launch(self, name: str, arguments: list[str]) -> Child:
        child = await spawn(
            name,
            [str(self._binaries / name), *arguments],
            log=self.logs_dir / f"{name}.log",
            cwd=self._state_dir / "etcd",
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._state_dir)},
            owner=self._owner,
        )
        self._children[name] = child
        return child

    async def _keep_running(self, name: str, arguments: Callable[[], list[str]]) -> None:
        while not self._stopping:
            code = await self._children[name].process.wait()
            _log.warning("component ended, starting it again", component=name, exit_code=code)
            await asyncio.sleep(_RESTART_DELAY_S)
            await self._may_run.wait()
            await self._launch(name, arguments())

    async def _start_apiserver(self) -> None:
        preferred = 6443
        for _ in range(_BIND_ATTEMPTS):
            self.port = free_port(self._address, preferred)
            child = await self._launch("kube-apiserver", self._apiserver_arguments())
            if await self._wait_ready(child):
                return
            if "address already in use" not in self._log_tail("kube-apiserver"):
                break
            preferred = self.port + 1
        raise StartError("kube-apiserver", self._log_tail("kube-apiserver"))

    async def _wait_ready(self, child: Child) -> bool:
        """Whether it became ready; false if it ended."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if not self._children["etcd"].running:
                raise StartError("etcd", self._log_tail("etcd"))
            if not child.running:
                return False
            if await self._apiserver_state() == "ready":
                return True
            await asyncio.sleep(0.1)
        raise StartError("kube-apiserver", f"not ready after {_READY_TIMEOUT_S:.0f} s")

    async def _apiserver_state(self) -> str:
        headers = {"Authorization": f"Bearer {self.tokens.admin}"}
        connector = TlsConnector(self.pki.ca.certificate)
        timeout = aiohttp.ClientTimeout(total=5)
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(f"{self.server_url}/readyz", headers=headers) as answer,
            ):
                return "ready" if answer.status == 200 else "starting"
        return "unreachable"

    def _log_tail(self, name: str, lines: int = 15) -> str:
        text = (self.logs_dir / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _etcd_arguments(self) -> list[str]:
        peer = "unix://localhost:2380"
        return [
            "--name=devcluster",
            "--data-dir=data",
            f"--listen-client-urls={_ETCD_SOCKET}",
            f"--advertise-client-urls={_ETCD_SOCKET}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=devcluster={peer}",
            "--unsafe-no-fsync",  # a machine that crashes loses a test cluster, no more
            "--log-level=warn",
        ]

    def _apiserver_arguments(self) -> list[str]:
        pki = self.pki
        return [
            f"--etcd-servers={_ETCD_SOCKET}",
            f"--bind-address={self._address}",
            f"--advertise-address={self._address}",
            f"--secure-port={self.port}",
            "--anonymous-auth=false",
            "--profiling=false",
            f"--token-auth-file={self._state_dir / 'tokens.csv'}",
            f"--client-ca-file={pki.ca.certificate}",
            f"--tls-cert-file={pki.server.certificate}",
            f"--tls-private-key-file={pki.server.key}",
            f"--cert-dir={pki.ca.certificate.parent}",
            f"--kubelet-certificate-authority={pki.ca.certificate}",
            f"--kubelet-client-certificate={pki.kubelet_client.certificate}",
            f"--kubelet-client-key={pki.kubelet_client.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.service_account_key}",
            f"--service-account-signing-key-file={pki.service_account_key}",
            *self._profile.apiserver,
        ]

    def _controller_manager_arguments(self) -> list[str]:
        config = self._state_dir / "controller-manager.kubeconfig"
        return [
            f"--kubeconfig={config}",
            "--controllers=" + ",".join(["*", *(f"-{name}" for name in self._profile.left_out)]),
            "--leader-elect=false",
            "--use-service-account-credentials=false",
            "--secure-port=0",
            "--allocate-node-cidrs=false",
            f"--service-account-private-key-file={self.pki.service_account_key}",
            f"--root-ca-file={self.pki.ca.certificate}",
            "--profiling=false",
            *self._profile.controllers,
        ]
