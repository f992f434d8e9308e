"""Spark's data source `kraftquorum`, batch and streaming, over `source`.

A stream's offsets are `{"cluster", "offset", "epoch"}`: the next offset to read, and the epoch of
the record before it. By the epoch, a checkpoint detects a log that it was not made from.
Committed records never change, so a second read after a crash returns the same records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kraftquorum_pipeline.errors import (
    ClusterIdError,
    DivergedError,
    OptionError,
    TrimmedError,
)
from kraftquorum_pipeline.schema import TIMESTAMP, log_schema
from kraftquorum_pipeline.source.files import FileLog
from kraftquorum_pipeline.source.interface import LogSource, LogState, Part
from kraftquorum_pipeline.source.nodes import NodeLog
from kraftquorum_pipeline.source.options import Options, parse_options

NAME = "kraftquorum"

_LOOK_S = 1.0
"""How often to read the end of the log. Spark asks a stream without new records for its end about
a hundred times a second."""


def register(session: SparkSession) -> None:
    """Make the data source known to a session."""
    session.dataSource.register(KraftQuorumDataSource)


def open_log(options: Options) -> LogSource:
    """Return the log that the options name, without reading it."""
    return NodeLog(options) if options.client is not None else FileLog(options)


class KraftQuorumDataSource(DataSource):
    """`spark.read.format("kraftquorum")` and `spark.readStream.format("kraftquorum")`."""

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return NAME

    def _parsed(self) -> Options:
        return parse_options({name: str(value) for name, value in self.options.items()})

    def schema(self) -> StructType:
        """The columns; keys and values are strings if the options say so."""
        options = self._parsed()
        arrow = log_schema(key_text=options.key_text, value_text=options.value_text)
        return StructType([_spark_field(field) for field in arrow])

    def reader(self, schema: StructType) -> LogReader:
        """Read a batch."""
        return LogReader(self._checked(schema))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 - Spark's name
        """Read a stream."""
        options = self._checked(schema)
        if options.end is not None:
            raise OptionError("endingOffset is for batches; a stream has no end. Remove it")
        return LogStreamReader(options)

    def _checked(self, schema: StructType) -> Options:
        wanted = self.schema()
        if schema.simpleString() != wanted.simpleString():
            raise OptionError(
                f"the schema is {schema.simpleString()}, and the source's columns are "
                f"{wanted.simpleString()}; leave it out, and see keyFormat and valueFormat"
            )
        return self._parsed()


_SCALARS: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    TIMESTAMP: TimestampType(),
}


def _spark_field(field: pa.Field) -> StructField:
    return StructField(field.name, _spark_type(field.type), field.nullable)


def _spark_type(kind: pa.DataType) -> DataType:
    if pa.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return StructType([_spark_field(kind.field(at)) for at in range(kind.num_fields)])
    return _SCALARS[kind]


@dataclass(frozen=True, slots=True)
class _Gone:
    """Stands for trimmed parts: a read of it raises the error.

    Attributes:
        error: says what was trimmed.
    """

    error: TrimmedError

    def read(self) -> Iterator[pa.RecordBatch]:
        raise self.error


class LogPartition(InputPartition):
    """The part that one task reads."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


def _read(partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    # Spark makes one task without a part if there is nothing to read.
    if isinstance(partition, LogPartition):
        yield from partition.part.read()


class LogReader(DataSourceReader):
    """Reads a range of offsets once."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[LogPartition]:
        """Plan the parts: the end of the log is asked for once, and the tasks read up to it."""
        log = open_log(self._options)
        start = 0 if self._options.start is None else self._options.start
        state = log.look(start, surely=self._options.end is None)
        end = state.end if self._options.end is None else self._options.end
        if end > state.end:  # as far as the nodes that answered know
            state = log.look(start, surely=True)
        if end > state.end:
            raise OptionError(
                f"endingOffset: {end} is too high, {state.source} is committed up to offset "
                f"{state.end}"
            )
        if self._options.start == 0:
            state.check_explicit_start(0)
        return [LogPartition(part) for part in log.parts(start, max(start, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part; runs on an executor."""
        return _read(partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads committed records, and continues from Spark's checkpoint."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._log = open_log(options)
        self._state: LogState | None = None
        self._looked_s = 0.0
        self._target: LogState | None = None
        self._proved = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the log: an executor needs only the parts."""
        return {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offset at which a stream without a checkpoint begins."""
        start = self._options.start or 0
        state = self._look(start)
        if self._options.start is not None:
            state.check_explicit_start(start)
        return self._offset(state, start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """`maxOffsetsPerTrigger`."""
        limit = self._options.offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end: the query returns all records committed by now, and none committed later."""
        self._target = self._look(surely=True)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """How far the log is committed, for the progress of the query."""
        return None if self._state is None else self._offset(self._state, self._state.end)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch."""
        state = self._look(int(start["offset"]))
        first = self._prove(state, start)
        # A committed record stays committed, even if the node that answers now knows of less.
        end = state.end if self._target is None else self._target.end
        if isinstance(limit, ReadMaxRows):
            # The first batch has the whole state before a trimmed log.
            end = min(end, max(first, state.state_end if first == 0 else 0) + limit.max_rows)
        return start if end <= first else self._offset(state, end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogPartition]:
        """Plan a micro-batch, also one that an earlier driver planned and did not finish.

        Trimmed records are an error only for a task that reads them: a batch that was written
        completely before its driver was killed is not read again.
        """
        state = self._state or self._look(int(start["offset"]))
        try:
            first = self._prove(state, start)
            parts = self._log.parts(first, int(end["offset"]))
        except TrimmedError as error:
            parts = [_Gone(error)]
        return [LogPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part; runs on an executor."""
        return _read(partition)

    # -- inside ------------------------------------------------------------------------

    def _look(self, offset: int = 0, *, surely: bool = False) -> LogState:
        now_s, state = time.monotonic(), self._state
        outdated = now_s - self._looked_s >= _LOOK_S
        if state is None or outdated or surely or 0 < offset < state.start:
            state = self._state = self._log.look(offset, surely=surely)
            self._looked_s = time.monotonic()
        return state

    def _offset(self, state: LogState, offset: int) -> dict[str, Any]:
        epoch = self._log.epoch_of(offset - 1) if offset > state.start else None
        return {
            "cluster": state.cluster_id or "",
            "offset": offset,
            "epoch": -1 if epoch is None else epoch,
        }

    def _prove(self, state: LogState, start: dict[str, Any]) -> int:
        """Check once that a checkpoint is of this log; return its offset.

        Raises:
            ClusterIdError: the checkpoint is of another cluster.
            TrimmedError: the log begins after the checkpoint.
            DivergedError: the log has another record at the checkpoint, or ends before it.
        """
        offset, cluster_id = int(start["offset"]), start["cluster"] or None
        target = self._target
        if cluster_id is not None and cluster_id != state.cluster_id:
            reason = (
                f"the log is of cluster {state.cluster_id}, but the checkpoint is of {cluster_id}"
            )
            raise ClusterIdError(state.source, reason, offset)
        state.check_start(offset)
        if target is not None and target.sure and offset > target.end:
            reason = (
                f"the checkpoint is at offset {offset}, but only {target.end} records are committed"
            )
            raise DivergedError(state.source, reason, target.end)
        if not self._proved and start["epoch"] >= 0 and state.start < offset <= state.end:
            epoch = self._log.epoch_of(offset - 1)
            if epoch is not None and epoch != start["epoch"]:
                reason = f"the log has epoch {epoch} there, but the checkpoint has {start['epoch']}"
                raise DivergedError(state.source, reason, offset - 1)
            self._proved = True
        return offset
