"""Log matching: two logs with the same epoch at an offset are equal up to there. Pure.

The audit compares the digests of ranges first. It reads only the ranges that differ again,
batch by batch (`details`). Two logs may differ in one way: a replica that was down has
uncommitted records at its end, and the committed records there are of a later epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .continuity import Extent
from .findings import Check, Finding, Place
from .scan import Row


@dataclass(frozen=True, slots=True)
class Batch:
    """A whole batch in the log of one replica.

    Attributes:
        digest: the digest of all its bytes.
        holds: what it holds, in words.
    """

    replica: str
    path: str
    position: int
    base_offset: int
    end_offset: int
    epoch: int
    size: int
    digest: tuple[int, int]
    holds: str = ""

    @property
    def place(self) -> Place:
        """The place of the batch, for a finding."""
        return Place(self.base_offset, self.replica, self.path, self.position, self.holds)


def unequal(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Return the ranges in which replicas differ: chunk → rows."""
    held: dict[int, dict[str, tuple[int, int]]] = {}
    kept: dict[int, list[Row]] = {}
    for row in rows:
        if row.kind != "chunk":
            continue
        replicas = held.setdefault(row.chunk, {})
        hi, lo = replicas.get(row.replica, (0, 0))
        replicas[row.replica] = hi ^ row.digest_hi, lo ^ row.digest_lo
        kept.setdefault(row.chunk, []).append(row)
    return {
        chunk: kept[chunk]
        for chunk, replicas in sorted(held.items())
        if len(set(replicas.values())) > 1
    }


@dataclass(slots=True)
class Matching:
    """The result of a comparison.

    Attributes:
        agreed_ends: the offset up to which each replica has the reference's log, except damage.
        stale: replica → (first offset, how the ends differ) of an allowed stale end.
    """

    findings: list[Finding]
    agreed_ends: dict[str, int]
    stale: dict[str, tuple[int, str]]


def compare(batches: Iterable[Batch], extents: Mapping[str, Extent]) -> Matching:
    """Compare the batches of the ranges that differ.

    Args:
        batches: all whole batches in the ranges, of all replicas.
        extents: the extents of all replicas.
    """
    places: dict[int, list[Batch]] = {}
    for batch in batches:
        places.setdefault(batch.base_offset, []).append(batch)
    result = Matching([], {name: extent.end for name, extent in extents.items()}, {})
    for base in sorted(places):
        here = places[base]
        if len({batch.digest for batch in here}) == 1:
            continue
        reference = _reference(here, extents, result.stale)
        for batch in here:
            if batch.digest == reference.digest or batch.replica in result.stale:
                continue
            agreed = result.agreed_ends
            agreed[batch.replica] = min(agreed[batch.replica], base)
            reason = _unlawful(batch, reference, extents)
            if reason is None:
                text = f"its epoch is {batch.epoch}, that of the others is {reference.epoch}"
                result.stale[batch.replica] = base, text
                continue
            check, words = reason
            others = tuple(other.place for other in here if other.digest != batch.digest)
            result.findings.append(Finding(check, batch.place, words, others))
    return result


def _reference(
    here: Sequence[Batch], extents: Mapping[str, Extent], stale: Mapping[str, object]
) -> Batch:
    """Return what most replicas have; on a tie, the log with the newest end."""
    votes: dict[tuple[int, int], int] = {}
    for batch in here:
        votes[batch.digest] = votes.get(batch.digest, 0) + (batch.replica not in stale)

    def weight(batch: Batch) -> tuple[int, int, int]:
        extent = extents[batch.replica]
        return votes[batch.digest], extent.last_epoch, extent.end

    # Most replicas here may have an uncommitted end, if others are away: the newest epoch wins.
    newest = max(extents[batch.replica].last_epoch for batch in here)
    epochs = {extents[batch.replica].last_epoch for batch in here}
    if len(epochs) > 1 and len({batch.epoch for batch in here}) > 1:
        return max(
            (batch for batch in here if extents[batch.replica].last_epoch == newest), key=weight
        )
    return max(here, key=weight)


def _unlawful(
    batch: Batch, reference: Batch, extents: Mapping[str, Extent]
) -> tuple[Check, str] | None:
    """Return why two logs must not differ in this way; None: one log has a stale end."""
    if batch.epoch == reference.epoch:
        return Check.LOG_MATCHING, (
            f"epoch {batch.epoch} has other bytes here than at {reference.replica}"
        )
    mine, theirs = extents[batch.replica], extents[reference.replica]
    again = _meet_again(mine, theirs, batch.base_offset)
    if again is not None:
        return Check.LOG_MATCHING, (
            f"epoch {batch.epoch}, but epoch {reference.epoch} at {reference.replica}; yet "
            f"from offset {again} on both have epoch {mine.epoch_at(again)} again"
        )
    if mine.last_epoch < theirs.last_epoch:
        return None
    return Check.COMMITTED_PREFIX, (
        f"epoch {batch.epoch}, but epoch {reference.epoch} at {reference.replica}, and "
        f"neither log is older: both end in epoch {mine.last_epoch}"
    )


def _meet_again(extent: Extent, other: Extent, offset: int) -> int | None:
    """Return the first offset after `offset` at which both logs have the same epoch."""
    end = min(extent.end, other.end)
    borders = sorted(
        {start for start, _ in (*extent.epochs, *other.epochs) if offset < start < end}
    )
    for candidate in (offset + 1, *borders):
        if candidate < end and extent.epoch_at(candidate) == other.epoch_at(candidate) >= 0:
            return candidate
    return None
