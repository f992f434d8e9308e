"""The log of quorums in Apache Spark: a data source, and the jobs that read through it.

The data source is `kraftquorum` (`datasource`); `session` makes a Spark session that knows it.
A node's files are read by the node's own readers (`raftnode.logfiles`), a running quorum through
its client (`raftnode.client`), always as somebody who only looks on.

What lives here: what needs pyarrow or PySpark. Nothing else of kraftquorum imports this package.
"""
