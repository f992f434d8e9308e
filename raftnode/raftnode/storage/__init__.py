"""Everything that a replica keeps on its disk. Private to the node.

- `files`: the one file layer; `fallocate`: the reservation of room, which Python lacks;
- `log`, `segments`: the log as one sequence, and one file of it with its indexes;
- `snapshots`: snapshot files beside the log;
- `directory`: the data directory, and the small files with its identity and its promises;
- `inspection`: reading a log without owning it, the verification of a log, the scrub.

The format of the bytes is in `raftnode.logformat`, and the public names of the readers are in
`raftnode.logfiles`. The storage makes no decision of Raft.

Rules that hold for every file here:

- a failed write or fsync is never retried; the layer refuses every later operation;
- a small file is replaced whole (`Files.replace`), never edited;
- damage that a crash cannot explain is reported, never repaired in silence.
"""
