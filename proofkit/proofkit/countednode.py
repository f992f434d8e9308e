"""A real node that counts what it does for each operation, for the guard on the path of a write.

`python -m proofkit.countednode run` is `raftnode run` with a few functions replaced in this process
alone, so that each counts its calls. The counts stand in a file that the process maps: a test
reads them at any time, which costs the node nothing.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

COMMAND: Final = (sys.executable, "-m", "proofkit.countednode", "run")
"""What runs such a node, in the place of `raftnode run`."""

FILE: Final = "COUNTEDNODE_FILE"
"""Variable of the environment that names the file."""

_LAYOUT: Final = struct.Struct("<6q")


@dataclass(frozen=True, slots=True)
class Counts:
    """What a node has done since its start.

    Attributes:
        core_events: events that the core has handled.
        frames: frames that it has sent to peers.
        loop_turns: rounds of its event loop.
        reads: reads of files (pread).
        writes: writes of files (pwrite).
        handoffs: pieces of work handed to another thread, and their results handed back.
    """

    core_events: int
    frames: int
    loop_turns: int
    reads: int
    writes: int
    handoffs: int

    @classmethod
    def read(cls, path: Path) -> Counts:
        """The counts of the node that has this file."""
        return cls(*_LAYOUT.unpack(path.read_bytes()))

    def since(self, earlier: Counts) -> Counts:
        """What was done between two readings."""
        return Counts(
            self.core_events - earlier.core_events,
            self.frames - earlier.frames,
            self.loop_turns - earlier.loop_turns,
            self.reads - earlier.reads,
            self.writes - earlier.writes,
            self.handoffs - earlier.handoffs,
        )


def _install(path: Path) -> None:
    from raftnode.core.raft import RaftCore  # noqa: PLC0415 - not for the tests that only read
    from raftnode.runtime.process.poll_time import TimedSelector  # noqa: PLC0415
    from raftnode.runtime.process.thread_signal import ThreadSignal  # noqa: PLC0415
    from raftnode.storage.files import OsCalls  # noqa: PLC0415
    from raftnode.transport.outbox import Outbox  # noqa: PLC0415

    path.write_bytes(bytes(_LAYOUT.size))
    with path.open("r+b") as file:
        cells = memoryview(mmap.mmap(file.fileno(), _LAYOUT.size)).cast("q")

    def count(owner: Any, name: str, cell: int) -> None:
        call = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            cells[cell] += 1
            return call(*args, **kwargs)

        setattr(owner, name, counted)

    for owner, name, cell in (
        (RaftCore, "handle", 0),
        (Outbox, "put", 1),
        (TimedSelector, "select", 2),
        (OsCalls, "pread", 3),
        (OsCalls, "pwrite", 4),
        (ThreadPoolExecutor, "submit", 5),
        (ThreadSignal, "notify", 5),
    ):
        count(owner, name, cell)


def main() -> None:
    """Run the `raftnode` program with such functions."""
    from raftnode import cli  # noqa: PLC0415 - not for the tests that only read the counts

    _install(Path(os.environ[FILE]))
    cli.main()


if __name__ == "__main__":
    main()
