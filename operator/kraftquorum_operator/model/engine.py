"""What the planner knows of the software whose voters it changes.

An engine is an adapter: it fills the observation and carries out the actions. The planner and the
executor read nothing of it but these traits.

What must not live here: whether an answer is confirmed. Each answer says so itself
(`Quorum.confirmed`). A leader that answers without a majority needs no trait: the guards wait until
a later answer confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from raftnode.errors import ExitCode

StorageFault = Literal["failed", "lost", "corrupt", "identity", "full", "stale", "stalled"]
"""What is wrong with a replica's storage, as its process reports at its end."""


@dataclass(frozen=True, slots=True)
class StorageExit:
    """What an exit code says of the storage.

    Attributes:
        code: the exit code.
        fault: what is wrong.
        restarts: after how many restarts the storage may be given up; None: never for this code.
    """

    code: int
    fault: StorageFault
    restarts: int | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by its traits.

    Attributes:
        name: of the engine.
        one_voter_per_id: the leader takes no second voter of a node id, so a lost replica leaves
            the voter set before its replacement joins.
        leader_checks_changes: the leader compares a voter change with the set that it was decided
            on, and holds it back until a majority of the set after the change has caught up.
            Without that, the operator reads the quorum again directly before the request.
        moves_leadership: a leader resigns in favour of another voter on request. Without that, a
            leader resigns when its process stops or when it removes itself.
        storage_exits: the exit codes that concern the storage. A code means nothing in an engine
            that does not define it, and no storage is given up for it.
    """

    name: str
    one_voter_per_id: bool
    leader_checks_changes: bool
    moves_leadership: bool
    storage_exits: tuple[StorageExit, ...] = ()

    def storage_exit(self, code: int | None) -> StorageExit | None:
        """What an exit code says of the storage; None: nothing."""
        return next((known for known in self.storage_exits if known.code == code), None)


RAFTNODE = Engine(
    "raftnode",
    one_voter_per_id=False,
    leader_checks_changes=True,
    moves_leadership=True,
    storage_exits=(
        StorageExit(ExitCode.STORAGE_FAILED, "failed", 3),
        StorageExit(ExitCode.STORAGE_LOST, "lost"),
        StorageExit(ExitCode.STORAGE_CORRUPT, "corrupt", 2),
        StorageExit(ExitCode.STORAGE_IDENTITY, "identity", 2),
        StorageExit(ExitCode.STORAGE_FULL, "full"),
        StorageExit(ExitCode.STORAGE_STALE, "stale", 2),
        StorageExit(ExitCode.STORAGE_STALLED, "stalled", 3),
    ),
)
"""Our own node. The kubelet waits 30 s before the third restart, so a write that failed or a disk
that did not answer (S35), and that works again by then, costs no disk."""

KAFKA = Engine("kafka", one_voter_per_id=True, leader_checks_changes=False, moves_leadership=False)
"""Apache Kafka's controllers from 3.9 on, which exit with code 1 whatever has happened. The
operator reconciles none yet."""
