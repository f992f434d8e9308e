"""Power cuts at every call, on the simulated disk: unsynced writes are lost or torn."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

from proofkit.crash.history import (
    OWN,
    Install,
    LossError,
    Span,
    Storage,
    Story,
    Trim,
    make_history,
    run,
    settings_of,
    spans,
)
from proofkit.crash.oracle import expected
from proofkit.faultdisk import FaultDisk, PowerCutError
from raftnode.storage.files import Files

ROOT = Path("/data")


def _fresh(seed: int) -> FaultDisk:
    disk = FaultDisk(random.Random(seed))
    disk.make_directory(ROOT)
    return disk


def _open(disk: FaultDisk, seed: int) -> Storage:
    return Storage(Files(disk), ROOT, settings_of(seed), disk)


def calls_of(seed: int, story: Story = "plain") -> int:
    """Return the number of modifying calls in the history of a seed, its first start included."""
    disk = _fresh(seed)
    run(_open(disk, seed), make_history(seed, story), lambda: None)
    return disk.modifications


def spans_of(seed: int) -> list[Span]:
    """Return the calls of the trims and installs in the history of a seed."""
    disk = _fresh(seed)
    steps = make_history(seed, "trims")
    return spans(_open(disk, seed), steps, lambda: disk.modifications, (Trim, Install))


def crash(seed: int, point: int, story: Story = "plain") -> None:
    """Cut the power at one call, then at calls of the next starts, and compare.

    Args:
        seed: of the history.
        point: the call.
        story: what is in the history.

    Raises:
        LossError: data is lost or wrong.
        RaftnodeError: the start was refused, though no disk was damaged.
    """
    disk = _fresh(seed)
    disk.rng.seed(seed * 1_000_003 + point)
    steps, done = make_history(seed, story), 0

    def finished() -> None:
        nonlocal done
        done += 1

    disk.cut_power_at = point
    with contextlib.suppress(PowerCutError):
        run(_open(disk, seed), steps, finished)
        raise LossError(f"seed {seed}: no call {point}")
    disk.crash()
    while disk.rng.random() < 0.4:
        disk.cut_power_at = disk.modifications + disk.rng.randint(0, 12)
        with contextlib.suppress(PowerCutError):
            _open(disk, seed)
        disk.crash()
    storage = _open(disk, seed)
    assert storage.directory.key.node_id == OWN
    expected(steps, done, keeps_written=False).check(storage)


def points(first: int = 0, story: Story = "plain") -> Iterator[tuple[int, int]]:
    """Yield seeds and calls without end: each call of the first history, then of the next."""
    seed = first
    while True:
        yield from ((seed, point) for point in range(calls_of(seed, story)))
        seed += 1


def points_of(kind: str, first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield seeds and calls without end: each call of each trim, or of each install."""
    seed = first
    while True:
        for name, calls in spans_of(seed):
            if name == kind:
                yield from ((seed, point) for point in calls)
        seed += 1
