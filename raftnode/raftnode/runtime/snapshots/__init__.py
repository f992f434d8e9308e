"""Snapshots of the state machine: taken, sent, fetched, restored."""
