"""Starts what a group of workloads runs on: our quorum, and its peers beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from kraftquorum_bench.contenders import Contender, PeerMissingError
from kraftquorum_bench.etcd import QUOTA_BYTES, etcd_cluster, etcd_programs
from kraftquorum_bench.events import RawCopy
from kraftquorum_bench.jvm import jars_of
from kraftquorum_bench.kafka import SETTINGS, kafka_contenders
from kraftquorum_bench.loads import KEYS, KIB
from kraftquorum_bench.own_quorum import LIMITS, our_quorum
from kraftquorum_bench.processes import ToolError
from kraftquorum_bench.workloads import FILL_BYTES, Group, Workload
from kraftquorum_bench.zookeeper import compiler_and_jars, zookeeper_contender
from proofkit.localquorum import NotInTimeError
from proofkit.loopback import LoopbackNetwork, claim_loopback

OURS = "ours"
PEERS = ("etcd", "kafka", "zookeeper", "copy", "plain")
PEER_ERRORS = (PeerMissingError, ToolError, NotInTimeError, OSError)
"""What may keep a peer from taking part."""


def words(error: BaseException) -> str:
    """An error in one line; of a group, its first."""
    if isinstance(error, BaseExceptionGroup):
        return words(error.exceptions[0])  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:600]}"


def prepare(peers: Iterable[str]) -> dict[str, str]:
    """Build or fetch what peers need; returns those that cannot be had, and why."""
    needs: dict[str, Callable[[], object]] = {
        "etcd": etcd_programs,
        "kafka": lambda: jars_of("kafka"),
        "zookeeper": compiler_and_jars,
    }
    missing: dict[str, str] = {}
    for peer in peers:
        try:
            needs.get(peer, lambda: None)()
        except PeerMissingError as error:
            missing[peer] = str(error)
    return missing


@dataclass(frozen=True, slots=True)
class Quorums:
    """Where quorums are made, and which.

    Attributes:
        root: where all data go, on the disk that is measured.
        peers: which peers may take part, of `PEERS`.
        missing: why a peer cannot be had here, by name.
        leave_out: notes a peer that does not take part, and why.
    """

    root: Path
    peers: Sequence[str]
    missing: Mapping[str, str]
    leave_out: Callable[[str, str], None]

    async def open(self, group: Group, stack: AsyncExitStack) -> dict[str, Contender]:
        """Start ours and each peer that can be had; the stack ends them."""
        network = stack.enter_context(claim_loopback())
        ours = our_quorum(
            self.root,
            network,
            group.members,
            room=group.room,
            secured=group.secured,
            words=" with TLS and tokens" if group.secured else "",
        )
        contenders: dict[str, Contender] = {OURS: await stack.enter_async_context(ours)}
        for peer in dict.fromkeys(name.partition("_")[0] for name in group.peers):
            if peer not in self.peers:
                self.leave_out(peer, "not asked for (PEERS)")
                continue
            if peer in self.missing:
                self.leave_out(peer, self.missing[peer])
                continue
            try:
                contenders |= await self._open_peer(peer, group, network, stack)
            except PEER_ERRORS as error:
                self.leave_out(f"{peer} in {group.name}", words(error))
        return contenders

    async def _open_peer(
        self, peer: str, group: Group, network: LoopbackNetwork, stack: AsyncExitStack
    ) -> dict[str, Contender]:
        match peer:
            case "etcd":
                opened = etcd_cluster(self.root, network, group.members)
                return {"etcd": await stack.enter_async_context(opened)}
            case "kafka":
                return await stack.enter_async_context(kafka_contenders(self.root, network))
            case "zookeeper":
                return await stack.enter_async_context(zookeeper_contender(self.root, network))
            case "plain":
                # Both quorums of ours have the same ports.
                other = stack.enter_context(claim_loopback())
                opened = our_quorum(self.root, other, group.members, words=" without TLS")
                return {"plain": await stack.enter_async_context(opened)}
            case _:
                return {"copy": RawCopy(self.root, group.fill_mib)}

    async def fill(
        self, group: Group, rows: Sequence[Workload], contenders: dict[str, Contender]
    ) -> None:
        """Write what the workloads read and what the group holds; drops a peer that fails."""
        for name, contender in list(contenders.items()):
            try:
                if any(row.load for row in rows):
                    await contender.fill(KEYS, KIB, KEYS)
                if group.fill_values:
                    await contender.fill(group.fill_values, FILL_BYTES, group.fill_keys)
            except PEER_ERRORS as error:
                if name == OURS:
                    raise
                del contenders[name]
                self.leave_out(f"{contender.name} in {group.name}", words(error))


def settings() -> dict[str, str]:
    """What each contender is set to, for the report."""
    ours = ", ".join(f"{name}={value}" for name, value in LIMITS.items())
    return {
        "kraftquorum": f"default settings, but {ours}",
        "kraftquorum with TLS and tokens": "TLS 1.3 between peers and with clients, an access file",
        "etcd": f"default settings, but --quota-backend-bytes={QUOTA_BYTES}",
        **{f"Kafka, {name}": chosen.describe() for name, chosen in SETTINGS.items()},
        "ZooKeeper": "default settings, but maxClientCnxns=0",
    }
