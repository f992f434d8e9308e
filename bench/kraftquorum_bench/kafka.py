"""Apache Kafka: three KRaft nodes, topics flushed at each append, and Kafka's own load tool."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kraftquorum_bench.contenders import Contender, UnsupportedLoadError
from kraftquorum_bench.generator import GRACE_S
from kraftquorum_bench.jvm import jars_of, java
from kraftquorum_bench.loads import Load, Sample
from kraftquorum_bench.process_usage import total_cpu_us
from kraftquorum_bench.processes import Children, ToolError, run_tool
from proofkit.loopback import LoopbackNetwork

NODES = 3
BROKER_PORT = 9092
CONTROLLER_PORT = 9093
FIRST_HOST = 71
CLUSTER_ID = "QmVuY2hCZW5jaEJlbmNoQg"
DIRECTORY_IDS = tuple(f"KraftquorumBench{number}AAAAg" for number in range(NODES))
START_S = 180.0
SECONDS_MIN = 5.0
STRETCH = 3
"""Runs are longer by this: the tool counts from its first record on, while Java warms up."""
_FIRST_RECORDS = 20_000
_RESULT = re.compile(
    r"^(\d+) records sent, ([\d.]+) records/sec .*?(\d+) ms 50th, .*?(\d+) ms 99th", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """What a producer and its topic are set to; all else is Kafka's default.

    Attributes:
        partitions: of the topic; each is a log of its own, ordered in itself alone.
        batch_bytes: `batch.size`.
        linger_ms: `linger.ms`.
        buffer_bytes: `buffer.memory`.
    """

    partitions: int
    batch_bytes: int
    linger_ms: int
    buffer_bytes: int = 32 << 20

    def describe(self) -> str:
        """In Kafka's words, for people."""
        return (
            f"acks=all, flush.messages=1, min.insync.replicas=2, {self.partitions} partition(s), "
            f"batch.size={self.batch_bytes}, linger.ms={self.linger_ms}, "
            f"buffer.memory={self.buffer_bytes}, no compression"
        )


PINNED = KafkaSettings(partitions=1, batch_bytes=16_384, linger_ms=5)
"""Kafka's defaults, and one log as ours is."""
BEST = KafkaSettings(partitions=3, batch_bytes=1_000_000, linger_ms=20, buffer_bytes=128 << 20)
"""A log on each node, and batches as large as a topic takes by default."""
SETTINGS = {"pinned": PINNED, "best": BEST}


def parse(printed: str) -> tuple[int, float, float, float]:
    """Records, records a second, median and 99th percentile in ms, of kafka-producer-perf-test.

    Raises:
        ValueError: there is no result in it.
    """
    results = _RESULT.findall(printed)
    if not results:
        raise ValueError(f"kafka-producer-perf-test printed no result: {printed[-500:]!r}")
    records, per_s, p50, p99 = results[-1]
    return int(records), float(per_s), float(p50), float(p99)


class KafkaCluster:
    """Three nodes, each broker and controller."""

    def __init__(
        self, root: Path, network: LoopbackNetwork, children: Children, jars: Path
    ) -> None:
        self.root, self.jars = root, jars
        self._children = children
        self._hosts = [network.host(FIRST_HOST + number) for number in range(NODES)]
        self.bootstrap = ",".join(f"{host}:{BROKER_PORT}" for host in self._hosts)

    def pids(self) -> list[int]:
        """The nodes' processes."""
        return [process.pid for process in self._children.running.values()]

    def _write_settings(self, number: int) -> Path:
        host, path = self._hosts[number], self.root / f"kafka-{number}.properties"
        listeners = f"PLAINTEXT://{host}:{BROKER_PORT},CONTROLLER://{host}:{CONTROLLER_PORT}"
        controllers = ",".join(f"{host}:{CONTROLLER_PORT}" for host in self._hosts)
        lines = [
            "process.roles=broker,controller",
            f"node.id={number}",
            "controller.listener.names=CONTROLLER",
            f"listeners={listeners}",
            f"advertised.listeners={listeners}",
            f"controller.quorum.bootstrap.servers={controllers}",
            f"log.dirs={self.root}/kafka-{number}",
            "default.replication.factor=3",
            "offsets.topic.replication.factor=3",
            "min.insync.replicas=2",
        ]
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        return path

    async def form(self) -> None:
        """Format and start the nodes, and make a topic for each of `SETTINGS`.

        Raises:
            ToolError: a node or a tool ended with an error.
        """
        voters = ",".join(
            f"{number}@{host}:{CONTROLLER_PORT}:{DIRECTORY_IDS[number]}"
            for number, host in enumerate(self._hosts)
        )
        paths = [self._write_settings(number) for number in range(NODES)]
        for path in paths:
            formatting = ("format", "-t", CLUSTER_ID, "-c", str(path))
            await self.tool("kafka.tools.StorageTool", *formatting, "--initial-controllers", voters)
        for number, path in enumerate(paths):
            command = java(self.jars, "kafka.Kafka", str(path))
            self._children.start(f"kafka-{number}", command)
        await self._children.eventually(self._make_topics, START_S, "Kafka's topics")

    async def _make_topics(self) -> bool:
        for name, settings in SETTINGS.items():
            arguments = ["--create", "--if-not-exists", "--topic", name]
            arguments += ["--partitions", str(settings.partitions), "--replication-factor", "3"]
            arguments += ["--config", "flush.messages=1", "--config", "min.insync.replicas=2"]
            server = ("--bootstrap-server", self.bootstrap)
            await self.tool("org.apache.kafka.tools.TopicCommand", *server, *arguments)
        return True

    async def tool(self, main: str, *arguments: str, timeout_s: float = 120) -> str:
        """Run one of Kafka's programs to its end."""
        command = java(self.jars, main, *arguments, heap="512m")
        return await run_tool(command, timeout_s=timeout_s, cwd=self.root)


class KafkaContender(Contender):
    """Kafka at some settings."""

    def __init__(self, cluster: KafkaCluster, version: str, settings: str) -> None:
        self.name = f"Apache Kafka {version}, {settings} settings"
        self._cluster = cluster
        self._topic, self._settings = settings, SETTINGS[settings]
        self._per_s: float | None = None

    async def measure(self, load: Load, seconds: float) -> Sample:
        """Run kafka-producer-perf-test for about so long."""
        if load.operation != "append":
            raise UnsupportedLoadError(f"Kafka takes appends alone, not {load.operation}")
        if self._per_s is None:
            _, self._per_s, *_ = await self._run(load, _FIRST_RECORDS, seconds)
        total = max(int(self._per_s * max(seconds * STRETCH, SECONDS_MIN)), 1000)
        before_us = total_cpu_us(self._cluster.pids())
        records, per_s, p50_ms, p99_ms = await self._run(load, total, seconds)
        servers_us = total_cpu_us(self._cluster.pids()) - before_us
        if records != total:
            raise ToolError(f"Kafka acknowledged {records} of {total} records")
        self._per_s = per_s
        figures = {"per_s": per_s, "p50_ms": p50_ms, "p99_ms": p99_ms}
        return Sample(figures={**figures, "servers_us": servers_us / records})

    async def _run(self, load: Load, total: int, seconds: float) -> tuple[int, float, float, float]:
        settings = self._settings
        properties = [
            f"bootstrap.servers={self._cluster.bootstrap}",
            "acks=all",
            f"batch.size={settings.batch_bytes}",
            f"linger.ms={settings.linger_ms}",
            f"buffer.memory={settings.buffer_bytes}",
        ]
        arguments = ["--topic", self._topic, "--num-records", str(total), "--throughput", "-1"]
        arguments += ["--record-size", str(load.value_bytes), "--producer-props", *properties]
        main = "org.apache.kafka.tools.ProducerPerformance"
        return parse(
            await self._cluster.tool(
                main, *arguments, timeout_s=max(seconds * STRETCH, SECONDS_MIN) * 6 + GRACE_S
            )
        )

    async def fill(self, count: int, value_bytes: int, keys: int) -> None:
        """Appends need nothing beforehand."""


@asynccontextmanager
async def kafka_contenders(
    root: Path, network: LoopbackNetwork
) -> AsyncGenerator[dict[str, Contender]]:
    """Form a cluster; a contender for each of `SETTINGS`. It ends with the block.

    Raises:
        PeerMissingError: Java or Kafka's jars cannot be had here.
    """
    jar_set, jars = jars_of("kafka")
    directory = root / "kafka"
    directory.mkdir()
    try:
        with Children(directory, (network.claim.fileno(),)) as children:
            cluster = KafkaCluster(directory, network, children, jars)
            await cluster.form()
            yield {
                f"kafka_{name}": KafkaContender(cluster, jar_set.version, name) for name in SETTINGS
            }
    finally:
        shutil.rmtree(directory, ignore_errors=True)
