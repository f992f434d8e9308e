"""Checks from the files alone whether the replicas of a quorum hold the same history.

`scan` reads a replica's files segment by segment, and Spark spreads the segments over
its executors. The result is small: digests of ranges of offsets, control records and
damage. The rules over all replicas are pure functions of that result:

- `continuity`: each log is whole from its start to its durable end;
- `log_matching`: where two replicas have the same offset and epoch they have the same bytes;
- `elections`: an epoch has one leader, and begins with the record of that leader;
- `voters`: each voter set differs from the one before it by one replica;
- `committed_end`: a majority of the voters holds every committed record;
- `states`: a snapshot equals the state of the log up to its offset.

`replica_files` finds the replicas and their files, and `startup_files` checks whether a node could
start with them. `run` calls the checks in order, `details` describes what differs, `findings` is
the verdict, and `render` prints it. Two engines read the files: one in this process (`engine`) and
one on Spark (`spark`). A test compares their verdicts. `undamaged_log` combines the replicas'
whole records, for the jobs.
"""
