"""Targets for files on a disk."""

from __future__ import annotations

import json
import random
import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import cast

import crc32c

from proofkit.faultdisk import FaultDisk
from proofkit.fuzz.target import FuzzError, Target, same
from raftnode.core.records import AddVoter, ControlRecord, LeaderChange, RaftVersion, RemoveVoter
from raftnode.core.replication.peer_memory import Mark
from raftnode.core.state import Latch, QuorumState
from raftnode.core.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from raftnode.errors import DecodeError, StorageCorruptError, StorageIdentityError
from raftnode.logformat import (
    HEADER_BYTES,
    Record,
    SegmentIndex,
    SnapshotHead,
    SnapshotId,
    StateRecord,
    decode_batches,
    decode_control_record,
    encode_control_record,
    encode_data_batch,
    encode_keyless_batch,
    iter_records,
    place_finished_batch,
    read_finished_batch,
    stamp,
)
from raftnode.logformat.batch import encode_control_records
from raftnode.logformat.sealed_json import Fields, seal
from raftnode.storage.directory import incarnation
from raftnode.storage.directory.formation import decode_latch, encode_latch
from raftnode.storage.directory.identity import (
    FORMATTING_FILE,
    Format,
    encode_plan,
    read_unfinished_format,
)
from raftnode.storage.directory.meta_properties import (
    MetaProperties,
    decode_meta_properties,
    encode_meta_properties,
)
from raftnode.storage.directory.peer_starts import decode_marks, encode_marks
from raftnode.storage.directory.quorum_state import (
    decode_quorum_state,
    encode_quorum_state,
    read_quorum_state,
)
from raftnode.storage.files import Files
from raftnode.storage.log import checkpoints, control_places, epoch_file
from raftnode.storage.snapshots import installation
from raftnode.storage.snapshots.snapshot_file import SnapshotDamagedError, write_snapshot
from raftnode.storage.snapshots.snapshot_reader import SnapshotReader

A = ReplicaKey(NodeId(1), uuid.UUID(int=1 << 90 | 1))
B = ReplicaKey(NodeId(2), uuid.UUID(int=1 << 91 | 2))
ENDPOINT = Endpoint("a.example", 9000)
NOW_MS = 1_700_000_000_000
SNAPSHOT = SnapshotId(Offset(40), Epoch(3))
ROOT = Path("/fuzz")

CONTROL: tuple[ControlRecord, ...] = (
    LeaderChange(A, (A, B), (A,)),
    RaftVersion(2),
    AddVoter(Voter(A, ENDPOINT)),
    RemoveVoter(B),
)
DATA_BATCH = stamp(
    encode_data_batch(
        [Record(b"key", b"value", (("trace", b"\1"), ("none", None))), Record(None, b"raw")], NOW_MS
    ),
    Offset(4),
    Epoch(3),
)
CONTROL_BATCH = encode_control_records(
    [encode_control_record(record) for record in CONTROL], Offset(0), Epoch(3), NOW_MS
)
KEYLESS_BATCH = encode_keyless_batch([b"one", b"", bytes(100)], NOW_MS)
BATCHES = (DATA_BATCH, CONTROL_BATCH, CONTROL_BATCH + DATA_BATCH)

_LENGTH_AT, _CRC_AT, _CRC_FROM = 8, 17, 21


# -- batches -----------------------------------------------------------------------


def with_checksums(data: bytes) -> bytes:
    """Correct the checksum of each batch, as far as the lengths are plausible."""
    corrected = bytearray(data)
    position = 0
    while len(corrected) - position >= HEADER_BYTES:
        (length,) = struct.unpack_from(">i", corrected, position + _LENGTH_AT)
        end = position + length + _LENGTH_AT + 4
        if length < 0 or end > len(corrected):
            break
        crc = crc32c.crc32c(bytes(corrected[position + _CRC_FROM : end]))
        struct.pack_into(">I", corrected, position + _CRC_AT, crc)
        position = max(end, position + HEADER_BYTES)
    return bytes(corrected)


def batches(data: bytes) -> None:
    """Decode batches; they must have the same bytes, record for record."""
    decoded = decode_batches(data)
    same(b"".join(batch.data for batch in decoded), data)
    for record in iter_records(data):
        if not decoded[0].base_offset <= record.offset <= decoded[-1].last_offset:
            raise FuzzError(f"{record} lies in no batch")


def torn_batches(data: bytes) -> None:
    """Decode bytes that a Fetch may cut anywhere: the whole batches must be a prefix of them."""
    decoded = decode_batches(data, allow_partial_tail=True)
    whole = b"".join(batch.data for batch in decoded)
    same(whole, data[: len(whole)])


def finished_batch(data: bytes) -> None:
    """Check a client's batch: what passes is what a leader makes of the same values."""
    finished = read_finished_batch(data, 10_000)
    try:
        values = [record.value for record in iter_records(data)]
    except DecodeError as error:
        raise FuzzError(f"what passed cannot be read: {error}") from error
    if finished.record_count != len(values) or None in values:
        raise FuzzError(f"{finished.record_count} records, with the values {values!r}")
    made = encode_data_batch([Record(None, value) for value in values], NOW_MS)
    same(made, place_finished_batch(finished, NOW_MS))


def control_record(data: bytes) -> None:
    """A record's key and value, the first byte being the key's length."""
    size = data[0] if data else 0
    key, value = data[1 : 1 + size], data[1 + size :]
    record = decode_control_record(key, value)
    if record is not None:
        same(record, decode_control_record(*encode_control_record(record)))


def control_seed(record: ControlRecord) -> bytes:
    """A sound record in that form."""
    key, value = encode_control_record(record)
    return bytes((len(key),)) + key + value


# -- small files -------------------------------------------------------------------


def with_seal(data: bytes) -> bytes:
    """The same JSON with the right checksum, if it is an object at all."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(fields, dict):
        return data
    named = cast("Fields", fields)
    return seal({name: value for name, value in named.items() if name != "crc32c"})


def quorum_state(data: bytes) -> None:
    """Decode a vote; a vote with its own UUID must encode to the same vote."""
    decoded = decode_quorum_state(data)
    named = [key for key in (decoded.state.leader, decoded.state.voted) if key is not None]
    # Of replicas without a UUID, from before there were any, only the id is kept.
    if decoded.directory_id is not None and all(key.directory_id.int for key in named):
        again = decode_quorum_state(encode_quorum_state(decoded.state, decoded.directory_id))
        same(decoded.state, again.state)


def meta_properties(data: bytes) -> None:
    """Decode the identity of a directory; it must encode to the same identity."""
    decoded = decode_meta_properties(data)
    same(decoded, decode_meta_properties(encode_meta_properties(decoded)))


def latch(data: bytes) -> None:
    """Decode a latch; it must encode to the same latch."""
    decoded = decode_latch(data)
    same(decoded, decode_latch(encode_latch(decoded)))


def marks(data: bytes) -> None:
    """Decode the known starts of peers; they must encode to the same."""
    decoded = decode_marks(data)
    same(decoded, decode_marks(encode_marks(decoded)))


# -- index files ---------------------------------------------------------------------


def index(data: bytes) -> None:
    """Both index files of a segment, cut in the middle; sound ones must come back as they were."""
    middle = len(data) // 2
    torn = SegmentIndex.decode(Offset(0), data[:middle], data[middle:], torn=True)
    again = SegmentIndex.decode(Offset(0), torn.encoded_offsets(), torn.encoded_times())
    same(torn.encoded_offsets(), again.encoded_offsets())
    SegmentIndex.decode(Offset(0), data[:middle], data[middle:])


# -- files that are read as files ------------------------------------------------------


def read_as(name: str, read: Callable[[Files, Path], object]) -> Callable[[bytes], object]:
    """Read the bytes as a file of that name on a disk in memory."""
    disk = FaultDisk(random.Random(1))
    disk.make_directory(ROOT)
    files = Files(disk)
    path = ROOT / name

    def decode(data: bytes) -> object:
        disk.overwrite(path, data)
        return read(files, path)

    return decode


def snapshot(files: Files, path: Path) -> None:
    """Read a whole snapshot; it must have as many records as it says."""
    reader = SnapshotReader(files, path)
    records = list(reader.records())
    if reader.snapshot is None or reader.snapshot.records != len(records):
        raise FuzzError(f"{len(records)} records, it says {reader.snapshot}")


def snapshot_seed() -> bytes:
    """A sound snapshot."""
    disk = FaultDisk(random.Random(1))
    disk.make_directory(ROOT)
    head = SnapshotHead(VoterSet.of([Voter(A, ENDPOINT), Voter(B)]), 2, formation_completed=True)
    entries = [
        StateRecord(b"key %d" % number, b"value", Offset(number), Epoch(1)) for number in range(3)
    ]
    write_snapshot(Files(disk), ROOT, SNAPSHOT, head, entries, now_ms=NOW_MS)
    return disk.content(ROOT / SNAPSHOT.file_name)


_LATCH = Latch("jzIrVDQ0QXu0bBSbPcyDpA", VoterSet.of([Voter(A, ENDPOINT), Voter(B)]))
_STATE = encode_quorum_state(QuorumState(Epoch(4), A, B), A.directory_id)
_STATE_0 = (
    b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
_META_BLANK = (
    b"#\nversion=1\nnode.id = 2\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    b"storage.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
)
_SNAPSHOT = snapshot_seed()
_read_snapshot = read_as(SNAPSHOT.file_name, snapshot)
_read_incarnation = read_as("incarnation", incarnation.read_incarnation)
_read_install = read_as(
    installation.MARKER_FILE, lambda files, path: installation.read_marker(files, path.parent)
)
_read_places = read_as(
    control_places.FILE_NAME,
    lambda files, path: control_places.read_control_places(files, path, Offset(9)),
)
_CORRUPT = (StorageCorruptError,)

TARGETS = (
    Target("batch", batches, (DecodeError,), BATCHES, ("logformat.batch.read_header",)),
    Target(
        "batch-checksummed",
        lambda data: batches(with_checksums(data)),
        (DecodeError,),
        BATCHES,
        ("logformat.batch.decode_batches", "logformat.batch.iter_records"),
    ),
    Target(
        "batch-torn",
        lambda data: torn_batches(with_checksums(data)),
        (DecodeError,),
        (*BATCHES, DATA_BATCH[:-3]),
        ("logformat.batch.decode_batches",),
    ),
    Target(
        "batch-finished",
        lambda data: finished_batch(with_checksums(data)),
        (DecodeError,),
        (KEYLESS_BATCH, encode_keyless_batch([b""] * 70, NOW_MS)),
        ("logformat.keyless.read_finished_batch",),
    ),
    Target(
        "control-record",
        control_record,
        (DecodeError,),
        tuple(control_seed(record) for record in CONTROL),
        ("logformat.control.decode_control_record",),
    ),
    Target(
        "quorum-state",
        lambda data: quorum_state(with_seal(data)),
        (ValueError,),
        (
            _STATE,
            _STATE_0,
        ),
        ("storage.directory.quorum_state.decode_quorum_state", "logformat.sealed_json.unseal"),
    ),
    Target(
        "quorum-state-file",
        read_as("quorum-state", read_quorum_state),
        _CORRUPT,
        (_STATE,),
        ("storage.directory.quorum_state.read_quorum_state",),
    ),
    Target(
        "meta-properties",
        meta_properties,
        (ValueError,),
        (
            encode_meta_properties(MetaProperties(NodeId(1), A.directory_id, _LATCH.cluster_id)),
            _META_BLANK,
        ),
        ("storage.directory.meta_properties.decode_meta_properties",),
    ),
    Target(
        "latch",
        lambda data: latch(with_seal(data)),
        (ValueError,),
        (encode_latch(_LATCH),),
        ("storage.directory.formation.decode_latch",),
    ),
    Target(
        "peer-starts",
        lambda data: marks(with_seal(data)),
        (ValueError,),
        (encode_marks({A: Mark(3, "00000000000000aa"), B: Mark(1, None)}),),
        ("storage.directory.peer_starts.decode_marks",),
    ),
    Target(
        "incarnation",
        lambda data: _read_incarnation(with_seal(data)),
        _CORRUPT,
        (seal({"incarnation": 3, "starts": ["00000000000000aa"]}),),
        ("storage.directory.incarnation.read_incarnation",),
    ),
    Target(
        "recovery-point",
        read_as(checkpoints.RECOVERY_POINT_FILE, checkpoints.read_recovery_point),
        _CORRUPT,
        (b"0\n1\n__cluster_metadata 0 123\n",),
        ("storage.log.checkpoints.read_recovery_point",),
    ),
    Target(
        "log-start",
        read_as(checkpoints.LOG_START_FILE, checkpoints.read_log_start),
        _CORRUPT,
        (b"0\n1\n__cluster_metadata 0 40\n",),
        ("storage.log.checkpoints.read_log_start",),
    ),
    Target(
        "snapshot-install",
        lambda data: _read_install(with_seal(data)),
        _CORRUPT,
        (seal({"version": 1, "end_offset": 40, "epoch": 3}),),
        ("storage.snapshots.installation.read_marker",),
    ),
    Target(
        "flushed-offset",
        read_as(checkpoints.FLUSHED_OFFSET_FILE, checkpoints.read_flushed_offset),
        (),
        (struct.pack(">qI", 5, crc32c.crc32c(struct.pack(">q", 5))),),
        ("storage.log.checkpoints.read_flushed_offset",),
    ),
    Target(
        "leader-epochs",
        read_as(epoch_file.FILE_NAME, epoch_file.read_epochs),
        _CORRUPT,
        (b"0\n2\n1 0\n3 17\n",),
        ("storage.log.epoch_file.read_epochs", "logformat.epochs.decode_epochs"),
    ),
    Target(
        "control-batches",
        lambda data: _read_places(with_seal(data)),
        (),
        (seal({"version": 2, "recovery_points": [9, 7], "batches": [[0, 0], [5, 300]]}),),
        ("storage.log.control_places.read_control_places",),
    ),
    Target(
        "format",
        read_as(FORMATTING_FILE, lambda files, path: read_unfinished_format(files, path.parent)),
        (StorageIdentityError,),
        (encode_plan(Format(A)), encode_plan(Format(A, _LATCH))),
        ("storage.directory.identity.read_unfinished_format",),
    ),
    Target(
        "index",
        index,
        (DecodeError,),
        (
            b"",
            struct.pack(">iiiiii", 1, 4096, 3, 9000, 5, 13000)
            + struct.pack(">qiqi", NOW_MS, 3, NOW_MS + 5, 5),
        ),
        (
            "logformat.index.decode_offsets",
            "logformat.index.decode_times",
            "logformat.index.SegmentIndex.decode",
        ),
    ),
    Target(
        "snapshot",
        lambda data: _read_snapshot(with_checksums(data)),
        (SnapshotDamagedError,),
        (_SNAPSHOT,),
        ("storage.snapshots.snapshot_reader.SnapshotReader.records",),
    ),
)
