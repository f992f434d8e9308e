"""The data directory and the small files in it: its identity, its starts, its votes.

- `directory`: the directory, locked and checked;
- `identity`, `meta_properties`: whose directory it is; `formation`: the latch it was formed with;
- `quorum_state`: epoch, leader and vote;
- `incarnation`: how often the storage was opened; `peer_starts`: the latest start of each peer, by
  which a storage that was restored from a copy is detected; `stale_mark`: the mark on such one;
- `quarantine`: the mark on damaged storage.
"""
