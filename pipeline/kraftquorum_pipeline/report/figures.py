"""Computes the figures of a report on Spark; their size does not grow with the log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark

from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.jobs.storage import WHOLE, Store, root_of
from kraftquorum_pipeline.kinds import VOTER_SET

from .account import read_account
from .control_records import follow, read_row
from .model import Bin, Event, LatencyBin, QuorumFigures

BINS = 240
"""The most bins of a chart; a chart has at least a third of them."""

_WIDTHS_MS = (
    *(100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000),
    *(600_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000, 86_400_000, 604_800_000),
)


@dataclass(frozen=True, slots=True)
class Sources:
    """The inputs about one quorum.

    Attributes:
        name: the name to show; None: the cluster id.
        audit: the verdict of an audit.
        count: the result of `count`.
        writes: a client's account of its writes.
        events: the events from outside, such as faults.
    """

    name: str | None = None
    audit: Mapping[str, Any] | None = None
    count: Mapping[str, Any] | None = None
    writes: Path | None = None
    events: Path | None = None


def read_export(session: SparkSession, target: str) -> DataFrame:
    """Read the table that `export` wrote: all clusters, whole batches only.

    Raises:
        OptionError: there is no export, or Spark has no file system for it.
        UnreachableError: its file system does not answer, or refuses.
    """
    store, root = Store(session), root_of(target)
    if not store.exists(target):
        raise OptionError(f"{target} does not exist; give an exported log")
    paths = [f"{root}/cluster_id=*"]
    if not store.renames_in_one_step(target):
        # A batch without the mark is being moved, or its run was killed during the move.
        paths = store.parents(f"{root}/cluster_id=*/batch=*/{WHOLE}")
        if not paths:
            raise OptionError(f"{target} holds no exported log: no batch in it has {WHOLE}")
    try:
        table = session.read.option("basePath", target).parquet(*paths)
    except AnalysisException as error:
        raise OptionError(f"{target} holds no exported log: {str(error).splitlines()[0]}") from None
    return table.withColumn("at_ms", F.unix_millis("timestamp"))


def clusters(table: DataFrame) -> list[str]:
    """Return the cluster ids of an export."""
    return sorted(str(row[0]) for row in table.select("cluster_id").distinct().collect())


def gather(
    session: SparkSession, table: DataFrame, cluster: str, sources: Sources
) -> QuorumFigures:
    """Compute all figures of one quorum."""
    log = table.where(F.col("cluster_id") == cluster)
    quorum = QuorumFigures(sources.name or cluster, cluster)
    if sources.events is not None:
        quorum.events = read_events(sources.events)
    data = F.col("kind") == "data"
    [sums] = log.agg(
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        F.max("offset").alias("last"),
        F.count_if(data).alias("records"),
        F.sum(F.when(data, _size())).alias("size"),
    ).collect()
    quorum.first_ms, quorum.last_ms = int(sums["first_ms"] or 0), int(sums["last_ms"] or 0)
    quorum.end_offset = -1 if sums["last"] is None else int(sums["last"])
    quorum.end_offset += 1
    quorum.records, quorum.size = int(sums["records"]), int(sums["size"] or 0)
    quorum.bin_ms = bin_width_ms(quorum.last_ms - quorum.first_ms)
    quorum.bins = _bins(log.where(data), quorum)
    quorum.keys = _keys(log)
    follow(quorum, map(read_row, _control(log)))
    if sources.writes is not None:
        quorum.latency = _latency(read_account(session, sources.writes), quorum)
    quorum.audit = None if sources.audit is None else dict(sources.audit)
    quorum.count = None if sources.count is None else dict(sources.count)
    return quorum


def bin_width_ms(span_ms: int) -> int:
    """Return the narrowest round width that gives a span at most `BINS` bins."""
    return next((width for width in _WIDTHS_MS if span_ms / width <= BINS), _WIDTHS_MS[-1])


def read_events(path: Path) -> list[Event]:
    """Read the events of a quorum: a JSON list of objects (docs/howto/audit.md).

    Raises:
        OptionError: the file cannot be read, or has another form.
    """
    try:
        entries = cast("list[dict[str, Any]]", json.loads(path.read_text(encoding="utf-8")))
        events = [
            Event(
                int(entry["at_ms"]),
                str(entry["title"]),
                bool(entry.get("violent")),
                str(entry.get("lost_replica") or ""),
            )
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{path} is not a list of events: {error}") from None
    return sorted(events)


def _size() -> Column:
    return F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(
        F.octet_length("value"), F.lit(0)
    )


def _bins(data: DataFrame, quorum: QuorumFigures) -> list[Bin]:
    width = quorum.bin_ms
    place = F.floor((F.col("at_ms") - F.lit(quorum.first_ms)) / F.lit(width))
    rows = (
        data.groupBy(place.cast("bigint").alias("bin"))
        .agg(F.count("*").alias("records"), F.sum(_size()).alias("size"))
        .orderBy("bin")
        .collect()
    )
    return [
        Bin(quorum.first_ms + int(row["bin"]) * width, int(row["records"]), int(row["size"]))
        for row in rows
    ]


def _keys(log: DataFrame) -> int:
    """Count the keys whose newest record has a value."""
    newest = (
        log.where("kind in ('data', 'state') and key is not null")
        .groupBy("key")
        .agg(F.max(F.struct("offset", F.col("value").isNotNull().alias("there"))).alias("last"))
    )
    return newest.where("last.there").count()


def _control(log: DataFrame) -> list[dict[str, Any]]:
    """Return the control records, with the time of the record before each new leader's first."""
    of_quorum = (F.col("kind") == "control") | (F.col("control") == VOTER_SET)
    control = log.where(of_quorum).select("offset", "epoch", "at_ms", "control", "fields")
    rows = [row.asDict() for row in control.orderBy("offset").collect()]
    before = [row["offset"] - 1 for row in rows if row["control"] == "LeaderChange"]
    there = log.where(F.col("offset").isin(before)).select("offset", "at_ms").collect()
    times = {row["offset"]: row["at_ms"] for row in there}
    return [{**row, "before_ms": times.get(row["offset"] - 1)} for row in rows]


def _latency(account: DataFrame, quorum: QuorumFigures) -> list[LatencyBin]:
    width = quorum.bin_ms
    place = F.floor((F.col("ended_ms") - F.lit(quorum.first_ms)) / F.lit(width))
    took = F.col("ended_ms") - F.col("started_ms")
    rows = (
        account.where("outcome = 'acknowledged'")
        .groupBy(place.cast("bigint").alias("bin"))
        .agg(
            F.percentile(took, F.lit(0.5)).alias("median"),
            F.percentile(took, F.lit(0.99)).alias("high"),
            F.max(took).alias("largest"),
        )
        .orderBy("bin")
        .collect()
    )
    return [
        LatencyBin(
            quorum.first_ms + int(row["bin"]) * width,
            float(row["median"]),
            float(row["high"]),
            float(row["largest"]),
        )
        for row in rows
    ]
