"""Where Spark reads and writes: directories on any file system that it has jars for.

`Store` knows Hadoop's file systems and turns their errors into the pipeline's; `Target` knows
what an export leaves where, and when a batch is whole.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kraftquorum_pipeline.errors import CorruptError, OptionError, UnreachableError
from kraftquorum_pipeline.jobs.claim import Claim
from kraftquorum_pipeline.jobs.durable import sync_entry, sync_tree

WHOLE = "_SUCCESS"
"""What marks a batch as whole where a directory is not renamed in one step. No reader of Parquet
takes it for data. Spark leaves a file of this name beside what it has written: that one is removed
before the move."""

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
        if not _asked(path, lambda: system.delete(place, True)) and self.exists(path):
            raise UnreachableError(path, "it cannot be removed")

    def size(self, path: str) -> int:
        """Bytes of all files in a directory."""
        place, system = self._open(path)
        return int(_asked(path, lambda: system.getContentSummary(place).getLength()))

    def names(self, path: str) -> list[str]:
        """What is in a directory; nothing, if it is not there."""
        place, system = self._open(path)
        found = _asked(path, lambda: system.listStatus(place)) if self.exists(path) else []
        return [str(one.getPath().getName()) for one in found]

    def parents(self, pattern: str) -> list[str]:
        """The directories of the files that a pattern with `*` matches."""
        place, system = self._open(pattern)
        found = _asked(pattern, lambda: system.globStatus(place))
        return sorted(str(one.getPath().getParent().toString()) for one in found or [])

    def read_text(self, path: str) -> str | None:
        """What is in a small file; None, if it is not there."""
        if not self.exists(path):
            return None
        place, system = self._open(path)

        def read() -> str:
            stream = system.open(place)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

        return _asked(path, read)

    def write_text(self, path: str, text: str) -> None:
        """Write a small file, over what was there."""
        place, system = self._open(path)

        def write() -> None:
            stream = system.create(place, True)
            stream.write(bytearray(text.encode()))
            stream.close()

        _asked(path, write)

    def local(self, path: str) -> Path | None:
        """The path on this machine; None: it is elsewhere."""
        place, system = self._open(path)
        if str(system.getUri().getScheme()) != "file":
            return None
        return Path(str(system.makeQualified(place).toUri().getPath()))

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
                f"{path}: Spark cannot open it: {reason_of(error)}. A path that Spark itself "
                "reads or writes has Spark's scheme and needs its jars: s3a:// (and not "
                "s3://) with --conf "
                f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{jars}"
            ) from None


def _asked(path: str, ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except (Py4JJavaError, PySparkException) as error:
        raise UnreachableError(path, reason_of(error)) from None


def reason_of(error: Py4JJavaError | PySparkException) -> str:
    """The first line of one of Spark's errors."""
    if isinstance(error, Py4JJavaError):
        raised: Any = error.java_exception
        return str(raised.toString()).partition("\n")[0]
    return str(error).partition("\n")[0]


def root_of(target: str) -> str:
    """A target as the names of what is in it begin; `/` itself is nothing before their `/`.

    Raises:
        OptionError: it is empty, which would be `/`, too.
    """
    if not target.strip():
        raise OptionError("the name of the directory is empty; give one")
    return target.rstrip("/")


class Target:
    """The directories of one cluster's log under a target.

    Args:
        session: Spark's, whose file systems are used.
        target: its name.
        cluster_id: of the log.

    Raises:
        OptionError: it is empty, or Spark has no file system for it.
    """

    def __init__(self, session: SparkSession, target: str, cluster_id: str) -> None:
        root = root_of(target)
        self.table = f"{root}/cluster_id={cluster_id}"
        self.checkpoint = f"{root}/_checkpoint/{cluster_id}"
        self._temporary = f"{root}/_unfinished/{cluster_id}"
        # Spark's own processes may outlive a command that was killed, and write on for a while.
        self._run = uuid.uuid4().hex[:8]
        self._store = Store(session)
        self._one_step = self._store.renames_in_one_step(target)
        self._claim: Claim | None = None

    def check_claim(self) -> None:
        """Make sure that no other run has taken this one for dead.

        Raises:
            OptionError: one has.
            UnreachableError: the store does not answer.
        """
        if self._claim is not None:
            self._claim.check()

    @contextmanager
    def claimed(self) -> Generator[None]:
        """Keep other runs away meanwhile: two at once would clear away each other's batches.

        Raises:
            OptionError: another run has it.
        """
        with Claim.taken(self._store, f"{self.checkpoint}.running") as self._claim:
            yield

    def prepare(self) -> None:
        """Clear away what a killed run left unfinished.

        A first batch that never was done is planned anew: where the log is trimmed, the records
        that it was to end with may be gone by now.

        Raises:
            OptionError: there are batches and no checkpoint that tells which records they hold, or
                a checkpoint whose batches are gone.
        """
        store = self._store
        self._clear(self._temporary)
        newest = self.newest()
        if newest is not None and not self.is_whole(self.batch(newest)):
            raise OptionError(
                f"{self.checkpoint} says that batch {newest} was exported, but "
                f"{self.batch(newest)} is missing: restore it, give another target, or "
                f"remove both {self.checkpoint} and {self.table} to export again what the "
                "log still has"
            )
        if newest is None and not self._any_whole():
            self._clear(self.checkpoint)
        elif not store.exists(f"{self.checkpoint}/offsets"):
            raise OptionError(
                f"{self.table} holds batches, but {self.checkpoint}, which records how far "
                "they reach, is missing: give another target, or remove both"
            )

    def prepare_table(self, *, there: bool) -> None:
        """The same where Spark's own sink writes one table, and clears away by itself.

        Args:
            there: whether the table is.

        Raises:
            OptionError: there is one and no checkpoint of it, or the other way round.
        """
        if not there:
            if self.newest() is not None:
                raise OptionError(
                    f"{self.checkpoint} says that the log was exported, but its table is "
                    "missing: restore it, give another target, or remove the checkpoint "
                    "to export again what the log still has"
                )
            self._clear(self.checkpoint)
        elif not self._store.exists(f"{self.checkpoint}/metadata"):
            raise OptionError(
                f"the table exists, but {self.checkpoint}, which records how far it reaches, "
                "is missing: give another target or table, or remove the table"
            )

    def newest(self) -> int | None:
        """The last batch that Spark has noted as done."""
        names = self._store.names(f"{self.checkpoint}/commits")
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def end_of(self, number: int) -> int | None:
        """One past the last offset of a batch, as Spark planned it; None: it has planned none.

        Raises:
            CorruptError: Spark has noted something else.
        """
        path = f"{self.checkpoint}/offsets/{number}"
        text = self._store.read_text(path)
        if text is None:
            return None
        try:
            # The last line is the offset of the only source, as that gave it to Spark.
            return int(json.loads(text.rstrip().rpartition("\n")[2])["offset"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(path, f"not an offset of this source: {error!r}") from None

    def batch(self, number: int) -> str:
        """Where a batch belongs."""
        return f"{self.table}/batch={number:09d}"

    def unfinished(self, number: int) -> str:
        """Where a batch is written."""
        return f"{self._temporary}/{self._run}/batch={number:09d}"

    def is_whole(self, final: str) -> bool:
        """Whether a batch is in its place with all of its files."""
        return self._store.exists(final if self._one_step else f"{final}/{WHOLE}")

    def move(self, path: str, final: str) -> None:
        """Bring a written batch into its place, where part of it may be of a run that was killed.

        Where files come one by one, `WHOLE` comes last.

        Raises:
            OptionError: another run took this one for dead.
        """
        self.check_claim()
        if self._one_step:
            # The plan before the batch: without it the batch would be planned anew, otherwise.
            self.sync_checkpoint()
            if (local := self._store.local(path)) is not None:
                sync_tree(local)
            self._store.rename(path, final)
            self.sync_place(final)
            return
        self._store.remove(f"{path}/{WHOLE}")
        self._clear(final)
        self._store.rename(path, final)
        self._store.touch(f"{final}/{WHOLE}")

    def sync_place(self, final: str) -> None:
        """On this machine's disks: a batch is in its place after a power cut, too."""
        if (local := self._store.local(final)) is not None:
            sync_tree(local)  # an earlier build moved it unsynced
            sync_entry(local)

    def sync_checkpoint(self) -> None:
        """The same for what Spark has noted by now, which it does not sync by itself."""
        local = self._store.local(self.checkpoint)
        if local is not None and local.exists():
            sync_tree(local)
            sync_entry(local)

    def size(self, path: str) -> int:
        """Bytes of a batch."""
        return self._store.size(path)

    def _clear(self, path: str) -> None:
        # What another run has begun since is not this one's to remove.
        self.check_claim()
        self._store.remove(path)

    def _any_whole(self) -> bool:
        names = self._store.names(self.table)
        return any(
            self.is_whole(f"{self.table}/{name}") for name in names if name.startswith("batch=")
        )
