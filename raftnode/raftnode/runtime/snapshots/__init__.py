"""Snapshots of the state machine: taking, sending, fetching and restoring them."""
