"""The `formation.json` file: the latch that this replica was formed with (S18, S19).

The file is written once and kept for ever: it is the base of the voter history for as long as
the log holds no voter record.
"""

from __future__ import annotations

from pathlib import Path

from raftnode.core.records import RAFT_VERSION
from raftnode.core.state import Latch
from raftnode.core.types import Endpoint, Voter, VoterSet, format_directory_id
from raftnode.errors import StorageCorruptError
from raftnode.logformat.sealed_json import Fields, JsonValue, integer, replica, seal, text, unseal
from raftnode.storage.directory.meta_properties import check_cluster_id
from raftnode.storage.files import Files

FILE_NAME = "formation.json"


def encode_latch(latch: Latch) -> bytes:
    """The file's content."""
    voters: list[JsonValue] = [
        {
            "id": voter.key.node_id,
            "directoryId": format_directory_id(voter.key.directory_id),
            "endpoint": None if voter.endpoint is None else str(voter.endpoint),
        }
        for voter in latch.voters.voters
    ]
    fields: Fields = {"version": 1, "clusterId": latch.cluster_id, "voters": voters}
    if latch.raft_version != RAFT_VERSION:
        # An older program would go to raft.version 2 by itself: it must not read this.
        fields |= {"version": 2, "raftVersion": latch.raft_version}
    return seal(fields)


def decode_latch(data: bytes) -> Latch:
    """Read the file's content.

    Raises:
        ValueError: it is not what `encode_latch` writes.
    """
    fields, intact = unseal(data)
    voters = fields.get("voters")
    if intact is not True:
        raise ValueError("its checksum is wrong")
    version = integer(fields, "version", 1)
    if version not in {1, 2} or not isinstance(voters, list):
        raise ValueError("not a latch of version 1 or 2")
    raft_version = integer(fields, "raftVersion", 0) if version > 1 else RAFT_VERSION
    if raft_version > RAFT_VERSION:
        raise ValueError(
            f"raft.version {raft_version}, but this program knows versions up to {RAFT_VERSION}"
        )
    members = VoterSet.of(_decode_voter(voter) for voter in voters)
    if len(members) != len(voters):
        raise ValueError("a voter is listed twice")
    return Latch(text(fields, "clusterId"), members, raft_version)


def _decode_voter(value: JsonValue) -> Voter:
    if not isinstance(value, dict):
        raise ValueError("a voter is not an object")  # noqa: TRY004
    voter: Fields = value
    key = replica(voter, "id", "directoryId")
    if key is None or not key.directory_id.int:
        raise ValueError("a voter without id or directoryId")
    there = voter.get("endpoint") is not None
    return Voter(key, Endpoint.parse(text(voter, "endpoint")) if there else None)


def read_latch(files: Files, path: Path) -> Latch | None:
    """Read the file; None if there is none.

    Raises:
        StorageCorruptError: it is not what `write_latch` writes.
    """
    data = files.read_bytes(path)
    if data is None:
        return None
    try:
        return decode_latch(data)
    except ValueError as error:
        raise StorageCorruptError(f"{path} is damaged: {error}") from error


def write_latch(files: Files, path: Path, latch: Latch) -> None:
    """Put the file in place durably; the caller knows that there is none yet."""
    check_cluster_id(latch.cluster_id)
    files.replace(path, encode_latch(latch))
