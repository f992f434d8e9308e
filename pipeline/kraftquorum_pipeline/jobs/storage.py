"""Where tables are written: directories on any file system that Spark writes to."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from kraftquorum_pipeline.errors import OptionError


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
        context: Any = session.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - the one way to Hadoop's file systems
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def prepare(self) -> None:
        """Clear away what a killed run left unfinished.

        A first batch that never was done is planned anew: where the log is trimmed, the records
        that it was to end with may be gone by now.

        Raises:
            OptionError: there are batches and no checkpoint that tells which records they hold.
        """
        self.remove(self._temporary)
        if not self.exists(self.table):
            if not self._done():
                self.remove(self.checkpoint)
        elif not self.exists(f"{self.checkpoint}/offsets"):
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

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        place, system = self._open(path)
        return bool(system.exists(place))

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it, if it is there."""
        place, system = self._open(path)
        system.delete(place, True)

    def size(self, path: str) -> int:
        """Bytes of all files in a directory."""
        place, system = self._open(path)
        return int(system.getContentSummary(place).getLength())

    def move(self, path: str, final: str) -> None:
        """Give a directory its final name, which is not there yet."""
        place, system = self._open(path)
        to, _ = self._open(final)
        system.mkdirs(to.getParent())
        if not system.rename(place, to):
            raise OSError(f"{path} cannot be renamed to {final}")

    def _done(self) -> bool:
        """Whether Spark has noted a batch as done."""
        path = f"{self.checkpoint}/commits"
        place, system = self._open(path)
        found = system.listStatus(place) if self.exists(path) else []
        return any(one.getPath().getName().isdecimal() for one in found)

    def _open(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self._conf)
