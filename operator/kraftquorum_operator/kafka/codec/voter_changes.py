"""AddRaftVoter and RemoveRaftVoter, whose answers have the same form.

`advise` sends neither: see `voter_requests`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kraftquorum_operator.kafka.codec import writer
from kraftquorum_operator.kafka.codec.describe_quorum import Listener
from kraftquorum_operator.kafka.codec.frames import Api
from kraftquorum_operator.kafka.codec.reader import Reader

ADD_API: Final = Api(80, "AddRaftVoter", (0, 1), 0, "Alter on Cluster")
REMOVE_API: Final = Api(81, "RemoveRaftVoter", (0,), 0, "Alter on Cluster")


@dataclass(frozen=True, slots=True)
class VoterChange:
    """Which replica of which cluster.

    Attributes:
        cluster_id: which the leader compares with its own.
        node_id: of the replica.
        directory_id: of its storage.
    """

    cluster_id: str
    node_id: int
    directory_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """The answer: Kafka's error code, and what the leader says of it."""

    error_code: int
    error_message: str | None


def encode_add_request(
    change: VoterChange, listeners: Sequence[Listener], timeout_ms: int, version: int
) -> bytes:
    """Encode AddRaftVoter of version 0 or 1; version 1 asks for the answer after the commit."""
    body = writer.text(change.cluster_id) + writer.i32(timeout_ms) + writer.i32(change.node_id)
    body += writer.directory_id(change.directory_id)
    body += writer.array(
        writer.text(listener.name)
        + writer.text(listener.host)
        + writer.u16(listener.port)
        + writer.NO_TAGS
        for listener in listeners
    )
    if version >= 1:
        body += writer.boolean(value=True)
    return body + writer.NO_TAGS


def encode_remove_request(change: VoterChange) -> bytes:
    """Encode RemoveRaftVoter of version 0."""
    body = writer.text(change.cluster_id) + writer.i32(change.node_id)
    return body + writer.directory_id(change.directory_id) + writer.NO_TAGS


def decode_answer(reader: Reader) -> ChangeAnswer:
    """Decode the answer to either.

    Raises:
        KafkaDecodeError: not such an answer.
    """
    reader.i32("throttle_time_ms")
    answer = ChangeAnswer(reader.i16("error_code"), reader.nullable_text("error_message"))
    reader.tags("body")
    reader.finish()
    return answer
