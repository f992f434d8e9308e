"""A quorum of real `raftnode run` processes on this machine, for tests and benches.

Each node has its own loopback address, so that all use the same ports, and its own
directory. This module starts, kills, pauses and wipes nodes. Expectations belong to the
tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from proofkit import countednode, faultynode, oldernode, tracednode
from proofkit.faultynode import NodeFaults
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import ADMIN, QuorumSecurity
from raftnode.api.model import (
    FormRequest,
    JoinRequest,
    NodeInfo,
    QuorumInfo,
    Replica,
    VoterSpec,
)
from raftnode.client import QuorumClient
from raftnode.client.credentials import NO_CREDENTIALS
from raftnode.core.records import RAFT_VERSION
from raftnode.core.types import Endpoint

T = TypeVar("T")

PEER_PORT = 9093
API_PORT = 9080
CLUSTER_ID = "TestTestTestTestTestTe"

PATIENCE_S = 60.0
"""The patience for an event that takes a second on a quiet machine; a busy one needs far longer."""


class NotInTimeError(AssertionError):
    """A condition did not become true in time; the message has the last observation."""


async def eventually(
    look: Callable[[], Awaitable[T | None]], *, within_s: float = PATIENCE_S, what: str
) -> T:
    """Call a function until it returns a value.

    Raises:
        NotInTimeError: it returned none in time.
    """
    deadline = time.monotonic() + within_s
    last_error: object = None
    while time.monotonic() < deadline:
        try:
            result = await look()
        except Exception as error:  # noqa: BLE001 - whatever it was is reported below
            last_error = error
        else:
            if result is not None:
                return result
        await asyncio.sleep(0.02)
    raise NotInTimeError(f"{what}: not within {within_s} s; last: {last_error!r}")


@dataclass(slots=True)
class LocalNode:
    """One process and its directory."""

    node_id: int
    host: str
    directory: Path
    environment: dict[str, str]
    network: LoopbackNetwork
    command: tuple[str, ...] = (str(Path(sys.executable).with_name("raftnode")), "run")
    process: subprocess.Popen[bytes] | None = None
    logs: list[Path] = field(default_factory=list[Path])

    @property
    def api(self) -> Endpoint:
        """Where its API listens."""
        return Endpoint(self.host, API_PORT)

    @property
    def admin(self) -> Endpoint:
        """Where it listens for administration."""
        listen = self.environment.get("RAFTNODE_ADMIN_LISTEN")
        return Endpoint.parse(listen) if listen else self.api

    @property
    def peer(self) -> Endpoint:
        """Where it listens for peers."""
        return Endpoint(self.host, PEER_PORT)

    @property
    def termination_message(self) -> Path:
        """The file in which it says why it exited."""
        return self.directory.with_suffix(".termination")

    def make_faulty(self) -> NodeFaults:
        """Make the next start one whose storage calls and loop a test can hang or slow down."""
        faults = NodeFaults(self.directory.with_suffix(".faults"))
        self.command = faultynode.COMMAND
        self.environment[faultynode.CONTROL] = str(faults.path)
        return faults

    def make_traced(self) -> Path:
        """Let its next starts write down what the core does; returns the file."""
        path = self.directory.with_suffix(".trace")
        self.command = tracednode.COMMAND
        self.environment[tracednode.FILE] = str(path)
        return path

    def make_counted(self) -> Path:
        """Let its next starts count what they do; returns the file of `countednode.Counts`."""
        path = self.directory.with_suffix(".counts")
        self.command = countednode.COMMAND
        self.environment[countednode.FILE] = str(path)
        return path

    def make_older(self) -> None:
        """Let its next starts be of the program before finished batches."""
        self.command = oldernode.COMMAND

    def start(self) -> None:
        """Start the process on the present content of the directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        log = self.directory.with_suffix(f".{len(self.logs)}.log")
        self.logs.append(log)
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                self.command,
                env={**os.environ, **self.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory.parent,
                pass_fds=[self.network.claim.fileno()],
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, e.g. SIGKILL, SIGSTOP, SIGCONT."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Stop the process as Kubernetes does; return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE_S)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until the process exits; return its exit code."""
        assert self.process is not None
        return self.process.wait(timeout=timeout_s)

    def wipe(self) -> None:
        """Empty the directory, whether the process runs or not (S4)."""
        for entry in self.directory.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)

    def output(self) -> str:
        """All that its processes have logged."""
        return "".join(log.read_text(errors="replace") for log in self.logs)

    def audited(self) -> list[dict[str, Any]]:
        """The lines of the audit log, which go to stderr by default."""
        lines = self.output().splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"time": ')]


class LocalQuorum:
    """Nodes 0 to n-1 under one directory.

    Args:
        root: where the directories and logs go.
        nodes: how many nodes there may be.
        network: whose addresses 1 to n are theirs; it outlives the quorum.
        settings: more environment for each node.
        cluster_id: of the quorum that `form` makes.
        security: of the nodes and of `client`; None: plain connections, without tokens.
    """

    def __init__(
        self,
        root: Path,
        nodes: int,
        network: LoopbackNetwork,
        settings: dict[str, str] | None = None,
        cluster_id: str = CLUSTER_ID,
        security: QuorumSecurity | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.security = security
        hosts = [network.host(node_id + 1) for node_id in range(nodes)]
        peers = ",".join(f"{host}:{PEER_PORT}" for host in hosts)
        self.nodes: list[LocalNode] = []
        for node_id, host in enumerate(hosts):
            directory = root / f"node-{node_id}"
            environment = {
                "RAFTNODE_NODE_ID": str(node_id),
                "RAFTNODE_LOG_DIR": str(directory),
                "RAFTNODE_PEER_LISTEN": f"{host}:{PEER_PORT}",
                "RAFTNODE_PEER_ADVERTISED": f"{host}:{PEER_PORT}",
                "RAFTNODE_API_LISTEN": f"{host}:{API_PORT}",
                "RAFTNODE_API_ADVERTISED": f"{host}:{API_PORT}",
                "RAFTNODE_BOOTSTRAP_SERVERS": peers,
                "TERMINATION_LOG": str(directory.with_suffix(".termination")),
                **(security.settings(node_id, host) if security else {}),
                **(settings or {}),
            }
            self.nodes.append(LocalNode(node_id, host, directory, environment, network))
        self.client = self.client_of(ADMIN)

    def client_of(self, subject: str, *, timeout_ms: int = 10_000) -> QuorumClient:
        """A client for a subject of `security`."""
        return QuorumClient(
            [node.api for node in self.nodes],
            timeout_ms=timeout_ms,
            credentials=self.security.credentials(subject) if self.security else NO_CREDENTIALS,
            cluster_id=self.cluster_id if self.security else None,
        )

    async def __aenter__(self) -> Self:
        await self.client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.client.__aexit__(kind, error, trace)
        for node in self.nodes:
            node.kill()
        if error is not None:
            for node in self.nodes:
                error.add_note(f"--- node {node.node_id}:\n" + node.output()[-4000:])

    # -- looking -------------------------------------------------------------------------

    async def info(self, node: LocalNode) -> NodeInfo:
        """Return a node's description of itself."""
        return await self.client.describe_node(node.api)

    async def describe(self) -> QuorumInfo:
        """Return the quorum as a confirmed leader describes it."""
        return await self.client.describe_quorum(confirmed=True)

    async def leader(self) -> LocalNode:
        """Wait for a leader that a majority confirms."""

        async def look() -> LocalNode:
            return self.nodes[(await self.describe()).leader.node_id]

        return await eventually(look, what="a confirmed leader")

    async def wait_running(self, nodes: Sequence[LocalNode]) -> list[NodeInfo]:
        """Wait until the nodes answer."""

        async def look(node: LocalNode) -> NodeInfo:
            if node.process is not None and node.process.poll() is not None:
                raise NotInTimeError(f"node {node.node_id} ended: {node.output()[-2000:]}")
            return await self.info(node)

        return [
            await eventually(lambda n=node: look(n), what=f"node {node.node_id}") for node in nodes
        ]

    # -- doing ---------------------------------------------------------------------------

    async def form(self, size: int, *, raft_version: int = RAFT_VERSION) -> QuorumInfo:
        """Start the first `size` nodes, form a quorum of them, wait until it takes writes."""
        nodes = self.nodes[:size]
        for node in nodes:
            node.start()
        infos = await self.wait_running(nodes)
        voters = [
            VoterSpec(
                node_id=info.node_id,
                directory_id=info.directory_id,
                endpoint=info.peer_endpoint,
            )
            for info in infos
        ]
        request = FormRequest(
            cluster_id=self.cluster_id, voters=tuple(voters), raft_version=raft_version
        )
        for node in nodes:
            await self.client.form(node.admin, request)

        async def formed() -> QuorumInfo | None:
            quorum = await self.describe()
            done = quorum.formation_completed if raft_version else quorum.epoch_committed
            return quorum if done else None

        return await eventually(formed, what="formation")

    async def observe(self, node: LocalNode) -> Replica:
        """Let a blank, running node join as an observer and wait until it is caught up."""
        [info] = await self.wait_running([node])
        await self.client.join(node.admin, JoinRequest(cluster_id=self.cluster_id))
        replica = Replica(node_id=info.node_id, directory_id=info.directory_id)

        async def caught_up() -> Replica | None:
            for observer in (await self.describe()).observers:
                if observer.key == replica.key and observer.caught_up:
                    return replica
            return None

        return await eventually(caught_up, what=f"{replica.key} to catch up")

    async def lead(self, node: LocalNode) -> None:
        """Make a voter lead; another leader transfers leadership to it, again if it wins again."""

        async def look() -> bool | None:
            described = await self.describe()
            if described.leader.node_id == node.node_id:
                return True
            [target] = [voter for voter in described.voters if voter.node_id == node.node_id]
            await self.client.resign(preferred=Replica.of(target.key))
            return None

        await eventually(look, what=f"node {node.node_id} to lead")

    async def put(self, key: str, value: bytes) -> None:
        """Repeat a write until it is acknowledged.

        After an election the outcome may be unknown: then the write is repeated.
        """
        await eventually(lambda: self.client.put(key, value), what=f"{key} to be written")
