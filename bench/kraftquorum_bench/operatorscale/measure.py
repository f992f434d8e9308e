"""What is measured in a case: formation, rest, lost disks, and a new start of the operator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kraftquorum_bench.operatorscale.audit import Requests, Row, longest_gap_s
from kraftquorum_bench.operatorscale.cases import Case, Times
from kraftquorum_bench.operatorscale.operatorprocess import OperatorProcess
from kraftquorum_bench.operatorscale.replicas import SimulatedQuorum
from kraftquorum_bench.operatorscale.report import CaseResult, Latency, Rest, Share
from kraftquorum_bench.operatorscale.simulated_cluster import SimulatedCluster, simulated_cluster
from kraftquorum_bench.rounds import quantile

POLL_S = 0.1
ACTION_S = 120.0
"""How long the operator may take to act on a lost disk."""
CREATED_AT_ONCE = 8
LOST_NODE = 1
"""The node that loses its disk; node 0 leads at first."""


class Measurement:
    """One case.

    Args:
        case: what is measured.
        times: how long.
        root: an empty directory for its files.
        say: prints a line.
    """

    def __init__(self, case: Case, times: Times, root: Path, say: Callable[[str], None]) -> None:
        self.case, self.times, self._root, self._say = case, times, root, say
        self._renewals: list[float] = []
        self._peak_mib = 0.0

    async def run(self) -> CaseResult:
        """Measure all of it.

        Raises:
            TimeoutError: a part took too long; the message names it.
            RuntimeError: the operator ended by itself.
        """
        async with simulated_cluster(self._root) as cluster:
            operator = self._start(cluster, "first")
            try:
                formed_s = await self._form(cluster, operator)
                rest = await self._rest(cluster, operator)
                single = await self._lose_one_by_one(cluster, operator)
                at_once, repaired_s = await self._lose_at_once(cluster, operator)
            finally:
                operator.stop()
            self._renewals += cluster.audit.read(1).renewals
            gap_s = longest_gap_s(self._renewals)
            looked_s, start_requests = await self._start_again(cluster)
            return CaseResult(
                quorums=self.case.quorums,
                namespaces=self.case.namespaces,
                formed_s=round(formed_s, 1),
                rest=rest,
                single_loss=_latency(single),
                losses_at_once=len(at_once),
                loss_at_once=_latency(at_once),
                repaired_at_once_s=round(repaired_s, 1),
                first_evaluation_of_all_s=round(looked_s, 1),
                start_requests=start_requests,
                lease_gap_max_s=round(gap_s, 1),
                memory_peak_mib=round(self._peak_mib, 1),
                false_alarms=len(cluster.alarms.false_alarms),
                false_alarm_example=next(iter(cluster.alarms.false_alarms.values()), ""),
            )

    def _start(self, cluster: SimulatedCluster, name: str) -> OperatorProcess:
        return OperatorProcess(cluster.kubeconfig, self._root / f"operator-{name}.log")

    def _quorums(self, cluster: SimulatedCluster) -> list[SimulatedQuorum]:
        places = (self.case.place(number) for number in range(self.case.quorums))
        return [cluster.kubelet.nodes.quorum(*place) for place in places]

    async def _until(
        self,
        what: str,
        holds: Callable[[], bool],
        limit_s: float,
        operator: OperatorProcess | None = None,
    ) -> float:
        """Wait; returns the seconds."""
        began_s = time.monotonic()
        while not holds():
            if time.monotonic() - began_s > limit_s:
                raise TimeoutError(f"{self.case.name}: not {what} within {limit_s:.0f} s")
            if operator is not None:
                operator.check_running()
                self._peak_mib = max(self._peak_mib, operator.resident_mib)
            await asyncio.sleep(POLL_S)
        return time.monotonic() - began_s

    async def _form(self, cluster: SimulatedCluster, operator: OperatorProcess) -> float:
        """Create all quorums, and wait until the operator reports all of them as running."""
        for number in range(self.case.namespaces):
            await cluster.create_namespace(f"bench-{number}")
        began_s = time.monotonic()
        numbers = iter(range(self.case.quorums))

        async def create() -> None:
            for number in numbers:
                await cluster.create_quorum(*self.case.place(number))

        async with asyncio.TaskGroup() as group:
            for _ in range(CREATED_AT_ONCE):
                group.create_task(create())

        def all_run() -> bool:
            healthy = all(quorum.healthy for quorum in self._quorums(cluster))
            return healthy and cluster.alarms.running() == self.case.quorums

        await self._until("all quorums running", all_run, self.times.form_s, operator)
        formed_s = time.monotonic() - began_s
        self._say(f"{self.case.name}: all run after {formed_s:.0f} s")
        return formed_s

    async def _rest(self, cluster: SimulatedCluster, operator: OperatorProcess) -> Rest:
        """Count what the operator does while nothing happens."""
        await asyncio.sleep(self.times.settle_s)
        self._renewals += cluster.audit.read(1).renewals
        requests_before, writes_before = cluster.kubelet.nodes.requests, cluster.alarms.writes
        cpu_before_s, began_s = operator.cpu_s, time.monotonic()
        await asyncio.sleep(self.times.rest_s)
        operator.check_running()
        seconds = time.monotonic() - began_s
        cpu_s, memory_mib = operator.cpu_s - cpu_before_s, operator.resident_mib
        self._peak_mib = max(self._peak_mib, memory_mib)
        requests = cluster.audit.read(seconds)
        self._renewals += requests.renewals
        quorum_minutes = self.case.quorums * seconds / 60
        node_requests = cluster.kubelet.nodes.requests - requests_before
        rest = Rest(
            seconds=round(seconds, 1),
            requests_per_quorum_minute=round(requests.total / quorum_minutes, 3),
            by_verb_and_resource=_shares(requests, self.case.quorums),
            refused=sum(requests.refused.values()),
            status_writes_per_quorum_minute=round(
                (cluster.alarms.writes - writes_before) / quorum_minutes, 3
            ),
            node_requests_per_quorum_minute=round(node_requests / quorum_minutes, 1),
            cpu_cores=round(cpu_s / seconds, 3),
            memory_mib=round(memory_mib, 1),
        )
        self._say(
            f"{self.case.name}: {rest.requests_per_quorum_minute:.1f} requests per quorum and "
            f"minute at rest, {rest.memory_mib:.0f} MiB, {rest.cpu_cores:.2f} cores"
        )
        return rest

    async def _lose(self, cluster: SimulatedCluster, quorum: SimulatedQuorum) -> float:
        """Lose a disk; returns the seconds until the first action."""
        began_s = time.monotonic()
        await cluster.kubelet.lose_disk(quorum.namespace, f"{quorum.name}-{LOST_NODE}")
        await self._until(
            f"acting on {quorum.name}", lambda: quorum.first_action_s is not None, ACTION_S
        )
        return (quorum.first_action_s or began_s) - began_s

    async def _lose_one_by_one(
        self, cluster: SimulatedCluster, operator: OperatorProcess
    ) -> list[float]:
        chosen = self._quorums(cluster)[: self.times.single_losses]
        taken_s = [await self._lose(cluster, quorum) for quorum in chosen]
        await self._repaired(cluster, operator)
        return taken_s

    async def _lose_at_once(
        self, cluster: SimulatedCluster, operator: OperatorProcess
    ) -> tuple[list[float], float]:
        """Seconds until the first action on each quorum, and until all are repaired."""
        chosen = self._quorums(cluster)[::-1][: self.times.losses_at_once]
        began_s = time.monotonic()
        taken_s = await asyncio.gather(*(self._lose(cluster, quorum) for quorum in chosen))
        await self._repaired(cluster, operator)
        repaired_s = time.monotonic() - began_s
        self._say(f"{self.case.name}: {len(chosen)} disks replaced after {repaired_s:.0f} s")
        return list(taken_s), repaired_s

    async def _repaired(self, cluster: SimulatedCluster, operator: OperatorProcess) -> None:
        await self._until(
            "all quorums repaired",
            lambda: all(quorum.healthy for quorum in self._quorums(cluster)),
            self.times.repair_s,
            operator,
        )

    async def _start_again(self, cluster: SimulatedCluster) -> tuple[float, int]:
        """Seconds until a new operator has looked at every quorum, and its requests until then."""
        quorums = self._quorums(cluster)
        before = [quorum.descriptions for quorum in quorums]
        began_s = time.monotonic()
        operator = self._start(cluster, "second")
        try:
            await self._until(
                "an evaluation of every quorum",
                lambda: all(q.descriptions > n for q, n in zip(quorums, before, strict=True)),
                self.times.form_s,
                operator,
            )
            seconds = time.monotonic() - began_s
            requests = cluster.audit.read(seconds).total
        finally:
            operator.stop()
        self._say(f"{self.case.name}: a new operator has looked at all after {seconds:.1f} s")
        return seconds, requests


def _latency(seconds: Sequence[float]) -> Latency | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    return Latency(
        samples=len(ordered),
        p50_ms=round(quantile(ordered, 0.5) * 1000),
        p99_ms=round(quantile(ordered, 0.99) * 1000),
    )


def _shares(requests: Requests, quorums: int) -> tuple[Share, ...]:
    """By verb and resource, most first."""
    rows: dict[Row, float] = requests.per_minute(quorums)
    return tuple(
        Share(verb=verb, resource=resource, per_quorum_minute=round(share, 4))
        for (verb, resource), share in rows.items()
    )
