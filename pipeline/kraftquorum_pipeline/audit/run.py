"""Puts the checks in order: reads, compares, and comes to a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .committed import Holding, check_committed, committed_end
from .continuity import Extent, measure
from .details import CHUNKS_MAX, read_batches, with_others
from .elections import check_elections
from .engine import Engine, Scanned
from .findings import SHOWN_MAX, Check, Finding, Place, Verdict
from .matching import Matching, compare
from .replicas import Piece, Replica, check_identities
from .states import Entry, SnapshotSum, cover
from .voters import VoterHistory, check_snapshot_voters, voter_history

_NOT_DETAILED = frozenset({Check.IDENTITY, Check.SNAPSHOTS})


@dataclass(slots=True)
class Audit:
    """One audit.

    Attributes:
        replicas: what is audited.
        engine: who reads.
        committed: the high watermark that a living quorum reported; None: not known.
        say: told what is being done.
    """

    replicas: Sequence[Replica]
    engine: Engine
    committed: int | None = None
    say: Callable[[str], None] = lambda _text: None
    verdict: Verdict = field(default_factory=Verdict)
    extents: dict[str, Extent] = field(default_factory=dict[str, Extent])
    histories: dict[str, VoterHistory] = field(default_factory=dict[str, VoterHistory])
    ends: dict[str, int] = field(default_factory=dict[str, int])

    def run(self) -> Verdict:
        """Do everything.

        Raises:
            FileOperationError: the disk refuses to read.
        """
        verdict = self.verdict
        for replica in self.replicas:
            verdict.add(replica.findings)
        verdict.add(check_identities(list(self.replicas)))
        pieces = [piece for replica in self.replicas for piece in replica.pieces]
        size = sum(piece.size for piece in pieces)
        self.say(f"reading {len(pieces)} segments of {len(self.replicas)} replicas, {size} bytes")
        with self._timed("scan"):
            scanned = self.engine.scan(pieces)
        with self._timed("compare"):
            self._compare(scanned, {piece.path: piece for piece in pieces})
        with self._timed("snapshots"):
            snapshots = self._read_snapshots()
        self._check_voters(scanned, snapshots)
        voters = self._check_committed(snapshots)
        with self._timed("states"):
            self._check_states(snapshots)
        self._describe(voters)
        return verdict

    @contextmanager
    def _timed(self, name: str) -> Generator[None]:
        began = time.monotonic()
        yield
        self.verdict.seconds[name] = time.monotonic() - began

    # -- logs -----------------------------------------------------------------------

    def _compare(self, scanned: Scanned, pieces: dict[str, Piece]) -> None:
        verdict = self.verdict
        found: list[Finding] = []
        for replica in self.replicas:
            rows = [row for row in scanned.rows if row.replica == replica.name]
            self.extents[replica.name], wrong = measure(replica, rows)
            found += wrong
        looked_at = dict(list(scanned.unequal.items())[:CHUNKS_MAX])
        batches = read_batches((row for rows in looked_at.values() for row in rows), pieces)
        matching = compare(batches, self.extents)
        self._note_stale(matching)
        self.ends = matching.agreed_ends
        for one in found[:SHOWN_MAX]:
            detailed = one.check not in _NOT_DETAILED
            verdict.add([with_others(one, scanned.unequal, pieces) if detailed else one])
        verdict.add(found[SHOWN_MAX:])
        verdict.add(matching.findings)
        left = len(scanned.unequal) - len(looked_at)
        if left > 0:
            verdict.notes.append(f"{left} more stretches of offsets differ and were not looked at")
            if not matching.findings:
                verdict.unchecked.append(f"log_matching: {left} stretches that differ")
        elections, wrong = check_elections(self.replicas, scanned.rows)
        verdict.add(wrong)
        verdict.checked |= {
            "replicas": len(self.replicas),
            "segments": len(pieces),
            "bytes": sum(extent.size for extent in self.extents.values()),
            "batches": sum(extent.batches for extent in self.extents.values()),
            "records": sum(extent.records for extent in self.extents.values()),
            "elections": elections,
        }
        if len(self.extents) < 2:
            verdict.notes.append("one replica only: nothing to compare it with")

    def _note_stale(self, matching: Matching) -> None:
        for name, (offset, how) in matching.stale.items():
            gone = self.extents[name].end - offset
            self.verdict.notes.append(
                f"{name} has {gone} records from offset {offset} on that were never committed "
                f"({how}): it was away and would cut them off"
            )
        for name, extent in self.extents.items():
            if extent.tail_bytes:
                self.verdict.notes.append(
                    f"{name} ends with {extent.tail_bytes} bytes of a batch that was never whole"
                )

    # -- snapshots, voters ----------------------------------------------------------

    def _read_snapshots(self) -> list[SnapshotSum]:
        files = [
            (r.name, path, end, epoch) for r in self.replicas for end, epoch, path in r.snapshots
        ]
        if not files:
            return []
        self.say(f"reading {len(files)} snapshots")
        sums = self.engine.snapshots(files)
        self.verdict.checked["snapshots"] = len(sums)
        for one in sums:
            if one.error:
                place = Place(one.end_offset, one.replica, one.path)
                self.verdict.add([Finding(Check.SNAPSHOTS, place, one.error)])
        return [one for one in sums if not one.error]

    def _check_voters(self, scanned: Scanned, snapshots: Sequence[SnapshotSum]) -> None:
        changes = 0
        for name, extent in self.extents.items():
            rows = [row for row in scanned.rows if row.replica == name]
            base = (0, frozenset[str]())
            if extent.start > 0:
                at = [one for one in snapshots if one.end_offset >= extent.start]
                if not at:
                    self.verdict.unchecked.append(
                        f"voter_sets: {name} begins at offset {extent.start}, without a snapshot"
                    )
                    continue
                first = min(at, key=lambda one: one.end_offset)
                base = first.end_offset, frozenset(first.voters)
            history = self.histories[name] = voter_history(rows, base)
            changes = max(changes, len(history.sets))
            self.verdict.add(history.findings)
        self.verdict.checked["voter_sets"] = changes
        for one in snapshots:
            self._check_snapshots_head(one)

    def _check_snapshots_head(self, one: SnapshotSum) -> None:
        place = Place(one.end_offset, one.replica, one.path, -1, f"voters {', '.join(one.voters)}")
        other = check_snapshot_voters(self.histories, one.end_offset, frozenset(one.voters))
        if other is not None:
            name, members = other
            log = Place(one.end_offset, name, name, -1, f"voters {', '.join(sorted(members))}")
            reason = "the snapshot names other voters than the log up to there"
            self.verdict.add([Finding(Check.SNAPSHOTS, place, reason, (log,))])
        for name, extent in self.extents.items():
            epoch = extent.epoch_at(one.end_offset - 1)
            if one.end_offset <= self.ends[name] and epoch not in {-1, one.epoch}:
                reason = f"it is of epoch {one.epoch}, the log there of epoch {epoch}"
                log = Place(one.end_offset - 1, name, name, -1, f"epoch {epoch}")
                self.verdict.add([Finding(Check.SNAPSHOTS, place, reason, (log,))])

    def _check_committed(self, snapshots: Sequence[SnapshotSum]) -> frozenset[str]:
        named = {name: history for name, history in self.histories.items() if history.sets}
        if not named:
            self.verdict.unchecked.append("committed_prefix: no log says who the voters are")
            return frozenset()
        newest = max(named, key=lambda n: (self.extents[n].last_epoch, self.ends[n]))
        voters = named[newest].last
        holdings = {
            replica.name: Holding(
                self.extents[replica.name],
                self.ends[replica.name],
                max((s.end_offset for s in snapshots if s.replica == replica.name), default=0),
                str(replica.key) in voters,
            )
            for replica in self.replicas
        }
        end, why = committed_end(holdings, voters, self.committed)
        found, notes = check_committed(holdings, voters, end, why)
        self.verdict.committed_end = end
        self.verdict.add(found)
        self.verdict.notes += notes
        return voters

    # -- states ---------------------------------------------------------------------

    def _check_states(self, snapshots: Sequence[SnapshotSum]) -> None:
        first: dict[int, SnapshotSum] = {}
        for one in snapshots:
            same = first.setdefault(one.end_offset, one)
            if same.state != one.state:
                self._say_different(one, same)
        if not first:
            return
        base: SnapshotSum | None = None
        stretches = cover(self.extents, self.ends, 0, max(first))
        if stretches is None:  # trimmed: from the oldest snapshot on
            base = first[min(first)]
            stretches = cover(self.extents, self.ends, base.end_offset, max(first))
        if stretches is None:
            self.verdict.unchecked.append(
                f"snapshots: no sound log leads from offset 0, or from the oldest snapshot, to "
                f"offset {max(first)}"
            )
            return
        path = None if base is None else base.path
        self.say(f"replaying the log up to offset {max(first)} against {len(first)} states")
        states = self.engine.replay(stretches, path, list(first))
        if base is not None:
            self.verdict.notes.append(
                f"the log was trimmed: states are replayed from the snapshot at {base.end_offset}"
            )
        for one in snapshots:
            if states[one.end_offset] == one.state:
                continue
            keys = self.engine.differences(stretches, path, one.end_offset, one.path)
            for key, log, there in keys:
                self.verdict.add([_key_finding(one, key, log, there)])

    def _say_different(self, one: SnapshotSum, other: SnapshotSum) -> None:
        place = Place(one.end_offset, one.replica, one.path, -1, f"{one.state.entries} keys")
        there = Place(
            other.end_offset, other.replica, other.path, -1, f"{other.state.entries} keys"
        )
        reason = "two replicas' snapshots of one offset have different states"
        self.verdict.add([Finding(Check.SNAPSHOTS, place, reason, (there,))])

    # -- outcome --------------------------------------------------------------------

    def _describe(self, voters: frozenset[str]) -> None:
        for replica in self.replicas:
            extent = self.extents[replica.name]
            described: dict[str, Any] = {
                "replica": None if replica.key is None else str(replica.key),
                "voter": str(replica.key) in voters,
                "path": str(replica.path),
                "start_offset": extent.start,
                "end_offset": extent.end,
                "agreed_end": self.ends[replica.name],
                "durable_end": replica.durable,
                "last_epoch": extent.last_epoch,
                "segments": len(replica.pieces),
                "snapshots": [end for end, _, _ in replica.snapshots],
                "bytes": extent.size,
                "records": extent.records,
            }
            self.verdict.replicas[replica.name] = described


def _key_finding(one: SnapshotSum, key: bytes, log: Entry | None, there: Entry | None) -> Finding:
    """A key of a snapshot that is not what the log comes to, with both sides."""
    shown = repr(key.decode("utf-8", "backslashreplace"))
    place = Place(one.end_offset, one.replica, one.path, -1, f"{shown} {there or 'missing'}")
    offset = -1 if log is None else log.offset
    other = Place(offset, "the log", "", -1, f"{shown} {log or 'not there'}")
    reason = f"key {shown} is not what the log up to offset {one.end_offset} comes to"
    return Finding(Check.SNAPSHOTS, place, reason, (other,))
