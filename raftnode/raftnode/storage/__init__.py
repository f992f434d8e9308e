"""Everything that a replica keeps on its disk, and the truth about that disk. Private to the node.

- `files`: the one file layer;
- `log`, `segments`: the log as one sequence, and one file of it with its indexes;
- `snapshots`: snapshot files beside the log;
- `directory`: the data directory, and the small files that say whose it is and what it promised;
- `inspection`: reading a log without owning it, the verification of one, the scrub.

What lives elsewhere: what the bytes mean (`raftnode.logformat`), any decision of Raft, and the
public names of the readers (`raftnode.logfiles`).

Rules that hold for every file here:

- a failed write or fsync is never retried; the layer refuses everything after it;
- a small file is replaced whole (`Files.replace`), never edited;
- what a crash cannot explain is reported, never repaired in silence.
"""
