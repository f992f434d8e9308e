"""Runs the checks in order and returns the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kraftquorum_pipeline.errors import SourceError
from kraftquorum_pipeline.remote import open_files, path_of
from raftnode.errors import RaftnodeError
from raftnode.logfiles import DAMAGED_SUFFIX, list_snapshots

from .committed_end import Holding, check_committed, committed_end
from .continuity import Extent, measure
from .details import CHUNKS_MAX, read_batches, with_others
from .elections import check_elections
from .engine import Engine, Scanned
from .findings import SHOWN_MAX, Check, Finding, Place, Verdict
from .log_matching import Matching, compare
from .replica_files import Piece, ReplicaFiles, check_identities
from .startup_files import check_startup_files
from .states import GONE, Entry, SnapshotSum, StateSum, Stretch, cover
from .voters import VoterHistory, check_snapshot_voters, voter_history

_NOT_DETAILED = frozenset({Check.IDENTITY, Check.SNAPSHOTS})


@dataclass(slots=True)
class Audit:
    """One audit.

    Attributes:
        replicas: the replicas to audit.
        engine: the engine that reads the files.
        committed: the high watermark that a running quorum reported; None: not known.
        say: called with each step of the audit.
    """

    replicas: Sequence[ReplicaFiles]
    engine: Engine
    committed: int | None = None
    say: Callable[[str], None] = lambda _text: None
    verdict: Verdict = field(default_factory=Verdict)
    extents: dict[str, Extent] = field(default_factory=dict[str, Extent])
    histories: dict[str, VoterHistory] = field(default_factory=dict[str, VoterHistory])
    ends: dict[str, int] = field(default_factory=dict[str, int])

    def run(self) -> Verdict:
        """Run all checks.

        Raises:
            SourceError: a file cannot be read at all.
        """
        try:
            return self._run()
        except RaftnodeError as error:
            paths = ", ".join(str(replica.path) for replica in self.replicas)
            raise SourceError(paths, str(error)) from error

    def _run(self) -> Verdict:
        verdict = self.verdict
        for replica in self.replicas:
            verdict.add(replica.findings)
            verdict.add(check_startup_files(replica))
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
        findings: list[Finding] = []
        for replica in self.replicas:
            rows = [row for row in scanned.rows if row.replica == replica.name]
            self.extents[replica.name], wrong = measure(replica, rows)
            findings += wrong
        looked_at = dict(list(scanned.unequal.items())[:CHUNKS_MAX])
        batches = read_batches((row for rows in looked_at.values() for row in rows), pieces)
        matching = compare(batches, self.extents)
        self._note_stale(matching)
        self.ends = matching.agreed_ends
        for finding in findings[:SHOWN_MAX]:
            detailed = finding.check not in _NOT_DETAILED
            verdict.add([with_others(finding, scanned.unequal, pieces) if detailed else finding])
        verdict.add(findings[SHOWN_MAX:])
        verdict.add(matching.findings)
        left = len(scanned.unequal) - len(looked_at)
        if left > 0:
            verdict.notes.append(f"{left} more ranges of offsets differ and were not read")
            if not matching.findings:
                verdict.unchecked.append(f"log_matching: {left} ranges that differ")
        sound = {name: extent.sound_end for name, extent in self.extents.items()}
        elections, wrong = check_elections(self.replicas, scanned.rows, sound)
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
            verdict.notes.append("there is only one replica: nothing to compare it with")

    def _note_stale(self, matching: Matching) -> None:
        for name, (offset, how) in matching.stale.items():
            gone = self.extents[name].end - offset
            self.verdict.notes.append(
                f"{name} has {gone} records from offset {offset} on that were never committed "
                f"({how}): it was not running, and would truncate them"
            )
        for name, extent in self.extents.items():
            if extent.tail_bytes:
                self.verdict.notes.append(
                    f"{name} ends with {extent.tail_bytes} bytes of an unfinished batch"
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
        for snapshot in sums:
            if not snapshot.error:
                continue
            path = path_of(snapshot.path)
            aside = path.with_name(path.name + DAMAGED_SUFFIX)
            was_set_aside = snapshot.error == GONE and open_files().stat(aside) is not None
            if not was_set_aside and self._was_replaced(snapshot):
                self.verdict.notes.append(
                    f"{snapshot.replica} has replaced its snapshot at {snapshot.end_offset} "
                    "meanwhile"
                )
                continue
            place = Place(snapshot.end_offset, snapshot.replica, snapshot.path)
            why = f"its node found it damaged and set it aside as {aside.name}"
            self.verdict.add(
                [Finding(Check.SNAPSHOTS, place, why if was_set_aside else snapshot.error)]
            )
        return [snapshot for snapshot in sums if not snapshot.error]

    def _was_replaced(self, snapshot: SnapshotSum) -> bool:
        """Whether a running node has removed a snapshot since, because it has a newer one."""
        files, path = open_files(), path_of(snapshot.path)
        if snapshot.error != GONE or files.stat(path) is not None:
            return False
        there = list_snapshots(files, path.parent)
        return any(newer.end_offset > snapshot.end_offset for newer in there)

    def _check_voters(self, scanned: Scanned, snapshots: Sequence[SnapshotSum]) -> None:
        changes = 0
        for name, extent in self.extents.items():
            rows = [
                row for row in scanned.rows if row.replica == name and row.offset < extent.sound_end
            ]
            if extent.sound_end < extent.end:
                self.verdict.unchecked.append(
                    f"voter_sets: {name} from offset {extent.sound_end} on, after the damage"
                )
            base = (0, frozenset[str]())
            if extent.start > 0:
                at = [snapshot for snapshot in snapshots if snapshot.end_offset >= extent.start]
                if not at:
                    self.verdict.unchecked.append(
                        f"voter_sets: {name} begins at offset {extent.start}, without a snapshot"
                    )
                    continue
                first = min(at, key=lambda snapshot: snapshot.end_offset)
                base = first.end_offset, frozenset(first.voters)
            history = self.histories[name] = voter_history(rows, base)
            changes = max(changes, len(history.sets))
            self.verdict.add(history.findings)
        self.verdict.checked["voter_sets"] = changes
        for snapshot in snapshots:
            self._check_snapshots_head(snapshot)

    def _check_snapshots_head(self, snapshot: SnapshotSum) -> None:
        place = Place(
            snapshot.end_offset,
            snapshot.replica,
            snapshot.path,
            -1,
            f"voters {', '.join(snapshot.voters)}",
        )
        sound = {
            name: history
            for name, history in self.histories.items()
            if self.extents[name].sound_end >= snapshot.end_offset
        }
        other = check_snapshot_voters(sound, snapshot.end_offset, frozenset(snapshot.voters))
        if other is not None:
            name, members = other
            log = Place(snapshot.end_offset, name, name, -1, f"voters {', '.join(sorted(members))}")
            reason = "the snapshot has other voters than the log up to that offset"
            self.verdict.add([Finding(Check.SNAPSHOTS, place, reason, (log,))])
        for name, extent in self.extents.items():
            epoch = extent.epoch_at(snapshot.end_offset - 1)
            sound = snapshot.end_offset <= min(self.ends[name], extent.sound_end)
            if sound and epoch not in {
                -1,
                snapshot.epoch,
            }:
                reason = f"its epoch is {snapshot.epoch}, that of the log there is {epoch}"
                log = Place(snapshot.end_offset - 1, name, name, -1, f"epoch {epoch}")
                self.verdict.add([Finding(Check.SNAPSHOTS, place, reason, (log,))])

    def _check_committed(self, snapshots: Sequence[SnapshotSum]) -> frozenset[str]:
        named = {name: history for name, history in self.histories.items() if history.sets}
        if not named:
            self.verdict.unchecked.append("committed_prefix: no log names the voters")
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
        findings, notes = check_committed(holdings, voters, end, why)
        self.verdict.committed_end = end
        if not end and any(self.ends.values()):
            self.verdict.unchecked.append(
                "committed_prefix: the files do not prove what is committed, since no record "
                "of the newest epoch is on a majority; give the quorum's high watermark "
                "(--committed-end)"
            )
        self.verdict.add(findings)
        self.verdict.notes += notes
        return voters

    # -- states ---------------------------------------------------------------------

    def _check_states(self, snapshots: Sequence[SnapshotSum]) -> None:
        if not snapshots:
            return
        oldest = min(snapshots, key=lambda snapshot: snapshot.end_offset)
        newest = max(snapshot.end_offset for snapshot in snapshots)
        base: SnapshotSum | None = None
        stretches = cover(self.extents, self.ends, 0, newest)
        if stretches is None:  # trimmed: start at the oldest snapshot
            base = oldest
            stretches = cover(self.extents, self.ends, oldest.end_offset, newest)
            self.verdict.notes.append(
                f"the log was trimmed: states are replayed from the snapshot at {base.end_offset}"
            )
        if stretches is None:
            stretches = []
            self.verdict.unchecked.append(
                "snapshots: no undamaged log leads from offset 0, or from the oldest "
                f"snapshot, to offset {newest}; the snapshots are compared with each other"
            )
        first: dict[int, SnapshotSum] = {oldest.end_offset: oldest}
        if stretches:
            ends = sorted({snapshot.end_offset for snapshot in snapshots})
            self.say(f"replaying the log up to offset {newest} against {len(ends)} states")
            states = self.engine.replay(stretches, None if base is None else base.path, ends)
        else:
            states: dict[int, StateSum] = {}
        for snapshot in snapshots:
            if snapshot.end_offset in states and (
                base is None or snapshot.end_offset > base.end_offset
            ):
                self._hold_against_log(snapshot, states[snapshot.end_offset], stretches, base)
            else:
                self._hold_against(snapshot, first.setdefault(snapshot.end_offset, snapshot))

    def _hold_against_log(
        self,
        snapshot: SnapshotSum,
        state: StateSum,
        stretches: Sequence[Stretch],
        base: SnapshotSum | None,
    ) -> None:
        if state == snapshot.state:
            return
        path = None if base is None else base.path
        for key, log, there in self.engine.differences(
            stretches, path, snapshot.end_offset, snapshot.path
        ):
            reason = f"is not the state that the log up to offset {snapshot.end_offset} leads to"
            other = Place(-1 if log is None else log.offset, "the log", "", -1)
            self.verdict.add([_key_finding(snapshot, key, there, (other, log), reason)])

    def _hold_against(self, snapshot: SnapshotSum, other: SnapshotSum) -> None:
        if snapshot.state == other.state:
            return
        for key, first, there in self.engine.differences(
            [], other.path, snapshot.end_offset, snapshot.path
        ):
            place = Place(other.end_offset, other.replica, other.path)
            reason = "differs from another replica's snapshot at the same offset"
            self.verdict.add([_key_finding(snapshot, key, there, (place, first), reason)])

    # -- outcome --------------------------------------------------------------------

    def _describe(self, voters: frozenset[str]) -> None:
        for replica in self.replicas:
            extent = self.extents[replica.name]
            described: dict[str, Any] = {
                "cluster_id": replica.cluster_id,
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


def _key_finding(
    snapshot: SnapshotSum,
    key: bytes,
    there: Entry | None,
    other: tuple[Place, Entry | None],
    reason: str,
) -> Finding:
    """A finding about a key of a snapshot that differs from the log, with both values."""
    shown = repr(key.decode("utf-8", "backslashreplace"))
    place = Place(
        snapshot.end_offset, snapshot.replica, snapshot.path, -1, f"{shown} {there or 'missing'}"
    )
    side, entry = other
    sides = (replace(side, holds=f"{shown} {entry or 'missing'}"),)
    return Finding(Check.SNAPSHOTS, place, f"key {shown} {reason}", sides)
