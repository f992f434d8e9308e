"""The `quorum-state` file: epoch, leader and vote, in Kafka's JSON v1 with fields of ours.

The added fields are the leader's directory id (S1), the directory id of this replica (S2) and a
checksum. Kafka skips them. The node reads files that Kafka made (v0, v1) as far as that is safe. A
vote without a UUID is kept as a vote that matches no replica here, so that this replica never votes
in that epoch again. A leader without a UUID counts as unknown.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, ReplicaKey, format_directory_id
from raftnode.errors import ProtocolHaltError, StorageCorruptError
from raftnode.logformat.sealed_json import (
    directory_id,
    integer,
    replica,
    replica_fields,
    seal,
    unseal,
)
from raftnode.storage.files import Files

FILE_NAME = "quorum-state"
_VERSION = "data_version"
_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class StoredQuorumState:
    """What the file says."""

    state: QuorumState
    directory_id: uuid.UUID | None
    """The UUID of the replica that wrote the file; None in a file that Kafka made."""
    intact: bool
    """False if the checksum is wrong or missing in a file of ours."""


def encode_quorum_state(state: QuorumState, own: uuid.UUID) -> bytes:
    """The file's content."""
    return seal(
        {
            **replica_fields(state.leader, "leaderId", "leaderDirectoryId"),
            "leaderEpoch": state.epoch,
            **replica_fields(state.voted, "votedId", "votedDirectoryId"),
            "directoryId": format_directory_id(own),
            _VERSION: 1,
        }
    )


def decode_quorum_state(data: bytes) -> StoredQuorumState:
    """Read the file's content.

    Raises:
        ValueError: it is no quorum state of version 0 or 1.
    """
    fields, sealed = unseal(data)
    version = integer(fields, _VERSION, 0)
    if version > 1:
        raise ValueError(f"{_VERSION} is {version}, newer than 1")
    if version == 0:
        fields = {**fields, "votedDirectoryId": None}
    epoch = integer(fields, "leaderEpoch", -1)
    if epoch > _INT32_MAX:
        raise ValueError(f"leaderEpoch is {epoch}")
    leader = replica(fields, "leaderId", "leaderDirectoryId")
    if leader is not None and not leader.directory_id.int:
        leader = None
    own = directory_id(fields, "directoryId")
    state = QuorumState(Epoch(epoch), leader, replica(fields, "votedId", "votedDirectoryId"))
    return StoredQuorumState(state, own, sealed is True or (sealed is None and own is None))


def read_quorum_state(files: Files, path: Path) -> StoredQuorumState | None:
    """Read the file; None if there is none.

    Raises:
        StorageCorruptError: it cannot be read. The caller, which knows the directory's UUID,
            judges a wrong checksum.
    """
    data = files.read_bytes(path)
    if data is None:
        return None
    try:
        return decode_quorum_state(data)
    except ValueError as error:
        raise StorageCorruptError(f"{path} is damaged: {error}") from error


def check_successor(before: QuorumState, after: QuorumState) -> None:
    """Refuse a state that would take back a promise: the last guard before the disk.

    Raises:
        ProtocolHaltError: the epoch falls, or the vote or the leader changes within the epoch.
    """
    if after.epoch < before.epoch:
        raise ProtocolHaltError(f"epoch would go back from {before.epoch} to {after.epoch}")
    if after.epoch > before.epoch:
        return
    if before.voted not in (None, after.voted):
        raise ProtocolHaltError(
            f"vote of epoch {before.epoch} would change from {before.voted} to {after.voted}"
        )
    if _differ(before.leader, after.leader):
        raise ProtocolHaltError(
            f"epoch {before.epoch} would have two leaders, {before.leader} and {after.leader}"
        )


def _differ(before: ReplicaKey | None, after: ReplicaKey | None) -> bool:
    return before is not None and after is not None and before != after


def write_quorum_state(files: Files, path: Path, state: QuorumState, own: uuid.UUID) -> None:
    """Replace the file durably: afterwards the vote may be answered."""
    files.replace(path, encode_quorum_state(state, own))
