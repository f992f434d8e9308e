"""What the core is given at a start: the replica as its storage has it."""

from __future__ import annotations

from dataclasses import dataclass

from raftnode.core.log_index import LogIndex
from raftnode.core.state import QuorumState
from raftnode.core.types import FIRST_OFFSET, Offset, ReplicaKey


@dataclass(frozen=True, slots=True)
class StartState:
    """What a start of the replica found on its storage.

    Attributes:
        key: of this replica; a new UUID is a new replica (S1).
        log: index of what storage recovered; all of it durable.
        state: what storage recovered; the default for an empty disk.
        cluster_id: None for a blank replica.
        incarnation: how many times this storage was started (S3).
        fetch_sequence: above that of any earlier start, e.g. the wall clock in µs (S3).
        quiet_ms: the longest that earlier starts of this storage may have promised not to vote;
            for so long this start does not vote (S33).
        committed_end: below it all of the log was committed before this start, as a snapshot of
            its own proves, though that snapshot is not the one that `log` goes on from.
    """

    key: ReplicaKey
    log: LogIndex
    state: QuorumState
    cluster_id: str | None
    incarnation: int = 1
    fetch_sequence: int = 0
    quiet_ms: int = 0
    committed_end: Offset = FIRST_OFFSET
