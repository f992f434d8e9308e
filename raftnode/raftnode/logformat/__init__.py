"""The log's format as pure functions of bytes: batches, control records, indexes, snapshots.

This module has the public names; nothing here opens a file. `raftnode.logfiles` reads the files
of a replica in this format.
"""

from __future__ import annotations

from raftnode.logformat.batch import (
    HEADER_BYTES,
    BatchHeader,
    LogRecord,
    check_crc,
    decode_batches,
    iter_records,
    read_header,
    to_batch,
)
from raftnode.logformat.control import decode_control_record
from raftnode.logformat.control_fields import describe_control
from raftnode.logformat.epochs import EpochIndex, EpochStart, decode_epochs
from raftnode.logformat.index import SegmentIndex
from raftnode.logformat.snapshot import SNAPSHOT_SUFFIX, SnapshotHead, SnapshotId, StateRecord

__all__ = [
    "HEADER_BYTES",
    "SNAPSHOT_SUFFIX",
    "BatchHeader",
    "EpochIndex",
    "EpochStart",
    "LogRecord",
    "SegmentIndex",
    "SnapshotHead",
    "SnapshotId",
    "StateRecord",
    "check_crc",
    "decode_batches",
    "decode_control_record",
    "decode_epochs",
    "describe_control",
    "iter_records",
    "read_header",
    "to_batch",
]
