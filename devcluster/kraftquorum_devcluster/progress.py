"""What people see while something long runs: a bar on a terminal, lines without one."""

import sys
import time
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_LINE_EVERY_S = 15.0


class BuildProgress(Protocol):
    """Is called for each step and for each piece done."""

    def step(self, title: str, total: int | None = None) -> None:
        """A step begins, of so many pieces if that is known."""

    def advance(self) -> None:
        """A piece is done."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class BarProgress:
    """Bars with an estimate, for a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=60,
        )
        self._task = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, title: str, total: int | None = None) -> None:
        """See `BuildProgress`."""
        if self._task is not None:
            self._progress.stop_task(self._task)
        self._task = self._progress.add_task(title, total=total)

    def advance(self) -> None:
        """See `BuildProgress`."""
        if self._task is not None:
            self._progress.advance(self._task)

    def note(self, text: str) -> None:
        """See `BuildProgress`."""
        self._progress.console.print(text)


class LineProgress:
    """A line at each step and every 15 seconds, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title = ""
        self._total: int | None = None
        self._done = 0
        self._begun = self._said = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def step(self, title: str, total: int | None = None) -> None:
        """See `BuildProgress`."""
        self._title, self._total, self._done = title, total, 0
        self._begun = self._said = time.monotonic()
        self.note(title if total is None else f"{title}: {total} pieces")

    def advance(self) -> None:
        """See `BuildProgress`."""
        self._done += 1
        now = time.monotonic()
        if now - self._said >= _LINE_EVERY_S:
            self._said = now
            self.note(progress_line(self._title, self._done, self._total, now - self._begun))

    def note(self, text: str) -> None:
        """See `BuildProgress`."""
        self._console.print(f"devcluster: {text}", markup=False, highlight=False, soft_wrap=True)


def progress_line(title: str, done: int, total: int | None, elapsed_s: float) -> str:
    """One line of progress, with an estimate once there is a rate."""
    if not total:
        return f"{title}: {done} so far, {elapsed_s:.0f} s"
    left_s = elapsed_s / done * max(total - done, 0) if done else 0
    return f"{title}: {done} of {total}, {elapsed_s:.0f} s, about {left_s:.0f} s left"


def make_progress() -> BuildProgress:
    """The kind that suits standard error."""
    console = Console(stderr=True)
    if console.is_terminal and sys.stderr.isatty():
        return BarProgress(console)
    return LineProgress(console)
