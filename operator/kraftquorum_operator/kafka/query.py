"""Reads a quorum from its controllers, and lets a majority confirm what the leader says.

DescribeQuorum alone is not linearizable: a leader that was cut off answers as before. Two
descriptions of the same leader, epoch and voters confirm each other once the high watermark of the
second is above the leader's log end offset in the first: then a majority acknowledged a record that
is younger than the first. Controllers write a no-op record every half second, so this takes about
that long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kraftquorum_operator.kafka.codec import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_quorum,
)
from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription
from kraftquorum_operator.kafka.codec.error_codes import REFUSALS, ErrorCode, error_name
from kraftquorum_operator.kafka.codec.frames import Api
from kraftquorum_operator.kafka.connection import Address, Connection, connect
from kraftquorum_operator.kafka.errors import (
    KafkaAccessError,
    KafkaAnswerError,
    KafkaError,
    KafkaVersionError,
)
from kraftquorum_operator.kafka.facts import NodeFacts, View
from kraftquorum_operator.kafka.security import Security

ROLES: Final = "process.roles"
IDLE_INTERVAL: Final = "metadata.max.idle.interval.ms"
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"
FETCH_TIMEOUT: Final = "controller.quorum.fetch.timeout.ms"

DESCRIBE_INTERVAL_S: Final = 0.2
AT_ONCE: Final = 8
"""Controllers that are asked at once: what they answer takes bounded memory."""

API_VERSION: Final = 3
"""Of ApiVersions: Kafka speaks it since 2.4."""


@dataclass(frozen=True, slots=True)
class Target:
    """What to read, and how.

    Attributes:
        addresses: of the controllers.
        node_ids: which id the id map gives to an address.
        security: of the connections.
        timeout_s: of each connection and each request.
        confirm_s: how long to wait for the confirmation.
    """

    addresses: Sequence[Address]
    node_ids: Mapping[Address, int]
    security: Security
    timeout_s: float
    confirm_s: float


async def query(target: Target) -> View:
    """Read all controllers, then confirm the leader's description. Writes nothing.

    Failures of single controllers are in the view; none is raised.
    """
    turns = asyncio.Semaphore(AT_ONCE)
    answers = await asyncio.gather(
        *(_node_or_error(target, address, turns) for address in target.addresses)
    )
    nodes = [answer for answer in answers if isinstance(answer, NodeFacts)]
    failures = {
        address: answer
        for address, answer in zip(target.addresses, answers, strict=True)
        if isinstance(answer, KafkaError)
    }
    described = [(node, node.quorum) for node in nodes if node.quorum is not None]
    if not described:
        return View(tuple(nodes), failures)
    leader, quorum = max(described, key=lambda pair: pair[1].leader_epoch)
    by_address = {
        Address(listener.host, listener.port): node_id
        for node_id, listeners in quorum.listeners.items()
        for listener in listeners
    }
    configured = await asyncio.gather(
        *(_configured(target, node, by_address.get(node.address), turns) for node in nodes)
    )
    view = View(tuple(configured), failures, quorum)
    if leader.kraft_version == 0:
        return view
    try:
        return await _confirmed(target, leader, quorum, view)
    except KafkaError as error:
        return replace(view, unconfirmed_reason=str(error))


async def _node_or_error(
    target: Target, address: Address, turns: asyncio.Semaphore
) -> NodeFacts | KafkaError:
    try:
        async with turns, connect(address, target.security, target.timeout_s) as connection:
            return await _node(connection)
    except KafkaError as error:
        return error


async def _node(connection: Connection) -> NodeFacts:
    body = api_versions.encode_request(API_VERSION)
    reader = await connection.ask(api_versions.API, API_VERSION, body)
    if int.from_bytes(reader.data[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        # Kafka answers in version 0 then, whatever was asked.
        raise KafkaVersionError(
            f"{connection.address} does not speak ApiVersions v{API_VERSION}: Kafka 3.9 or later "
            "is needed"
        )
    versions = api_versions.decode_answer(reader)
    _check(api_versions.API, versions.error_code, None)
    speaks = (describe_quorum.API.key, 80, 81)
    facts = NodeFacts(
        connection.address,
        versions.features.get("kraft.version", 0),
        -1 if (version := versions.highest(describe_quorum.API)) is None else version,
        all(key in versions.versions for key in speaks),
    )
    if facts.quorum_version < 0 or not facts.changes_voters:
        return facts
    facts = await _with_cluster(connection, facts, versions.highest(describe_cluster.API))
    quorum = await describe(connection, facts.quorum_version)
    return replace(facts, quorum=quorum) if quorum is not None else facts


async def _with_cluster(connection: Connection, facts: NodeFacts, version: int | None) -> NodeFacts:
    if version is None or version < 1:
        return facts
    api = describe_cluster.API
    reader = await connection.ask(api, version, describe_cluster.encode_request(version))
    cluster = describe_cluster.decode_answer(reader, version)
    if cluster.error_code in REFUSALS:
        return replace(facts, permissions_missing=facts.permissions_missing | {api.permission})
    if cluster.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
        raise KafkaVersionError(
            f"{connection.address} is a broker's listener; give the controllers' addresses"
        )
    _check(api, cluster.error_code, cluster.error_message)
    return replace(facts, cluster_id=cluster.cluster_id, leader_id=cluster.controller_id)


async def describe(connection: Connection, version: int) -> QuorumDescription | None:
    """Ask for DescribeQuorum; None: this controller does not lead.

    Raises:
        KafkaAccessError: `Describe on Cluster` is missing.
        KafkaError: any other failure.
    """
    api = describe_quorum.API
    reader = await connection.ask(api, version, describe_quorum.encode_request())
    answer = describe_quorum.decode_answer(reader, version)
    if answer.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER):
        return None
    _check(api, answer.error_code, answer.error_message)
    return answer


def _check(api: Api, error_code: int, error_message: str | None) -> None:
    if error_code in REFUSALS:
        raise KafkaAccessError(api.name, api.permission)
    if error_code:
        raise KafkaAnswerError(api.name, error_code, error_name(error_code), error_message)


async def _configured(
    target: Target, node: NodeFacts, listed_id: int | None, turns: asyncio.Semaphore
) -> NodeFacts:
    """Add the settings of a controller, and check that it has the id that the map gives it."""
    leads = node.quorum.leader_id if node.quorum is not None else None
    node_id = target.node_ids.get(node.address, listed_id if leads is None else leads)
    if node_id is None:
        return node
    if leads is not None and node_id != leads:
        return replace(node, node_id=leads, misnamed=f"it is controller {leads}, not {node_id}")
    api = describe_configs.API
    names = (ROLES, IDLE_INTERVAL, AUTO_JOIN, FETCH_TIMEOUT)
    try:
        async with (
            turns,
            connect(node.address, target.security, target.timeout_s) as connection,
        ):
            body = describe_configs.encode_request(node_id, names)
            answer = describe_configs.decode_answer(await connection.ask(api, 4, body))
    except KafkaError:
        # An older Kafka closes the connection. Advice can do without, and says so.
        return replace(node, node_id=node_id)
    if answer.error_code in REFUSALS:
        return replace(
            node,
            node_id=node_id,
            permissions_missing=node.permissions_missing | {api.permission},
        )
    if answer.error_code == ErrorCode.INVALID_REQUEST:
        problem = answer.error_message or "it refuses the id"
        return replace(node, misnamed=f"it is not controller {node_id}: {problem}")
    return replace(node, node_id=node_id, config=answer.values)


async def _confirmed(
    target: Target, leader: NodeFacts, quorum: QuorumDescription, view: View
) -> View:
    """Describe until a majority has acknowledged a record that is younger than a description."""
    earlier = latest = quorum
    deadline = time.monotonic() + target.confirm_s
    async with connect(leader.address, target.security, target.timeout_s) as connection:
        while time.monotonic() < deadline:
            await asyncio.sleep(DESCRIBE_INTERVAL_S)
            described = await describe(connection, leader.quorum_version)
            if described is None:
                return replace(view, unconfirmed_reason=f"{leader.address} no longer leads")
            latest = described
            if not same_epoch_and_voters(earlier, latest):
                earlier = latest
            elif confirms(earlier, latest):
                return replace(view, quorum=latest, earlier=earlier, confirmed=True)
    return replace(
        view,
        quorum=latest,
        earlier=earlier,
        unconfirmed_reason=(
            f"the high watermark did not rise above {leader_end(earlier)} within "
            f"{target.confirm_s:g} s (it is {latest.high_watermark})"
        ),
    )


def same_epoch_and_voters(earlier: QuorumDescription, latest: QuorumDescription) -> bool:
    """Whether both are of the same leader, epoch and voters."""
    return (
        earlier.leader_id == latest.leader_id
        and earlier.leader_epoch == latest.leader_epoch
        and {voter.key for voter in earlier.voters} == {voter.key for voter in latest.voters}
    )


def leader_end(description: QuorumDescription) -> int | None:
    """The leader's log end offset; None: the leader is not a voter."""
    return next(
        (
            voter.log_end_offset
            for voter in description.voters
            if voter.node_id == description.leader_id
        ),
        None,
    )


def confirms(earlier: QuorumDescription, latest: QuorumDescription) -> bool:
    """Whether a majority acknowledged, by `latest`, a record appended after `earlier`."""
    end = leader_end(earlier)
    return (
        same_epoch_and_voters(earlier, latest) and end is not None and latest.high_watermark > end
    )
