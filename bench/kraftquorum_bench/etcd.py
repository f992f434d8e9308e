"""etcd: members of the version that devcluster builds, asked by etcd's own gRPC benchmark."""

from __future__ import annotations

import base64
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from kraftquorum_bench.contenders import Cluster, PeerMissingError
from kraftquorum_bench.etcdtool import (
    READ_KEY,
    arguments,
    parse,
    records_of_request,
    requests_for,
)
from kraftquorum_bench.generator import GRACE_S
from kraftquorum_bench.loads import KIB, Errand, Load, Sample
from kraftquorum_bench.own_quorum import FAULT_ATTEMPT_MS, FILL_S, PATIENCE_S
from kraftquorum_bench.process_usage import cpu_us, total_cpu_us
from kraftquorum_bench.processes import Children, ToolError, run_tool
from kraftquorum_devcluster.binaries import ensure_binaries
from kraftquorum_devcluster.errors import BuildError
from kraftquorum_devcluster.versions import BENCH_TOOLS, ETCD_VERSION
from proofkit.loopback import LoopbackNetwork

CLIENT_PORT = 2379
PEER_PORT = 2380
START_S = 120.0
FIRST_HOST = 51
"""The number of the first member's address in the network."""
QUOTA_BYTES = 16 << 30
"""Above etcd's default of 2 GiB: without compaction each put stays in its file."""


def etcd_programs() -> Path:
    """The directory of etcd and its benchmark, built if they are missing.

    Raises:
        PeerMissingError: they cannot be built here.
    """
    try:
        return ensure_binaries(wanted=BENCH_TOOLS)
    except BuildError as error:
        raise PeerMissingError(f"etcd could not be built: {error.step}: {error.detail}") from error


class EtcdCluster(Cluster):
    """Members 0 to n-1."""

    def __init__(
        self, root: Path, network: LoopbackNetwork, children: Children, programs: Path
    ) -> None:
        self.name = f"etcd {ETCD_VERSION}"
        self._root, self._network, self._children = root, network, children
        self._programs = programs
        self._members: dict[int, list[str]] = {}
        self._warm: dict[str, float] = {}

    # -- members ---------------------------------------------------------------------------

    def _host(self, member: int) -> str:
        return self._network.host(FIRST_HOST + member)

    def _client(self, member: int) -> str:
        return f"{self._host(member)}:{CLIENT_PORT}"

    def _peer(self, member: int) -> str:
        return f"http://{self._host(member)}:{PEER_PORT}"

    def _start(self, member: int, cluster: range, state: str) -> None:
        self._members[member] = [
            str(self._programs / "etcd"),
            f"--name=m{member}",
            f"--data-dir={self._root / f'etcd-{member}'}",
            f"--listen-client-urls=http://{self._client(member)}",
            f"--advertise-client-urls=http://{self._client(member)}",
            f"--listen-peer-urls={self._peer(member)}",
            f"--initial-advertise-peer-urls={self._peer(member)}",
            "--initial-cluster=" + ",".join(f"m{n}={self._peer(n)}" for n in cluster),
            f"--initial-cluster-state={state}",
            f"--quota-backend-bytes={QUOTA_BYTES}",
            "--log-level=error",
        ]
        self.start_again(member)

    async def form(self, size: int) -> None:
        """Start so many members; returns when they have a leader."""
        for member in range(size):
            self._start(member, range(size), "new")
        await self.leader()
        await self.put(READ_KEY, bytes(KIB))

    def pids(self) -> list[int]:
        """The processes of the members that run."""
        processes = self._children.running.values()
        return [process.pid for process in processes if process.poll() is None]

    def kill(self, member: int) -> None:
        """End a member by SIGKILL."""
        self._children.kill(f"etcd-{member}")

    def start_again(self, member: int) -> None:
        """Start a member on what its directory holds."""
        self._children.start(f"etcd-{member}", self._members[member])

    # -- asking ----------------------------------------------------------------------------

    async def _post(self, member: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=20)
        url = f"http://{self._client(member)}/v3/{path}"
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.post(url, json=body) as answer,
        ):
            if answer.status != 200:
                raise ToolError(f"etcd: {path}: {(await answer.text())[:300]}")
            return await answer.json()

    async def leader(self) -> int:
        """The number of the member that leads."""

        async def check() -> int | None:
            for member in self._members:
                if f"etcd-{member}" not in self._children.running:
                    continue
                status = await self._post(member, "maintenance/status", {})
                if status.get("leader") == status["header"]["member_id"]:
                    return member
            return None

        return await self._children.eventually(check, START_S, "etcd's leader")

    async def put(self, key: str, value: bytes) -> None:
        """Write a key."""
        body = {"key": _text(key.encode()), "value": _text(value)}
        await self._post(await self.leader(), "kv/put", body)

    async def wait_serving(self, member: int) -> None:
        """Wait until a member answers and has applied what the leader has committed."""

        async def check() -> bool | None:
            mine = await self._post(member, "maintenance/status", {})
            # A linearizable read waits until this member has applied all that is committed.
            await self._post(member, "kv/range", {"key": _text(READ_KEY.encode())})
            return bool(mine.get("leader", "0") != "0") or None

        await self._children.eventually(check, PATIENCE_S, f"etcd's member {member} to serve")

    async def grow(self, size: int) -> None:
        """Add members as learners, and promote each once it has caught up."""
        for member in range(len(self._members), size):
            body = {"peerURLs": [self._peer(member)], "isLearner": True}

            # etcd refuses while a member has been connected for less than five seconds.
            async def add(body: dict[str, Any] = body) -> str:
                added = await self._post(await self.leader(), "cluster/member/add", body)
                return added["member"]["ID"]

            identity = await self._children.eventually(add, PATIENCE_S, "etcd's new member")
            self._start(member, range(member + 1), "existing")

            async def promoted(identity: str = identity) -> bool | None:
                await self._post(await self.leader(), "cluster/member/promote", {"ID": identity})
                return True

            await self._children.eventually(promoted, PATIENCE_S, "etcd's learner")
            await self.wait_serving(member)

    # -- loads -----------------------------------------------------------------------------

    async def measure(self, load: Load, seconds: float) -> Sample:
        """Run etcd's benchmark for about so long."""
        leader = await self.leader()
        pid = self._children.running[f"etcd-{leader}"].pid
        key = load.model_dump_json()
        per_s = self._warm.get(key)
        if per_s is None:
            total = requests_for(500, min(seconds, 1), load.clients)
            per_s = parse(await self._run(load, total, seconds)).per_s
        total = requests_for(per_s, seconds, load.clients)
        leader_us, all_us = cpu_us(pid), total_cpu_us(self.pids())
        result = parse(await self._run(load, total, seconds))
        leader_us, all_us = cpu_us(pid) - leader_us, total_cpu_us(self.pids()) - all_us
        if result.errors:
            raise ToolError(f"etcd's benchmark counted {result.errors} errors")
        self._warm[key] = result.per_s
        each = records_of_request(load)
        return Sample(
            figures={
                "per_s": result.per_s * each,
                "p50_ms": result.p50_ms,
                "p99_ms": result.p99_ms,
                "leader_us": leader_us / (total * each),
                "servers_us": all_us / (total * each),
            }
        )

    async def _run(self, load: Load, total: int, seconds: float) -> str:
        endpoints = [self._client(member) for member in self._members]
        command = [str(self._programs / "etcd-benchmark"), *arguments(load, endpoints, total)]
        return await run_tool(command, timeout_s=seconds * 4 + GRACE_S, cwd=self._root)

    async def fill(self, count: int, value_bytes: int, keys: int) -> None:
        """Write so many values, round so many keys."""
        load = Load(operation="put", clients=min(count, 64), value_bytes=value_bytes, keys=keys)
        endpoints = [self._client(member) for member in self._members]
        command = [str(self._programs / "etcd-benchmark"), *arguments(load, endpoints, count)]
        await run_tool(command, timeout_s=FILL_S, cwd=self._root)

    def errand(self, load: Load, seconds: float) -> Errand:
        """A load under a fault, by the JSON gateway."""
        return Errand(
            load=load.model_copy(update={"transport": "etcd_json"}),
            endpoints=tuple(self._client(member) for member in self._members),
            seconds=seconds,
            attempt_timeout_ms=FAULT_ATTEMPT_MS,
            keeps_on=True,
            timeline=True,
        )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@asynccontextmanager
async def etcd_cluster(
    root: Path, network: LoopbackNetwork, size: int
) -> AsyncGenerator[EtcdCluster]:
    """Form a cluster of so many members; it ends with the block.

    Raises:
        PeerMissingError: etcd cannot be built here.
    """
    programs = etcd_programs()
    directory = root / "etcd"
    directory.mkdir()
    try:
        with Children(directory, (network.claim.fileno(),)) as children:
            cluster = EtcdCluster(directory, network, children, programs)
            await cluster.form(size)
            yield cluster
    finally:
        shutil.rmtree(directory, ignore_errors=True)
