"""Snapshots of the state machine: taking, sending, fetching and restoring them.

- `snapshotter`: takes snapshots beside the running node; `snapshot_room`: the room for the next;
- `transfer`: sends and fetches them, piece by piece;
- `restore`: the state machine at the start, from the newest snapshot that can be read.
"""
