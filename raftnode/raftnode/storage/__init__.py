"""Everything that a replica keeps on its disk, and the truth about that disk.

What lives here: record batches, the segmented log, checkpoints, `quorum-state`,
`meta.properties`, the identity of the directory. What must not: any decision of
Raft, and any file access that goes around `files.Files`.

Rules that hold for every file here:

- a failed write or fsync is never retried; the layer refuses everything after it;
- a small file is replaced whole (`Files.replace`), never edited;
- whatever a crash cannot explain is reported, never repaired in silence.
"""
