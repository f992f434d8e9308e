"""Where the control batches of the log stand: `control-batches.json`, a file of ours.

The voters of the quorum come from the control records of the whole log, and a start
must not read the whole log to find them. The file lists every control batch below the
recovery point; those above it are found by the scan of the tail. It holds places and not
records: each batch is read from the log, its checksum and epoch are checked, so that the
file can hide nothing but by leaving it out, which its own checksum tells.

It is written before the recovery point moves over a new control batch, and before a
truncation drops one. Missing or damaged: the log is read from its start, and the file
is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from raftnode.core.types import Offset
from raftnode.storage.files import Files
from raftnode.storage.sealed import JsonValue, integer, seal, unseal

FILE_NAME = "control-batches.json"
_LIMIT_BYTES = 64 << 20
_VERSION = 1


@dataclass(frozen=True, slots=True, order=True)
class ControlPlace:
    """A control batch: its base offset, and where it begins in its segment."""

    offset: Offset
    position: int


def write_control_places(files: Files, path: Path, places: Sequence[ControlPlace]) -> None:
    """Replace the file durably."""
    batches: list[JsonValue] = [[place.offset, place.position] for place in places]
    files.replace(path, seal({"version": _VERSION, "batches": batches}))


def read_control_places(files: Files, path: Path) -> tuple[ControlPlace, ...] | None:
    """Read the file; None if it is missing, damaged or of a later version."""
    data = files.read_bytes(path, _LIMIT_BYTES)
    if data is None:
        return None
    try:
        return _decode(data)
    except ValueError:
        return None


def _decode(data: bytes) -> tuple[ControlPlace, ...]:
    fields, intact = unseal(data)
    batches = fields.get("batches")
    if not intact or integer(fields, "version", 1) != _VERSION or not isinstance(batches, list):
        raise ValueError("damaged, or of a later version")
    places: list[ControlPlace] = []
    for pair in batches:
        match pair:
            case [int(offset), int(position)]:
                places.append(ControlPlace(Offset(offset), position))
            case _:
                raise ValueError(f"{pair!r} is no place")
    if any(one.offset >= two.offset for one, two in pairwise(places)):
        raise ValueError("the places are not in order")
    return tuple(places)
