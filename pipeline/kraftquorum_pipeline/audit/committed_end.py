"""Computes the proven committed end, and whether a majority of the voters holds it. Pure.

`source.committed` answers the same from the small files and the epochs of each log, for a reader
that must not go too far. Here the contents were compared, so that more can be proven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .continuity import Extent
from .findings import Check, Finding, Place


@dataclass(frozen=True, slots=True)
class Holding:
    """What a replica holds of the log.

    Attributes:
        extent: the extent of its log.
        agreed_end: the offset up to which its log equals the log of the other replicas.
        snapshot_end: the end of its newest whole snapshot, which covers the trimmed records.
        voter: whether it is in the voter set at the log's end.
    """

    extent: Extent
    agreed_end: int
    snapshot_end: int
    voter: bool

    @property
    def end(self) -> int:
        """The end of what it holds of the committed log, as a log or as a snapshot."""
        return max(self.agreed_end, self.snapshot_end)


def committed_end(
    holdings: Mapping[str, Holding], voters: frozenset[str], reported_end: int | None
) -> tuple[int, str]:
    """Return one past the last offset that is certainly committed, and the proof in words.

    A snapshot holds committed records only. If a majority of the voters has the log up to a
    record of the newest epoch, that log is committed or will be, because every later leader
    has it. A majority that ends in an older epoch proves nothing by itself (P42). It is a
    proof if the directories of all voters are there, and every voter that reached a later
    epoch has the records too: then each voter that can win an election has them. This is the
    case when the nodes of a quorum stopped one after the other, and the last leader alone
    had its first record.

    Args:
        holdings: what each replica holds, by name.
        voters: the set in force at the log's end; its size counts.
        reported_end: the high watermark that a running quorum reported; None: not known.
    """
    known = [(reported_end or 0, "as reported")]
    known += [(holding.snapshot_end, f"a snapshot of {name}") for name, holding in holdings.items()]
    ends = sorted(
        (holding.agreed_end for holding in holdings.values() if holding.voter), reverse=True
    )
    majority = len(voters) // 2 + 1
    if voters and len(ends) >= majority:
        end = ends[majority - 1]
        newest = max(holding.extent.last_epoch for holding in holdings.values() if holding.voter)
        holders = [h for h in holdings.values() if h.voter and h.agreed_end >= end]
        if end and all(holding.extent.epoch_at(end - 1) == newest for holding in holders):
            known.append((end, f"{len(holders)} of {len(voters)} voters have it"))
        if len(ends) == len(voters):
            having = [holding for holding in holdings.values() if holding.voter]
            end = _of_every_winner(having, end)
            known.append((end, "every voter that could win an election has it"))
    return max(known, key=lambda entry: entry[0])


def _of_every_winner(voters: Sequence[Holding], end: int) -> int:
    """Return the offset, at most `end`, up to which every possible winner has the log.

    Args:
        voters: what each voter holds.
        end: the end of what a majority has.
    """
    while end > 0:
        longest = max(voters, key=lambda holding: holding.agreed_end)
        epoch = longest.extent.epoch_at(end - 1)
        bound = min([end, *(o.agreed_end for o in voters if o.extent.last_epoch > epoch)])
        if bound == end:
            break
        end = bound
    return end


def check_committed(
    holdings: Mapping[str, Holding], voters: frozenset[str], end: int, why: str
) -> tuple[list[Finding], list[str]]:
    """Check that a majority of the voters holds the committed log; a voter that lags is a note."""
    notes: list[str] = []
    having = [holding for holding in holdings.values() if holding.voter]
    missing = len(voters) - len(having)
    full = [holding for holding in having if holding.end >= end]
    behind = [
        (name, holding) for name, holding in holdings.items() if holding.voter and holding.end < end
    ]
    notes += [
        f"{name} is a voter and has the log up to offset {holding.end}, "
        f"{end - holding.end} records behind the committed end"
        for name, holding in behind
    ]
    if missing > 0:
        notes.append(f"the directories of {missing} of {len(voters)} voters were not given")
    if not voters or len(full) + max(0, missing) > len(voters) // 2:
        return [], notes
    first, *others = (
        Place(holding.end, name, holding.extent.name, -1, f"ends at offset {holding.end}")
        for name, holding in sorted(behind, key=lambda entry: entry[1].end)
    )
    reason = (
        f"only {len(full)} of {len(voters)} voters have the log up to the committed offset "
        f"{end} ({why})"
    )
    return [Finding(Check.COMMITTED_PREFIX, first, reason, tuple(others))], notes
