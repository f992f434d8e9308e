"""Files of replicas wherever they lie: on this machine, or behind a URI that pyarrow opens.

The node's own readers take a `Files` and paths. `open_files` gives them one whose system calls
know both: a local path goes to the operating system, and the path of an object (`s3://…`) to
`pyarrow.fs`. A read asks for the bytes of its window only (ranged requests), so that nothing is
copied to a disk, and a task of a large segment costs what its own part has. Nothing is written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from kraftquorum_pipeline.errors import OptionError, UnreachableError
from raftnode.logfiles import Files, OsCalls, Stat

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

SCHEMES = "s3://, gs://, abfs://, hdfs://, file://"
"""What a user is told; pyarrow knows some more."""

_MARK = "://"
_T = TypeVar("_T")
_SECRETS = frozenset({"client_secret", "access_key", "secret_key"})


class RemotePath(PosixPath):
    """A URI as a path: `parent`, `name` and `/` as ever, and `str` is the URI again.

    The query, which says how the store is asked, stands behind the authority among the parts
    and at the end of the text, so that every path derived from one has it.
    """

    @property
    def root_uri(self) -> str:
        """The store, or the bucket in it: the URI without a path."""
        scheme, place, *_ = self.parts
        authority, _, query = place.partition("?")
        return f"{scheme}//{authority}/" + (f"?{query}" if query else "")

    def __str__(self) -> str:
        """The URI."""
        root, mark, query = self.root_uri.partition("?")
        return root + "/".join(map(quote, self.parts[2:])) + mark + query

    def __fspath__(self) -> str:
        """The same: what the calls are given."""
        return str(self)

    def absolute(self) -> RemotePath:
        """It is."""
        return self


def path_of(text: str) -> Path:
    """A path, or a URI as one; `file://` is a path of this machine."""
    if _MARK not in text:
        return Path(text)
    url = urlsplit(text, allow_fragments=False)
    if url.scheme == "file":
        return Path(unquote(url.path))
    place = f"{url.netloc}?{url.query.replace('/', '%2F')}"
    return RemotePath(f"{url.scheme}:", place, *filter(None, unquote(url.path).split("/")))


def open_files() -> Files:
    """A file layer for reading local and remote paths alike.

    Besides what every such layer raises, reading a remote path raises

    - OptionError: a URI that pyarrow cannot open; and
    - UnreachableError: a store that does not answer, or refuses.
    """
    return Files(_Calls())


class _Calls(OsCalls):
    """System calls, and the few that reading needs for the paths of objects.

    What is not there is `ENOENT`, as on a disk. Other errors of a store have no number that
    would fit, and are raised as the pipeline's own.
    """

    def __init__(self) -> None:
        self._opened: dict[int, tuple[str, Any, int]] = {}
        self._numbers = count(-2, -1)  # no descriptor of the system's

    def open(self, path: str, flags: int, mode: int) -> int:
        if _MARK not in path:
            return super().open(path, flags, mode)
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, "objects are read-only", path)
        system, inner = _resolve(path)
        file = _asked(path, lambda: system.open_input_file(inner))
        number = next(self._numbers)
        self._opened[number] = path, file, _asked(path, file.size)
        return number

    def close(self, fd: int) -> None:
        if fd >= 0:
            return super().close(fd)
        _, file, _ = self._opened.pop(fd)
        file.close()
        return None

    def pread(self, fd: int, length: int, position: int) -> bytes:
        if fd >= 0:
            return super().pread(fd, length, position)
        path, file, size = self._opened[fd]
        length = min(length, size - position)
        if length <= 0:
            return b""
        try:
            return _asked(path, lambda: file.read_at(length, position))
        except UnreachableError:
            self.stat(path)  # which has another error for an object that went away meanwhile
            raise

    def fstat(self, fd: int) -> Stat:
        return super().fstat(fd) if fd >= 0 else Stat(0, fd, self._opened[fd][2], False)

    def stat(self, path: str) -> Stat:
        if _MARK not in path:
            return super().stat(path)
        info = _asked(path, lambda: _info(path))
        if info.type.name == "NotFound":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return Stat(0, 0, info.size or 0, info.type.name == "Directory")

    def listdir(self, path: str) -> list[str]:
        if _MARK not in path:
            return super().listdir(path)
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - needed for URIs alone

        system, inner = _resolve(path)
        found = _asked(path, lambda: system.get_file_info(FileSelector(inner)))
        return [one.base_name for one in found]


def _asked(path: str, ask: Callable[[], _T]) -> _T:
    """What a store says.

    Raises:
        FileNotFoundError: there is no such object.
        UnreachableError: the store did not answer, or refused.
    """
    try:
        return ask()
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    except OSError as error:
        raise UnreachableError(path, _first_line(error)) from None


def _info(path: str) -> FileInfo:
    system, inner = _resolve(path)
    return system.get_file_info(inner)


def _resolve(path: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it."""
    where = path_of(path)
    assert isinstance(where, RemotePath)  # noqa: S101 - who calls has looked
    system, base = _system(where.root_uri)
    return system, "/".join([base.rstrip("/"), *where.parts[2:]])


@cache
def _system(root: str) -> tuple[Any, str]:
    """The file system that pyarrow makes of a URI, and where the root is in it.

    One for each store and process: it holds the connections.

    Raises:
        OptionError: there is none for it, or a secret stands in it.
        UnreachableError: the store does not answer.
    """
    url = urlsplit(root)
    named = f"{url.scheme}://{url.hostname or ''}"
    if url.password or _SECRETS & {name for name, _ in parse_qsl(url.query)}:
        raise OptionError(
            f"{named}: a path with a secret would appear in every message; put credentials "
            "into the environment (AWS_ACCESS_KEY_ID and so on)"
        )
    try:
        from pyarrow.fs import FileSystem  # noqa: PLC0415 - local files do without
    except ImportError as error:
        raise OptionError(f"{root}: needs pyarrow: {error}") from None
    try:
        return FileSystem.from_uri(root)
    except (ValueError, NotImplementedError) as error:
        raise OptionError(f"{root}: {_first_line(error)}; supported are {SCHEMES}") from None
    except OSError as error:
        raise UnreachableError(root, _first_line(error)) from None


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
