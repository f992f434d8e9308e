"""The state machine of committed records: a pure function of the log, equal on every replica.

- `kv`: the key-value store;
- `frozen_map`: its map, which a snapshot reads in another thread; `sharded_map`: a map whose
  writes never take long;
- `errors`: what a record can be refused for.
"""
