"""Leadership: elections, the epochs that a replica believes, read leases, leadership transfer."""
