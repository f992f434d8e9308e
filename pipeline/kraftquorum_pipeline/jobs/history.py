"""Makes the history of a quorum from its log, as tables. DataFrames in, DataFrames out.

The rows are those of the data source or of an export; several quorums may be in one frame, since
every table is by `cluster_id`. Times are of the leaders' clocks, which may differ: a duration
across an election is never less than 0 here, and as exact as those clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

from kraftquorum_pipeline.kinds import KIND_CONTROL, KIND_DATA, KIND_STATE, VOTER_SET

_REPLICA = "struct<node_id: int, directory_id: string>"
_FIELDS = (
    f"leader {_REPLICA}, voters array<{_REPLICA}>, granting_voters array<{_REPLICA}>, "
    f"voter {_REPLICA}, endpoint string, as_of bigint"
)

TABLES: Mapping[str, str] = {
    "elections": "Each leader that was elected: the epoch, the leader, how many of how many "
    "voters granted their vote, and `without_leader_s`: the time since the last record "
    "of the epoch before.",
    "leadership": "Each epoch: its leader, its first and last record and their times, and how "
    "many records and clients' records it has.",
    "voter_changes": "Each AddVoter and RemoveVoter with the number of voters after it; null if "
    "the log was trimmed and the rest does not name the voters.",
    "repairs": "Each replica that was replaced by another of the same node id: `detected_at` "
    "(from the faults given, otherwise null), `added_at`, `removed_at` and the times "
    "between them in seconds.",
    "unavailability": "Each period in which no leader can have acknowledged anything: from the "
    "last record of an epoch to the first of the next. It is an upper bound, since "
    "clients may have written nothing for a while.",
    "key_changes": "Each write of each key: its number in this log, its time and size, whether "
    "it is a delete, and the record that it replaced. That record may be one of the "
    "state before a trimmed log.",
}
"""The tables and their content; the reference page is made from it."""

FAULTS = "node_id int, at timestamp"
"""The columns of the faults that another program or a person recorded."""


def no_faults(session: SparkSession) -> DataFrame:
    """Return an empty table of faults."""
    return session.createDataFrame([], FAULTS)


_ORDER = ("offset", "epoch", "until_epoch", "removed_offset")
_LARGE = "key_changes"


def write_history(
    session: SparkSession,
    rows: DataFrame,
    faults: DataFrame,
    output: str,
    say: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Write each table to a directory of its own, and replace the content of the directory.

    Args:
        session: the Spark session.
        rows: the rows, as for `history`.
        faults: the faults, as for `history`.
        output: the directory that holds the tables' directories.
        say: called with each table as it is written.

    Returns:
        the rows of each table as dictionaries; for `key_changes` their number.
    """
    results: dict[str, Any] = {}
    for name, table in history(rows, faults).items():
        place = f"{output.rstrip('/')}/{name}"
        table.write.mode("overwrite").parquet(place)
        written = session.read.parquet(place)
        if name == _LARGE:
            count = results[name] = written.count()
        else:
            order = next(column for column in _ORDER if column in written.columns)
            lines = [row.asDict() for row in written.orderBy("cluster_id", order).collect()]
            results[name], count = lines, len(lines)
        say(f"{name}: {count} rows")
    return results


def history(rows: DataFrame, faults: DataFrame) -> dict[str, DataFrame]:
    """The tables of `TABLES` from the rows of logs.

    Args:
        rows: the rows of the data source; the caller decides whether to cache them.
        faults: when a node failed, with the columns of `FAULTS`; of one quorum.
    """
    # Most tables come from these few rows, so the job reads the log once for them.
    control = _control(rows).persist()
    spans = leadership(rows, control).persist()
    changes = voter_changes(control, spans)
    return {
        "elections": elections(control, spans),
        "leadership": spans,
        "voter_changes": changes,
        "repairs": repairs(changes, faults),
        "unavailability": unavailability(spans),
        "key_changes": key_changes(rows),
    }


def _control(rows: DataFrame) -> DataFrame:
    known = F.col("control").isin("LeaderChange", "AddVoter", "RemoveVoter", VOTER_SET)
    return rows.where(F.col("kind").isin(KIND_CONTROL, KIND_STATE) & known).select(
        "cluster_id",
        "offset",
        "epoch",
        F.col("timestamp").alias("at"),
        "control",
        F.from_json("fields", _FIELDS).alias("told"),
    )


def leadership(rows: DataFrame, control: DataFrame) -> DataFrame:
    """Return each epoch that wrote a record, with its leader."""
    epochs = (
        rows.where(F.col("kind").isin(KIND_DATA, KIND_CONTROL))
        .groupBy("cluster_id", "epoch")
        .agg(
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.min("timestamp").alias("first_at"),
            F.max("timestamp").alias("last_at"),
            F.count("*").alias("records"),
            F.count(F.when(F.col("kind") == KIND_DATA, 1)).alias("data_records"),
        )
    )
    leaders = control.where(F.col("control") == "LeaderChange").select(
        "cluster_id",
        "epoch",
        F.col("told.leader.node_id").alias("leader_id"),
        F.col("told.leader.directory_id").alias("leader_directory_id"),
    )
    before = Window.partitionBy("cluster_id").orderBy("epoch")
    return epochs.join(leaders, ["cluster_id", "epoch"], "left").select(
        "cluster_id",
        "epoch",
        "leader_id",
        "leader_directory_id",
        "first_offset",
        "last_offset",
        "first_at",
        "last_at",
        _seconds("first_at", "last_at").alias("length_s"),
        "records",
        "data_records",
        F.lag("last_at").over(before).alias("before_at"),
    )


def elections(control: DataFrame, spans: DataFrame) -> DataFrame:
    """Return each LeaderChange."""
    before = spans.select("cluster_id", "epoch", "before_at")
    leader_changes = control.where(F.col("control") == "LeaderChange")
    return leader_changes.join(before, ["cluster_id", "epoch"], "left").select(
        "cluster_id",
        "epoch",
        "offset",
        "at",
        F.col("told.leader.node_id").alias("leader_id"),
        F.col("told.leader.directory_id").alias("leader_directory_id"),
        F.size("told.granting_voters").alias("granting_voters"),
        F.size("told.voters").alias("voters"),
        _seconds("before_at", "at").alias("without_leader_s"),
    )


def voter_changes(control: DataFrame, spans: DataFrame) -> DataFrame:
    """Return each record that changed the voters.

    A whole log begins with no voter. A trimmed log begins with the voters from which its changes
    lead to a known set: the set in the state before the log, or in the next LeaderChange.
    """
    kind, fields = F.col("control"), F.col("told")
    extent = spans.groupBy("cluster_id").agg(
        F.min("first_offset").alias("log_start"), F.max("last_offset").alias("log_last")
    )
    placed = control.join(extent, "cluster_id", "inner").select(
        "*",
        F.when(kind == VOTER_SET, fields["as_of"]).otherwise(F.col("offset")).alias("place"),
        F.when(kind == "AddVoter", 1).when(kind == "RemoveVoter", -1).otherwise(0).alias("step"),
        F.when(kind.isin("LeaderChange", VOTER_SET), F.size(fields["voters"])).alias("known"),
    )
    # A state's voters may be newer than the exported log; such a set is not used yet.
    placed = placed.where(F.col("place") <= F.col("log_last"))
    order = F.col("place"), (kind == VOTER_SET).cast("int")
    of_cluster = Window.partitionBy("cluster_id").orderBy(*order)
    so_far = of_cluster.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = of_cluster.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    before = F.first(F.col("known") - F.col("sum"), ignorenulls=True).over(whole)
    counted = placed.withColumn("sum", F.sum("step").over(so_far)).select(
        "*", F.when(F.col("log_start") == 0, 0).otherwise(before).alias("before")
    )
    return counted.where(F.col("step") != 0).select(
        "cluster_id",
        "offset",
        "epoch",
        "at",
        F.when(kind == "AddVoter", "add").otherwise("remove").alias("change"),
        fields["voter"]["node_id"].alias("node_id"),
        fields["voter"]["directory_id"].alias("directory_id"),
        (F.col("before") + F.col("sum")).alias("voters_after"),
    )


def repairs(changes: DataFrame, faults: DataFrame) -> DataFrame:
    """Return each RemoveVoter with the earlier AddVoter of another replica of the node."""
    removed = changes.where(F.col("change") == "remove").select(
        "cluster_id",
        "node_id",
        F.col("directory_id").alias("old_directory_id"),
        F.col("offset").alias("removed_offset"),
        F.col("at").alias("removed_at"),
    )
    added = changes.where(F.col("change") == "add").select(
        "cluster_id",
        "node_id",
        F.col("directory_id").alias("new_directory_id"),
        F.col("offset").alias("added_offset"),
        F.col("at").alias("added_at"),
    )
    pairs = removed.join(added, ["cluster_id", "node_id"], "inner").where(
        (F.col("added_offset") < F.col("removed_offset"))
        & (F.col("new_directory_id") != F.col("old_directory_id"))
    )
    # The newest replica stays; an older replica was replaced in an earlier repair.
    latest = Window.partitionBy("cluster_id", "old_directory_id").orderBy(F.desc("added_offset"))
    # The old replica must be older than the new one: removing the new replica is no repair.
    came = added.select(
        "cluster_id",
        F.col("new_directory_id").alias("old_directory_id"),
        F.col("added_offset").alias("came_offset"),
    )
    replacements = (
        pairs.withColumn("place", F.row_number().over(latest))
        .where(F.col("place") == 1)
        .join(came, ["cluster_id", "old_directory_id"], "left")
        .where(F.coalesce(F.col("came_offset"), F.lit(-1)) < F.col("added_offset"))
    )
    fault_times = faults.select(F.col("node_id").alias("fault_id"), F.col("at").alias("fault_at"))
    of_it = (F.col("fault_id") == F.col("node_id")) & (F.col("fault_at") <= F.col("added_at"))
    key = ["cluster_id", "node_id", "old_directory_id", "new_directory_id"]
    times = ["added_offset", "added_at", "removed_offset", "removed_at"]
    return (
        replacements.join(fault_times, of_it, "left")
        .groupBy(*key, *times)
        .agg(F.max("fault_at").alias("detected_at"))
        .select(
            *key,
            "detected_at",
            *times,
            _seconds("detected_at", "added_at").alias("detect_to_add_s"),
            _seconds("added_at", "removed_at").alias("add_to_remove_s"),
            _seconds("detected_at", "removed_at").alias("repair_s"),
        )
    )


def unavailability(spans: DataFrame) -> DataFrame:
    """Return the times between epochs."""
    return spans.where(F.col("before_at").isNotNull()).select(
        "cluster_id",
        F.col("epoch").alias("until_epoch"),
        F.col("before_at").alias("from_at"),
        F.col("first_at").alias("until_at"),
        _seconds("before_at", "first_at").alias("at_most_s"),
    )


def key_changes(rows: DataFrame) -> DataFrame:
    """Return each write of each key, in order."""
    of_key = Window.partitionBy("cluster_id", "key").orderBy("offset")
    is_write = F.col("kind") == KIND_DATA
    written = F.col("kind").isin(KIND_DATA, KIND_STATE) & F.col("key").isNotNull()
    writes = rows.where(written).select(
        "cluster_id",
        "key",
        "kind",
        F.count_if(is_write).over(of_key).cast("int").alias("version"),
        "offset",
        "epoch",
        F.col("timestamp").alias("at"),
        F.length("value").alias("value_bytes"),
        F.col("value").isNull().alias("deleted"),
        F.lag("offset").over(of_key).alias("replaced_offset"),
        _seconds(F.lag("timestamp").over(of_key), "timestamp").alias("since_last_s"),
    )
    return writes.where(is_write).drop("kind")


def _seconds(since: Column | str, until: Column | str) -> Column:
    first, last = (F.col(bound) if isinstance(bound, str) else bound for bound in (since, until))
    length = (F.unix_micros(last) - F.unix_micros(first)) / 1e6
    return F.when(length.isNotNull(), F.greatest(length, F.lit(0.0)))
