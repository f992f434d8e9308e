"""A data source for Apache Spark that reads the logs of quorums, and the jobs that use it.

It reads a node's files with the node's own readers, and a running quorum with its client
(`raftnode.client`). The pipeline only reads, and never takes part in the quorum.

- `source`: plans and reads parts of a log, without Spark;
- `datasource`: the data source `kraftquorum` over it; `schema`, `kinds`: its columns and rows;
- `jobs`: export, history and comparisons; `report`: the history as one page;
- `audit`: whether the replicas of a quorum hold the same history;
- `cli`, `commands`: the program `kraftquorum-pipeline`; `launch`: the entry point of its image;
- `session`, `remote`: the Spark session, and files of replicas on an object store;
- `credential_options`, `errors`, `reference`: credentials, the tree of errors, the reference page.

This package holds what needs pyarrow or PySpark. No other package of kraftquorum imports it.
"""
