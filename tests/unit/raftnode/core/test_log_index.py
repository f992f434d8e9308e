"""`LogIndex` against an oracle that keeps every record and looks through all of them."""

import uuid
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raftnode.core.log_head import LogHead
from raftnode.core.log_index import LogIndex
from raftnode.core.records import (
    AddVoter,
    Batch,
    ControlRecord,
    FormationCompleted,
    LeaderChange,
    RaftVersion,
    RemoveVoter,
    TargetVoters,
)
from raftnode.core.types import (
    BASE_VOTER_RECORD,
    NO_EPOCH,
    Epoch,
    LogPosition,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterRecordId,
    VoterSet,
)

KEYS = [ReplicaKey(NodeId(n), uuid.UUID(int=n + 1)) for n in range(4)]
BASE = VoterSet.of(Voter(key) for key in KEYS[:2])


@dataclass
class Oracle:
    batches: list[Batch] = field(default_factory=list)

    def records(self) -> list[tuple[int, int, ControlRecord | None]]:
        return [
            (offset, batch.epoch, batch.control[at] if batch.control else None)
            for batch in self.batches
            for at, offset in enumerate(range(batch.base_offset, batch.end_offset))
        ]

    def end(self) -> int:
        return len(self.records())

    def voters(self, below: int | None = None) -> set[ReplicaKey]:
        voters = set(BASE)
        for offset, _, control in self.records():
            if below is not None and offset >= below:
                break
            match control:
                case AddVoter(voter):
                    voters.add(voter.key)
                case RemoveVoter(key):
                    voters.discard(key)
                case _:
                    pass
        return voters

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        upto = [(e, offset + 1) for offset, e, _ in self.records() if e <= epoch]
        return max(upto, default=(-1, 0))


one_control = st.one_of(
    st.sampled_from(KEYS).map(lambda key: AddVoter(Voter(key))),
    st.sampled_from(KEYS).map(RemoveVoter),
    st.just(LeaderChange(KEYS[0], (), ())),
    st.just(FormationCompleted()),
    st.integers(1, 2).map(RaftVersion),
    st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(
        lambda keys: TargetVoters(VoterSet.of(Voter(key) for key in keys).voters)
    ),
)
parts = st.floats(0, 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.integers(1, 4), st.integers(0, 2)),
        st.tuples(st.just("control"), one_control, st.integers(0, 2)),
        st.tuples(st.just("truncate"), st.floats(0, 1), st.just(0)),
        st.tuples(st.just("flush"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


def replay(script: list) -> tuple[LogIndex, Oracle]:
    index, oracle, epoch = LogIndex(BASE), Oracle(), 1
    for kind, what, jump in script:
        epoch += jump
        base = index.end
        match kind:
            case "data":
                batch = Batch(base, Offset(base + what - 1), Epoch(epoch), b"x")
            case "control":
                batch = Batch(base, base, Epoch(epoch), b"", (what,))
            case "truncate":
                kept = oracle.batches[: int(len(oracle.batches) * what)]
                oracle.batches = kept
                index.truncate(kept[-1].end_offset if kept else Offset(0))
                continue
            case _:
                index.durable_end = index.end
                continue
        index.append(batch)
        oracle.batches.append(batch)
    return index, oracle


@given(steps)
def test_ends_epochs_and_voters_are_those_of_the_records(script: list):
    index, oracle = replay(script)
    records = oracle.records()
    assert index.end == oracle.end()
    assert index.durable_end <= index.end
    assert index.last_epoch == (records[-1][1] if records else -1)
    assert [epoch for epoch, _ in index.epochs] == sorted({epoch for _, epoch, _ in records})
    assert set(index.voters) == oracle.voters()
    assert all(index.epoch_at(Offset(offset)) == epoch for offset, epoch, _ in records)
    completed = [o for o, _, control in records if isinstance(control, FormationCompleted)]
    assert index.formation_completed == bool(completed)
    if completed:
        assert index.formation_completed_at == completed[0]


@given(steps, st.integers(0, 60))
def test_committed_voters_are_those_below_the_high_watermark(script: list, mark: int):
    index, oracle = replay(script)
    high_watermark = Offset(min(mark, index.end))
    assert set(index.committed_voters(high_watermark).voters) == oracle.voters(high_watermark)
    since = index.voter_sets_since(high_watermark)
    assert since[0] == index.committed_voters(high_watermark)
    assert since[-1].voters == index.voters


@given(steps, st.integers(-1, 70))
def test_end_of_epoch_is_that_of_the_largest_epoch_not_above(script: list, epoch: int):
    index, oracle = replay(script)
    found = index.end_of_epoch(Epoch(epoch))
    assert (found.epoch, found.end_offset) == oracle.end_of_epoch(epoch)


@pytest.mark.rule("P21", "P22")
@given(steps, steps, st.floats(0, 1))
@example([("data", 2, 0)], [("data", 1, 1)], 0.0)
@pytest.mark.without(
    "core.log_index:LogIndex.diverges_at",
    "known.epoch == fetch.epoch and fetch.end_offset <= known.end_offset",
    "fetch.end_offset <= known.end_offset",
)
def test_two_logs_agree_after_a_few_rounds_and_drop_nothing_that_they_share(
    leader_script: list, follower_script: list, share: float
):
    """P21, P22: DivergingEpoch and truncation end, and end at the last common batch or later."""
    leader, leads = replay(leader_script)
    common = leads.batches[: int(len(leads.batches) * share)]
    follower, follows = LogIndex(BASE), Oracle(list(common))
    for batch in common:
        follower.append(batch)
    # An epoch has one leader: what the follower has alone is of epochs that the leader has not.
    taken = {batch.epoch for batch in leads.batches}
    epoch = follower.last_epoch
    for kind, what, jump in follower_script:
        epoch = max(epoch + jump, 1)
        while epoch in taken:
            epoch += 1
        if kind == "data":
            base = follower.end
            batch = Batch(base, Offset(base + what - 1), Epoch(epoch), b"y")
            follower.append(batch)
            follows.batches.append(batch)
    shared_end = common[-1].end_offset if common else 0
    for _ in range(50):
        diverging = leader.diverges_at(LogPosition(follower.last_epoch, follower.end))
        if diverging is None:
            break
        end = follower.truncation_point(diverging)
        assert shared_end <= end < follower.end
        follower.truncate(end)
    else:
        raise AssertionError("the two logs never agree")
    kept = [record for record in follows.records() if record[0] < follower.end]
    assert [record[:2] for record in kept] == [r[:2] for r in leads.records()[: len(kept)]]


@pytest.mark.rule("S19")
@pytest.mark.without(
    "core.log_index:LogIndex._apply_control",
    "self.history.append(VoterSetAt(VoterRecordId(record, batch.epoch), voters))",
    "at = VoterSetAt(VoterRecordId(record, batch.epoch), voters)\n        self.history = [*(self.history if self.has_voter_record else ()), at]",
)
def test_truncating_the_first_batch_keeps_the_base():
    """S19."""
    index, _ = replay([("control", AddVoter(Voter(KEYS[3])), 0)])
    assert KEYS[3] in index.voters
    index.truncate(Offset(0))
    assert index.voters == BASE
    assert not index.has_voter_record


@pytest.mark.rule("P32")
@given(steps)
def test_index_that_recovery_rebuilds_is_the_one_that_was_lost(script: list):
    index, oracle = replay([*script, ("flush", 0, 0)])
    again = LogIndex.restore(
        BASE,
        start=Offset(0),
        end=index.end,
        epochs=iter(index.epochs),
        control=(replace(batch, data=b"") for batch in oracle.batches if batch.control),
        base_raft_version=index.base_raft_version,
    )
    assert (again.start, again.end, again.durable_end) == (0, index.end, index.end)
    assert again.epochs == index.epochs
    assert again.history == index.history
    assert again.raft_versions == index.raft_versions
    assert again.formation_completed_at == index.formation_completed_at
    assert (again.base_voters, again.base_raft_version) == (BASE, index.base_raft_version)
    assert again.position == index.position


def with_snapshot(script: list, part: float) -> tuple[LogIndex, Oracle, Offset]:
    """An index with a snapshot behind some batch, all below it committed; else none at all."""
    index, oracle = replay([*script, ("flush", 0, 0)])
    if not oracle.batches:
        return index, oracle, Offset(0)
    end = oracle.batches[int(part * (len(oracle.batches) - 1))].end_offset
    index.snapshot = index.head_at(end).position
    return index, oracle, end


def same_from(start: int, index: LogIndex, whole: LogIndex) -> None:
    """What is asked of a log from `start` on is answered as by one that has everything."""
    assert (index.end, index.durable_end) == (whole.end, whole.durable_end)
    assert index.position == whole.position
    assert (index.voters, index.voter_record) == (whole.voters, whole.voter_record)
    assert index.raft_version == whole.raft_version
    assert index.formation_completed == whole.formation_completed
    assert (index.target_voters, index.target_record) == (whole.target_voters, whole.target_record)
    for offset in range(start, whole.end + 1):
        mark = Offset(offset)
        assert index.committed_voters(mark) == whole.committed_voters(mark)
        assert index.target_at(mark) == whole.target_at(mark)
        if offset < whole.end:
            assert index.epoch_at(mark) == whole.epoch_at(mark)
        if offset:
            assert index.epoch_at(Offset(offset - 1)) == whole.epoch_at(Offset(offset - 1))
            assert index.head_at(mark) == whole.head_at(mark)
    for epoch in range(whole.epoch_at(Offset(start)) if start < whole.end else 0, 70):
        if index.end_of_epoch(Epoch(epoch)).end_offset > start:
            assert index.end_of_epoch(Epoch(epoch)) == whole.end_of_epoch(Epoch(epoch))


@pytest.mark.rule("P22", "S11", "S15")
@given(steps, parts)
def test_head_says_what_the_records_below_it_say(script: list, part: float):
    index, oracle, end = with_snapshot(script, part)
    if not end:
        return
    head, below = index.head_at(end), [one for one in oracle.records() if one[0] < end]
    assert head.position == LogPosition(Epoch(below[-1][1]), end)
    assert set(head.voters) == oracle.voters(end)
    versions = [control.version for _, _, control in below if isinstance(control, RaftVersion)]
    assert head.raft_version == max(versions, default=0)
    assert head.formation_completed == any(isinstance(one[2], FormationCompleted) for one in below)
    targets = [one for one in below if isinstance(one[2], TargetVoters)]
    if targets:
        offset, epoch, control = targets[-1]
        assert head.target_record == VoterRecordId(Offset(offset), Epoch(epoch))
        assert head.target_voters.voters == control.voters
    else:
        assert (head.target_record, len(head.target_voters)) == (BASE_VOTER_RECORD, 0)


@pytest.mark.rule("P22", "P32")
@given(steps, parts, parts)
@example([("control", RaftVersion(version), 0) for version in (2, 1)], 1.0, 1.0)
def test_trimmed_log_answers_like_the_whole_one(script: list, part: float, cut: float):
    index, oracle, end = with_snapshot(script, part)
    if not end:
        return
    whole, _ = replay([*script, ("flush", 0, 0)])
    starts = [0, *(batch.end_offset for batch in oracle.batches if batch.end_offset <= end)]
    start = Offset(starts[int(cut * (len(starts) - 1))])
    index.trim(start)
    assert index.start == start
    assert index.snapshot == whole.head_at(end).position
    same_from(start, index, whole)
    # Nothing is kept that could not be asked for any more.
    for kept in (
        [first for _, first in index.epochs],
        [at.record.offset for at in index.history],
        [at.record.offset for at in index.targets],
        [offset for offset, _ in index.raft_versions],
    ):
        assert sum(offset < start for offset in kept) <= 1
    index.trim(start)
    same_from(start, index, whole)
    # What is not committed may still be truncated.
    for log in (index, whole):
        log.truncate(end)
    same_from(start, index, whole)


@pytest.mark.rule("P22", "S11", "S15")
@given(steps, steps, parts)
def test_log_that_begins_with_a_snapshot_goes_on_like_the_whole_one(
    script: list, other: list, part: float
):
    whole, oracle, end = with_snapshot(script, part)
    if not end:
        return
    head = whole.head_at(end)
    installed, _ = replay(other)
    before = installed.truncations
    installed.install(head)
    # A flush from before says nothing of what came with it, and each install is another log.
    assert installed.truncations == before + 1
    assert (installed.start, installed.end, installed.durable_end) == (end, end, end)
    assert installed.snapshot == head.position
    assert installed.head_at(end) == head
    restored = LogIndex.restore(
        BASE,
        start=end,
        end=whole.end,
        epochs=[
            (head.position.epoch, Offset(end - 1)),
            *((epoch, first) for epoch, first in whole.epochs if first >= end),
        ],
        control=[batch for batch in oracle.batches if batch.control],
        head=head,
    )
    assert restored.snapshot == head.position
    for batch in oracle.batches:
        if batch.base_offset >= end:
            installed.append(batch)
    installed.durable_end = installed.end
    same_from(end, installed, whole)
    same_from(end, restored, whole)


@pytest.mark.rule("P22")
@given(steps, parts)
def test_log_covers_what_it_holds_or_has_trimmed(script: list, part: float):
    index, _, end = with_snapshot(script, part)
    if not end:
        return
    position = index.snapshot
    assert position is not None
    assert index.covers(position)
    assert not index.covers(LogPosition(Epoch(position.epoch + 1), end))
    assert not index.covers(LogPosition(index.last_epoch, Offset(index.end + 1)))
    index.trim(end)
    assert index.covers(position)
    assert index.covers(LogPosition(Epoch(99), Offset(end - 1)))
    assert not index.covers(LogPosition(Epoch(position.epoch + 1), end))


def test_target_in_a_snapshot_of_an_earlier_program_stands_where_the_snapshot_ends():
    """Such a head names no record of the target (S15)."""
    target = VoterSet.of([Voter(KEYS[1])])
    at = LogPosition(Epoch(3), Offset(7))
    record = VoterRecordId(Offset(2), Epoch(1))
    index = LogIndex(BASE)
    index.install(LogHead(at, BASE, record, 2, False, target))
    assert index.target_record == VoterRecordId(Offset(6), Epoch(3))
    assert index.target_voters == target
    index.install(LogHead(at, BASE, record, 2, False))
    assert index.target_record == BASE_VOTER_RECORD
    assert index.targets == []
    assert index.assignment_record == record


def of_records(*records: ControlRecord) -> LogIndex:
    """A log of one control record each, all of epoch 1."""
    index = LogIndex(BASE)
    for offset, record in enumerate(records):
        index.append(Batch(Offset(offset), Offset(offset), Epoch(1), b"", (record,)))
    return index


def test_before_the_first_record_is_no_epoch():
    assert LogIndex(BASE).epoch_at(Offset(-1)) == NO_EPOCH
    assert of_records(RaftVersion(2)).epoch_at(Offset(-1)) == NO_EPOCH


@pytest.mark.rule("P54")
def test_of_the_versions_below_the_start_the_newest_is_kept():
    index = of_records(RaftVersion(1), RaftVersion(2), RaftVersion(2), RaftVersion(2))
    index.snapshot = index.head_at(Offset(4)).position
    index.trim(Offset(3))
    assert index.raft_versions == [(2, 2), (3, 2)]


@pytest.mark.rule("P54")
def test_a_snapshot_of_version_0_brings_no_record_of_a_version():
    head = of_records(FormationCompleted()).head_at(Offset(1))
    assert head.raft_version == 0
    installed = LogIndex(BASE)
    installed.install(head)
    assert (installed.raft_version, installed.raft_version_record) == (0, -1)


@pytest.mark.rule("P22")
def test_who_ends_at_the_start_needs_a_snapshot_unless_its_last_record_is_ours():
    index = LogIndex(BASE)
    for offset, epoch in enumerate((1, 3, 5)):
        index.append(Batch(Offset(offset), Offset(offset), Epoch(epoch), b"x"))
    assert not index.needs_snapshot(LogPosition(Epoch(2), Offset(2)))
    index.snapshot = index.head_at(Offset(2)).position
    assert not index.needs_snapshot(LogPosition(Epoch(2), Offset(2))), "all is still here"
    assert index.needs_snapshot(LogPosition(NO_EPOCH, Offset(0))), "better off with it"
    index.trim(Offset(2))
    needs = [
        (epoch, end)
        for epoch in range(1, 6)
        for end in range(1, 4)
        if index.needs_snapshot(LogPosition(Epoch(epoch), Offset(end)))
    ]
    # Behind the start: whoever's last epoch is older than what is known here.
    older = [(1, 3), (2, 3)]
    assert needs == sorted([*((e, 1) for e in range(1, 6)), (1, 2), (2, 2), (4, 2), (5, 2), *older])


@pytest.mark.rule("P54")
def test_a_version_outlives_the_trim_of_its_record_under_a_lower_one():
    index = of_records(RaftVersion(2), RaftVersion(1))
    index.snapshot = index.head_at(Offset(2)).position
    index.trim(Offset(2))
    assert index.raft_version == 2


@pytest.mark.rule("P54")
def test_a_version_is_forgotten_with_its_record_and_not_before():
    index = of_records(RaftVersion(1), RaftVersion(2), RaftVersion(2))
    index.truncate(Offset(2))
    assert index.raft_versions == [(0, 1), (1, 2)]
    index.truncate(Offset(1))
    assert index.raft_versions == [(0, 1)]
    index.truncate(Offset(0))
    assert index.raft_versions == []
