"""The data directory and the small files in it: whose it is, its starts, its votes."""
