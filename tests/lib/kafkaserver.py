"""A listener that answers as a controller of Apache Kafka does, and notes what it was asked."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from kraftquorum_operator.kafka.codec import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_quorum,
)
from kraftquorum_operator.kafka.codec.writer import (
    NO_TAGS,
    array,
    boolean,
    i8,
    i16,
    i32,
    text,
    u16,
)

CLUSTER = "bYZzeuQ2QI-cjcGVyRW4wQ"
NOW_MS = 1_700_000_000_000
READS = {api.API.key for api in (api_versions, describe_cluster, describe_configs, describe_quorum)}
"""API keys of the requests that change nothing."""


def i64(value: int) -> bytes:
    return struct.pack(">q", value)


def directory(number: int) -> uuid.UUID:
    return uuid.UUID(int=1 << 90 | number)


@dataclass
class Row:
    """A voter or an observer; `age_ms` None: no Fetch since the election."""

    node_id: int
    disk: int = 0
    age_ms: int | None = 200
    lag: int = 0


@dataclass
class Controller:
    """What a controller answers."""

    node_id: int = 0
    leads: bool = True
    leader_id: int = 0
    epoch: int = 7
    voters: list[Row] = field(default_factory=lambda: [Row(0), Row(1), Row(2)])
    observers: list[Row] = field(default_factory=list[Row])
    cluster_id: str = CLUSTER
    kraft_version: int = 1
    changes_voters: bool = True
    config: Mapping[str, str] = field(
        default_factory=lambda: {
            "process.roles": "controller",
            "metadata.max.idle.interval.ms": "500",
        }
    )
    errors: dict[int, int] = field(default_factory=dict[int, int])
    """An error code by API key."""
    records: int = 3
    """How many records the log grows by between two answers; 0: no-op records are off."""
    hangs: bool = False
    """Takes connections and never answers."""
    end: int = 1000
    asked: list[int] = field(default_factory=list[int])
    """API keys, in order."""
    connections: int = 0

    def answer(self, key: int) -> bytes:
        """The body of an answer."""
        makers: dict[int, Callable[[], bytes]] = {
            api_versions.API.key: self._versions,
            describe_cluster.API.key: self._cluster,
            describe_configs.API.key: self._configs,
            describe_quorum.API.key: self._quorum,
        }
        return makers[key]()

    def _versions(self) -> bytes:
        spoken = {18: (0, 4), 32: (1, 4), 55: (0, 2), 60: (0, 2)}
        if self.changes_voters:
            spoken |= {80: (0, 1), 81: (0, 0)}
        keys = array(
            i16(key) + i16(low) + i16(high) + NO_TAGS for key, (low, high) in spoken.items()
        )
        level = i16(self.kraft_version)
        feature = array([text("kraft.version") + level + level + NO_TAGS])
        tags = b"\x01\x02" + _sized(feature)
        return i16(0) + keys + i32(0) + tags

    def _cluster(self) -> bytes:
        code = self.errors.get(describe_cluster.API.key, 0)
        head = i32(0) + i16(code) + text(None) + i8(2)
        return head + text(self.cluster_id) + i32(self.leader_id) + array([]) + i32(0) + NO_TAGS

    def _configs(self) -> bytes:
        code = self.errors.get(describe_configs.API.key, 0)
        shown: Mapping[str, str] = {} if code else self.config
        entries = array(
            text(name)
            + text(value)
            + boolean(value=True)
            + i8(4)
            + boolean(value=False)
            + array([])
            + i8(2)
            + text(None)
            + NO_TAGS
            for name, value in shown.items()
        )
        result = i16(code) + text(None) + i8(4) + text(str(self.node_id)) + entries + NO_TAGS
        return i32(0) + array([result]) + NO_TAGS

    def _quorum(self) -> bytes:
        code = self.errors.get(describe_quorum.API.key, 0)
        if code:
            return i16(code) + text(None) + array([]) + array([]) + NO_TAGS
        self.end += self.records
        partition_code = 0 if self.leads else 6
        voters = array(self._row(row) for row in self.voters)
        observers = array(self._row(row) for row in self.observers)
        partition = i32(0) + i16(partition_code) + text(None) + i32(self.leader_id)
        partition += i32(self.epoch) + i64(self.end - 1) + voters + observers + NO_TAGS
        topic = text(describe_quorum.TOPIC) + array([partition]) + NO_TAGS
        return i16(0) + text(None) + array([topic]) + self._nodes() + NO_TAGS

    def _nodes(self) -> bytes:
        listener = text("CONTROLLER") + text("elsewhere") + u16(9093) + NO_TAGS
        return array(i32(row.node_id) + array([listener]) + NO_TAGS for row in self.voters)

    def _row(self, row: Row) -> bytes:
        leads = row.node_id == self.leader_id and row.disk == 0
        end, at_ms = self.end, NOW_MS
        if not leads:
            end = -1 if row.age_ms is None else self.end - 1 - row.lag
            at_ms = -1 if row.age_ms is None else NOW_MS - row.age_ms
        head = i32(row.node_id) + directory(row.node_id * 10 + row.disk).bytes
        return head + i64(end) + i64(at_ms) + i64(at_ms) + NO_TAGS


def _sized(data: bytes) -> bytes:
    """A tagged field's value with its length."""
    assert len(data) < 128
    return bytes([len(data)]) + data


async def _serve(
    controller: Controller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    controller.connections += 1
    try:
        while True:
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(length)
            key, _, correlation_id = struct.unpack(">hhi", request[:8])
            controller.asked.append(key)
            if controller.hangs:
                await reader.read()
                return
            head = i32(correlation_id) + (b"" if key == api_versions.API.key else NO_TAGS)
            body = controller.answer(key)
            writer.write(i32(len(head) + len(body)) + head + body)
            await writer.drain()
    except (EOFError, OSError):
        pass
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def serving(controllers: Iterable[Controller]) -> AsyncGenerator[list[str]]:
    """Serve controllers on ports of this machine; yields their addresses."""
    servers: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()
    addresses: list[str] = []
    for controller in controllers:

        async def serve(
            reader: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
            controller: Controller = controller,
        ) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            await _serve(controller, reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        addresses.append(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield addresses
    finally:
        for server in servers:
            server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
