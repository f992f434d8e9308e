"""The size of a world: each bound is a budget that the whole run shares."""

from __future__ import annotations

from dataclasses import dataclass

BUDGETS: tuple[str, ...] = (
    "elections", "resignations", "crashes", "losses", "duplicates", "writes", "changes",
    "snapshots", "hangs", "stops",
)  # fmt: skip
"""The budgets of a run, in the order of `State.left`."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How often each action may happen in one run of the world.

    Attributes:
        voters: how many replicas form the quorum, numbered from 0.
        formed: begin with a quorum that 0 leads, all logs equal and durable; else with
            replicas that hold only the latch.
        replacement: a further disk may join, under the node id `replaced`; no replica follows a
            leader of its own id (S1).
        joined: with `formed`, it has joined and is an observer that is caught up.
        epoch_max: steps to a higher epoch are not taken.
        elections: how many election timers fire (standing, retrying, giving up).
        resignations: how many leaders find their majority lost.
        crashes: how many processes die, with any part of what they had not fsynced.
        losses: how many messages get lost.
        duplicates: how many messages are delivered and stay on their way.
        writes: how many records clients append.
        changes: how many voter changes are asked for.
        snapshots: how many snapshots are taken, each of all that is applied; the log is trimmed
            behind each at once.
        hangs: how many disks begin to hang while a majority of every set in force is well without
            them. What was under way returns at any later point, or never: the process may be
            killed, and on such a disk it does not start again.
        stops: how many processes begin to stand still, likewise: a loop that stalls. What is sent
            to one waits; it goes on at any later point, or never.
        fetches: how many Fetches a follower may have under way.
        removable: which replicas a RemoveVoter may name.
        standing: the replicas whose election timers fire; None: all.
        crashing: the replicas that may crash; None: all.
        hanging: the replicas whose disk may hang; None: all.
        stopping: the replicas whose process may stop; None: all.
    """

    voters: int = 3
    formed: bool = True
    replacement: bool = False
    replaced: int = 1
    joined: bool = False
    epoch_max: int = 3
    elections: int = 1
    resignations: int = 0
    crashes: int = 0
    losses: int = 0
    duplicates: int = 0
    writes: int = 0
    changes: int = 0
    snapshots: int = 0
    hangs: int = 0
    stops: int = 0
    fetches: int = 1
    removable: tuple[int, ...] = ()
    standing: tuple[int, ...] | None = None
    crashing: tuple[int, ...] | None = None
    hanging: tuple[int, ...] | None = None
    stopping: tuple[int, ...] | None = None

    def __str__(self) -> str:
        """The bounds in one line; bounds that allow nothing are left out."""
        some = " ".join(f"{name}={value}" for name in BUDGETS if (value := getattr(self, name)))
        some += f" fetches={self.fetches}" if self.fetches > 1 else ""
        begin = "formed" if self.formed else "latched"
        joined = " that has joined" if self.joined else ""
        disk = f" and a disk for {self.replaced}{joined}" if self.replacement else ""
        who = "".join(
            f" {name}={','.join(map(str, only))}"
            for name in ("removable", "standing", "crashing", "hanging", "stopping")
            if (only := getattr(self, name))
        )
        return f"{self.voters} voters{disk} {begin} epochs<={self.epoch_max} {some}{who}"


_SMOKE = {
    "forming-two": Bounds(voters=2, formed=False, elections=1),
    "crash-in-two": Bounds(voters=2, elections=1, crashes=1),
    "lose-and-duplicate-in-two": Bounds(voters=2, elections=0, losses=1, duplicates=1, writes=2),
    "crash-and-write-in-three": Bounds(voters=3, elections=0, crashes=1, writes=1),
    "replace-in-two": Bounds(voters=2, replacement=True, elections=0, changes=2, removable=(1,)),
    "snapshots-for-a-new-disk": Bounds(
        voters=1,
        replacement=True,
        elections=0,
        crashes=1,
        writes=1,
        snapshots=2,
        crashing=(1,),
    ),
    "hang-and-remove-in-three": Bounds(
        voters=3, elections=0, changes=1, hangs=1, removable=(2,), hanging=(0,)
    ),
    "hang-follower-and-write-in-three": Bounds(
        voters=3, elections=0, writes=1, hangs=1, hanging=(1,)
    ),
    "stop-leader-and-write-in-three": Bounds(
        voters=3, elections=0, writes=1, stops=1, stopping=(0,)
    ),
    "stop-follower-and-write-in-three": Bounds(
        voters=3, elections=0, writes=1, stops=1, stopping=(1,)
    ),
}
_SMALL = {
    "fetch-ahead-in-two": Bounds(voters=2, elections=0, losses=1, writes=3, fetches=2),
    "fetch-ahead-and-elect-in-two": Bounds(voters=2, elections=1, crashes=1, writes=1, fetches=2),
    "fetch-ahead-in-three": Bounds(voters=3, elections=0, crashes=1, writes=1, fetches=2),
    "remove-and-elect-in-two": Bounds(voters=2, elections=1, changes=1, removable=(0, 1)),
    "remove-crash-and-elect-in-two": Bounds(
        voters=2, elections=1, crashes=1, changes=1, removable=(0,)
    ),
    "add-and-resign-in-two": Bounds(
        voters=2, replacement=True, replaced=0, elections=0, resignations=1, changes=1
    ),
    "lose-and-replace-in-two": Bounds(
        voters=2, replacement=True, joined=True, elections=0, losses=1, changes=1, removable=(1,)
    ),
    "crash-and-replace-in-two": Bounds(
        voters=2, replacement=True, joined=True, elections=0, crashes=1, changes=1, removable=(1,)
    ),
    "crash-and-elect-twice-in-two": Bounds(voters=2, elections=2, crashes=1),
    "resign-and-write-in-two": Bounds(voters=2, elections=1, resignations=1, writes=1),
    "elect-in-three": Bounds(voters=3, elections=1, standing=(1,)),
    "replace-in-three": Bounds(
        voters=3,
        replacement=True,
        replaced=2,
        joined=True,
        elections=0,
        changes=2,
        removable=(2,),
    ),
    "hang-leader-and-write-in-three": Bounds(
        voters=3, epoch_max=1, elections=0, writes=1, hangs=1, hanging=(0,)
    ),
    "stop-and-remove-in-three": Bounds(
        voters=3, elections=0, changes=1, stops=1, removable=(2,), stopping=(0,)
    ),
    "snapshots-in-two": Bounds(voters=2, replacement=True, elections=1, writes=1, snapshots=2),
}
_FULL = {
    "stop-leader-and-elect-in-three": Bounds(
        voters=3, elections=1, writes=1, stops=1, standing=(1,), stopping=(0,)
    ),
    "hang-write-and-remove-in-three": Bounds(
        voters=3, elections=1, writes=1, changes=1, hangs=1, removable=(2,), hanging=(0,)
    ),
    "fetch-ahead-and-elect-twice-in-two": Bounds(
        voters=2, elections=2, crashes=1, writes=2, fetches=2
    ),
    "forming-three": Bounds(voters=3, formed=False, elections=2),
    "crash-and-write-in-two": Bounds(voters=2, elections=2, crashes=2, writes=1, losses=1),
    "elect-crash-and-write-in-three": Bounds(
        voters=3, epoch_max=4, elections=2, crashes=1, writes=1
    ),
    "replace-with-new-leader-in-two": Bounds(
        voters=2, replacement=True, elections=2, resignations=1, changes=2, removable=(0, 1)
    ),
    "replace-crash-and-elect-in-three": Bounds(
        voters=3,
        replacement=True,
        replaced=2,
        joined=True,
        elections=2,
        crashes=1,
        changes=2,
        removable=(0, 2),
    ),
}

PRESETS: dict[str, dict[str, Bounds]] = {
    "smoke": _SMOKE,
    "small": _SMOKE | _SMALL,
    "full": _SMOKE | _SMALL | _FULL,
}
"""Worlds by preset: `smoke` takes seconds, `small` minutes, `full` as long as it is given."""
