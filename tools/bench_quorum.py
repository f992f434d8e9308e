"""Measure writes and reads of a quorum of three beside etcd's, in the same run.

`make bench-quorum` runs it: CLIENTS_AT_ONCE="1 16 64" sets the number of clients, SECONDS_EACH=n
the length of each round, ROUNDS=n the number of rounds. Both quorums run three processes on this
machine on the same disk with fsync on. Our quorum is measured twice: through sessions by
`QuorumClient`, and over HTTP by a plain HTTP client. The same HTTP client asks etcd through its
JSON gateway, which costs etcd something that its gRPC API would not. Every write is durable on a
majority and every read is linearizable. What counts is the ratio of medians, and the processor
time for each operation, of the leader and of the client: clients and servers share the
processors.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from kraftquorum_devcluster.binaries import ensure_binaries
from proofkit.localquorum import LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork, claim_loopback
from raftnode.client import QuorumClient

VALUE = os.urandom(512).hex().encode()
KEYS = 1000
ETCD_CLIENT_PORT = 2379
ETCD_PEER_PORT = 2380

Call = Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class Peer:
    """Something to measure: a name, and how to put and get key number n."""

    name: str
    put: Call
    get: Call
    leader_pid: int
    rounds: dict[tuple[str, int], list[Round]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Round:
    """One round: operations a second, latencies in milliseconds, and what they cost."""

    per_s: float
    p50_ms: float
    p99_ms: float
    leader_us: float
    """Processor time of the leader for each operation, in microseconds."""
    client_us: float
    """The same of this process, with all clients."""


class Etcd:
    """Three etcd members under one directory."""

    def __init__(self, root: Path, network: LoopbackNetwork, http: aiohttp.ClientSession) -> None:
        self._root = root
        self._hosts = [network.host(number) for number in (11, 12, 13)]
        self._http = http
        self._members: list[subprocess.Popen[bytes]] = []
        self._leader = ""

    async def __aenter__(self) -> Self:
        self._start(ensure_binaries() / "etcd")
        self._leader = await eventually(self._find_leader, what="etcd's leader")
        return self

    def _start(self, program: Path) -> None:
        peers = [f"http://{host}:{ETCD_PEER_PORT}" for host in self._hosts]
        cluster = ",".join(f"m{n}={peer}" for n, peer in enumerate(peers))
        for number, host in enumerate(self._hosts):
            client = f"http://{host}:{ETCD_CLIENT_PORT}"
            with (self._root / f"etcd-{number}.log").open("wb") as log:
                command = [
                    str(program),
                    f"--name=m{number}",
                    f"--data-dir={self._root / f'etcd-{number}'}",
                    f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={peers[number]}",
                    f"--initial-advertise-peer-urls={peers[number]}",
                    f"--initial-cluster={cluster}",
                    "--log-level=warn",
                ]
                self._members.append(subprocess.Popen(command, stdout=log, stderr=log))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self._members:
            member.kill()
            member.wait()

    @property
    def leader_pid(self) -> int:
        """The leader's process."""
        hosts = [f"http://{host}:{ETCD_CLIENT_PORT}" for host in self._hosts]
        return self._members[hosts.index(self._leader)].pid

    async def _find_leader(self) -> str | None:
        for host in self._hosts:
            url = f"http://{host}:{ETCD_CLIENT_PORT}"
            status = await self._post(f"{url}/v3/maintenance/status", {})
            if status.get("leader") == status["header"]["member_id"]:
                return url
        return None

    async def _post(self, url: str, body: dict[str, str]) -> dict[str, Any]:
        async with self._http.post(url, json=body) as answer:
            answer.raise_for_status()
            return await answer.json()

    async def put(self, key: int) -> None:
        """Write a key through the leader."""
        body = {"key": _text(b"key-%d" % key), "value": _text(VALUE)}
        await self._post(f"{self._leader}/v3/kv/put", body)

    async def get(self, key: int) -> None:
        """Read a key, linearizably, through the leader."""
        answer = await self._post(f"{self._leader}/v3/kv/range", {"key": _text(b"key-%d" % key)})
        assert answer.get("count") == "1", answer


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def ours(quorum: LocalQuorum, http: aiohttp.ClientSession) -> Peer:
    """Our quorum, asked at its leader with the plain HTTP client that etcd is asked with."""
    leader = await quorum.leader()
    base = f"http://{leader.host}:{leader.api.port}/v1/kv"

    async def put(key: int) -> None:
        async with http.put(f"{base}/key-{key}", data=VALUE) as answer:
            answer.raise_for_status()
            await answer.read()

    async def get(key: int) -> None:
        async with http.get(f"{base}/key-{key}") as answer:
            answer.raise_for_status()
            assert await answer.read() == VALUE

    assert leader.process is not None
    return Peer("ours, HTTP", put, get, leader.process.pid)


async def ours_by_sessions(quorum: LocalQuorum, client: QuorumClient) -> Peer:
    """Our quorum, asked by its own client."""
    leader = await quorum.leader()

    async def put(key: int) -> None:
        await client.put(f"key-{key}", VALUE)

    async def get(key: int) -> None:
        value = await client.get(f"key-{key}")
        assert value is not None
        assert value.value == VALUE

    assert leader.process is not None
    return Peer("ours, sessions", put, get, leader.process.pid)


def cpu_s(pid: int) -> float:
    """The processor time that a process has taken, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(call: Call, clients: int, seconds: float, leader_pid: int) -> Round:
    """Let so many clients call, each again as soon as it is answered."""
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        key = number
        while (began := time.perf_counter()) < end:
            await call(key % KEYS)
            taken.append(time.perf_counter() - began)
            key += clients

    began, leader_s, own_s = time.perf_counter(), cpu_s(leader_pid), time.process_time()
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(client(number))
    whole = time.perf_counter() - began
    leader_s, own_s = cpu_s(leader_pid) - leader_s, time.process_time() - own_s
    cuts, count = statistics.quantiles(taken, n=100), len(taken)
    return Round(
        count / whole,
        cuts[49] * 1000,
        cuts[98] * 1000,
        leader_s * 1e6 / count,
        own_s * 1e6 / count,
    )


async def take_turns(
    peers: Sequence[Peer], clients: Sequence[int], rounds: int, seconds: float
) -> None:
    """Measure the peers in turn, so that a busy minute falls on all of them."""
    for peer in peers:
        for key in range(KEYS):
            await peer.put(key)
    for _ in range(rounds):
        for what in ("put", "get"):
            for count in clients:
                for peer in peers:
                    call = peer.put if what == "put" else peer.get
                    result = await measure(call, count, seconds, peer.leader_pid)
                    peer.rounds.setdefault((what, count), []).append(result)


def print_table(peers: Sequence[Peer]) -> None:
    """Print medians over the rounds, and their ratio to the last peer's."""
    print(
        f"{'what':<6}{'clients':>8}  {'quorum':<16}{'per s':>8}{'p50 ms':>9}{'p99 ms':>9}"
        f"{'leader us':>11}{'client us':>11}  ratio"
    )
    for what, count in peers[0].rounds:
        yardstick = statistics.median(r.per_s for r in peers[-1].rounds[what, count])
        for peer in peers:
            rounds = peer.rounds[what, count]
            per_s = statistics.median(r.per_s for r in rounds)
            p50 = statistics.median(r.p50_ms for r in rounds)
            p99 = statistics.median(r.p99_ms for r in rounds)
            leader_us = statistics.median(r.leader_us for r in rounds)
            client_us = statistics.median(r.client_us for r in rounds)
            print(
                f"{what:<6}{count:>8}  {peer.name:<16}{per_s:>8.0f}{p50:>9.2f}{p99:>9.2f}"
                f"{leader_us:>11.0f}{client_us:>11.0f}  {per_s / yardstick:.2f}"
            )


async def bench(root: Path, clients: Sequence[int], rounds: int, seconds: float) -> None:
    """Start both, measure, print."""
    async with AsyncExitStack() as stack:
        connector = aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        network = stack.enter_context(claim_loopback())
        etcd = await stack.enter_async_context(Etcd(root, network, http))
        quorum = await stack.enter_async_context(LocalQuorum(root, 3, network))
        await quorum.form(3)
        peers = [
            await ours_by_sessions(quorum, quorum.client),
            await ours(quorum, http),
            Peer("etcd, JSON", etcd.put, etcd.get, etcd.leader_pid),
        ]
        await take_turns(peers, clients, rounds, seconds)
        print_table(peers)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", default="1 16 64", help="how many clients at once")
    parser.add_argument("--seconds", type=float, default=4, help="length of a round")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    parser.add_argument("--directory", type=Path, help="where to write; default: temporary")
    given = parser.parse_args()
    clients = [int(count) for count in given.clients.split()]
    with tempfile.TemporaryDirectory(dir=given.directory, prefix="kraftquorum-bench-") as root:
        asyncio.run(bench(Path(root), clients, given.rounds, given.seconds))


if __name__ == "__main__":
    main()
