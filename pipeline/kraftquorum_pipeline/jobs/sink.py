"""An export in another format than Parquet: Spark's own sink of that format does the writing.

Whatever Spark has jars for: ORC and JSON it brings itself, Delta and Iceberg come with theirs. How
often a record comes is what the sink promises, by the numbers that Spark gives to batches; those of
files leave a list of them that Spark's readers go by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kraftquorum_pipeline.errors import OptionError
from kraftquorum_pipeline.jobs.storage import Store, Target, reason_of, root_of

PARQUET = "parquet"
"""What `export` writes itself."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where Spark writes.

    Attributes:
        format: Spark's name of it.
        table: of a catalog; None: the directory of the cluster under the target.
    """

    format: str = PARQUET
    table: str | None = None

    def check(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            OptionError: a table of a catalog for Parquet, or a format that is no name.
        """
        if not self.format.replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise OptionError(f"--format {self.format!r}: expected the name of a format of Spark's")
        if self.format == PARQUET and self.table is not None:
            raise OptionError(
                "--table is for other formats: Parquet is written to the directory of --output"
            )

    def root(self, target: str) -> str:
        """The target of this format: a checkpoint tells how far one table reaches, not another."""
        return target if self.format == PARQUET else f"{root_of(target)}/{self.format}"

    def is_there(self, session: SparkSession, place: Target) -> bool:
        """Whether its table is there."""
        if self.table is None:
            return Store(session).exists(place.table)
        try:
            return session.catalog.tableExists(self.table)
        except (Py4JJavaError, PySparkException) as error:
            raise OptionError(f"--table {self.table}: {reason_of(error)}") from None

    def writer(self, rows: DataFrame, place: Target) -> DataStreamWriter:
        """A writer to it."""
        writer = rows.writeStream.format(self.format).outputMode("append")
        return writer if self.table is not None else writer.option("path", place.table)

    def starter(self, writer: DataStreamWriter) -> Callable[[], StreamingQuery]:
        """What begins the query.

        Raises, when it is called:
            OptionError: Spark has no such format, or none that a stream can be written in.
        """

        def start() -> StreamingQuery:
            try:
                return writer.start() if self.table is None else writer.toTable(self.table)
            except (Py4JJavaError, PySparkException) as error:
                raise OptionError(
                    f"--format {self.format}: Spark cannot write it: {reason_of(error)} Formats "
                    "that are not Spark's own need jars made for this Spark, as --conf "
                    "spark.jars.packages=GROUP:NAME:VERSION"
                ) from None

        return start
