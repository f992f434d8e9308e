"""Take one rule out of the core at a time: the simulator must notice.

A mutant is a function of the core with a piece of its text replaced. Some rules are
missed only after accidents that are too rare for a few seeds; each of them has a named
scenario that is run without it and fails (`@pytest.mark.without`): an entry of
the own epoch before anything is committed (P42) or changed (P28), a flush from before a
truncation (S10), the epoch of a failed candidate, fences (S3), blank votes (S18).

Of snapshots, some rules stand in the core and others in what carries its effects out, which the
simulator has in `SimSnapshots` and `SimDisk`: their mutants are of those. Each has to break the
invariant that is named. What guards against a case that the other rules leave no way to, the
simulator cannot miss: a snapshot read whole by a leader, or by a log that has its records by now,
a flush from before an install. Those have scenarios (`tests/scenarios/test_snapshots.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from proofkit.mutation import taken_out
from proofkit.simulator.disk import SimDisk
from proofkit.simulator.invariants import InvariantError
from proofkit.simulator.run import run_seed
from proofkit.simulator.snapshots import SimSnapshots
from raftnode.core.elections import election, read_lease
from raftnode.core.log_index import LogIndex
from raftnode.core.membership import raft_version, reassignment, version_rules, voter_changes
from raftnode.core.raft import RaftCore
from raftnode.core.replica import Replica
from raftnode.core.replication import fetcher, leadership
from raftnode.core.replication.peer_memory import PeerMemory
from raftnode.core.snapshots import snapshot_fetch, snapshot_service

SEEDS_MAX = 60
"""Within this many seeds each mutant must be found."""


@dataclass(frozen=True)
class Mutant:
    name: str
    function: Callable[..., Any]
    old: str
    new: str
    also: tuple[str, str] = ("\n", "\n")
    seed: int = 0
    """Where to begin: a seed that found it once."""
    breaks: str = ""
    """The invariant by which it must be found; none: any will do."""


def getter(property_: Any) -> Callable[..., Any]:
    return property_.fget


MUTANTS = [
    Mutant(
        "P7-votes-twice",
        election._judge_vote,
        "if state.voted is not None or state.leader is not None:",
        "if False:",
        seed=10,
    ),
    Mutant(
        "P8-votes-for-a-shorter-log",
        election._judge_vote,
        "if request.last < replica.log.position:",
        "if False:",
        seed=10,
    ),
    Mutant("P44-forgets-its-vote", Replica.persist, "self.emit(PersistQuorumState(state))", "pass"),
    Mutant(
        "S3-lets-every-start-in",
        PeerMemory.why_stale,
        "if peer is None or peer.mark == start.mark:",
        "if True:",
        seed=1500,
    ),
    Mutant(
        "S8-counts-itself-outside-the-set",
        leadership._acknowledged,
        "for voter in replica.log.voters:",
        "for voter in {*replica.log.voters, replica.key}:",
    ),
    Mutant(
        "S10-counts-what-the-leader-has-not-flushed",
        leadership._acknowledged,
        "yield replica.log.durable_end",
        "yield replica.log.end",
    ),
    Mutant(
        "S10-acknowledges-what-is-not-flushed",
        fetcher.fetch_if_due,
        "not (_is_idle(replica, fetching) or _may_send_ahead(replica, fetching))",
        "fetching.in_flight is not None",
        also=(
            "_next_fetch(replica)",
            (
                '__import__("dataclasses").replace(_next_fetch(replica), '
                "acknowledged_offset=replica.log.end)"
            ),
        ),
    ),
    Mutant(
        "S10-applies-what-is-not-flushed",
        Replica.raise_high_watermark,
        "min(self.high_watermark, self.log.durable_end)",
        "self.high_watermark",
    ),
    Mutant(
        "S33-reads-without-promises",
        read_lease.covers_reads,
        "return promised + replica.is_voter >= replica.log.voters.majority",
        "return True",
        seed=2,
        breaks="ConfirmedReads",
    ),
    Mutant(
        "S33-counts-promises-that-are-over",
        read_lease.note_promise,
        "began_ms + lease_ms",
        "began_ms + 10 * lease_ms",
        seed=2,
        breaks="ConfirmedReads",
    ),
    Mutant(
        "S35-leads-on-a-disk-that-hangs",
        leadership.others_can_lead_instead,
        "return well >=",
        "return False and well >=",
        seed=45,
        breaks="ProgressBesideSlow",
    ),
    Mutant("P21-does-not-compare-logs", LogIndex.diverges_at, "if known.epoch", "if True or known"),
    Mutant(
        "P32-applies-voters-late",
        getter(LogIndex.voters),
        "self.history[-1].voters",
        "self.history[max(len(self.history) - 2, 0)].voters",
    ),
    Mutant(
        "P32-keeps-voters-of-truncated-records",
        LogIndex.truncate,
        "while len(self.history) > 1 and",
        "while False and",
        seed=0,
    ),
    Mutant(
        "P31-two-changes-at-a-time",
        voter_changes.obstacle,
        "if replica.log.voter_record.offset >= replica.high_watermark:",
        "if False:",
    ),
    Mutant(
        "S11-confirms-without-a-round",
        leadership.answer_confirmations,
        "confirmation.token <= echoed and settled",
        "settled",
        seed=65,
    ),
    Mutant(
        "S11-reads-before-its-epoch-is-committed",
        leadership.answer_confirmations,
        "confirmation.token <= echoed and settled",
        "confirmation.token <= echoed",
    ),
    Mutant(
        "P40-never-stands-again",
        election._back_off,
        "replica.now_ms + replica.backoff(role.retries)",
        "10**12",
    ),
    Mutant(
        "P54-lets-any-id-in-at-version-1",
        version_rules.why_not,
        'if change.kind == "add" and not known:',
        "if False:",
        seed=12,
    ),
    Mutant(
        "P54-lowers-the-version",
        raft_version.handle_upgrade,
        "if event.version < log.raft_version:",
        "if False:",
        seed=12,
    ),
    Mutant(
        "P34-ends-no-reassignment",
        reassignment._step,
        "replica.append_control(TargetVoters(()))",
        "pass",
        seed=3,
    ),
    Mutant(
        "takes-a-batch-of-many-records-for-one-record",
        leadership.handle_append,
        "base + event.record_count - 1",
        "base",
        seed=1,
        breaks="NothingAcknowledgedIsLost",
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_simulator_finds_a_core_without(mutant: Mutant):
    with taken_out(mutant.function, mutant.old, mutant.new, mutant.also):
        for seed in range(mutant.seed, mutant.seed + SEEDS_MAX):
            found = broken_promise(seed, AssertionError)
            if found is not None:
                print(f"found by seed {seed}: {type(found).__name__} {str(found)[:300]}")  # noqa: T201
                assert mutant.breaks in {"", getattr(found, "name", "")}
                return
    pytest.fail(f"{SEEDS_MAX} seeds did not miss the rule")


SNAPSHOT_MUTANTS = [
    Mutant(
        "trims-what-no-snapshot-covers",
        SimSnapshots._trim_target,
        "min(snapshot.end for snapshot in self.whole.values())",
        "self.node.machine.end",
        seed=1,
        breaks="TrimBehindSnapshots",
    ),
    Mutant(
        "trims-what-the-newest-alone-covers",
        SimSnapshots._trim_target,
        "min(snapshot.end",
        "max(snapshot.end",
        seed=1,
        breaks="TrimBehindSnapshots",
    ),
    Mutant(
        "trims-before-enough-are-whole",
        SimSnapshots._trim_target,
        "len(self.whole) < self.plan.retained",
        "not self.whole",
        seed=1,
        breaks="TrimBehindSnapshots",
    ),
    Mutant(
        "trims-before-the-snapshot-is-durable",
        SimSnapshots.take,
        "self.is_writing = True",
        (
            "self.whole[made.position] = made; self.is_writing = True; "
            "node.deliver(self.life, SnapshotTaken(made.position, self._trim_target()))"
        ),
        seed=1,
        breaks="TrimBehindSnapshots",
    ),
    Mutant(
        "covers-what-is-not-committed",
        SimSnapshots.take,
        "node.machine.end\n",
        "node.disk.end\n",
        seed=1,
        breaks="SnapshotIsCommitted",
    ),
    Mutant(
        "installs-without-a-sync",
        SimDisk.install,
        "self.flush(self.end)",
        "pass",
        seed=43,
        breaks="SnapshotCoversLog",
    ),
    Mutant(
        "starts-with-the-oldest",
        SimDisk.newest_whole,
        "reversed(self.snapshots)",
        "self.snapshots",
        seed=1,
        breaks="AppliesAll",
    ),
    Mutant(
        "starts-with-a-damaged-one",
        SimDisk.newest_whole,
        "snapshot.position not in self.rotten",
        "True",
        seed=26,
        breaks="SameState",
    ),
    Mutant(
        "P50-forgets-the-voters",
        LogIndex._begin_with,
        "VoterSetAt(head.voter_record, head.voters)",
        "VoterSetAt(head.voter_record, self.base_voters)",
        seed=4,
        breaks="IndexFromLog",
    ),
    Mutant(
        "S11-forgets-where-the-voters-come-from",
        LogIndex._begin_with,
        "VoterSetAt(head.voter_record, head.voters)",
        "VoterSetAt(VoterRecordId(last, head.position.epoch), head.voters)",
        seed=1,
        breaks="IndexFromLog",
    ),
    Mutant(
        "S15-takes-no-target-over",
        LogIndex._begin_with,
        "if has_target_record else []",
        "if False else []",
        seed=7,
        breaks="IndexFromLog",
    ),
    Mutant(
        "S15-writes-no-target",
        LogIndex.head_at,
        "self.target_at(end)",
        "VoterSet()",
        seed=7,
        breaks="SnapshotHead",
    ),
    Mutant(
        "P54-forgets-the-version",
        LogIndex._begin_with,
        "if head.raft_version else []",
        "if False else []",
        seed=1,
        breaks="IndexFromLog",
    ),
    Mutant(
        "P48-forgets-the-epoch-of-an-installed-one",
        LogIndex.install,
        "[(head.position.epoch, Offset(self.end - 1))]",
        "[]",
        seed=1,
        breaks="EpochsFromLog",
    ),
    Mutant(
        "P48-forgets-the-epoch-before-the-start",
        LogIndex.trim,
        "bisect.bisect_left(self.epochs, start, key=_start) - 1",
        "bisect.bisect_left(self.epochs, start, key=_start)",
        seed=1,
        breaks="EpochsFromLog",
    ),
    Mutant(
        "trims-the-voters-in-force",
        LogIndex.trim,
        "max(passed - 1, 0)",
        "max(min(passed, len(sets) - 1), 0)",
        seed=91,
        breaks="SnapshotHead",
    ),
    Mutant(
        "P22-sends-records-that-it-has-no-more",
        LogIndex.needs_snapshot,
        "return fetch.end_offset < self.start or",
        "return",
        seed=2,
        breaks="ReadsWhatItHas",
    ),
    Mutant(
        "P22-takes-an-epoch-that-it-does-not-know-for-its-own",
        LogIndex.needs_snapshot,
        "or fetch.epoch < before or foreign",
        "",
        seed=112,
    ),
    Mutant(
        "takes-an-installed-one-for-uncommitted",
        snapshot_fetch.verified,
        "replica.raise_high_watermark(replica.log.end)",
        "pass",
        seed=1,
        breaks="AppliesAll",
    ),
    Mutant(
        "takes-what-a-start-finds-for-uncommitted",
        RaftCore.__init__,
        "log.snapshot.end_offset if log.snapshot else FIRST_OFFSET",
        "FIRST_OFFSET",
        seed=1,
        breaks="AppliesAll",
    ),
    Mutant(
        "S10-counts-what-is-being-fetched",
        snapshot_service.handle_fetch_snapshot,
        "progress.begin_done = True",
        (
            "progress.begin_done = True; progress.fetched("
            "request.snapshot.end_offset, replica.log.end, replica.now_ms)"
        ),
        seed=5,
    ),
    Mutant(
        "S32-brings-a-snapshot-for-records-that-are-all-there",
        leadership._begins_with_snapshot,
        "if whole and replica.config.keeps_every_record:",
        "if False:",
        seed=17,
        breaks="KeepsEveryRecord",
    ),
]


@pytest.mark.rule("P22", "P25", "P48", "P50", "S10", "S11", "S15", "S32")
@pytest.mark.parametrize("mutant", SNAPSHOT_MUTANTS, ids=lambda mutant: mutant.name)
def test_simulator_finds_snapshots_without(mutant: Mutant):
    with taken_out(mutant.function, mutant.old, mutant.new, mutant.also):
        seeds = range(mutant.seed, mutant.seed + SEEDS_MAX)
        found = next(filter(None, map(broken_promise, seeds)), None)
    assert found is not None, f"{SEEDS_MAX} seeds did not miss the rule"
    print(str(found)[:300])  # noqa: T201
    assert isinstance(found, InvariantError)
    assert mutant.breaks in {"", found.name}


def broken_promise(seed: int, kind: type[AssertionError] = InvariantError) -> AssertionError | None:
    try:
        run_seed(seed)
    except kind as found:
        return found
    return None
