"""A file that is followed as it changes, and keeps its last good value in force."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import structlog

from raftnode.access.access_list import AccessList
from raftnode.access.document import FILE_BYTES_MAX, AccessFileError, parse_access, size_problem
from raftnode.followed_files import LOOK_S, FollowedFiles, Refused
from raftnode.small_files import read_small_file

_log = structlog.get_logger(__name__)

ValueT = TypeVar("ValueT")


class FileObserver(Protocol):
    """Is called for a file that is read again; `raftnode.api.metrics` implements it."""

    def note_loaded(self, setting: str, unix_s: float) -> None:
        """Note when a good file was read."""
        ...

    def note_file_refused(self, setting: str) -> None:
        """Note that a file was refused, and the one before stays in force."""
        ...


class FollowedFile(Generic[ValueT]):
    """A file of access control.

    Args:
        setting: the name of its setting, for messages.
        path: of the file.
        parse: makes the value of the content.

    Raises:
        AccessFileError: the file cannot be used, and there is none before it.
    """

    def __init__(
        self,
        setting: str,
        path: Path,
        parse: Callable[[bytes], ValueT],
    ) -> None:
        self._setting = setting
        self._path = path
        self._parse = parse
        self._observer: FileObserver | None = None
        self._last: tuple[bytes, ValueT] | None = None
        self._files = FollowedFiles((path,), self._read, AccessFileError)
        self._last = self._files.first
        self.current = self._last[1]

    def observe(self, observer: FileObserver) -> None:
        """Set the observer, and tell it of the file in force."""
        self._observer = observer
        self._note_loaded()

    async def follow(self) -> None:
        """Look at the file for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.refresh()

    async def refresh(self) -> bool:
        """Take the file if it has changed and two looks saw no difference.

        Returns:
            Whether its value is another one.
        """
        look = await asyncio.to_thread(self._files.look)
        if look is None:
            return False
        if isinstance(look, Refused):
            if not look.known:
                self._refuse(look.problem)
            return False
        if look.value is self._last:
            if look.after_refusal:
                self._note_loaded()
            return False
        self._last = look.value
        self.current = self._last[1]
        _log.info("access_file_loaded", setting=self._setting, path=str(self._path))
        self._note_loaded()
        return True

    def _refuse(self, problem: str) -> None:
        _log.error("access_file_refused", setting=self._setting, problem=problem)
        if self._observer is not None:
            self._observer.note_file_refused(self._setting)

    def _note_loaded(self) -> None:
        if self._observer is not None:
            self._observer.note_loaded(self._setting, time.time())

    def _read(self) -> tuple[bytes, ValueT]:
        try:
            data = _read_whole(self._path)
            last = self._last
            if last is not None and data == last[0]:
                return last
            return data, self._parse(data)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise AccessFileError(
                f"{self._setting}: {self._path} cannot be read: {reason}"
            ) from None
        except AccessFileError as error:
            raise AccessFileError(f"{self._setting}: {self._path}: {error}") from None


def _read_whole(path: Path) -> bytes:
    data = read_small_file(path, FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise AccessFileError(size_problem(path.stat().st_size))
    return data


AccessFile = FollowedFile[AccessList]
"""An access file."""


def open_access_file(path: Path) -> AccessFile:
    """Read an access file, to be followed.

    Raises:
        AccessFileError: it cannot be used.
    """
    return FollowedFile("access_file", path, lambda data: AccessList.of(parse_access(data)))
