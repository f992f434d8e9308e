"""How the log gets from the leader to the other replicas, and when a record is committed."""
