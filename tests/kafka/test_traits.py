"""The traits that the planner reads of Kafka's engine, seen on real controllers.

The second one is why the operator is to decide again directly before a voter change: Kafka's leader
carries it out although the voters that stay are no majority.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from kraftquorum_operator.kafka.codec import voter_changes
from kraftquorum_operator.kafka.codec.describe_quorum import Listener, QuorumDescription
from kraftquorum_operator.kafka.codec.error_codes import error_name
from kraftquorum_operator.kafka.codec.voter_changes import ADD_API, REMOVE_API, VoterChange
from kraftquorum_operator.kafka.connection import Address, connect
from kraftquorum_operator.kafka.errors import KafkaUnreachableError
from kraftquorum_operator.kafka.facts import View
from kraftquorum_operator.kafka.query import Target, query
from kraftquorum_operator.kafka.security import Security
from kraftquorum_operator.model.engine import KAFKA
from proofkit.kafkacontroller import PORT
from proofkit.kafkaquorum import START_S, KafkaQuorum
from proofkit.loopback import LoopbackNetwork
from raftnode.commands.storage import random_id
from raftnode.core.types import format_directory_id

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

FIRST_HOST = 61


def seen(quorum: KafkaQuorum, confirm_s: float = 30.0) -> View:
    addresses = [Address(host, PORT) for host in quorum.hosts]
    return asyncio.run(query(Target(addresses, {}, Security(), 30, confirm_s)))


def observer_of(quorum: KafkaQuorum, node_id: int) -> QuorumDescription:
    """Wait until a confirmed answer has an observer of that id that has caught up."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        view = seen(quorum)
        if view.confirmed:
            description = view.confirmed_quorum
            for observer in description.observers:
                if observer.node_id == node_id and observer.log_end_offset > 0:
                    return description
        time.sleep(0.5)
    raise AssertionError("no such observer")


def directory_of(description: QuorumDescription, node_id: int) -> uuid.UUID:
    return next(v.directory_id for v in description.voters if v.node_id == node_id)


async def add(host: str, change: VoterChange, listener: Listener) -> str:
    """The name of the error that the leader answers with."""
    async with connect(Address(host, PORT), Security(), 60) as connection:
        body = voter_changes.encode_add_request(change, [listener], 60_000, 0)
        answer = voter_changes.decode_answer(await connection.ask(ADD_API, 0, body))
        return error_name(answer.error_code)


async def remove(host: str, change: VoterChange) -> str | None:
    """The name of the error that the leader answers with; None: it answers nothing in time."""
    try:
        async with connect(Address(host, PORT), Security(), 5) as connection:
            body = voter_changes.encode_remove_request(change)
            answer = voter_changes.decode_answer(await connection.ask(REMOVE_API, 0, body))
            return error_name(answer.error_code)
    except KafkaUnreachableError:
        return None


def test_kafka_takes_no_second_voter_of_an_id_and_checks_no_majority(
    kafka: Any, tmp_path: Any, network: LoopbackNetwork
) -> None:
    hosts = [network.host(FIRST_HOST + number) for number in range(3)]
    directory_ids = [random_id() for _ in hosts]
    with KafkaQuorum(tmp_path, hosts, kafka.command, random_id(), directory_ids, more="") as quorum:
        quorum.format()
        for number in range(3):
            quorum.start(number)
        deadline = time.monotonic() + START_S
        while not (view := seen(quorum)).confirmed and time.monotonic() < deadline:
            time.sleep(0.5)
        leader = view.confirmed_quorum.leader_id
        lost, healthy = (number for number in range(3) if number != leader)

        quorum.replace_disk(lost)
        quorum.start(lost)
        description = observer_of(quorum, lost)
        leader = description.leader_id
        if leader == healthy:
            healthy = next(number for number in range(3) if number not in {leader, lost})
        observer = next(o for o in description.observers if o.node_id == lost)
        assert observer.directory_id != directory_of(description, lost)

        assert KAFKA.one_voter_per_id
        second = VoterChange(quorum.cluster_id, lost, observer.directory_id)
        listener = Listener("CONTROLLER", hosts[lost], PORT)
        assert asyncio.run(add(hosts[leader], second, listener)) == "DUPLICATE_VOTER"

        assert not KAFKA.leader_checks_changes
        quorum.kill(lost)
        assert seen(quorum).confirmed, "two of three go on"
        other = VoterChange(quorum.cluster_id, healthy, directory_of(description, healthy))
        refused = asyncio.run(remove(hosts[leader], other))
        assert refused in {None, "REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER"}
        for _ in range(10):
            assert not seen(quorum, confirm_s=2).confirmed, (
                f"{format_directory_id(other.directory_id)} left two voters of which one is lost"
            )
