"""Exports in another format than Parquet, which Spark's own sink of that format writes.

Any format that Spark has jars for works: ORC and JSON are part of Spark, Delta and Iceberg need
their own jars. The sink decides how often a record may be written, by the numbers of the batches.
A sink of files leaves a list of its files, which Spark's readers follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kraftquorum_pipeline.errors import OptionError, UnreachableError
from kraftquorum_pipeline.jobs.storage import Store, Target, reason_of, root_of

PARQUET = "parquet"
"""What `export` writes itself."""

_ITS_OWN = "spark_catalog"
"""Spark's name of the catalog that it has without any setting."""

_NO_JARS = ("DATA_SOURCE_NOT_FOUND", "ClassNotFound", "NoClassDefFound", "NoSuchMethod")
"""Errors of Spark's for a format whose jars are missing, or were made for another Spark."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where Spark writes.

    Attributes:
        format: Spark's name of the format; `export` writes Parquet (in any case) itself.
        table: a table of a catalog; None: the directory of the cluster under the target.
    """

    format: str = PARQUET
    table: str | None = None

    @property
    def by_spark(self) -> bool:
        """Whether a sink of Spark writes, and not `export` itself."""
        return self.format.lower() != PARQUET

    def check(self) -> None:
        """Refuse a format and a table that do not fit together.

        Raises:
            OptionError: a catalog's table for Parquet, or an invalid name of a format or table.
        """
        if not self.format.replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise OptionError(f"--format {self.format!r}: expected the name of a Spark format")
        if self.table is None:
            return
        if not self.by_spark:
            raise OptionError(
                "--table is for other formats: Parquet is written to the directory of --output"
            )
        if not all(self.table.split(".")):
            raise OptionError(f"--table {self.table!r}: expected CATALOG.DATABASE.NAME")

    def check_catalog(self, session: SparkSession) -> None:
        """Refuse a table that Spark forgets when it exits.

        Raises:
            OptionError: the table is in Spark's own catalog, which is in memory only.
        """
        if self.table is None or self._catalog(session) != _ITS_OWN:
            return
        if session.conf.get(f"spark.sql.catalog.{_ITS_OWN}", "builtin") != "builtin":
            return  # another catalog replaces it, which may be persistent
        if session.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
            raise OptionError(
                f"--table {self.table}: Spark's own catalog is in memory here and loses the "
                "table when this run ends; use a persistent one, with --conf "
                "spark.sql.catalogImplementation=hive or a catalog of "
                "spark.sql.catalog.NAME"
            )

    def root(self, target: str) -> str:
        """The target of this table: each table has a checkpoint of its own."""
        if not self.by_spark:
            return target
        root = f"{root_of(target)}/{self.format.lower()}"
        return root if self.table is None else f"{root}/{quote(self.table, safe='')}"

    def is_there(self, session: SparkSession, place: Target) -> bool:
        """Whether its table exists."""
        if self.table is None:
            return Store(session).exists(place.table)
        try:
            return session.catalog.tableExists(self.table)
        except (Py4JJavaError, PySparkException) as error:
            raise OptionError(f"--table {self.table}: {reason_of(error)}") from None

    def writer(self, rows: DataFrame, place: Target) -> DataStreamWriter:
        """Return a writer to the sink."""
        writer = rows.writeStream.format(self.format).outputMode("append")
        return writer if self.table is not None else writer.option("path", place.table)

    def starter(self, writer: DataStreamWriter, place: Target) -> Callable[[], StreamingQuery]:
        """Return the function that starts the query.

        Raises, when it is called:
            OptionError: Spark has no such format, or cannot write a stream in it.
            UnreachableError: the query could not start for another reason.
        """

        def start() -> StreamingQuery:
            try:
                return writer.start() if self.table is None else writer.toTable(self.table)
            except (Py4JJavaError, PySparkException) as error:
                raise self._refusal(error, place) from None

        return start

    def _catalog(self, session: SparkSession) -> str:
        """Return the catalog in a table's name, as Spark reads the name."""
        first, dot, _ = (self.table or "").partition(".")
        first = first.strip("`")
        named = f"spark.sql.catalog.{first}"
        if dot and (first == _ITS_OWN or session.conf.get(named, None) is not None):
            return first
        return session.conf.get("spark.sql.defaultCatalog", None) or _ITS_OWN

    def _refusal(self, error: Py4JJavaError | PySparkException, place: Target) -> Exception:
        reason = reason_of(error)
        if any(phrase in reason for phrase in _NO_JARS):
            return OptionError(
                f"--format {self.format}: Spark cannot write it: {reason} Formats that are not "
                "Spark's own need jars made for this Spark, as --conf "
                "spark.jars.packages=GROUP:NAME:VERSION"
            )
        if isinstance(error, AnalysisException | UnsupportedOperationException):
            return OptionError(f"--format {self.format}: Spark cannot write it this way: {reason}")
        where = self.table or place.table
        return UnreachableError(where, f"Spark could not start to write it: {reason}")
