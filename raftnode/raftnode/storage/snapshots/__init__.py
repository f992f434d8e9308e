"""Snapshot files beside the log: writing, reading, fetching, installing and keeping them.

- `snapshot_store`: all snapshots of a replica; `damaged_snapshots`: those that are set aside;
- `snapshot_file`, `snapshot_reader`: writing and reading one file;
- `incoming_snapshot`: a snapshot that is fetched from the leader;
- `installation`: replaces the log by it.
"""
