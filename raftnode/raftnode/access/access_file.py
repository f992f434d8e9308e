"""A file that is followed as it changes, and keeps its last good value in force."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import structlog

from raftnode.access.access_list import AccessList
from raftnode.access.document import FILE_BYTES_MAX, AccessFileError, parse_access
from raftnode.small_files import read_small_file, stamp_of_file

_log = structlog.get_logger(__name__)

LOOK_S = 1.0
"""How often the file is looked at; a change is in force so much later, or a little more."""

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
        self._stamp = stamp_of_file(path)
        self._problem = ""
        self._data, self.current = self._read()

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
        """Read the file again if it has changed or was refused; return whether its value did."""
        stamp = await asyncio.to_thread(stamp_of_file, self._path)
        if stamp == self._stamp and not self._problem:
            return False
        changed = stamp != self._stamp
        self._stamp = stamp
        try:
            data, value = await asyncio.to_thread(self._read)
        except AccessFileError as error:
            self._refuse(str(error), again=not changed)
            return False
        refused, self._problem = self._problem, ""
        if data == self._data:
            if refused:
                self._note_loaded()
            return False
        self._data, self.current = data, value
        _log.info("access_file_loaded", setting=self._setting, path=str(self._path))
        self._note_loaded()
        return True

    def _refuse(self, problem: str, *, again: bool) -> None:
        if again and problem == self._problem:
            return
        self._problem = problem
        _log.error("access_file_refused", setting=self._setting, problem=problem)
        if self._observer is not None:
            self._observer.note_file_refused(self._setting)

    def _note_loaded(self) -> None:
        if self._observer is not None:
            self._observer.note_loaded(self._setting, time.time())

    def _read(self) -> tuple[bytes, ValueT]:
        try:
            data = read_small_file(self._path, FILE_BYTES_MAX + 1)
            return data, self._parse(data)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise AccessFileError(
                f"{self._setting}: {self._path} cannot be read: {reason}"
            ) from None
        except AccessFileError as error:
            raise AccessFileError(f"{self._setting}: {self._path}: {error}") from None


AccessFile = FollowedFile[AccessList]
"""An access file."""


def open_access_file(path: Path) -> AccessFile:
    """Read an access file, to be followed.

    Raises:
        AccessFileError: it cannot be used.
    """
    return FollowedFile("access_file", path, lambda data: AccessList.of(parse_access(data)))
