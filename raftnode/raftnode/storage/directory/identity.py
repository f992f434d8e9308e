"""The identity of a storage: its UUID in three places, and a format that survives a crash (S2).

Places: `meta.properties`, `quorum-state` and the marker `storage-id` in the log's
directory. Order of a format, each step durable before the next:

1. `formatting` (names node and UUID)   4. `quorum-state`     7. latch, if given
2. the log's directory                  5. `incarnation`      8. `formatting` removed
3. the marker                           6. `meta.properties`

No process opens the directory before step 8. So while `formatting` is there, the replica cannot
have voted or acknowledged anything, and the format is done again from step 2 with the same UUID.
A `formatting` file may have got there in another way: redoing the format therefore needs a
directory with nothing in it but what steps 1 to 7 make.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import crc32c

from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import NO_EPOCH, ReplicaKey, format_directory_id, parse_directory_id
from raftnode.errors import (
    ConfigurationError,
    StorageCorruptError,
    StorageIdentityError,
)
from raftnode.storage.directory import (
    formation,
    incarnation,
    meta_properties,
    peer_starts,
    quorum_state,
)
from raftnode.storage.directory.incarnation import Incarnation
from raftnode.storage.directory.meta_properties import MetaProperties, write_meta_properties
from raftnode.storage.directory.quorum_state import StoredQuorumState, write_quorum_state
from raftnode.storage.files import TEMPORARY_SUFFIX, Files
from raftnode.storage.log.checkpoints import TOPIC

LOCK_FILE = ".lock"
FORMATTING_FILE = "formatting"
MARKER_FILE = "storage-id"
LOG_DIRECTORY = f"{TOPIC}-0"

_NOT_CONTENT = frozenset({LOCK_FILE, "lost+found", FORMATTING_FILE + TEMPORARY_SUFFIX})
_LEFT_BEHIND = (peer_starts.FILE_NAME, peer_starts.FILE_NAME + TEMPORARY_SUFFIX)
"""Files that a node whose directory was emptied may still write there before it notices (S4): it
checks before it writes, but not at the same time. They are about other replicas and promise
nothing."""
_ROOT_FILES = frozenset(
    {FORMATTING_FILE, meta_properties.FILE_NAME, incarnation.FILE_NAME, formation.FILE_NAME}
)
_LOG_FILES = frozenset({MARKER_FILE, quorum_state.FILE_NAME})
_REPLACE = "this replica must be replaced (a new disk, then add and remove voter)"


@dataclass(frozen=True, slots=True)
class Identity:
    """The UUID on which the three places agree, with the rest of their content."""

    meta: MetaProperties
    stored: StoredQuorumState


def random_directory_id(make: Callable[[], uuid.UUID] = uuid.uuid4) -> uuid.UUID:
    """A fresh UUID that Kafka's tools accept as an argument: never with a leading dash."""
    while True:
        directory_id = make()
        if not format_directory_id(directory_id).startswith("-"):
            return directory_id


def is_empty(names: list[str]) -> bool:
    """Whether a directory with these names in it was never formatted, or emptied since."""
    return not set(names) - _NOT_CONTENT - {*_LEFT_BEHIND}


@dataclass(frozen=True, slots=True)
class Format:
    """The format that a directory is to get."""

    key: ReplicaKey
    latch: Latch | None = None
    """Set when a person forms the quorum with the format."""


def write_format(files: Files, root: Path, wanted: Format) -> None:
    """Format an empty directory, or one whose format was not finished.

    Raises:
        StorageFailedError: the disk failed, or is full.
    """
    latch, own = wanted.latch, wanted.key.directory_id
    files.replace(root / FORMATTING_FILE, encode_plan(wanted))
    for name in _LEFT_BEHIND:
        if files.stat(root / name) is not None:
            files.unlink(root / name)
    log_directory = root / LOG_DIRECTORY
    if files.stat(log_directory) is None:
        files.mkdir(log_directory)
    files.replace(log_directory / MARKER_FILE, marker_content(own))
    write_quorum_state(files, log_directory / quorum_state.FILE_NAME, QuorumState(), own)
    new = Incarnation(latched=latch is not None)
    incarnation.write_incarnation(files, root / incarnation.FILE_NAME, new)
    cluster_id = None if latch is None else latch.cluster_id
    meta = MetaProperties(wanted.key.node_id, own, cluster_id)
    write_meta_properties(files, root / meta_properties.FILE_NAME, meta)
    if latch is not None:
        formation.write_latch(files, root / formation.FILE_NAME, latch)
    elif files.stat(root / formation.FILE_NAME) is not None:
        files.unlink(root / formation.FILE_NAME)
    files.unlink(root / FORMATTING_FILE)


def encode_plan(wanted: Format) -> bytes:
    """The content of `formatting`: node and UUID, a checksum, and the latch if there is one."""
    latch = b"" if wanted.latch is None else formation.encode_latch(wanted.latch)
    checksum = crc32c.crc32c(latch, crc32c.crc32c(str(wanted.key).encode()))
    return f"{wanted.key} {checksum:08x}\n".encode() + latch


def _decode_plan(data: bytes) -> Format:
    """Read what `encode_plan` wrote.

    Raises:
        ValueError: it is something else. A bit flip in the UUID would cost the quorum a voter.
    """
    line, _, latch = data.partition(b"\n")
    key = ReplicaKey.parse(line.rpartition(b" ")[0].decode("ascii"))
    wanted = Format(key, formation.decode_latch(latch) if latch else None)
    if encode_plan(wanted) != data:
        raise ValueError("its checksum is wrong")
    return wanted


def marker_content(directory_id: uuid.UUID) -> bytes:
    """What the marker file holds."""
    return f"{format_directory_id(directory_id)}\n".encode()


def read_unfinished_format(files: Files, root: Path) -> Format | None:
    """Read what an unfinished format was to make; None if none was under way.

    Raises:
        StorageIdentityError: a format was under way, but the directory holds more than it makes.
    """
    data = files.read_bytes(root / FORMATTING_FILE)
    if data is None:
        return None
    log_directory = root / LOG_DIRECTORY
    inner = files.listdir(log_directory) if files.stat(log_directory) is not None else []
    ours = _ROOT_FILES | _NOT_CONTENT | {LOG_DIRECTORY, *_LEFT_BEHIND}
    foreign = _foreign(files.listdir(root), ours)
    foreign += _foreign(inner, _LOG_FILES)
    try:
        wanted = _decode_plan(data)
        stored = quorum_state.read_quorum_state(files, log_directory / quorum_state.FILE_NAME)
    except (ValueError, StorageCorruptError) as error:
        raise StorageIdentityError(f"{root}: unfinished format is damaged: {error}") from error
    if stored is not None and stored.state.epoch != NO_EPOCH:
        foreign.append(quorum_state.FILE_NAME)
    if foreign:
        raise StorageIdentityError(
            f"{root} says that its format was never finished, but it holds "
            f"{', '.join(foreign)}; {_REPLACE}"
        )
    return wanted


def _foreign(names: list[str], ours: frozenset[str]) -> list[str]:
    return [name for name in names if name.removesuffix(TEMPORARY_SUFFIX) not in ours]


def read_identity(files: Files, root: Path) -> Identity:
    """Read the UUID from its three places and compare them.

    Raises:
        ConfigurationError: nothing in the directory is ours.
        StorageIdentityError: a place is missing, or says something else.
        StorageCorruptError: a place cannot be read.
    """
    log_directory = root / LOG_DIRECTORY
    names = files.listdir(root)
    if not set(names) & (_ROOT_FILES | {LOG_DIRECTORY}):
        raise ConfigurationError(
            f"{root} is neither empty nor a data directory; it holds {', '.join(names[:5])}. "
            "Give an empty directory or a data directory"
        )
    meta = meta_properties.read_meta_properties(files, root / meta_properties.FILE_NAME)
    stored = quorum_state.read_quorum_state(files, log_directory / quorum_state.FILE_NAME)
    marker = _read_marker(files, log_directory / MARKER_FILE)
    directory_ids = {
        meta_properties.FILE_NAME: None if meta is None else meta.directory_id,
        quorum_state.FILE_NAME: None if stored is None else stored.directory_id,
        MARKER_FILE: marker,
    }
    if meta is None or stored is None or len(set(directory_ids.values())) != 1:
        places = "; ".join(
            f"{place} {'missing' if value is None else format_directory_id(value)}"
            for place, value in directory_ids.items()
        )
        raise StorageIdentityError(
            f"{root}: the directory id is not the same in its three places ({places}); {_REPLACE}"
        )
    if not stored.intact:
        raise StorageCorruptError(
            f"{log_directory / quorum_state.FILE_NAME} is damaged: its checksum is wrong"
        )
    return Identity(meta, stored)


def _read_marker(files: Files, path: Path) -> uuid.UUID | None:
    data = files.read_bytes(path)
    if data is None:
        return None
    try:
        return parse_directory_id(data.decode("ascii").strip())
    except ValueError as error:
        raise StorageCorruptError(f"{path} is damaged: {error}") from error
