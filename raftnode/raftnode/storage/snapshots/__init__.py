"""Snapshot files beside the log: written, read, fetched, installed, kept."""
