"""The engine on Spark: one task for each segment and snapshot; executors add up the sums.

The driver receives control records, damage, and only the ranges of offsets in which
replicas differ, so that its share does not grow with the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in PySpark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .details import CHUNKS_MAX
from .engine import DIFFERENCES_MAX, KeyDifference, Scanned, SnapshotFile
from .replica_files import Piece
from .scan import CHUNK, Row, scan_segment
from .states import (
    Entry,
    SnapshotSum,
    StateSum,
    Stretch,
    make_entry,
    read_state,
    read_stretch,
    sum_snapshot,
)

_BATCH_ROWS = 16_384
_ROWS = pa.schema(
    [
        ("kind", pa.string()),
        ("replica", pa.string()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("epoch", pa.int32()),
        ("batches", pa.int64()),
        ("records", pa.int64()),
        ("size", pa.int64()),
        ("digest_hi", pa.int64()),
        ("digest_lo", pa.int64()),
        ("name", pa.string()),
        ("text", pa.string()),
    ]
)
_ENTRIES = pa.schema(
    [
        ("key", pa.binary()),
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
        ("present", pa.bool_()),
        ("digest_hi", pa.int64()),
        ("digest_lo", pa.int64()),
    ]
)
_VALUES = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
    ]
)
_SPARK_TYPES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
}


class SparkEngine:
    """Reads on the executors of a session, which must reach the files by the same paths."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        session.dataSource.register(_AuditSource)

    def scan(self, pieces: Sequence[Piece]) -> Scanned:
        """Read all segments."""
        read = self._spread("segment", pieces).persist()
        try:
            rows = [_row(row) for row in read.where("kind != 'chunk'").collect()]
            chunks = read.where("kind = 'chunk'").withColumn(
                "chunk", F.floor(F.col("offset") / F.lit(CHUNK)).cast("bigint")
            )
            sums = _sums(chunks)
            different = [
                int(row["chunk"])
                for row in sums.where("versions > 1").orderBy("chunk").select("chunk").collect()
            ]
            wanted = {row.offset // CHUNK for row in rows if row.kind == "damage"}
            looked_at = sorted({*different[:CHUNKS_MAX], *(wanted & set(different))})
            unequal: dict[int, list[Row]] = {chunk: [] for chunk in different}
            shown = chunks.where(F.col("chunk").isin(looked_at)).drop("chunk")
            for collected in shown.collect() if looked_at else ():
                row = _row(collected)
                unequal[row.chunk].append(row)
            for chunk_rows in unequal.values():
                chunk_rows.sort(key=lambda row: (row.replica, row.offset))
            return Scanned(rows, unequal, sums.count())
        finally:
            read.unpersist()

    def snapshots(self, files: Sequence[SnapshotFile]) -> list[SnapshotSum]:
        """Read all snapshots."""
        context = self._session.sparkContext
        read = context.parallelize(list(files), len(files)).map(lambda file: sum_snapshot(*file))
        return list(read.collect())

    def replay(
        self, stretches: Sequence[Stretch], base: str | None, ends: Sequence[int]
    ) -> dict[int, StateSum]:
        """Return the sums of the state at some offsets, from one pass over the log."""
        newest = self._entries(stretches, base).groupBy("key").agg(*(_newest(e) for e in ends))
        sums: list[Column] = []
        for end in ends:
            there = F.col(f"at_{end}.present")
            sums += [
                F.count_if(there).alias(f"count_{end}"),
                _xor(there, f"at_{end}.digest_hi").alias(f"hi_{end}"),
                _xor(there, f"at_{end}.digest_lo").alias(f"lo_{end}"),
            ]
        [totals] = newest.agg(*sums).collect()
        return {
            end: StateSum(
                int(totals[f"count_{end}"]), int(totals[f"hi_{end}"]), int(totals[f"lo_{end}"])
            )
            for end in ends
        }

    def differences(
        self, stretches: Sequence[Stretch], base: str | None, end: int, snapshot: str
    ) -> list[KeyDifference]:
        """The first keys in which a snapshot differs from the log."""
        state = self._entries([stretch for stretch in stretches if stretch.from_offset < end], base)
        log = state.groupBy("key").agg(_newest(end)).select("key", F.col(f"at_{end}").alias("log"))
        log = log.where("log.present")
        there = self._entries([], snapshot).select("key", _value().alias("there"))
        rows = (
            log.join(there, on="key", how="full_outer")
            .where(~F.col("log").eqNullSafe(F.col("there")))
            .orderBy("key")
            .limit(DIFFERENCES_MAX)
            .collect()
        )
        return [
            (bytes(row["key"]), _entry(row["key"], row["log"]), _entry(row["key"], row["there"]))
            for row in rows
        ]

    def state(self, stretches: Sequence[Stretch], base: str | None) -> DataFrame:
        """Each key with its newest value: `key`, `value`, `offset`, `epoch`; no deleted keys."""
        records = self._spread("values of stretch", stretches)
        if base is not None:
            records = records.unionByName(self._spread("values of snapshot", [base]))
        newest = records.groupBy("key").agg(
            F.max(F.struct("offset", "epoch", "value")).alias("last")
        )
        return newest.select("key", "last.value", "last.offset", "last.epoch").where(
            "value is not null"
        )

    # -- helpers --------------------------------------------------------------------

    def _entries(self, stretches: Sequence[Stretch], base: str | None) -> DataFrame:
        entries = self._spread("stretch", stretches)
        if base is None:
            return entries
        return entries.unionByName(self._spread("snapshot", [base]))

    def _spread(self, kind: str, inputs: Sequence[object]) -> DataFrame:
        """Run a task for each input; its rows come as Arrow batches."""
        if not inputs:
            return self._session.createDataFrame([], _ddl(_READERS[kind][1]))
        reader = self._session.read.format(_AuditSource.name())
        return reader.option("kind", kind).option("inputs", json.dumps(inputs)).load()


@dataclass(slots=True)
class _Part(InputPartition):
    """One file, or one range of it."""

    value: Any


class _AuditSource(DataSource):
    """Files as tables, for this package only: the options say what to read.

    `mapInArrow` would do as well, but needs pandas.
    """

    @classmethod
    def name(cls) -> str:
        return "kraftquorum_audit"

    def schema(self) -> str:
        return _ddl(_READERS[self.options["kind"]][1])

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return _AuditReader(self.options["kind"], json.loads(self.options["inputs"]))


class _AuditReader(DataSourceReader):
    def __init__(self, kind: str, inputs: list[Any]) -> None:
        self._kind = kind
        self._inputs = inputs

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(item) for item in self._inputs]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Part)  # noqa: S101 - Spark hands back what it was given
        read, schema = _READERS[self._kind]
        rows = iter(read(partition.value))
        while block := list(islice(rows, _BATCH_ROWS)):
            columns = zip(*block, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _scan(piece: Any) -> Iterable[tuple[Any, ...]]:
    return scan_segment(Piece(*piece))


def _stretch_entries(stretch: Any) -> Iterable[tuple[Any, ...]]:
    return (make_entry(*record) for record in read_stretch(Stretch(*stretch)))


def _state_entries(path: Any) -> Iterable[tuple[Any, ...]]:
    return (make_entry(*record) for record in read_state(str(path)))


_READERS: dict[str, tuple[Callable[[Any], Iterable[tuple[Any, ...]]], pa.Schema]] = {
    "segment": (_scan, _ROWS),
    "stretch": (_stretch_entries, _ENTRIES),
    "snapshot": (_state_entries, _ENTRIES),
    "values of stretch": (lambda item: read_stretch(Stretch(*item)), _VALUES),
    "values of snapshot": (lambda item: read_state(str(item)), _VALUES),
}


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in schema)


def _sums(chunks: DataFrame) -> DataFrame:
    """Count the versions of each chunk."""
    held = chunks.groupBy("chunk", "replica").agg(
        F.bit_xor("digest_hi").alias("hi"), F.bit_xor("digest_lo").alias("lo")
    )
    return held.groupBy("chunk").agg(F.count_distinct(F.struct("hi", "lo")).alias("versions"))


def _value() -> Column:
    return F.struct("offset", "epoch", "present", "digest_hi", "digest_lo")


def _newest(end: int) -> Column:
    """The newest entry of a key below an offset; a struct's maximum is by its first field."""
    return F.max(F.when(F.col("offset") < F.lit(end), _value())).alias(f"at_{end}")


def _xor(there: Column, name: str) -> Column:
    return F.coalesce(F.bit_xor(F.when(there, F.col(name))), F.lit(0))


def _row(collected: Any) -> Row:
    return Row(*(collected[name] for name in Row._fields))


def _entry(key: Any, value: Any) -> Entry | None:
    if value is None:
        return None
    return Entry(
        bytes(key),
        int(value["offset"]),
        int(value["epoch"]),
        bool(value["present"]),
        int(value["digest_hi"]),
        int(value["digest_lo"]),
    )
