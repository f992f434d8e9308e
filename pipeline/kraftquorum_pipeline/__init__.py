"""A data source for Apache Spark that reads the logs of quorums, and the jobs that use it.

The data source is `kraftquorum` (`datasource`); `session` makes a Spark session that knows it.
It reads a node's files with the node's own readers, and a running quorum with its client
(`raftnode.client`). The pipeline only reads, and never takes part in the quorum.

This package holds what needs pyarrow or PySpark. No other package of kraftquorum imports it.
"""
