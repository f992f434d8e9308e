"""The voter set: changes of one voter, reassignments, and the raft.version that allows them.

- `voter_changes`: AddVoter and RemoveVoter, as the leader carries them out;
- `reassignment`: from the present voters to the requested voters, one change after the other;
- `pending_change`: a change between its request and its commit; `pending_wait` is what it shares
  with an upgrade;
- `discovery`: how the leader and a new disk find each other;
- `raft_version`: the upgrade of a running quorum;
- `version_rules`: what each raft.version allows.
"""
