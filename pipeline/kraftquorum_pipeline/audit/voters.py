"""Voter sets: each differs from the one before it by one replica (P28 to P32). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from .elections import LEADER_CHANGE
from .findings import Check, Finding
from .scan import Row

ADD, REMOVE = "AddVoter", "RemoveVoter"


@dataclass(slots=True)
class VoterHistory:
    """The voter sets of one replica's log.

    Attributes:
        sets: (offset from which the set is in force, its replicas), in order.
        findings: the broken rules.
    """

    sets: list[tuple[int, frozenset[str]]] = field(default_factory=list[tuple[int, frozenset[str]]])
    findings: list[Finding] = field(default_factory=list[Finding])

    def before(self, offset: int) -> frozenset[str]:
        """Return the set in force just before an offset; empty: no set is known."""
        inside = [members for start, members in self.sets if start < offset]
        return inside[-1] if inside else frozenset()

    @property
    def last(self) -> frozenset[str]:
        """The set at the end of the log."""
        return self.sets[-1][1] if self.sets else frozenset()


def voter_history(
    rows: Iterable[Row], base: tuple[int, frozenset[str]] = (0, frozenset())
) -> VoterHistory:
    """Read the voter sets from the control records of one replica, in order of offset.

    Args:
        rows: its control records.
        base: an offset and the voters there by a snapshot; records below it are ignored.
    """
    history = VoterHistory()
    offset, members = base
    if members:
        history.sets.append((offset - 1, members))
    control = (row for row in rows if row.kind == "control" and row.offset >= offset)
    for _, batch in groupby(control, key=lambda row: (row.path, row.position)):
        members = _step(history, members, list(batch))
    return history


def _step(history: VoterHistory, members: frozenset[str], batch: Sequence[Row]) -> frozenset[str]:
    """Apply one control batch: its records take effect together."""
    changes = [row for row in batch if row.name in {ADD, REMOVE}]
    forming = not members
    if len(changes) > 1 and not forming:
        row = changes[1]
        names = ", ".join(f"{change.name} {_voter(change)}" for change in changes)
        reason = f"the voters change by {len(changes)} at once: {names}"
        _say(history, row, reason, members)
    for row in batch:
        voter = _voter(row)
        if row.name == LEADER_CHANGE and members:
            _check_leaders_word(history, row, members)
        elif row.name == ADD:
            if voter in members:
                _say(history, row, f"{voter} is added, but was a voter", members)
            members |= {voter}
        elif row.name == REMOVE:
            if voter not in members:
                _say(history, row, f"{voter} is removed, but was not a voter", members)
            elif len(members) == 1:
                _say(history, row, f"{voter} is removed, but was the last voter", members)
            members -= {voter}
    if changes:
        history.sets.append((changes[-1].offset, members))
    return members


def _check_leaders_word(history: VoterHistory, row: Row, members: frozenset[str]) -> None:
    """Check the voters in a LeaderChange: the set of the leader's log at its election."""
    named = frozenset(str(name) for name in json.loads(row.text).get("voters", ()))
    if named and named != members:
        gone, new = sorted(members - named), sorted(named - members)
        parts = [f"without {', '.join(gone)}"] * bool(gone) + [f"with {', '.join(new)}"] * bool(new)
        reason = f"the leader of epoch {row.epoch} names other voters: {' and '.join(parts)}"
        _say(history, row, reason, members)


def check_snapshot_voters(
    histories: Mapping[str, VoterHistory], end_offset: int, snapshot_voters: frozenset[str]
) -> tuple[str, frozenset[str]] | None:
    """Find a replica whose log has other voters than a snapshot; None: there is no such replica."""
    for name, history in histories.items():
        members = history.before(end_offset)
        if members and members != snapshot_voters:
            return name, members
    return None


def _voter(row: Row) -> str:
    return str(json.loads(row.text).get("voter", "")) if row.name in {ADD, REMOVE} else ""


def _say(history: VoterHistory, row: Row, reason: str, members: frozenset[str]) -> None:
    place = row.place_holding(f"after the voters {', '.join(sorted(members))}")
    history.findings.append(Finding(Check.VOTER_SETS, place, reason))
