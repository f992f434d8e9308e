"""The places of the control batches in the log: our own file `control-batches.json`.

The voters of the quorum come from the control records of the whole log, and a start must not read
the whole log to find them. The file lists every control batch below the recovery point; the scan
of the tail finds those above it. The file holds places and not records: each batch is read from
the log, and its checksum and epoch are checked. So the file can hide a batch only by leaving it
out, and the file's own checksum reveals that.

The file is written before the recovery point moves, and before a truncation drops a control batch.
It names the recovery points that it belongs to: the present one, and the one that the point is
about to move to. Beside any other recovery point, a program that does not know the file has moved
the point over control batches that the file does not list. Such a file counts as missing. If the
file is missing or damaged, the log is read from its start and the file is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from raftnode.core.types import Offset
from raftnode.logformat.sealed_json import JsonValue, integer, seal, unseal
from raftnode.storage.files import Files

FILE_NAME = "control-batches.json"
_LIMIT_BYTES = 64 << 20
_VERSION = 2
"""1: without the recovery points."""


@dataclass(frozen=True, slots=True, order=True)
class ControlPlace:
    """A control batch: its base offset, and where it begins in its segment."""

    offset: Offset
    position: int


@dataclass(frozen=True, slots=True)
class ControlPlaces:
    """What the file says.

    Attributes:
        recovery_points: for each, the file lists all control batches below it.
        places: in the order of the log.
    """

    recovery_points: frozenset[Offset]
    places: tuple[ControlPlace, ...]


def write_control_places(
    files: Files, path: Path, places: Sequence[ControlPlace], recovery_points: Collection[Offset]
) -> None:
    """Replace the file durably.

    Args:
        files: the file layer.
        path: of the file.
        places: all control batches below each of the recovery points; later ones do no harm.
        recovery_points: the recovery point on the disk, and the next one.
    """
    batches: list[JsonValue] = [[place.offset, place.position] for place in places]
    points: list[JsonValue] = [*sorted(set(recovery_points))]
    files.replace(path, seal({"version": _VERSION, "recovery_points": points, "batches": batches}))


def read_control_places(files: Files, path: Path, recovery_point: Offset) -> ControlPlaces | None:
    """Read the file; None if it is missing, damaged, of another version or another point's."""
    data = files.read_bytes(path, _LIMIT_BYTES)
    if data is None:
        return None
    try:
        places = _decode(data)
    except ValueError:
        return None
    return places if recovery_point in places.recovery_points else None


def _decode(data: bytes) -> ControlPlaces:
    fields, intact = unseal(data)
    batches, points = fields.get("batches"), fields.get("recovery_points")
    if not intact or integer(fields, "version", 1) != _VERSION:
        raise ValueError("damaged, or of another version")
    if not isinstance(batches, list) or not isinstance(points, list):
        raise ValueError("no recovery point or no places")  # noqa: TRY004
    places: list[ControlPlace] = []
    for pair in batches:
        match pair:
            case [int(offset), int(position)]:
                places.append(ControlPlace(Offset(offset), position))
            case _:
                raise ValueError(f"{pair!r} is not a place")
    if any(place.offset >= following.offset for place, following in pairwise(places)):
        raise ValueError("the places are not in order")
    known = frozenset(Offset(point) for point in points if isinstance(point, int))
    return ControlPlaces(known, tuple(places))
