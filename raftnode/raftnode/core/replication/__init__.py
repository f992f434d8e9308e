"""Replication of the log from the leader to the other replicas, and the commit of a record."""
