"""One file of the log and its index files."""
