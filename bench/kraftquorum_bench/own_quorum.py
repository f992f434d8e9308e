"""A quorum of ours: real `raftnode run` processes, with default settings but for limits."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from kraftquorum_bench.contenders import Cluster
from kraftquorum_bench.generator import load_process, run_errand
from kraftquorum_bench.loads import ClientSecurity, Errand, Load, LoadResult, Sample
from kraftquorum_bench.process_usage import cpu_us, total_cpu_us
from proofkit.localquorum import CLUSTER_ID, LocalNode, LocalQuorum, eventually
from proofkit.loopback import LoopbackNetwork
from proofkit.quorumsecurity import QuorumSecurity
from raftnode.api.model import QuorumInfo, Replica, VoterSpec

LIMITS = {
    "RAFTNODE_API_ADDRESS_CONNECTIONS_MAX": "4096",
    "RAFTNODE_API_REQUESTS_MAX": "4096",
    "RAFTNODE_API_HOLDER_REQUESTS_MAX": "4096",
}
"""All clients of a bench come from one address: its share is the node's whole limit."""
PATIENCE_S = 600.0
"""How long a repair or scale-up may take on a busy machine."""
FILL_S = 1800.0
FAULT_ATTEMPT_MS = 500
"""The deadline of each attempt under a fault, of ours and of peers alike."""


class OurQuorum(Cluster):
    """A formed quorum."""

    def __init__(self, quorum: LocalQuorum, words: str = "") -> None:
        self.name = f"kraftquorum {version('kraftquorum')}{words}"
        self._quorum = quorum
        self._security = _client_security(quorum.security) if quorum.security else None

    def pids(self) -> list[int]:
        """The processes of the nodes that run."""
        processes = [node.process for node in self._quorum.nodes]
        return [process.pid for process in processes if process and process.poll() is None]

    async def leader(self) -> int:
        """The leader's node id, after a majority has confirmed it."""
        return (await self._quorum.leader()).node_id

    async def _endpoints(self) -> tuple[str, ...]:
        leader = await self.leader()
        nodes = sorted(self._quorum.nodes, key=lambda node: node.node_id != leader)
        return tuple(_address(node) for node in nodes if node.process is not None)

    async def measure(self, load: Load, seconds: float) -> Sample:
        """Run our load generator."""
        endpoints = await self._endpoints()
        leader = self._quorum.nodes[await self.leader()].process
        assert leader is not None
        errand = Errand(load=load, endpoints=endpoints, seconds=seconds, security=self._security)
        async with load_process(errand) as generator:
            leader_us, all_us = cpu_us(leader.pid), total_cpu_us(self.pids())
            generator.go()
            result = await generator.result()
            leader_us = cpu_us(leader.pid) - leader_us
            all_us = total_cpu_us(self.pids()) - all_us
        return _sample(result, load.batch, leader_us, all_us)

    async def fill(self, count: int, value_bytes: int, keys: int) -> None:
        """Write so many values, round so many keys."""
        load = Load(operation="put", clients=min(count, 64), value_bytes=value_bytes, keys=keys)
        errand = Errand(
            load=load,
            endpoints=await self._endpoints(),
            seconds=FILL_S,
            total=count,
            security=self._security,
        )
        await run_errand(errand)

    def errand(self, load: Load, seconds: float) -> Errand:
        """A load under a fault."""
        return Errand(
            load=load,
            endpoints=tuple(_address(node) for node in self._quorum.nodes if node.process),
            seconds=seconds,
            attempt_timeout_ms=FAULT_ATTEMPT_MS,
            keeps_on=True,
            timeline=True,
            security=self._security,
        )

    def kill(self, member: int) -> None:
        """End a node by SIGKILL."""
        self._quorum.nodes[member].kill()

    def wipe(self, member: int) -> None:
        """Empty the directory of a node that does not run."""
        shutil.rmtree(self._quorum.nodes[member].directory)

    def start_again(self, member: int) -> None:
        """Start a node on what its directory holds."""
        self._quorum.nodes[member].start()

    async def wait_serving(self, member: int) -> None:
        """Wait until a node has caught up, as its readiness says."""
        node = self._quorum.nodes[member]

        async def check() -> bool | None:
            return (await self._quorum.info(node)).caught_up or None

        await eventually(check, within_s=PATIENCE_S, what=f"node {member} to catch up")

    async def grow(self, size: int) -> None:
        """Add nodes as observers, then as voters."""
        voters = len((await self._quorum.describe()).voters)
        for node in self._quorum.nodes[voters:size]:
            node.start()
            await self._add(node, replaces=None)
        await self.wait_redundant(size)

    async def replace(self, member: int) -> None:
        """Make a node with a new directory a voter; the leader removes the one that it was."""
        old = next(
            Replica.of(voter.key)
            for voter in (await self._quorum.describe()).voters
            if voter.node_id == member
        )
        await self._add(self._quorum.nodes[member], replaces=old)

    async def _add(self, node: LocalNode, replaces: Replica | None) -> None:
        replica = await self._quorum.observe(node)
        voter = VoterSpec(node_id=replica.node_id, directory_id=replica.directory_id)
        record = (await self._quorum.describe()).voter_record
        await self._quorum.client.add_voter(voter, record, replaces=replaces, timeout_ms=60_000)

    async def wait_redundant(self, size: int) -> None:
        """Wait until so many voters vote and have caught up."""

        async def check() -> QuorumInfo | None:
            quorum = await self._quorum.describe()
            caught_up = [voter for voter in quorum.voters if voter.caught_up]
            whole = len(caught_up) == len(quorum.voters) == size
            return quorum if whole and quorum.voter_record_committed else None

        await eventually(check, within_s=PATIENCE_S, what=f"{size} voters that have caught up")


def _client_security(security: QuorumSecurity) -> ClientSecurity:
    credentials = security.credentials()
    assert credentials.ca_file is not None
    assert credentials.token_file is not None
    return ClientSecurity(
        ca_file=credentials.ca_file,
        token_file=credentials.token_file,
        cluster_id=security.cluster_id,
    )


def _address(node: LocalNode) -> str:
    return f"{node.api.host}:{node.api.port}"


def _sample(result: LoadResult, batch: int, leader_us: float, all_us: float) -> Sample:
    records = result.operations * batch
    return Sample(
        figures={
            "per_s": records / result.seconds,
            "p50_ms": result.p50_ms,
            "p99_ms": result.p99_ms,
            "leader_us": leader_us / records,
            "servers_us": all_us / records,
            "client_us": result.client_cpu_us / records,
        }
    )


@asynccontextmanager
async def our_quorum(
    root: Path,
    network: LoopbackNetwork,
    size: int,
    *,
    room: int = 0,
    secured: bool = False,
    words: str = "",
) -> AsyncGenerator[OurQuorum]:
    """Form a quorum of so many nodes; it ends with the block.

    Args:
        root: where its directory goes, named by the network.
        network: of which each node has an address; no other quorum has it.
        size: how many nodes vote.
        room: how many more nodes may be added.
        secured: whether peers and clients speak TLS alone, and clients present a token.
        words: after the name, to tell two quorums of ours apart.
    """
    directory = root / f"ours-{network.prefix}"
    directory.mkdir()
    security = QuorumSecurity(directory / "security", CLUSTER_ID) if secured else None
    quorum = LocalQuorum(directory, size + room, network, LIMITS, security=security)
    try:
        async with quorum:
            await quorum.form(size)
            yield OurQuorum(quorum, words)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
