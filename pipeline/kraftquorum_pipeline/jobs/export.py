"""Exports the log to Parquet, each record once, even if the job is killed and restarted.

The target has `cluster_id=<id>/batch=<number>/` with the rows of one micro-batch each, and
`_checkpoint/<id>/` with Spark's checkpoint. The job writes a batch beside the tables, counts its
rows on the disk, and moves it into its place. Spark records it as done only afterwards. If the job
is killed before the move, Spark plans the batch again with the same offsets, and the job writes it
again. If the job is killed after the move, it finds the batch in its place and keeps it. So a
reader of Parquet sees whole batches only, and no batch twice. On an object store a move takes a
while; a mark that the job writes last says that the move is complete.

In another format than Parquet, Spark's own sink of that format writes a table for each cluster.
That sink decides how often a record may be written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as in all of Spark's own documents
from pyspark.sql.streaming.query import StreamingQuery

from kraftquorum_pipeline.datasource import NAME, open_log
from kraftquorum_pipeline.errors import (
    CorruptError,
    IncompleteError,
    OptionError,
    UnreachableError,
)
from kraftquorum_pipeline.jobs.sink import Sink
from kraftquorum_pipeline.jobs.storage import Target
from kraftquorum_pipeline.kinds import KIND_CORRUPT, KIND_STATE, VOTER_SET
from kraftquorum_pipeline.source.options import parse_options

BATCH_OFFSETS = 5_000_000
"""The default number of offsets in a micro-batch; after a kill the next run repeats so many."""

AS_PARQUET = Sink()

_NOT_NOTED = (
    "Spark has not recorded it as done: remove this directory, and the next run writes it "
    "again from the log (keep a copy if the log was trimmed since)"
)

_TOO_SLOW = "Python worker failed to connect back"
_STARTS_MAX = 10
_CLAIM_LOOK_S = 10
"""The interval at which a run checks its claim, besides the check at each move."""
_STEP_S = 1
"""The interval at which the job checks whether to stop the query."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A micro-batch that is in its place.

    Attributes:
        batch: its number.
        rows: the number of rows by kind; `state` and `corrupt` only if there are some.
        start: the first offset that it covers.
        end: one past the last offset.
        left_out: the number of offsets that are missing because they were corrupt.
        bytes: the size of the Parquet files.
        seconds: the time that it took.
        again: an earlier run moved it, and was killed before Spark recorded it.
    """

    batch: int
    rows: Mapping[str, int]
    start: int
    end: int
    left_out: int
    bytes: int
    seconds: float
    again: bool


@dataclass(slots=True)
class Export:
    """Summary of a run.

    Attributes:
        source: the source of the log.
        cluster_id: the cluster of the log.
        log_end: one past the last committed offset when the run began.
        batches: the number of batches moved into place.
        rows: the number of rows by kind.
        start: the first offset of this run; None: there were no new records.
        end: one past the last offset.
        left_out: the number of offsets that are missing because they were corrupt.
        bytes: the size of the Parquet files.
        seconds: the time that the run took.
        log_start: the first offset of the log when the run began; above 0: it was trimmed.
    """

    source: str
    cluster_id: str
    log_end: int
    batches: int = 0
    rows: dict[str, int] = field(default_factory=dict[str, int])
    start: int | None = None
    end: int | None = None
    left_out: int = 0
    bytes: int = 0
    seconds: float = 0.0
    log_start: int = 0

    def add(self, done: Exported) -> None:
        """Add a batch.

        Raises:
            CorruptError: the batch does not begin at the end of the batch before it.
        """
        if done.again and self.end == done.end:
            return  # this run moved it, and Spark ended the query before it recorded that
        if self.end is not None and done.start != self.end:
            reason = f"batch {done.batch} begins with offset {done.start}"
            raise CorruptError(self.source, reason, self.end)
        self.start = done.start if self.start is None else self.start
        self.end = done.end
        self.batches += 1
        for kind, count in done.rows.items():
            self.rows[kind] = self.rows.get(kind, 0) + count
        self.left_out += done.left_out
        self.bytes += done.bytes


def export(
    session: SparkSession,
    options: Mapping[str, str],
    target: str,
    *,
    sink: Sink = AS_PARQUET,
    interval_s: float | None = None,
    stop: Event | None = None,
    on_start: Callable[[StreamingQuery, Export], None] = lambda _query, _summary: None,
    on_batch: Callable[[Exported, Export], None] = lambda _done, _summary: None,
) -> Export:
    """Export the committed records that are not exported yet.

    Args:
        session: the Spark session.
        options: the options of the data source.
        target: the directory of the tables, on any file system that Spark writes to.
        sink: the format and table, if it is not Parquet.
        interval_s: None: end at the present end of the log; else export at this interval until
            the query is stopped.
        stop: set, for example by a signal handler, to end the run.
        on_start: called with the query, which it may stop, and the summary at the start.
        on_batch: called with each batch in its place; not called for another format.

    Raises:
        PipelineError: as the source and the options say.
        IncompleteError: with `interval_s` None, the export stopped before the present end; or
            the files prove less than was exported from them.
        Exception: an error of Spark, with the reason in its text (`reported`).
    """
    started = time.monotonic()
    sink.check_catalog(session)
    wanted = {"maxOffsetsPerTrigger": str(BATCH_OFFSETS), **options}
    parsed = parse_options(wanted)
    state = open_log(parsed).look(surely=interval_s is None)
    if state.cluster_id is None:
        raise OptionError(
            f"{state.source}: the node belongs to no cluster yet; there is nothing to export"
        )
    place = Target(session, sink.root(target), state.cluster_id)
    summary = Export(state.source, state.cluster_id, state.end, log_start=state.start)
    rows = session.readStream.format(NAME).options(**wanted).load()
    begin = parsed.start or 0

    def write(frame: DataFrame, batch: int) -> None:
        summary.add(done := _write(frame, batch, place, begin))
        summary.seconds = time.monotonic() - started
        on_batch(done, summary)

    by_spark = sink.by_spark
    writer = sink.writer(rows, place) if by_spark else rows.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", place.checkpoint)
    if interval_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{interval_s} seconds")
    with place.claimed():
        if by_spark:
            place.prepare_table(there=sink.is_there(session, place))
        else:
            place.prepare()
        before = _reached(place, begin)
        if not by_spark and before.batch >= 0:
            _check_newest(rows, place, before)
        if parsed.client is None and before.batch >= 0 and state.end < before.end:
            reason = (
                f"the files prove {state.end} records committed, but {before.end} are "
                "exported: run it again after an election; if that does not help, the "
                "files are older than the export or of another history"
            )
            raise IncompleteError(state.source, reason, state.end)
        _follow(sink.starter(writer, place), place, stop, lambda query: on_start(query, summary))
        if not by_spark:  # a checkpoint that outlives its table would be worse than none
            place.sync_checkpoint()
        after = _reached(place, begin)
    if by_spark and after.end > before.end:
        summary.start, summary.end = before.end, after.end
        summary.batches = after.batch - before.batch
    if interval_s is None and after.end < summary.log_end:
        reason = (
            f"the run ended here, but {summary.log_end} records were committed when it began; "
            "run it again"
        )
        raise IncompleteError(summary.source, reason, after.end)
    summary.seconds = time.monotonic() - started
    return summary


class _Reached(NamedTuple):
    batch: int
    end: int


def _reached(place: Target, begin: int) -> _Reached:
    """Return the last batch that Spark recorded as done, and one past its last offset."""
    newest = place.newest()
    if newest is None:
        return _Reached(-1, begin)
    return _Reached(newest, _noted(place, newest))


def _noted(place: Target, batch: int) -> int:
    """Return one past the last offset of a batch, as Spark recorded it before the batch began.

    Raises:
        CorruptError: Spark has no record of it.
    """
    end = place.end_of(batch)
    if end is None:
        raise CorruptError(place.checkpoint, f"offsets/{batch} is missing")
    return end


def _check_newest(rows: DataFrame, place: Target, noted: _Reached) -> None:
    """Check that the newest batch is the one that Spark recorded; the next begins at its end.

    Raises:
        CorruptError: another batch is in its place, such as of a run that was still alive.
    """
    reader = rows.sparkSession.read.schema(rows.drop("cluster_id").schema)
    # Spark records no start of the first batch.
    # It has no start of this batch either, if it keeps the newest record only.
    start = place.end_of(noted.batch - 1) if noted.batch else None
    _count(reader, place.batch(noted.batch), start, noted.end)


def _follow(
    start: Callable[[], StreamingQuery],
    place: Target,
    stop: Event | None,
    on_start: Callable[[StreamingQuery], None],
) -> None:
    """Run a query to its end, or until it is stopped or another run has taken over the claim.

    A signal handler must not stop the query itself: it may run while the same thread talks to
    Spark.

    Spark gives a Python process ten seconds to come up, and no setting changes that. On a
    busy machine the query fails there; nothing is lost, so the job starts it again.
    """
    for attempt in range(1, _STARTS_MAX + 1):
        query = start()
        try:
            on_start(query)
            looked_s = time.monotonic()
            while not query.awaitTermination(_STEP_S):
                if stop is not None and stop.is_set():
                    return
                if time.monotonic() - looked_s < _CLAIM_LOOK_S:
                    continue
                looked_s = time.monotonic()
                with suppress(UnreachableError):  # checked again, and before any batch is moved
                    place.check_claim()
        except StreamingQueryException as error:
            if _TOO_SLOW not in str(error) or attempt == _STARTS_MAX:
                raise
        else:
            return
        finally:
            if query.isActive:
                query.stop()


def _write(frame: DataFrame, batch: int, place: Target, begin: int) -> Exported:
    """Write one micro-batch and move it into its place."""
    started = time.monotonic()
    final = place.batch(batch)
    again = place.is_whole(final)
    written = final if again else place.unfinished(batch)
    if not again:
        # The path has the cluster id.
        frame.drop("cluster_id").write.mode("overwrite").parquet(written)
    reader = frame.sparkSession.read.schema(frame.drop("cluster_id").schema)
    start = _noted(place, batch - 1) if batch else begin
    end = _noted(place, batch)
    try:
        rows, left_out = _count(reader, written, start, end)
    except CorruptError as error:
        if not again:
            raise
        raise CorruptError(error.source, f"{error.reason}; {_NOT_NOTED}", error.offset) from None
    size = place.size(written)
    if again:
        place.sync_place(final)
    else:
        place.move(written, final)
    seconds = time.monotonic() - started
    return Exported(batch, rows, start, end, left_out, size, seconds, again)


def _count(reader: Any, path: str, start: int | None, end: int) -> tuple[dict[str, int], int]:
    """Count a batch on the disk: rows by kind, and offsets left out because they are corrupt.

    Args:
        reader: the reader of Parquet.
        path: the path of the batch.
        start: the first offset that it must have; 0: or the state before a trimmed log;
            None: any offset.
        end: one past the last offset.

    Raises:
        CorruptError: an offset is missing, or is there twice.
    """
    is_corrupt = F.col("kind") == KIND_CORRUPT
    span = F.get_json_object("fields", "$.end_offset").cast("bigint") - F.col("offset")
    groups = (
        reader.parquet(path)
        .groupBy("kind")
        .agg(
            F.count("*").alias("rows"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.sum(F.when(is_corrupt, span).otherwise(1)).alias("offsets"),
            F.max(F.when(is_corrupt, F.col("offset") + span)).alias("corrupt_end"),
            F.max(F.when(F.col("control") == VOTER_SET, F.col("offset"))).alias("voters"),
        )
        .collect()
    )
    rows = {row["kind"]: int(row["rows"]) for row in groups}
    log = [row for row in groups if row["kind"] != KIND_STATE]
    # The state stands for the records before the log. Its last row is of the last of them.
    covered = [int(row["voters"]) + 1 for row in groups if row["voters"] is not None]
    first = min((int(row["first"]) for row in log), default=end)
    last = max((int(row["corrupt_end"] or row["last"] + 1) for row in log), default=first)
    offsets = sum(int(row["offsets"]) for row in log)
    if not start and KIND_STATE in rows:
        begins = first == max(covered, default=first)
    else:
        begins = start is None or first == start
    if not begins or last != end or offsets != end - first:
        what = f"{offsets} records of offsets {first} to {last - 1}"
        start = first if start is None else start
        raise CorruptError(path, f"{what}; the batch is of {start} to {end - 1}", start)
    left_out = sum(int(row["offsets"]) for row in log if row["kind"] == KIND_CORRUPT)
    return rows, left_out
