"""Reads files of replicas on this machine, or at a URI that pyarrow opens.

The node's own readers take a `Files` and paths. `open_files` gives them one whose system calls
know both: a local path goes to the operating system, and the path of an object (`s3://…`) to
`pyarrow.fs`. A read requests only the bytes of its window (ranged requests). So no file is copied
to a disk, and a task reads only its own part of a large segment. The module writes nothing.
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
"""The schemes that error messages name; pyarrow has some more."""

_MARK = "://"
_T = TypeVar("_T")
_SECRETS = frozenset({"client_secret", "access_key", "secret_key"})


class RemotePath(PosixPath):
    """A URI as a path: `parent`, `name` and `/` as ever, and `str` is the URI again.

    The query has the parameters of the store. It comes after the authority among the parts and
    at the end of the text, so that every path derived from this path has it.
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
        """The URI, which the calls receive."""
        return str(self)

    def absolute(self) -> RemotePath:
        """Return the path, which is always absolute."""
        return self


def path_of(text: str) -> Path:
    """Return text as a path or a URI; `file://` is a path of this machine."""
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

    A missing object is `ENOENT`, as on a disk. Other errors of a store have no matching error
    number, and are raised as the pipeline's own.
    """

    def __init__(self) -> None:
        self._opened: dict[int, tuple[str, Any, int]] = {}
        self._numbers = count(-2, -1)  # never a descriptor of the system

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
            self.stat(path)  # it has another error for an object removed meanwhile
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
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - needed for URIs only

        system, inner = _resolve(path)
        infos = _asked(path, lambda: system.get_file_info(FileSelector(inner)))
        return [info.base_name for info in infos]


def _asked(path: str, ask: Callable[[], _T]) -> _T:
    """Return the answer of a store.

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
    assert isinstance(where, RemotePath)  # noqa: S101 - the caller has checked
    system, base = _system(where.root_uri)
    return system, "/".join([base.rstrip("/"), *where.parts[2:]])


@cache
def _system(root: str) -> tuple[Any, str]:
    """Return pyarrow's file system for a URI, and the place of the root in it.

    A process has one for each store, because it holds the connections.

    Raises:
        OptionError: pyarrow has no file system for the URI, or the URI has a secret in it.
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
        from pyarrow.fs import FileSystem  # noqa: PLC0415 - local files do not need it
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
