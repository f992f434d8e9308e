"""Compares an exported log with a client's own account of its writes.

The account has the offset of each acknowledged write. The export must have every acknowledged
write at its offset, and no write twice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

from kraftquorum_pipeline.report.account import read_account

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Counted:
    """The result of a count.

    Attributes:
        rows: the rows of the export, control records included.
        records: the records of clients.
        acknowledged: the acknowledged writes in the account.
        missing: acknowledged writes that are not at their offset with their key and value.
        duplicated: rows too many: an offset is there twice, or one write is.
        unexpected: records that the client never wrote.
        unknown_found: writes of unknown outcome that are in the export.
        examples: offset and key of the first missing writes.
    """

    rows: int
    records: int
    acknowledged: int
    missing: int
    duplicated: int
    unexpected: int
    unknown_found: int
    examples: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is missing and nothing is there twice."""
        return not (self.missing or self.duplicated)

    def as_json(self) -> dict[str, Any]:
        """The result for programs."""
        return asdict(self)


def count(session: SparkSession, table: DataFrame, writes: Path) -> Counted:
    """Compare one cluster's exported log with an account.

    Args:
        session: the Spark session.
        table: the rows of one cluster in the export.
        writes: the account, of the only client that wrote to it.

    Raises:
        OptionError: there is no such file.
    """
    account = read_account(session, writes).withColumn("there", F.lit(1))
    content = table.where("kind = 'data'").select(
        "offset",
        F.col("key").cast("string").alias("key"),
        F.sha2("value", 256).alias("value_sha256"),
    )
    content = content.persist()
    try:
        return _count(table, content, account)
    finally:
        content.unpersist()


def _count(table: DataFrame, content: DataFrame, account: DataFrame) -> Counted:
    same = [
        F.col("left.key").eqNullSafe(F.col("right.key")),
        F.col("left.value_sha256").eqNullSafe(F.col("right.value_sha256")),
    ]
    acknowledged = account.where("outcome = 'acknowledged'").alias("left")
    placed = [F.col("left.offset") == F.col("right.offset"), *same]
    missing = acknowledged.join(content.alias("right"), on=placed, how="left_anti")
    written = account.where("outcome != 'refused'").select("key", "value_sha256").distinct()
    unexpected = content.alias("left").join(written.alias("right"), on=same, how="left_anti")
    unknown = account.where("outcome not in ('acknowledged', 'refused')").alias("left")
    unknown_found = unknown.join(content.alias("right"), on=same, how="left_semi")
    [rows] = table.agg(
        F.count("*").alias("rows"),
        F.count_if(F.col("kind") != "state").alias("of_log"),
        F.count_distinct(F.when(F.col("kind") != "state", F.col("offset"))).alias("offsets"),
    ).collect()
    # Each write of the account has its own content, so two rows with one content are one too many.
    again = content.alias("left").join(written.alias("right"), on=same, how="left_semi")
    [twice] = (
        again.groupBy("key", "value_sha256")
        .agg((F.count_distinct("offset") - 1).alias("more"))
        .agg(F.coalesce(F.sum("more"), F.lit(0)).alias("more"))
        .collect()
    )
    missed = missing.count()
    # Not in Spark's cache, which would serve another account of the same name from it.
    examples = missing.orderBy("offset").limit(_EXAMPLES).collect() if missed else []
    return Counted(
        rows=int(rows["rows"]),
        records=content.count(),
        acknowledged=acknowledged.count(),
        missing=missed,
        duplicated=int(rows["of_log"]) - int(rows["offsets"]) + int(twice["more"]),
        unexpected=unexpected.count(),
        unknown_found=unknown_found.count(),
        examples=tuple(f"offset {row['offset']}, key {row['key']!r}" for row in examples),
    )
