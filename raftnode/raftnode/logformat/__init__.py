"""The log's format as pure functions of bytes: batches, control records, indexes, snapshots.

This module has the public names; nothing here opens a file. `raftnode.logfiles` reads the files
of a replica in this format.

- `batch`: record batches; `usual_record`: their usual record, decoded faster;
- `keyless`: batches without keys, which a client has finished;
- `control`: control records, for the core; `control_fields`: the same with names, for people;
- `epochs`: where each epoch starts; `index`: the sparse indexes of a segment;
- `snapshot`: name, header and footer of a snapshot file; `snapshot_fields`: what we add to them;
- `encoding`: Kafka's primitive values;
- `sealed_json`: small JSON files with a checksum, as the storage writes them.
"""

from __future__ import annotations

from raftnode.logformat.batch import (
    HEADER_BYTES,
    BatchHeader,
    LogRecord,
    Record,
    check_crc,
    decode_batches,
    encode_control_batch,
    encode_data_batch,
    iter_records,
    read_header,
    stamp,
    to_batch,
)
from raftnode.logformat.control import decode_control_record, encode_control_record
from raftnode.logformat.control_fields import describe_control
from raftnode.logformat.epochs import EpochIndex, EpochStart, decode_epochs
from raftnode.logformat.index import SegmentIndex
from raftnode.logformat.keyless import (
    FinishedBatch,
    encode_keyless_batch,
    place_finished_batch,
    read_finished_batch,
)
from raftnode.logformat.snapshot import SNAPSHOT_SUFFIX, SnapshotHead, SnapshotId, StateRecord

__all__ = [
    "HEADER_BYTES",
    "SNAPSHOT_SUFFIX",
    "BatchHeader",
    "EpochIndex",
    "EpochStart",
    "FinishedBatch",
    "LogRecord",
    "Record",
    "SegmentIndex",
    "SnapshotHead",
    "SnapshotId",
    "StateRecord",
    "check_crc",
    "decode_batches",
    "decode_control_record",
    "decode_epochs",
    "describe_control",
    "encode_control_batch",
    "encode_control_record",
    "encode_data_batch",
    "encode_keyless_batch",
    "iter_records",
    "place_finished_batch",
    "read_finished_batch",
    "read_header",
    "stamp",
    "to_batch",
]
