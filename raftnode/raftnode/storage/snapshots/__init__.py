"""Snapshot files beside the log: writing, reading, fetching, installing and keeping them."""
