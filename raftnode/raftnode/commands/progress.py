"""A progress bar for long work: on stderr, and only if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

LEAST_BYTES = 64 << 20
"""Reads of fewer bytes end before a bar would be drawn."""


@contextmanager
def reading(what: str, total_bytes: int) -> Generator[Callable[[int], None]]:
    """Show how much has been read; call the yielded function with each further count of bytes."""
    if not sys.stderr.isatty() or total_bytes < LEAST_BYTES:
        yield lambda _count: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total_bytes)
        yield lambda count: progress.update(task, advance=count)
