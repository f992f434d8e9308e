"""A progress bar on long work: on stderr, and only for a person at a terminal."""

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
"""Less is read before a bar could be drawn."""


@contextmanager
def reading(what: str, total_bytes: int) -> Generator[Callable[[int], None]]:
    """Show how much has been read; call what this gives with each further count of bytes."""
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
