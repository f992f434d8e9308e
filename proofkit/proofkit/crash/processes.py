"""Processes that are killed at a system call, on a real file system."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

from proofkit.crash.history import (
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
from proofkit.crash.sigkill import MOMENTS, KillingCalls, Moment
from raftnode.storage.files import Files
from raftnode.storage.log.log import LogSettings

_TOLD = b"."


def in_a_process(work: Callable[[Callable[[bytes], None]], None]) -> tuple[int, bytes]:
    """Run `work` in its own process; it may report bytes at any time.

    Returns:
        The signal that killed it, or its negative exit code; and the bytes that it reported.
    """
    reading, writing = os.pipe()
    # This process has one thread and no event loop (S29): nothing can be held by another one.
    child = os.fork()  # noqa: TID251
    if not child:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    parts: list[bytes] = []
    while part := os.read(reading, 1 << 16):
        parts.append(part)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    return -ended, b"".join(parts)


def _work(work: Callable[[Callable[[bytes], None]], None], writing: int) -> NoReturn:
    try:
        work(lambda report: _write(writing, report))
    except BaseException:  # noqa: BLE001 - told by the exit code
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _write(writing: int, report: bytes) -> None:
    os.write(writing, report)


def calls_of(root: Path, seed: int, story: Story = "plain") -> int:
    """Return the number of modifying calls in the history of a seed, its first start included."""
    counting = KillingCalls()
    storage = Storage(Files(counting), _fresh(root), settings_of(seed), counting)
    run(storage, make_history(seed, story), lambda: None)
    return counting.count


def spans_of(root: Path, seed: int) -> list[Span]:
    """Return the calls of the trims and installs in the history of a seed."""
    counting = KillingCalls()
    storage = Storage(Files(counting), _fresh(root), settings_of(seed))
    steps = make_history(seed, "trims")
    return spans(storage, steps, lambda: counting.count, (Trim, Install))


def _fresh(root: Path) -> Path:
    directory = root / "data"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def crash(root: Path, seed: int, point: int, moment: Moment, story: Story = "plain") -> None:
    """Kill a process at one call, and sometimes the processes after it; then compare.

    Args:
        root: where its directory goes.
        seed: of the history.
        point: the call.
        moment: before, in the middle of or after it.
        story: what is in the history.

    Raises:
        LossError: data is lost or wrong.
        RaftnodeError: the start was refused, though no disk was damaged.
    """
    directory, settings = _fresh(root), settings_of(seed)
    steps = make_history(seed, story)
    rng = random.Random(f"{seed} {point} {moment}")

    def history(tell: Callable[[bytes], None]) -> None:
        calls = KillingCalls(point, moment)
        storage = Storage(Files(calls), directory, settings, calls)
        run(storage, steps, lambda: tell(_TOLD))

    ended, reports = in_a_process(history)
    if ended != signal.SIGKILL:
        raise LossError(f"the process ended with {ended}, not by its call {point}")
    while rng.random() < 0.3:
        calls = KillingCalls(rng.randint(0, 12), rng.choice(MOMENTS))
        ended, _ = in_a_process(partial(_start, Files(calls), directory, settings))
        if ended not in {0, signal.SIGKILL}:
            raise LossError(f"the start after it ended with {-ended}")
    storage = Storage(Files(), directory, settings)
    try:
        expected(steps, len(reports), keeps_written=True).check(storage)
    finally:
        storage.close()


def _start(
    files: Files, directory: Path, settings: LogSettings, _tell: Callable[[bytes], None]
) -> None:
    Storage(files, directory, settings)


def points(root: Path, first: int = 0, story: Story = "plain") -> Iterator[tuple[int, int, Moment]]:
    """Yield seeds, calls and moments without end."""
    seed = first
    while True:
        for point in range(calls_of(root, seed, story)):
            for moment in MOMENTS:
                yield seed, point, moment
        seed += 1


def points_of(root: Path, kind: str, first: int = 0) -> Iterator[tuple[int, int, Moment]]:
    """Yield seeds, calls and moments without end: each call of each trim or install."""
    seed = first
    while True:
        for name, calls in spans_of(root, seed):
            if name == kind:
                for point in calls:
                    for moment in MOMENTS:
                        yield seed, point, moment
        seed += 1
