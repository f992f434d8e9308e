"""Reads leaders, voters, repairs and gaps from control records. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kraftquorum_pipeline.kinds import VOTER_SET

from .model import Change, Event, Gap, QuorumFigures, Repair, Span

_LOST_BEFORE_MS = 10 * 60_000
"""A loss that was recorded longer before the new voter was added belongs to another repair."""


class ControlRow(NamedTuple):
    """A control record of the exported log; `before_ms` is the time of the record before it."""

    offset: int
    epoch: int
    at_ms: int
    before_ms: int
    kind: str
    fields: Mapping[str, Any]


def replica_name(replica: object) -> str:
    """Return `<id>-<uuid>` from either form of a replica in JSON."""
    if isinstance(replica, Mapping):
        return f"{replica.get('node_id')}-{replica.get('directory_id')}"  # pyright: ignore[reportUnknownMemberType]
    return str(replica)


def read_row(row: Mapping[str, Any]) -> ControlRow:
    """Read a row from Spark, with `fields` as JSON; a row of a state has no time."""
    at_ms = int(row["at_ms"] or 0)
    return ControlRow(
        int(row["offset"]),
        int(row["epoch"]),
        at_ms,
        at_ms if row["before_ms"] is None else int(row["before_ms"]),
        str(row["control"]),
        json.loads(row["fields"] or "{}"),
    )


def follow(quorum: QuorumFigures, rows: Iterable[ControlRow]) -> None:
    """Fill in the figures from control records, in order of offset.

    The voters at the start of a trimmed log come from the state before it, from the voters in a
    LeaderChange, and from RemoveVoter: a voter that was not added since was there at the start.
    """
    voting: dict[str, int] = {}
    for row in rows:
        if (
            row.kind in {"LeaderChange", VOTER_SET}
            and int(row.fields.get("as_of", -1)) <= row.offset
        ):
            for voter in row.fields.get("voters", ()):
                voting.setdefault(replica_name(voter), quorum.first_ms)
        if row.kind == VOTER_SET:
            continue
        who = row.fields.get("leader") or row.fields.get("voter")
        replica = replica_name(who) if who is not None else ""
        if row.kind == "LeaderChange":
            _lead(quorum, row, replica)
        elif row.kind == "AddVoter":
            voting[replica] = row.at_ms
        elif row.kind == "RemoveVoter":
            from_ms = voting.pop(replica, quorum.first_ms)
            quorum.voters.append(Span(replica, from_ms, row.at_ms))
        quorum.changes.append(Change(row.at_ms, row.offset, row.epoch, row.kind, replica))
    quorum.voters += [Span(replica, from_ms, None) for replica, from_ms in voting.items()]
    quorum.voters.sort(key=lambda span: (span.from_ms, int(span.replica.partition("-")[0] or 0)))
    quorum.repairs = find_repairs(quorum.changes, quorum.events)


def _lead(quorum: QuorumFigures, row: ControlRow, replica: str) -> None:
    leaders = quorum.leaders
    if leaders:
        # The log does not say when the epoch ended; its last record is the last sign of it.
        leaders[-1] = leaders[-1]._replace(until_ms=max(row.before_ms, leaders[-1].from_ms))
        quorum.gaps.append(Gap(row.before_ms, row.at_ms, row.epoch))
    leaders.append(Span(replica, row.at_ms, None, row.epoch))


def find_repairs(changes: Sequence[Change], events: Sequence[Event] = ()) -> list[Repair]:
    """Voters that were replaced by another replica of the same node, added first (P55)."""
    members: dict[int, list[str]] = {}
    added_ms: dict[str, int] = {}
    open_: dict[str, Repair] = {}
    repairs: list[Repair] = []
    for change in changes:
        if change.what not in {"AddVoter", "RemoveVoter"}:
            continue
        node_id = int(change.replica.partition("-")[0])
        here = members.setdefault(node_id, [])
        if change.what == "AddVoter":
            if here:
                lost_ms = _lost(events, here[-1], change.at_ms)
                open_[here[-1]] = Repair(
                    node_id, here[-1], change.replica, lost_ms, change.at_ms, None
                )
            here.append(change.replica)
            added_ms[change.replica] = change.at_ms
        elif change.replica in here:
            here.remove(change.replica)
            repair = open_.pop(change.replica, None)
            if repair is not None:
                repairs.append(repair._replace(removed_ms=change.at_ms))
        elif here:
            # The replica was there before the log's start.
            came_ms = added_ms[here[-1]]
            lost_ms = _lost(events, change.replica, came_ms)
            repairs.append(
                Repair(node_id, change.replica, here[-1], lost_ms, came_ms, change.at_ms)
            )
    return sorted([*repairs, *open_.values()], key=lambda repair: repair.added_ms)


def _lost(events: Sequence[Event], replica: str, added_ms: int) -> int | None:
    """Return when an event says that this replica's disk was destroyed."""
    times = [
        event.at_ms
        for event in events
        if event.lost_replica == replica and 0 <= added_ms - event.at_ms <= _LOST_BEFORE_MS
    ]
    return max(times, default=None)
