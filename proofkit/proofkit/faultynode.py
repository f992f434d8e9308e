"""A real node whose storage calls or event loop hang, slow down or fail on demand.

`python -m proofkit.faultynode run` is `raftnode run` with the system calls that the
storage uses replaced in this process alone. A file next to the data directory says what they do,
line by line, and is looked at before each call and while one hangs, so a test changes it at any
time: see `NodeFaults`.

A call that hangs holds neither the interpreter nor the processor: like one in the kernel that
waits for a device.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, ParamSpec, TypeVar

from raftnode.runtime.process import poll_time

P = ParamSpec("P")
T = TypeVar("T")

Call = Literal["sync", "write", "read", "loop"]
"""`sync`: fsync and fdatasync; `write`: pwrite; `read`: pread; `loop`: a turn of the event loop."""

COMMAND: Final = (sys.executable, "-m", "proofkit.faultynode", "run")
"""The command of such a node, instead of `raftnode run`."""

CONTROL: Final = "FAULTYNODE_CONTROL"
"""Variable of the environment that names the file."""

HANG: Final = "hang"
_LOOK_AGAIN_S = 0.02


class NodeFaults:
    """The faults of one node's calls, as a test sets them.

    Args:
        path: the file; `CONTROL` in the node's environment names it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._faults: dict[Call, str] = {}

    def hang(self, *calls: Call) -> None:
        """Let such calls hang until `heal`; calls under way continue."""
        self._set(dict.fromkeys(calls, HANG))

    def slow(self, call: Call, milliseconds: int) -> None:
        """Delay each such call."""
        self._set({call: str(milliseconds)})

    def fail(self, call: Call, name: str) -> None:
        """Let each such call fail, for example with ENOSPC."""
        self._set({call: name})

    def heal(self) -> None:
        """Let all calls return, hung calls included."""
        self._faults.clear()
        self._write()

    def _set(self, faults: dict[Call, str]) -> None:
        self._faults |= faults
        self._write()

    def _write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text("".join(f"{call} {what}\n" for call, what in self._faults.items()))
        new.replace(self.path)


class _Faults:
    """The same, as the node's process reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, call: Call) -> str | None:
        """What such a call does now; None: what it always does."""
        try:
            lines = self._path.read_text().splitlines()
        except FileNotFoundError:
            return None
        return dict(line.split(" ", 1) for line in lines).get(call)

    def suffer(self, call: Call) -> None:
        """Return when such a call may be made.

        Raises:
            OSError: it is to fail.
        """
        what = self.of(call)
        if what is None:
            return
        if what.isdecimal():
            time.sleep(int(what) / 1000)
            return
        while what == HANG:
            time.sleep(_LOOK_AGAIN_S)
            what = self.of(call)
        if what is not None and not what.isdecimal():
            number = getattr(errno, what)
            raise OSError(number, os.strerror(number))

    def through(self, call: Call, function: Callable[P, T]) -> Callable[P, T]:
        """The function, once the call has suffered."""

        def faulty(*args: P.args, **kwargs: P.kwargs) -> T:
            self.suffer(call)
            return function(*args, **kwargs)

        return faulty

    def stall_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Block the loop whenever the file says so; in a thread of its own."""
        while not loop.is_closed():
            if self.of("loop") is not None:
                loop.call_soon_threadsafe(self.suffer, "loop")
                while self.of("loop") is not None:
                    time.sleep(_LOOK_AGAIN_S)
            time.sleep(_LOOK_AGAIN_S)


def _install(faults: _Faults) -> None:
    os.fdatasync = faults.through("sync", os.fdatasync)
    os.fsync = faults.through("sync", os.fsync)
    os.pwrite = faults.through("write", os.pwrite)
    os.pread = faults.through("read", os.pread)
    make_loop = poll_time.make_loop

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = make_loop()
        threading.Thread(target=faults.stall_loop, args=(loop,), daemon=True).start()
        return loop

    poll_time.make_loop = new_loop


def main() -> None:
    """Run the `raftnode` program with such calls."""
    from raftnode import cli  # noqa: PLC0415 - not for the tests that only set the faults

    _install(_Faults(Path(os.environ[CONTROL])))
    cli.main()


if __name__ == "__main__":
    main()
