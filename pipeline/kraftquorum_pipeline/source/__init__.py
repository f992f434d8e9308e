"""Reads rows from a quorum's nodes or its files. Uses pyarrow, and never Spark.

- `options`: the options of a user, and their checks;
- `files`, `nodes`: plan the parts of a range of offsets, and read a part;
- `committed`: the proven committed end, from the files of the replicas alone;
- `rows`, `decode`: from records to Arrow.

A part is a small value that Spark sends to an executor; a read needs nothing but the part.
"""
