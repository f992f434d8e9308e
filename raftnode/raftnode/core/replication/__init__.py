"""Replication of the log from the leader to the other replicas, and the commit of a record.

- `leadership`: the leader's side: it serves Fetches, counts acknowledgements, and moves the high
  watermark;
- `fetcher`: the side of every other replica: it finds the leader, fetches from it and obeys it;
- `progress`: what a leader knows of one other replica;
- `peer_memory`: by which a replica detects a peer that came back older than it was;
- `uncommitted_batches`: the bound on what a leader appends ahead of its majority.
"""
