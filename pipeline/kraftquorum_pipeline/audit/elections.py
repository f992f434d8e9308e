"""Checks by the LeaderChange records and the votes that an epoch has one leader. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from raftnode.logfiles import QUORUM_STATE_FILE as STATE_FILE

from .findings import Check, Finding, Place
from .replica_files import ReplicaFiles
from .scan import Row

LEADER_CHANGE = "LeaderChange"


def check_elections(
    replicas: Iterable[ReplicaFiles], rows: Iterable[Row], sound_ends: Mapping[str, int]
) -> tuple[int, list[Finding]]:
    """Compare all LeaderChange records and all quorum-state files.

    Args:
        replicas: all replicas.
        rows: control records and epochs of all replicas.
        sound_ends: the end of each log's whole part; after a gap an epoch may begin in any way.

    Returns:
        How many epochs have a leader, and what is wrong.
    """
    leaders: dict[int, dict[str, Place]] = {}
    findings: list[Finding] = []
    first: dict[tuple[str, int], Row] = {}
    begun: dict[tuple[str, int], Row] = {}
    for row in rows:
        if row.kind == "epoch":
            if row.offset < sound_ends[row.replica]:
                begun.setdefault((row.replica, row.epoch), row)
        elif row.kind == "control" and row.name == LEADER_CHANGE:
            leader = str(json.loads(row.text)["leader"])
            place = row.place_holding(f"leader {leader}")
            leaders.setdefault(row.epoch, {}).setdefault(leader, place)
            before = first.setdefault((row.replica, row.epoch), row)
            if before is not row:
                reason = f"a second leader's record in epoch {row.epoch}"
                other = before.place_holding("the first one")
                findings.append(Finding(Check.ONE_LEADER, place, reason, (other,)))
    findings += _beginnings(begun, first)
    for replica in replicas:
        state = replica.state
        if state is not None and state.leader is not None:
            path = str(replica.log_directory / STATE_FILE)
            place = Place(-1, replica.name, path, -1, f"leader {state.leader}")
            leaders.setdefault(int(state.epoch), {}).setdefault(str(state.leader), place)
    for epoch, named in sorted(leaders.items()):
        if len(named) > 1:
            place, *others = sorted(named.values())
            reason = f"epoch {epoch} has {len(named)} leaders: {', '.join(sorted(named))}"
            findings.append(Finding(Check.ONE_LEADER, place, reason, tuple(others)))
    return len(leaders), findings


def _beginnings(
    begun: Mapping[tuple[str, int], Row], first: Mapping[tuple[str, int], Row]
) -> list[Finding]:
    """Check that an epoch begins with the record of its leader."""
    findings: list[Finding] = []
    starts: dict[str, int] = {}
    for (replica, _), row in begun.items():
        starts[replica] = min(row.offset, starts.get(replica, row.offset))
    for (replica, epoch), row in begun.items():
        record = first.get((replica, epoch))
        if record is not None and record.offset == row.offset:
            continue
        if record is None and row.offset == starts[replica] > 0:
            continue  # the log was trimmed in the middle of the epoch
        reason = f"epoch {epoch} does not begin with its leader's record"
        findings.append(Finding(Check.ONE_LEADER, row.place, reason))
    return findings
