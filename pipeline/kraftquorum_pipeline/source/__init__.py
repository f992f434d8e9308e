"""Where the rows come from: a quorum's nodes or its files. Knows pyarrow and nothing of Spark.

- `options`: what a user may ask for, checked;
- `files`, `nodes`: plan parts of a range of offsets, and read one part;
- `committed`: what is known to be committed, from the files of the replicas alone;
- `rows`, `decode`: from records to Arrow.

A part is a small value that travels to an executor; reading it needs nothing but the part.
"""
