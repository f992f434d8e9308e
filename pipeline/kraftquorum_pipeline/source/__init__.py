"""Reads rows from a quorum's nodes or its files. Uses pyarrow, and never Spark.

- `options`: the options of a user, and their checks;
- `interface`: a log and its parts;
- `nodes`: plans and reads parts of a running quorum's log;
- `files`, `filepart`: plan and read parts of a replica's segments and snapshots;
- `voters`: the voter set, from the files of a replica;
- `committed_end`: the proven committed end, from the files of the replicas alone;
- `decode`: Arrow rows of data records in files, thousands at once; `rows`: of records from the API,
  and of the other kinds.

A part is a small value that Spark sends to an executor; a read needs nothing but the part.
"""
