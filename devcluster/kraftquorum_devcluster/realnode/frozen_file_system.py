"""`python -m kraftquorum_devcluster.realnode.frozen_file_system PATH`: keep a file system frozen.

Whatever happens to the caller, the file system goes on: it is thawed when standard input ends,
and after `LIMIT_S` at the latest. A file system that stayed frozen would block every process
that touches it, past SIGKILL and past the end of its mount namespace.
"""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kraftquorum_devcluster.errors import DevClusterError

LIMIT_S = 300
"""The longest that a file system is kept frozen."""
_FREEZE, _THAW = 0xC0045877, 0xC0045878
"""The ioctls ``FIFREEZE`` and ``FITHAW``: ``_IOWR('X', 119, int)`` and the next one."""


class FrozenError(DevClusterError):
    """The file system cannot be frozen."""


class Frozen:
    """A file system that is frozen until `thaw`, or until this process ends.

    Args:
        path: any directory of it.

    Raises:
        FrozenError: It cannot be frozen.
    """

    def __init__(self, path: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "kraftquorum_devcluster.realnode.frozen_file_system",
            str(path),
        ]
        self._keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._keeper.stdout is not None  # noqa: S101
        said = self._keeper.stdout.readline().decode().strip()
        if said != "frozen":
            self.thaw()
            raise FrozenError(f"{path} cannot be frozen: {said}")

    def thaw(self) -> None:
        """Let the file system go on; returns when it does."""
        self._keeper.communicate()


def _end(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _keep(path: str) -> int:
    for wish in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(wish, _end)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, _FREEZE, 0)
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    try:
        sys.stdout.write("frozen\n")
        sys.stdout.flush()
        select.select([sys.stdin], [], [], LIMIT_S)
    finally:
        _thaw(descriptor)
    return 0


def thaw(path: Path) -> None:
    """Thaw a file system that any process keeps frozen; does nothing where it is not frozen."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _thaw(descriptor)
    finally:
        os.close(descriptor)


def _thaw(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # not frozen, or no longer
        fcntl.ioctl(descriptor, _THAW, 0)


if __name__ == "__main__":
    sys.exit(_keep(sys.argv[1]))
