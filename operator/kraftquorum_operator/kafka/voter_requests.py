"""AddRaftVoter and RemoveRaftVoter at the leader: the acting half of Kafka's engine.

Duty of the caller: decide again directly before, since Kafka's leader checks no majority. No
command and no reconciliation sends these requests yet.
"""

from __future__ import annotations

from typing import Final

from kraftquorum_operator.errors import NodeRefusedError, NodeUnreachableError
from kraftquorum_operator.kafka.codec import voter_changes
from kraftquorum_operator.kafka.codec.describe_quorum import Listener
from kraftquorum_operator.kafka.codec.error_codes import ErrorCode, error_name
from kraftquorum_operator.kafka.codec.voter_changes import ADD_API, REMOVE_API, VoterChange
from kraftquorum_operator.kafka.connection import Connection
from kraftquorum_operator.kafka.errors import KafkaUnreachableError
from kraftquorum_operator.model.observation import ReplicaId
from kraftquorum_operator.plan.actions import AddVoter, RemoveVoter
from raftnode.core.types import Endpoint, parse_directory_id

UNKNOWN_OUTCOMES: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR})
"""The record may be in the log: only a confirmed description says whether it is committed."""


def _change(cluster_id: str, replica: ReplicaId) -> VoterChange:
    return VoterChange(cluster_id, replica.node_id, parse_directory_id(replica.directory_id))


async def add_voter(
    connection: Connection, cluster_id: str, action: AddVoter, listener_name: str
) -> None:
    """Ask the leader to add a voter; returns once the new set is committed.

    Args:
        connection: to the described leader.
        cluster_id: which the leader compares with its own.
        action: what was decided; Kafka has nothing that it could replace in the same request.
        listener_name: of the controllers' listener, such as `CONTROLLER`.

    Raises:
        NodeRefusedError: the leader refused; `error` is Kafka's name.
        NodeUnreachableError: no answer, so that the outcome is unknown.
        KafkaDecodeError: the answer is not Kafka's.
    """
    assert action.replaces is None  # noqa: S101 - an engine with one voter per id
    endpoint = Endpoint.parse(action.endpoint)
    listener = Listener(listener_name, endpoint.host, endpoint.port)
    timeout_ms = int(connection.timeout_s * 1000)
    change = _change(cluster_id, action.replica)
    body = voter_changes.encode_add_request(change, [listener], timeout_ms, 0)
    await _request(connection, ADD_API, body)


async def remove_voter(connection: Connection, cluster_id: str, action: RemoveVoter) -> None:
    """Ask the leader to remove a voter; returns once the new set is committed.

    Raises:
        NodeRefusedError: the leader refused; `error` is Kafka's name.
        NodeUnreachableError: no answer, so that the outcome is unknown.
        KafkaDecodeError: the answer is not Kafka's.
    """
    change = _change(cluster_id, action.replica)
    await _request(connection, REMOVE_API, voter_changes.encode_remove_request(change))


async def _request(connection: Connection, api: voter_changes.Api, body: bytes) -> None:
    try:
        answer = voter_changes.decode_answer(await connection.ask(api, 0, body))
    except KafkaUnreachableError as error:
        raise NodeUnreachableError(str(error), outcome="unknown") from error
    if answer.error_code == ErrorCode.NONE:
        return
    raise NodeRefusedError(
        error_name(answer.error_code),
        f"{connection.address} refused {api.name}: {answer.error_message or 'it gives no reason'}",
        outcome="unknown" if answer.error_code in UNKNOWN_OUTCOMES else "not_done",
    )
