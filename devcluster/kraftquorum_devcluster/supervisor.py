"""The process that owns a cluster: control plane and nodes on one event loop.

Started by `DevCluster` as ``python -m kraftquorum_devcluster.supervisor STATE_DIR``.
It lives until SIGTERM or, with ``--attached``, until its standard input closes,
which happens when the process that started it dies, however that dies.

Files in the state directory: ``lock`` is held as long as it lives, ``cluster.json``
appears once the cluster is ready, ``failed.txt`` if it cannot be.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import structlog

from .controlplane import ControlPlane
from .errors import AlreadyRunningError, DevClusterError
from .files import write_atomically
from .network import claim_subnet
from .paths import binaries_dir, private_dir
from .processes import kill_owned
from .processnode.context import NodeSettings
from .processnode.node import ProcessNode
from .realnode.links import claim_network
from .realnode.nodes import RealNodes, plane_profile
from .state import FAILED, READY, ClusterInfo, take_lock
from .versions import NODE

_log = structlog.get_logger(__name__)


class Supervisor:
    """Starts, watches and stops the parts.

    Args:
        state_dir: Where the cluster keeps all it has.
        kubelets: How many nodes with a kubelet; 0 for the process node.
    """

    def __init__(self, state_dir: Path, kubelets: int = 0) -> None:
        self._state_dir = state_dir
        self._kubelets = kubelets
        self._stop = asyncio.Event()
        self._begun = time.monotonic()

    async def run(self, *, attached: bool) -> None:
        """Run a cluster until a signal stops it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        if attached:
            loop.add_reader(sys.stdin.fileno(), self._stdin_readable)
        try:
            if self._kubelets:
                await self._run_kubelets()
            else:
                await self._run_process_node()
        finally:
            (self._state_dir / READY).unlink(missing_ok=True)
            _log.info("cluster stopped")

    async def _run_process_node(self) -> None:
        subnet = claim_subnet()
        control_plane = ControlPlane(self._state_dir, binaries_dir(), subnet.control_address)
        node: ProcessNode | None = None
        try:
            await self._unless_stopped(control_plane.start())
            if self._stop.is_set():
                return
            node = ProcessNode(
                state_dir=self._state_dir,
                server_url=control_plane.server_url,
                pki=control_plane.pki,
                token=control_plane.tokens.node,
                admin_token=control_plane.tokens.admin,
                subnet_number=subnet.number,
                host_ip=subnet.control_address,
                settings=NodeSettings(),
            )
            node.kubelet_api.on_restart_apiserver(control_plane.restart_apiserver)
            node.kubelet_api.on_etcd(control_plane.back_up_etcd, control_plane.restore_etcd)
            await node.start()
            self._say_ready(
                control_plane,
                subnet.number,
                kubelet_url=f"https://{subnet.control_address}:{node.kubelet_port}",
            )
            await self._stop.wait()
        finally:
            (self._state_dir / READY).unlink(missing_ok=True)
            if node is not None:
                await node.stop()
            await control_plane.stop()

    async def _run_kubelets(self) -> None:
        claim, network = claim_network()
        nodes = RealNodes(self._state_dir, binaries_dir(NODE), network, self._kubelets)
        await asyncio.to_thread(nodes.prepare)
        control_plane = ControlPlane(
            self._state_dir,
            binaries_dir(),
            network.control,
            plane_profile(network, self._kubelets),
        )
        try:
            await self._unless_stopped(control_plane.start())
            if not self._stop.is_set():
                await self._unless_stopped(nodes.start(control_plane))
            if not self._stop.is_set():
                self._say_ready(control_plane, claim.number, nodes=dict(nodes.first_pids))
                await self._stop.wait()
        finally:
            (self._state_dir / READY).unlink(missing_ok=True)
            await nodes.stop()
            await control_plane.stop()
            nodes.clean_up()

    def _say_ready(
        self,
        control_plane: ControlPlane,
        number: int,
        *,
        kubelet_url: str = "",
        nodes: dict[str, int] | None = None,
    ) -> None:
        info = ClusterInfo(
            pid=os.getpid(),
            server_url=control_plane.server_url,
            kubelet_url=kubelet_url,
            token=control_plane.tokens.admin,
            subnet=number,
            ready_after_s=round(time.monotonic() - self._begun, 2),
            nodes=nodes or {},
        )
        write_atomically(self._state_dir / READY, json.dumps(dataclasses.asdict(info)))
        _log.info("cluster ready", server=info.server_url, seconds=info.ready_after_s)

    async def _unless_stopped(self, start: Coroutine[Any, Any, None]) -> None:
        """Start a part, but give up at once when a stop is requested."""
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(start)
            stopping = group.create_task(self._stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
            stopping.cancel()

    def _stdin_readable(self) -> None:
        if os.read(sys.stdin.fileno(), 4096) == b"":
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._stop.set()


def main() -> None:
    """Entry point of the supervisor process."""
    parser = argparse.ArgumentParser(prog="kraftquorum_devcluster.supervisor")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--attached", action="store_true")
    parser.add_argument("--kubelets", type=int, default=0)
    arguments = parser.parse_args()
    os.umask(0o077)
    state_dir = private_dir(arguments.state_dir.absolute())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        lock = take_lock(state_dir)
    except AlreadyRunningError as error:
        write_atomically(state_dir / FAILED, str(error))
        sys.exit(3)
    with lock:
        (state_dir / READY).unlink(missing_ok=True)
        if killed := kill_owned(str(state_dir)):
            _log.warning("ended processes that a killed supervisor left", count=killed)
        try:
            supervisor = Supervisor(state_dir, arguments.kubelets)
            asyncio.run(supervisor.run(attached=arguments.attached))
        except* DevClusterError as group:
            write_atomically(state_dir / FAILED, "\n".join(map(str, group.exceptions)))
            sys.exit(1)


if __name__ == "__main__":
    main()
