"""The operator's planner replaces a lost directory of a real Kafka controller.

Pods, claims and the controllers' own reports are made here, as a launcher would report them. The
quorum is real: its answers, the two requests that the planner decides on, and their outcome.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kraftquorum_operator.kafka.connection import Address, connect
from kraftquorum_operator.kafka.query import Target, query
from kraftquorum_operator.kafka.quorum import Unheard, quorum_of
from kraftquorum_operator.kafka.security import Security
from kraftquorum_operator.kafka.voter_requests import add_voter, remove_voter
from kraftquorum_operator.model.engine import KAFKA
from kraftquorum_operator.model.observation import (
    ClaimRecord,
    Latch,
    LatchVoter,
    Node,
    Observation,
    Quorum,
    ReplicaId,
)
from kraftquorum_operator.plan.actions import (
    AddVoter,
    Decision,
    Done,
    RecordClaims,
    RemoveVoter,
    Wait,
    describe,
)
from proofkit.kafkacontroller import PORT
from proofkit.kafkaquorum import START_S, KafkaQuorum
from proofkit.loopback import LoopbackNetwork
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import claim, healthy, pod, spec
from raftnode.commands.storage import random_id
from raftnode.core.types import format_directory_id

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

FIRST_HOST = 91
SPEC = spec(voters=3)


@dataclass
class Engine:
    """Kafka's controllers, with what Kubernetes would have of them."""

    quorum: KafkaQuorum
    records: dict[int, ClaimRecord] = field(default_factory=dict[int, ClaimRecord])
    unheard: Unheard = field(default_factory=Unheard)
    changes: list[str] = field(default_factory=list[str])

    def replica(self, number: int) -> ReplicaId:
        directory_id = self.quorum.controllers[number].directory_id
        return ReplicaId(number, format_directory_id(directory_id))

    def observe(self) -> Observation:
        addresses = [Address(host, PORT) for host in self.quorum.hosts]
        view = asyncio.run(query(Target(addresses, {}, Security(), 30, 30)))
        answering = {node.address.host for node in view.nodes}
        seen = quorum_of(view, self.unheard, now_ms())
        numbers = [n for n, host in enumerate(self.quorum.hosts) if host in answering]
        nodes = tuple(self._node(n, seen) for n in numbers) if seen is not None else ()
        cluster_id = self.quorum.cluster_id
        latched = tuple(
            LatchVoter(ReplicaId(n, d), None) for n, d in enumerate(self.quorum.directory_ids)
        )
        made = healthy(3)
        assert made.statefulset is not None
        voters = {self.replica(n) for n in numbers}.intersection(seen.replicas if seen else ())
        voting = {voter.node_id for voter in voters}
        records = tuple(sorted(self.records.items(), key=lambda item: item[0]))
        return replace(
            made,
            engine=KAFKA,
            statefulset=replace(made.statefulset, records=records),
            pods=tuple(pod(n, voter=n in voting) for n in range(3)),
            claims=tuple(replace(claim(n), record=self.records.get(n)) for n in range(3)),
            nodes=nodes,
            quorum=seen,
            latch=Latch(cluster_id, latched),
        )

    def _node(self, number: int, seen: Quorum) -> Node:
        replica = self.replica(number)
        rows = [row for row in (*seen.voters, *seen.observers) if row.replica == replica]
        return Node(
            replica=replica,
            incarnation=2,
            cluster_id=self.quorum.cluster_id,
            role="leader" if replica == seen.leader else "follower",
            epoch=seen.epoch,
            log_end_offset=seen.high_watermark,
            durable_end_offset=seen.high_watermark,
            high_watermark=seen.high_watermark,
            voters=seen.replicas,
            caught_up=any(row.fresh for row in rows),
            peer_endpoint=f"{self.quorum.hosts[number]}:{PORT}",
        )

    def reconcile(self) -> Decision:
        """Observe, decide and act; a voter change only if it is decided twice."""
        decision = decide(SPEC, self.observe(), now_ms())
        match decision:
            case RecordClaims(claims=claims):
                self.records |= {ordinal: record for _, ordinal, record in claims}
            case AddVoter() | RemoveVoter():
                again = self.observe()
                if decide(SPEC, again, now_ms()) == decision and again.quorum is not None:
                    asyncio.run(self._request(decision, again.quorum))
            case Wait() | Done():
                time.sleep(0.5)
            case _:
                raise AssertionError(f"not for Kafka: {decision}")
        return decision

    async def _request(self, decision: AddVoter | RemoveVoter, seen: Quorum) -> None:
        leader = Address(self.quorum.hosts[seen.leader.node_id], PORT)
        async with connect(leader, Security(), 60) as connection:
            if isinstance(decision, AddVoter):
                await add_voter(connection, seen.cluster_id, decision, "CONTROLLER")
            else:
                await remove_voter(connection, seen.cluster_id, decision)
        self.changes.append(describe(decision))

    def settle(self, voters: set[ReplicaId]) -> None:
        """Reconcile until nothing is left to do with these voters."""
        deadline, decision = time.monotonic() + START_S, None
        while time.monotonic() < deadline:
            decision = self.reconcile()
            if isinstance(decision, Done):
                seen = self.observe().quorum
                if seen is not None and set(seen.replicas) == voters:
                    return
        raise AssertionError(f"{decision}; {self.changes}")


def now_ms() -> int:
    return int(time.monotonic() * 1000)


def test_the_planner_replaces_a_lost_directory_of_kafkas(
    kafka: Any, tmp_path: Any, network: LoopbackNetwork
) -> None:
    hosts = [network.host(FIRST_HOST + number) for number in range(3)]
    directory_ids = [random_id() for _ in hosts]
    with KafkaQuorum(tmp_path, hosts, kafka.command, random_id(), directory_ids, more="") as quorum:
        quorum.format()
        for number in range(3):
            quorum.start(number)
        engine = Engine(quorum)
        engine.settle({engine.replica(number) for number in range(3)})
        assert engine.changes == []

        seen = engine.observe().quorum
        assert seen is not None
        number = next(n for n in range(3) if n != seen.leader.node_id)
        lost = engine.replica(number)
        quorum.replace_disk(number)
        quorum.start(number)
        new = engine.replica(number)
        assert new != lost
        engine.settle({engine.replica(other) for other in range(3)})
        assert engine.changes == [f"RemoveVoter {lost}", f"AddVoter {new}"]
