"""The fields of ours in a snapshot file, which its writer and its reader share."""

from __future__ import annotations

import struct

VERSION = 0
"""Of header and footer, as Kafka has it."""

TAG = 10_000
"""Far from any tag that Kafka may add. In the header the file's place, in the footer its count."""

TAG_VOTER_RECORD = 10_001
TAG_TARGET_RECORD = 10_002
"""In the header: the records that the voters and the target come from."""

TAG_CHECKSUM = 10_001
"""In the footer: of all batches before it."""

PLACE = struct.Struct(">qi")
"""An offset and an epoch."""

COUNT = struct.Struct(">q")
CHECKSUM = struct.Struct(">I")
TIMESTAMP = struct.Struct(">q")

ORIGIN = "kq"
"""Name of the record header with the offset and epoch of the record that wrote an entry."""
