"""The data directory and the small files in it: its identity, its starts, its votes."""
