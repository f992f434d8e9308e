"""Leadership: elections, the epochs that a replica believes, read leases, leadership transfer.

- `election`: candidates, votes and results, pre-votes included;
- `epoch_rules`: which higher epoch a replica takes over, by who says it;
- `leadership_transfer`: a leader that makes a successor catch up and start an election;
- `read_lease`: when a leader may answer a read alone.
"""
