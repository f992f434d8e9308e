"""Snapshots that a replica fetches in place of a log that the leader no longer has."""
