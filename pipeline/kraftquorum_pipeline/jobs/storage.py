"""The directories of an export, on any file system that Spark has jars for.

`Store` calls Hadoop's file systems and turns their errors into the pipeline's. `Target` knows
the layout of an export, and when a batch is whole.
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
from kraftquorum_pipeline.jobs.sync import sync_entry, sync_tree

WHOLE = "_SUCCESS"
"""What marks a batch as whole where a directory is not renamed in one step. No reader of Parquet
takes it for data. Spark leaves a file of this name beside what it has written: that one is removed
before the move."""

_ONE_STEP = frozenset({"file", "hdfs"})
"""File systems that rename a whole directory or nothing. Object stores copy file by file."""

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
        """Whether a file or directory exists."""
        place, system = self._open(path)
        return bool(_asked(path, lambda: system.exists(place)))

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content, if it exists."""
        place, system = self._open(path)
        if not _asked(path, lambda: system.delete(place, True)) and self.exists(path):
            raise UnreachableError(path, "it cannot be removed")

    def size(self, path: str) -> int:
        """Return the bytes of all files in a directory."""
        place, system = self._open(path)
        return int(_asked(path, lambda: system.getContentSummary(place).getLength()))

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; none if it does not exist."""
        place, system = self._open(path)
        entries = _asked(path, lambda: system.listStatus(place)) if self.exists(path) else []
        return [str(entry.getPath().getName()) for entry in entries]

    def parents(self, pattern: str) -> list[str]:
        """Return the directories of the files that a pattern with `*` matches."""
        place, system = self._open(pattern)
        files = _asked(pattern, lambda: system.globStatus(place))
        return sorted(str(file.getPath().getParent().toString()) for file in files or [])

    def read_text(self, path: str) -> str | None:
        """Return the text of a small file; None: the file does not exist."""
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
        """Write a small file, and replace its text."""
        place, system = self._open(path)

        def write() -> None:
            stream = system.create(place, True)
            stream.write(bytearray(text.encode()))
            stream.close()

        _asked(path, write)

    def local(self, path: str) -> Path | None:
        """Return the path on this machine; None: it is not on this machine."""
        place, system = self._open(path)
        if str(system.getUri().getScheme()) != "file":
            return None
        return Path(str(system.makeQualified(place).toUri().getPath()))

    def renames_in_one_step(self, path: str) -> bool:
        """Whether a rename of a directory there is atomic."""
        _, system = self._open(path)
        return str(system.getUri().getScheme()) in _ONE_STEP

    def rename(self, path: str, final: str) -> None:
        """Rename a directory to a name that is not in use.

        Raises:
            OSError: the rename failed.
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
    """Return the first line of an error of Spark."""
    if isinstance(error, Py4JJavaError):
        raised: Any = error.java_exception
        return str(raised.toString()).partition("\n")[0]
    return str(error).partition("\n")[0]


def root_of(target: str) -> str:
    """Return a target as the prefix of the names in it; for `/` the prefix is empty.

    Raises:
        OptionError: the target is empty, which would mean `/`.
    """
    if not target.strip():
        raise OptionError("the name of the directory is empty; give one")
    return target.rstrip("/")


class Target:
    """The directories of one cluster's log under a target.

    Args:
        session: the Spark session, whose file systems are used.
        target: the path or URI of the target.
        cluster_id: the cluster id of the log.

    Raises:
        OptionError: the target is empty, or Spark has no file system for it.
    """

    def __init__(self, session: SparkSession, target: str, cluster_id: str) -> None:
        root = root_of(target)
        self.table = f"{root}/cluster_id={cluster_id}"
        self.checkpoint = f"{root}/_checkpoint/{cluster_id}"
        self._temporary = f"{root}/_unfinished/{cluster_id}"
        # Spark's own processes may outlive a killed command, and continue to write for a while.
        self._run = uuid.uuid4().hex[:8]
        self._store = Store(session)
        self._one_step = self._store.renames_in_one_step(target)
        self._claim: Claim | None = None

    def check_claim(self) -> None:
        """Check that no other run has taken over the claim.

        Raises:
            OptionError: another run has.
            UnreachableError: the store does not answer.
        """
        if self._claim is not None:
            self._claim.check()

    @contextmanager
    def claimed(self) -> Generator[None]:
        """Hold the claim while the body runs: two runs would remove each other's batches.

        Raises:
            OptionError: another run has it.
        """
        with Claim.taken(self._store, f"{self.checkpoint}.running") as self._claim:
            yield

    def prepare(self) -> None:
        """Remove the unfinished batches of a killed run.

        A first batch that was never done is planned again: if the log was trimmed, its last
        records may be gone by now.

        Raises:
            OptionError: there are batches without a checkpoint that has their offsets, or
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
        """Do the same for a table of Spark's own sink, which removes unfinished batches itself.

        Args:
            there: whether the table exists.

        Raises:
            OptionError: the table exists without a checkpoint, or the checkpoint without a table.
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
        """Return the last batch that Spark recorded as done."""
        names = self._store.names(f"{self.checkpoint}/commits")
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def end_of(self, number: int) -> int | None:
        """Return one past the last offset of a batch by Spark's plan; None: there is no plan.

        Raises:
            CorruptError: Spark's record has another form.
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
        """The place of a batch."""
        return f"{self.table}/batch={number:09d}"

    def unfinished(self, number: int) -> str:
        """The directory in which a batch is written before its move."""
        return f"{self._temporary}/{self._run}/batch={number:09d}"

    def is_whole(self, final: str) -> bool:
        """Whether a batch is in its place with all of its files."""
        return self._store.exists(final if self._one_step else f"{final}/{WHOLE}")

    def move(self, path: str, final: str) -> None:
        """Move a written batch into its place, which may have a part of it by a killed run.

        If the files are moved one by one, `WHOLE` is written last.

        Raises:
            OptionError: another run has taken over the claim.
        """
        self.check_claim()
        if self._one_step:
            # The plan is synced before the batch: without it Spark would plan another batch.
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
        """Sync a batch on this machine's disks, so that it is in its place after a power cut."""
        if (local := self._store.local(final)) is not None:
            sync_tree(local)  # an earlier version moved it without a sync
            sync_entry(local)

    def sync_checkpoint(self) -> None:
        """Sync Spark's checkpoint, which Spark does not sync itself."""
        local = self._store.local(self.checkpoint)
        if local is not None and local.exists():
            sync_tree(local)
            sync_entry(local)

    def size(self, path: str) -> int:
        """Return the bytes of a batch."""
        return self._store.size(path)

    def _clear(self, path: str) -> None:
        # This run must not remove what another run has begun since.
        self.check_claim()
        self._store.remove(path)

    def _any_whole(self) -> bool:
        names = self._store.names(self.table)
        return any(
            self.is_whole(f"{self.table}/{name}") for name in names if name.startswith("batch=")
        )
