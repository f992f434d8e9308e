"""Raft as a pure function: events in, effects out.

Nothing here reads a clock, a file, a socket or a random source of its own:
`RaftCore.handle(event, now_ms)` returns the effects that the caller must carry
out, in order. `raft` is the entry point, `events` and `effects` are its input and output, and
`replica` is the state of a replica in its role (`roles`). The decisions are in `elections` (who
leads), `replication` (what is committed), `membership` (who votes) and `snapshots`. `log_index` and
`log_head` are what the core knows of its log, `records` its batches, `messages` what replicas send
each other, and `types` the small values. `start_state` and `state` are what a start reads from
disk, `conclusions` are what a leader does about all that it knows, `config` has times and limits,
`describe` answers DescribeQuorum, and `reasons` say why something is not done. The terms:

- *replica*: a node's id together with the UUID of its storage (`ReplicaKey`);
- *voter*: a replica in the voter set, which comes from the log's own control
  records; *observer*: a replica that fetches without being in it;
- *epoch*: the number of an election; *leader*: the one replica that appends in it;
- *log end offset*: one past the last record; *acknowledged offset*: one past the
  last record that a replica knows to be durable; *high watermark*: one past the
  last committed record.
"""
