"""Content types and headers of the API, for the server and the client."""

from __future__ import annotations

JSON = "application/json"
BINARY = "application/octet-stream"
TEXT = "text/plain"

HEADER_OFFSET = "Raft-Offset"
"""Offset of the record that wrote the value, or of this write's record."""
HEADER_EPOCH = "Raft-Epoch"
"""That record's epoch."""
HEADER_CLUSTER_ID = "X-Kraftquorum-Cluster-Id"
"""Of a request: the cluster that is meant."""
HEADER_NEXT_OFFSET = "Raft-Next-Offset"
"""Offset after the last record that the answering node had applied."""
