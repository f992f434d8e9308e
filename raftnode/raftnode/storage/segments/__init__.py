"""One file of the log and its index files.

- `segment`: the file; `window`: reads it forward in large pieces;
- `index_files`: its indexes on the disk; `index_cache`: those that were read last.
"""
