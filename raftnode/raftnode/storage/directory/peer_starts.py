"""The `peer-starts` file: the latest start of every other replica that was admitted (S3).

The file is written before a start is admitted, so that a crash loses nothing that the quorum
relies on. A missing file counts as an empty one: an earlier program kept none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from raftnode.core.replication.peer_memory import Mark
from raftnode.core.types import ReplicaKey
from raftnode.errors import StorageCorruptError
from raftnode.logformat.sealed_json import Fields, JsonValue, integer, seal, text, unseal
from raftnode.storage.directory.incarnation import nonce
from raftnode.storage.files import Files

FILE_NAME = "peer-starts"


def encode_marks(marks: Mapping[ReplicaKey, Mark]) -> bytes:
    """The file's content; the order is kept."""
    peers: list[JsonValue] = [
        {"replica": str(key), "incarnation": mark.incarnation, "nonce": mark.nonce}
        for key, mark in marks.items()
    ]
    return seal({"version": 1, "peers": peers})


def decode_marks(data: bytes) -> dict[ReplicaKey, Mark]:
    """Read the file's content.

    Raises:
        ValueError: it is not what `encode_marks` writes.
    """
    fields, intact = unseal(data)
    peers = fields.get("peers")
    if intact is not True:
        raise ValueError("its checksum is wrong")
    if integer(fields, "version", 1) != 1 or not isinstance(peers, list):
        raise ValueError("not a list of peers' starts of version 1")
    marks = dict(_decode_peer(peer) for peer in peers)
    if len(marks) != len(peers):
        raise ValueError("a replica is listed twice")
    return marks


def _decode_peer(value: JsonValue) -> tuple[ReplicaKey, Mark]:
    if not isinstance(value, dict):
        raise ValueError("a peer is not an object")  # noqa: TRY004
    peer: Fields = value
    stored_nonce = peer.get("nonce")
    return (
        ReplicaKey.parse(text(peer, "replica")),
        Mark(
            integer(peer, "incarnation", 0), None if stored_nonce is None else nonce(stored_nonce)
        ),
    )


def read_marks(files: Files, path: Path) -> dict[ReplicaKey, Mark]:
    """Read the file; empty if there is none.

    Raises:
        StorageCorruptError: it is not what `write_marks` writes.
    """
    data = files.read_bytes(path)
    if data is None:
        return {}
    try:
        return decode_marks(data)
    except ValueError as error:
        raise StorageCorruptError(f"{path} is damaged: {error}") from error


def write_marks(files: Files, path: Path, marks: Mapping[ReplicaKey, Mark]) -> None:
    """Replace the file durably."""
    files.replace(path, encode_marks(marks))
