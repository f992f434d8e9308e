"""Apache ZooKeeper: three servers, written to by its own Java client (ZooKeeperLoad.java)."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from kraftquorum_bench.contenders import Contender, PeerMissingError, UnsupportedLoadError
from kraftquorum_bench.generator import GRACE_S
from kraftquorum_bench.jvm import QUIET, jars_of, java
from kraftquorum_bench.loads import Load, Sample
from kraftquorum_bench.process_usage import cpu_us, total_cpu_us
from kraftquorum_bench.processes import Children, run_tool
from kraftquorum_devcluster.jars import JarSet
from proofkit.loopback import LoopbackNetwork

NODES = 3
CLIENT_PORT = 2181
PEER_PORT = 2888
ELECTION_PORT = 3888
FIRST_HOST = 81
SOURCE = Path(__file__).with_name("ZooKeeperLoad.java")
START_S = 120.0


class ZooKeeper(Contender):
    """A running ensemble."""

    def __init__(
        self, root: Path, network: LoopbackNetwork, children: Children, jars: Path
    ) -> None:
        self.name = "Apache ZooKeeper"
        self._root, self._children, self._jars = root, children, jars
        self._hosts = [network.host(FIRST_HOST + number) for number in range(NODES)]

    async def form(self, version: str) -> None:
        """Compile the client, and start the servers.

        Raises:
            ToolError: a server or the compiler ended with an error.
        """
        self.name = f"Apache ZooKeeper {version}"
        compiler = ["javac", "-cp", f"{self._jars}/*", "-d", str(self._root), str(SOURCE)]
        await run_tool(compiler, timeout_s=120, cwd=self._root)
        for number in range(NODES):
            path = self._write_settings(number)
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            self._children.start(f"zookeeper-{number}", java(self._jars, main, str(path)))
        await self._children.eventually(self._leader, START_S, "ZooKeeper's leader")

    def _write_settings(self, number: int) -> Path:
        data = self._root / f"zookeeper-{number}"
        data.mkdir()
        (data / "myid").write_text(f"{number + 1}\n", encoding="ascii")
        servers = [
            f"server.{n + 1}={host}:{PEER_PORT}:{ELECTION_PORT}"
            for n, host in enumerate(self._hosts)
        ]
        lines = [
            "tickTime=2000",
            "initLimit=10",
            "syncLimit=5",
            f"dataDir={data}",
            f"clientPort={CLIENT_PORT}",
            f"clientPortAddress={self._hosts[number]}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            *servers,
        ]
        path = self._root / f"zookeeper-{number}.cfg"
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        return path

    async def _leader(self) -> int | None:
        """The number of the server that leads, if any does."""
        for number, host in enumerate(self._hosts):
            reader, writer = await asyncio.open_connection(host, CLIENT_PORT)
            try:
                writer.write(b"srvr")
                answer = await asyncio.wait_for(reader.read(), 10)
            finally:
                writer.close()
            if b"Mode: leader" in answer:
                return number
        return None

    async def measure(self, load: Load, seconds: float) -> Sample:
        """Run the Java client; its set-up and a short warm-up come before what it times."""
        if load.operation not in ("put", "get_stale"):
            raise UnsupportedLoadError(f"the ZooKeeper client makes no {load.operation}")
        leader = await self._children.eventually(self._leader, START_S, "ZooKeeper's leader")
        pid = self._children.running[f"zookeeper-{leader}"].pid
        servers = [process.pid for process in self._children.running.values()]
        addresses = ",".join(f"{host}:{CLIENT_PORT}" for host in self._hosts)
        chosen = [addresses, load.operation, load.clients, seconds, load.value_bytes, load.keys]
        classes = f"{self._jars}/*:{self._root}"
        command = ["java", "-Xmx1g", QUIET, "-cp", classes, "ZooKeeperLoad", *map(str, chosen)]
        leader_us, all_us = cpu_us(pid), total_cpu_us(servers)
        printed = await run_tool(command, timeout_s=seconds * 3 + GRACE_S, cwd=self._root)
        leader_us, all_us = cpu_us(pid) - leader_us, total_cpu_us(servers) - all_us
        result = json.loads(printed.splitlines()[-1])
        every = result["all_operations"]
        return Sample(
            figures={
                "per_s": result["operations"] / result["seconds"],
                "p50_ms": result["p50_ms"],
                "p99_ms": result["p99_ms"],
                "leader_us": leader_us / every,
                "servers_us": all_us / every,
            }
        )

    async def fill(self, count: int, value_bytes: int, keys: int) -> None:
        """The Java client makes its nodes itself."""


def compiler_and_jars() -> tuple[JarSet, Path]:
    """ZooKeeper's jars, and the certainty that its client can be compiled.

    Raises:
        PeerMissingError: a JDK or ZooKeeper's jars cannot be had here.
    """
    if shutil.which("javac") is None:
        raise PeerMissingError("zookeeper needs a JDK: on Debian, apt-get install default-jdk")
    return jars_of("zookeeper")


@asynccontextmanager
async def zookeeper_contender(
    root: Path, network: LoopbackNetwork
) -> AsyncGenerator[dict[str, Contender]]:
    """Form an ensemble; it ends with the block.

    Raises:
        PeerMissingError: a JDK or ZooKeeper's jars cannot be had here.
    """
    jar_set, jars = compiler_and_jars()
    directory = root / "zookeeper"
    directory.mkdir()
    try:
        with Children(directory, (network.claim.fileno(),)) as children:
            ensemble = ZooKeeper(directory, network, children, jars)
            await ensemble.form(jar_set.version)
            yield {"zookeeper": ensemble}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
