"""Flips one bit in every byte of every file of a data directory, and records each outcome.

`python -m proofkit.bit_flips` tries them all and prints the table of docs/evidence/disk-faults.md;
`EVERY=n` tries each n-th byte. What counts as an outcome is what the node would do: the flip is
made under a stopped node, which is then started, reads its whole log and its newest snapshot. Any
of it that differs from what was written without an error is `lost`, and ends the run with 1.
"""

from __future__ import annotations

import logging
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from proofkit.bit_flip_directories import (
    FETCHED,
    LOG,
    ROOT,
    Content,
    make_directory,
    make_formatting,
    make_installing,
    make_marked,
    read_all,
)
from proofkit.faultdisk import FaultDisk
from raftnode.errors import RaftnodeError
from raftnode.logformat import HEADER_BYTES
from raftnode.storage.directory.identity import FORMATTING_FILE
from raftnode.storage.directory.quarantine import MARK_FILE
from raftnode.storage.directory.stale_mark import FILE_NAME as STALE_FILE
from raftnode.storage.snapshots.installation import MARKER_FILE

NOT_TRIED = frozenset({".lock", "lost+found"})

Row = tuple[str, str]
"""File and part of it."""


@dataclass(frozen=True)
class Case:
    """A directory in which bits are flipped.

    Attributes:
        make: makes it.
        names: the files that are tried; empty: all of them.
    """

    make: Callable[[], FaultDisk]
    names: frozenset[str] = frozenset()


CASES = (
    Case(lambda: make_directory(clean=False)),
    Case(lambda: make_directory(clean=True)),
    Case(lambda: make_directory(clean=False, trimmed=True)),
    Case(lambda: make_directory(clean=True, trimmed=True)),
    Case(make_installing, frozenset({MARKER_FILE, FETCHED.file_name})),
    Case(lambda: make_marked("stale"), frozenset({STALE_FILE})),
    Case(lambda: make_marked("corrupt"), frozenset({MARK_FILE})),
    Case(make_formatting, frozenset({FORMATTING_FILE})),
)


def parts(disk: FaultDisk, path: Path) -> Iterator[tuple[Row, range]]:
    """Return a file's name as in the docs, its parts, and their bytes."""
    content = disk.content(path)
    if path.suffix not in {".log", ".checkpoint"}:
        name = f"*{path.suffix}" if path.stem.isdigit() else path.name
        yield (name, "all of it"), range(len(content))
        return
    kind = "*.checkpoint" if path.suffix == ".checkpoint" else "*.log"
    if path.name == FETCHED.file_name:
        kind += ", being put in place"
    if kind == "*.log":
        last = max(name for name in disk.listdir(str(LOG)) if name.endswith(".log"))
        kind += ", the last" if path.name == last else ", full ones"
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at + 8 : at + 12], "big") + 12
        yield (kind, "offset, length, epoch, magic"), range(at, at + 17)
        yield (kind, "checksum"), range(at + 17, at + 21)
        yield (kind, "rest of a header"), range(at + 21, at + HEADER_BYTES)
        yield (kind, "records"), range(at + HEADER_BYTES, at + size)
        at += size


def outcome(disk: FaultDisk, wanted: Content | None) -> str:
    """Return the outcome of a start, in the words of the docs; `wanted` None: it must refuse."""
    try:
        content = read_all(disk)
    except RaftnodeError as error:
        return f"`{error.exit_code.name}`"
    if wanted is None:
        return "lost"
    if replace(content, again=wanted.again, aside=wanted.aside) != wanted:
        return "trimmed up to a snapshot" if _trimmed_further(content, wanted) else "lost"
    if content.aside:
        return "snapshot set aside"
    return "made again" if content.again != wanted.again else "unchanged"


def _trimmed_further(content: Content, wanted: Content) -> bool:
    """Whether all is there but records that the state, by a snapshot, has as well."""
    return (
        0 < wanted.start < content.start
        and (content.identity, content.state) == (wanted.identity, wanted.state)
        and wanted.batches.endswith(content.batches)
    )


def _wanted(disk: FaultDisk) -> Content | None:
    try:
        return read_all(disk)
    except RaftnodeError:
        return None


def _paths(disk: FaultDisk, case: Case) -> Iterator[Path]:
    for directory in (ROOT, LOG):
        if directory == LOG and LOG.name not in disk.listdir(str(ROOT)):
            continue  # it was quarantined
        for name in sorted(disk.listdir(str(directory))):
            path = directory / name
            if path != LOG and name not in NOT_TRIED and (not case.names or name in case.names):
                yield path


def try_all(every: int = 1, seed: int = 1) -> dict[Row, Counter[str]]:
    """Flip a bit in each n-th byte of each of `CASES`."""
    rng = random.Random(seed)
    tallies: dict[Row, Counter[str]] = {}
    for case in CASES:
        template = case.make()
        image = template.snapshot()
        wanted = _wanted(template)
        template.restore(image)
        for path in list(_paths(template, case)):
            for row, places in parts(template, path):
                tally = tallies.setdefault(row, Counter())
                for byte in places[rng.randrange(every) :: every]:
                    disk = FaultDisk(random.Random(1))
                    disk.restore(image)
                    disk.flip_bit(path, byte, rng.randrange(8))
                    tally[outcome(disk, wanted)] += 1
    return tallies


def table(tallies: dict[Row, Counter[str]]) -> list[str]:
    """Return the table for the docs."""
    lines = ["| file | part | flips | outcomes |", "|---|---|---|---|"]
    for (name, part), tally in sorted(tallies.items()):
        outcomes = ", ".join(f"{what} {count}" for what, count in sorted(tally.items()))
        lines.append(f"| `{name.replace(', ', '`, ', 1) if ',' in name else name + '`'} ")
        lines[-1] += f"| {part} | {tally.total()} | {outcomes} |"
    return lines


def main() -> int:
    """Try all bit flips and print the table."""
    tallies = try_all(int(os.environ.get("EVERY", "1")))
    print("\n".join(table(tallies)))  # noqa: T201
    lost = sum(tally["lost"] for tally in tallies.values())
    flips = sum(tally.total() for tally in tallies.values())
    print(f"{flips} flips, {lost} lost")  # noqa: T201
    return 1 if lost else 0


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.exit(main())
