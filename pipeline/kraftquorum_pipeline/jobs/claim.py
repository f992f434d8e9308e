"""Claims: only one run at a time writes to a directory.

On this machine's file systems the claim is a lock, which the kernel releases when the process
exits. Elsewhere the claim is a file that its holder rewrites at an interval. A run that finds
the file watches by its own clock whether it changes, so that it waits that long for a killed run.
"""

from __future__ import annotations

import fcntl
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from kraftquorum_pipeline.errors import OptionError, UnreachableError

BEAT_S = 10.0
"""The interval at which the holder rewrites its claim."""

DEAD_S = 30.0
"""A claim that was not rewritten for three intervals has no holder."""

_LOOK_S = 1.0


class Files(Protocol):
    """The calls that a claim needs of a file system; see `Store`."""

    def local(self, path: str) -> Path | None:
        """The path on this machine; None: it is not on this machine."""
        ...

    def read_text(self, path: str) -> str | None:
        """The text of a file; None: the file does not exist."""
        ...

    def write_text(self, path: str, text: str) -> None:
        """Write a file, and replace its text."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...


class Claim:
    """A claim that is held.

    Args:
        files: the file system of the claim.
        path: the path of its file.
        token: identifies this claim; None: the claim is a lock and cannot be lost.
    """

    def __init__(self, files: Files, path: str, token: str | None) -> None:
        self._files = files
        self._path = path
        self._token = token
        self._ended = threading.Event()
        # While a file is rewritten, every reader may find it empty, this run too.
        self._turn = threading.Lock()

    @classmethod
    @contextmanager
    def taken(cls, files: Files, path: str) -> Generator[Claim]:
        """Hold a claim while the body runs.

        Raises:
            OptionError: another run holds it.
            UnreachableError: the file system does not answer, or refuses.
        """
        local = files.local(path)
        if local is not None:
            with _locked(local):
                yield cls(files, path, None)
            return
        _wait_for_the_dead(files, path)
        claim = cls(files, path, uuid.uuid4().hex)
        claim._write(0)
        # If two runs began at once, the later run has overwritten the claim of the other.
        claim.check()
        beating = threading.Thread(target=claim._beat, daemon=True)
        beating.start()
        try:
            yield claim
        finally:
            claim._ended.set()
            beating.join()
            with suppress(UnreachableError):  # a claim that stays expires soon
                if claim._is_mine():
                    files.remove(path)

    def check(self) -> None:
        """Check that no other run has taken over this claim.

        Raises:
            OptionError: another run has.
        """
        with self._turn:
            mine = self._is_mine()
        if not mine:
            raise _busy(self._path)

    def _is_mine(self) -> bool:
        if self._token is None:
            return True
        return (self._files.read_text(self._path) or "").startswith(self._token)

    def _write(self, number: int) -> None:
        self._files.write_text(self._path, f"{self._token} {number}\n")

    def _beat(self) -> None:
        number = 0
        while not self._ended.wait(BEAT_S):
            number += 1
            try:
                with self._turn:
                    if not self._is_mine():
                        return
                    self._write(number)
            except UnreachableError:
                continue  # the store may answer at the next interval


@contextmanager
def _locked(path: Path) -> Generator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise UnreachableError(str(path), error.strerror or repr(error)) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(str(path)) from None
        except OSError as error:
            raise UnreachableError(str(path), f"cannot lock: {error.strerror or error}") from None
        yield


def _wait_for_the_dead(files: Files, path: str) -> None:
    last_text = files.read_text(path)
    deadline = time.monotonic() + DEAD_S
    while last_text is not None and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        now = files.read_text(path)
        if now is not None and now != last_text:
            raise _busy(path)
        last_text = now


def _busy(path: str) -> OptionError:
    return OptionError(
        f"{path}: another run is exporting this cluster to this target; wait until it ends, "
        "or give another target"
    )
