"""The simulator's invariants over one step of one world.

A checker of the simulator remembers a whole run. Here the run that led to a world is not
known, so what a checker must remember is part of the world's state: who led each epoch
and what was committed. All else that it compares stands on the disks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from proofkit.explorer.local import Local, Step, carry_out
from proofkit.simulator.disk import SimDisk
from proofkit.simulator.invariants import Checker
from raftnode.core.effects import (
    AppendBatches,
    Halt,
    HighWatermarkAdvanced,
    InstallSnapshot,
    PersistQuorumState,
    ServeFetch,
    TruncateLog,
)
from raftnode.core.raft import RaftCore
from raftnode.core.records import Batch, RaftVersion
from raftnode.core.types import Epoch, ReplicaKey

if TYPE_CHECKING:
    from proofkit.simulator.node import SimNode

Leaders = tuple[tuple[Epoch, ReplicaKey], ...]
LIFE = 1


@dataclass(slots=True)
class _Seen:
    """What the checker sees of a process: the part of SimNode that it reads."""

    key: ReplicaKey
    disk: SimDisk
    core: RaftCore | None
    life: int = LIFE


def checker_of(
    locals_: list[Local], acting: Local, leaders: Leaders, committed: tuple[Batch, ...]
) -> Checker:
    """Return a checker with the memory of a run that led to this world."""
    checker = Checker(
        leaders=dict(leaders),
        committed_log=list(committed),
        raft_version=_raft_version(committed),
    )
    for local in locals_:
        checker.flushed[local.key] = {id(batch) for batch in local.volume.durable}
        _learn(checker, local.volume.log)
        _learn(checker, local.volume.durable)
    _learn(checker, committed)
    state = acting.volume.state
    checker.epochs[acting.key] = max(state.epoch, acting.volume.shown)
    if state.voted is not None:
        checker.votes[(acting.key, state.epoch)] = state.voted
    if acting.core is not None:
        replica = acting.core.replica
        checker.marks[(acting.key, LIFE)] = (replica.high_watermark, replica.applicable)
    return checker


def _raft_version(committed: tuple[Batch, ...]) -> int:
    """What the last committed record of it says."""
    versions = [
        control.version
        for batch in committed
        for control in batch.control
        if isinstance(control, RaftVersion)
    ]
    return versions[-1] if versions else 0


def _learn(checker: Checker, log: tuple[Batch, ...]) -> None:
    replica = cast("SimNode", _Seen(cast("Any", None), SimDisk(cast("Any", None)), None))
    checker.appended(replica, log)


def watch(
    step: Step, locals_: list[Local], leaders: Leaders, committed: tuple[Batch, ...]
) -> tuple[Leaders, tuple[Batch, ...]]:
    """Check a step; return the leader of each epoch, and the committed batches after the step.

    Raises:
        InvariantError: one of the simulator's invariants is broken.
    """
    before = step.before
    checker = checker_of(locals_, before, leaders, committed)
    replica = _Seen(before.key, before.volume.disk(before.key), step.after.core)
    node = cast("SimNode", replica)
    checker.flushed[before.key] = replica.disk.ever_flushed
    if step.installed is not None:
        _learn(checker, step.installed.batches)
    if step.flush is not None:
        replica.disk.flush(step.flush)
    for effect in step.effects:
        match effect:
            case PersistQuorumState(state):
                checker.persisted(node, state)
            case AppendBatches(batches):
                checker.appended(node, batches)
            case HighWatermarkAdvanced(high_watermark):
                checker.committed(node, high_watermark)
            case Halt():
                checker.halted(node, effect)
            case TruncateLog(end):
                checker.snapshots.truncating(node, end)
            case ServeFetch():
                checker.snapshots.reads(node, effect.start_offset)
            case InstallSnapshot():
                assert step.installed is not None
                checker.snapshots.installing(node, step.installed)
            case _:
                pass
        carry_out(replica.disk, effect, step.installed)
    checker.after_event(node)
    return tuple(sorted(checker.leaders.items())), tuple(checker.committed_log)
