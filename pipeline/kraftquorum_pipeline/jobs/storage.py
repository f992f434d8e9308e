"""Where Spark reads and writes: directories on any file system that it has jars for.

`Store` knows Hadoop's file systems and turns their errors into the pipeline's; `Target` knows
what an export leaves where, and when a batch is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kraftquorum_pipeline.errors import OptionError, UnreachableError

WHOLE = "_SUCCESS"
"""What marks a batch as whole where a directory is not renamed in one step. Spark leaves a file
of this name beside what it has written, and no reader of Parquet takes it for data."""

_ONE_STEP = frozenset({"file", "hdfs"})
"""File systems that rename a directory wholly or not at all. Object stores copy file by file."""

_T = TypeVar("_T")


class Store:
    """Hadoop's file systems, as a session has them.

    Each method raises

    - OptionError: Spark has no file system for the path, or no jars for it; and
    - UnreachableError: the file system does not answer, or refuses.
    """

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - the one way to Hadoop's file systems
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        place, system = self._open(path)
        return bool(_asked(path, lambda: system.exists(place)))

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it, if it is there."""
        place, system = self._open(path)
        _asked(path, lambda: system.delete(place, True))

    def size(self, path: str) -> int:
        """Bytes of all files in a directory."""
        place, system = self._open(path)
        return int(_asked(path, lambda: system.getContentSummary(place).getLength()))

    def names(self, path: str) -> list[str]:
        """What is in a directory; nothing, if it is not there."""
        place, system = self._open(path)
        found = _asked(path, lambda: system.listStatus(place)) if self.exists(path) else []
        return [str(one.getPath().getName()) for one in found]

    def renames_in_one_step(self, path: str) -> bool:
        """Whether a directory there has its new name wholly or not at all."""
        _, system = self._open(path)
        return str(system.getUri().getScheme()) in _ONE_STEP

    def rename(self, path: str, final: str) -> None:
        """Give a directory another name, which nothing has.

        Raises:
            OSError: it cannot be.
        """
        place, system = self._open(path)
        to, _ = self._open(final)

        def rename() -> bool:
            system.mkdirs(to.getParent())
            return bool(system.rename(place, to))

        if not _asked(path, rename):
            raise OSError(f"{path} cannot be renamed to {final}")

    def touch(self, path: str) -> None:
        """Make an empty file."""
        place, system = self._open(path)
        _asked(path, lambda: system.create(place).close())

    def _open(self, path: str) -> tuple[Any, Any]:
        try:
            place = self._jvm.org.apache.hadoop.fs.Path(path)
            return place, place.getFileSystem(self._conf)
        except (Py4JJavaError, PySparkException) as error:
            jars = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            raise OptionError(
                f"{path}: Spark cannot open it: {_reason(error)}; what Spark itself reads and "
                "writes has Spark's names and needs its jars, as s3a:// (and not s3://) with "
                f"--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:{jars}"
            ) from None


def _asked(path: str, ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except (Py4JJavaError, PySparkException) as error:
        raise UnreachableError(path, _reason(error)) from None


def _reason(error: Py4JJavaError | PySparkException) -> str:
    if isinstance(error, Py4JJavaError):
        raised: Any = error.java_exception
        return str(raised.toString()).partition("\n")[0]
    return str(error).partition("\n")[0]


class Target:
    """The directories of one cluster's log under a target.

    Args:
        session: Spark's, whose file systems are used.
        root: the target.
        cluster_id: of the log.
    """

    def __init__(self, session: SparkSession, root: str, cluster_id: str) -> None:
        root = root.rstrip("/") or "/"
        self.table = f"{root}/cluster_id={cluster_id}"
        self.checkpoint = f"{root}/_checkpoint/{cluster_id}"
        self._temporary = f"{root}/_unfinished/{cluster_id}"
        self._store = Store(session)
        self._one_step = self._store.renames_in_one_step(root)

    def prepare(self) -> None:
        """Clear away what a killed run left unfinished.

        A first batch that never was done is planned anew: where the log is trimmed, the records
        that it was to end with may be gone by now.

        Raises:
            OptionError: there are batches and no checkpoint that tells which records they hold.
        """
        store = self._store
        store.remove(self._temporary)
        if not store.exists(self.table):
            if not self._done():
                store.remove(self.checkpoint)
        elif not store.exists(f"{self.checkpoint}/offsets"):
            raise OptionError(
                f"{self.table} holds batches, but {self.checkpoint}, which tells how far they "
                "reach, is gone: name another target, or remove both"
            )

    def batch(self, number: int) -> str:
        """Where a batch belongs."""
        return f"{self.table}/batch={number:09d}"

    def unfinished(self, number: int) -> str:
        """Where a batch is written."""
        return f"{self._temporary}/batch={number:09d}"

    def is_whole(self, final: str) -> bool:
        """Whether a batch is in its place with all of its files."""
        return self._store.exists(final if self._one_step else f"{final}/{WHOLE}")

    def move(self, path: str, final: str) -> None:
        """Bring a written batch into its place, where part of it may be of a run that was killed.

        Where files come one by one, `WHOLE` comes last.
        """
        if self._one_step:
            self._store.rename(path, final)
            return
        self._store.remove(f"{path}/{WHOLE}")
        self._store.remove(final)
        self._store.rename(path, final)
        self._store.touch(f"{final}/{WHOLE}")

    def remove(self, path: str) -> None:
        """Remove a batch."""
        self._store.remove(path)

    def size(self, path: str) -> int:
        """Bytes of a batch."""
        return self._store.size(path)

    def _done(self) -> bool:
        """Whether Spark has noted a batch as done."""
        return any(name.isdecimal() for name in self._store.names(f"{self.checkpoint}/commits"))
