"""Whether the replicas of a quorum hold the same history, judged from their files alone.

A replica's files are read piece by piece (`scan`), which is what Spark spreads over
its executors; what comes out of it is small: digests of stretches of offsets, control
records, damage. The rules over all replicas are pure functions of that:

- `continuity`: each log is whole from its start to where it was durable;
- `matching`: where two replicas have the same offset and epoch they have the same bytes;
- `elections`: an epoch has one leader, and begins with that leader's record;
- `voters`: each voter set differs from the one before it by one replica;
- `committed`: what was committed is on a majority of the voters;
- `states`: a snapshot is what the log up to its offset comes to.

`run` puts them in order, `report` says what came of it. Two engines do the same: one in
this process, one on Spark; a test holds their verdicts against each other.
"""
