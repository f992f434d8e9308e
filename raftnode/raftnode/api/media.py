"""Content types and headers of the API: what the server and the client both name."""

from __future__ import annotations

JSON = "application/json"
BINARY = "application/octet-stream"
TEXT = "text/plain"

HEADER_OFFSET = "Raft-Offset"
"""The offset of the record that wrote the value, or that this write made."""
HEADER_EPOCH = "Raft-Epoch"
"""That record's epoch."""
HEADER_NEXT_OFFSET = "Raft-Next-Offset"
"""One past the last record that the answering node had applied when it looked."""
