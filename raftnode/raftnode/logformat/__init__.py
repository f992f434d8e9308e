"""The log's format as pure functions of bytes: batches, control records, indexes, snapshots."""
