"""A real node that writes down what its core does, for the specification to judge.

`python -m proofkit.tracednode run` is `raftnode run` with three functions replaced in this
process alone: each event, effect and state of the core becomes a line in a file. The node's own
code has no part in it. A line is written before the node does what it says, and its time is that
of a clock that all processes of a machine share: so whatever a replica sends comes later than the
line that says so, and sorting the lines of all nodes by time keeps causes before their effects.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from proofkit.specification import sightings
from proofkit.specification.sightings import Sighting
from raftnode.core.effects import Effect
from raftnode.core.events import Event
from raftnode.core.raft import RaftCore
from raftnode.runtime.driver import Barrier, Driver, Parts

COMMAND: Final = (sys.executable, "-m", "proofkit.tracednode", "run")
"""What runs such a node, in the place of `raftnode run`."""

FILE: Final = "TRACEDNODE_FILE"
"""Variable of the environment that names the file."""


_CARRY_OUT: Final = "_carry_out"


class Line(msgspec.Struct, frozen=True):
    """What was seen of a replica, and when."""

    at_ns: int
    key: str
    sighting: Sighting


class _Writer:
    """Writes to the end of the file, past any buffer: the process may be killed."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encoder = msgspec.json.Encoder()

    def write(self, key: object, *sightings_now: Sighting | None) -> None:
        for sighting in sightings_now:
            if sighting is not None:
                line = Line(time.monotonic_ns(), str(key), sighting)
                os.write(self._file, self._encoder.encode(line) + b"\n")


def _install(writer: _Writer) -> None:
    make, handle = RaftCore.__init__, RaftCore.handle
    carry_out: Callable[[Driver, Parts, Effect], Barrier | None] = getattr(Driver, _CARRY_OUT)

    def made(core: RaftCore, *args: Any, **kwargs: Any) -> None:
        make(core, *args, **kwargs)
        writer.write(core.replica.key, *sightings.of_start(core.replica))

    def handled(core: RaftCore, event: Event, now_ms: int) -> list[Effect]:
        # The driver has carried out all that the event before wanted.
        replica = core.replica
        writer.write(replica.key, sightings.of_state(replica), sightings.of_event(replica, event))
        return handle(core, event, now_ms)

    def carried_out(driver: Driver, parts: Parts, effect: Effect) -> Barrier | None:
        writer.write(parts.core.replica.key, sightings.of_effect(effect))
        return carry_out(driver, parts, effect)

    for owner, name, function in (
        (RaftCore, "__init__", made),
        (RaftCore, "handle", handled),
        (Driver, _CARRY_OUT, carried_out),
    ):
        setattr(owner, name, function)


def main() -> None:
    """Run the `raftnode` program with such a core."""
    from raftnode import cli  # noqa: PLC0415 - not for the tests that only read the lines

    _install(_Writer(Path(os.environ[FILE])))
    cli.main()


if __name__ == "__main__":
    main()
