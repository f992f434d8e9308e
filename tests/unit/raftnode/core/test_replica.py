"""A replica's own arithmetic: waits, truncation, being called."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import AppendBatches, Fact, Halt, SendRequest, TruncateLog
from raftnode.core.elections import election
from raftnode.core.events import EndpointBound
from raftnode.core.log_index import LogIndex
from raftnode.core.messages import FetchRequest
from raftnode.core.raft import RaftCore
from raftnode.core.reasons.halts import (
    TruncationBelowHighWatermark,
    UnknownRaftVersion,
    UnlistedVoterIds,
)
from raftnode.core.records import AddVoter, Batch, RaftVersion
from raftnode.core.replica import Replica
from raftnode.core.replication import fetcher
from raftnode.core.roles import Blank, Follower, Prospective, Resigned, Unattached
from raftnode.core.start_state import StartState
from raftnode.core.state import QuorumState
from raftnode.core.types import (
    NO_EPOCH,
    Endpoint,
    Epoch,
    LogPosition,
    NodeId,
    Offset,
    Voter,
    VoterSet,
)

ONE, TWO = key_of("1"), key_of("2")


@dataclass
class Ranges(random.Random):
    """Remembers what it was asked for; gives the smallest."""

    asked: list[tuple[int, int | None]] = field(default_factory=list)

    def __hash__(self) -> int:
        return id(self)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self.asked.append((start, stop))
        return start


def replica(**config: int) -> Replica:
    """Voter 1 of two, with three records of epoch 1, of which one is committed."""
    log = LogIndex(VoterSet.of([Voter(ONE), Voter(TWO)]))
    made = Replica(ONE, CoreConfig(**config), Ranges(), log, QuorumState(Epoch(1)), "c")
    for offset in range(3):
        log.append(Batch(Offset(offset), Offset(offset), Epoch(1), b"x"))
    made.high_watermark = Offset(1)
    made.role = Unattached(10_000)
    return made


def test_what_a_core_is_told_at_its_start_its_replica_knows():
    log = LogIndex(VoterSet.of([Voter(ONE), Voter(TWO)]))
    log.snapshot = LogPosition(Epoch(1), Offset(7))
    here = Endpoint("one.example", 9093)
    made = RaftCore(
        StartState(
            ONE,
            log=log,
            state=QuorumState(Epoch(3)),
            cluster_id="c",
            incarnation=4,
            fetch_sequence=900,
        ),
        rng=random.Random(0),
        now_ms=50,
        config=CoreConfig(fetch_timeout_ms=1001),
        endpoint=here,
    ).replica
    assert (made.key, made.epoch, made.cluster_id, made.now_ms) == (ONE, 3, "c", 50)
    assert (made.incarnation, made.fetch_sequence, made.endpoint) == (4, 900, here)
    assert made.config.fetch_timeout_ms == 1001
    assert (made.high_watermark, made.applicable) == (7, 7)
    log.snapshot = None
    plain = RaftCore(
        StartState(ONE, log=log, state=made.state, cluster_id=None),
        rng=random.Random(0),
        now_ms=0,
    ).replica
    assert (plain.config, plain.incarnation, plain.fetch_sequence) == (CoreConfig(), 1, 0)
    assert (plain.high_watermark, plain.applicable, plain.endpoint) == (0, 0, None)
    assert isinstance(plain.role, Blank)


@pytest.mark.rule("P42", "S32")
@pytest.mark.parametrize(("snapshot_end", "committed_end"), [(None, 2), (1, 2), (2, 1), (2, 0)])
def test_what_any_snapshot_covers_is_never_cut_off(snapshot_end: int | None, committed_end: int):
    """The state may go on from an older snapshot; what a damaged newer one covers is committed."""
    log = LogIndex(VoterSet.of([Voter(ONE), Voter(TWO)]))
    for offset in range(3):
        log.append(Batch(Offset(offset), Offset(offset), Epoch(1), b"x"))
    log.durable_end = log.end
    log.snapshot = None if snapshot_end is None else LogPosition(Epoch(1), Offset(snapshot_end))
    made = RaftCore(
        StartState(
            ONE,
            log=log,
            state=QuorumState(Epoch(1)),
            cluster_id="c",
            committed_end=Offset(committed_end),
        ),
        rng=random.Random(0),
        now_ms=0,
    ).replica
    assert (made.high_watermark, made.applicable) == (2, 2)
    assert made.truncate(Offset(2))
    assert not made.truncate(Offset(1))
    assert made.halted
    assert log.end == 2


def test_the_address_that_the_listener_got_is_named_in_what_the_replica_sends():
    made = RaftCore(
        StartState(
            ONE,
            log=LogIndex(VoterSet.of([Voter(ONE), Voter(TWO)])),
            state=QuorumState(Epoch(1)),
            cluster_id="c",
        ),
        rng=random.Random(0),
        now_ms=0,
    )
    effects = made.handle(EndpointBound(Endpoint("one.example", 9093)), 1)
    [asked] = [effect.request for effect in effects if isinstance(effect, SendRequest)]
    assert isinstance(asked, FetchRequest)
    assert asked.endpoint == Endpoint("one.example", 9093)
    assert made.replica.endpoint == Endpoint("one.example", 9093)


def test_times_are_whole_milliseconds_whatever_the_settings():
    made = replica(fetch_timeout_ms=1001)
    assert (type(made.config.leader_timeout_ms), made.config.leader_timeout_ms) == (int, 1501)
    made.become_resigned()
    assert isinstance(made.role, Resigned)
    assert (type(made.role.election_at_ms), made.role.election_at_ms) == (int, 501)


@pytest.mark.rule("S30")
@pytest.mark.parametrize(("low", "times", "first_times"), [(False, 1, 1), (True, 2, 3)])
def test_a_replica_without_space_stands_after_the_others(low: bool, times: int, first_times: int):
    made = replica(fetch_timeout_ms=1001, election_timeout_ms=333)
    made.disk_low, made.now_ms = low, 7
    wait = 333 * first_times
    # The source of chance gives the bound itself.
    assert made.election_deadline() == 7 + 1001 * times + 501
    assert isinstance(made.election_deadline(), int)
    made.rng = Ranges()
    made.election_deadline()
    assert made.first_election_deadline() == 7 + wait // 2 + wait // 2 + 1
    assert isinstance(made.rng, Ranges)
    assert made.rng.asked == [(501, None), (wait // 2 + 1, None)]


@pytest.mark.rule("P20", "P23")
def test_every_third_try_to_find_a_leader_asks_where_one_is_sure_to_be_known():
    """The recorded voters may all be gone."""
    made = replica()
    assert fetcher._fetch_target(made) == TWO
    assert isinstance(made.rng, Ranges)
    assert made.rng.asked[0] == (3, None)
    made.log = LogIndex(VoterSet.of([Voter(ONE), Voter(key_of("1'"))]))
    assert fetcher._fetch_target(made) is None, "its own id is its own address"


@pytest.mark.rule("P54")
def test_a_version_that_this_program_does_not_know_ends_the_node():
    made, at = replica(), Offset(3)
    made.append((Batch(at, at, Epoch(1), b"", (RaftVersion(3),)),))
    [halt] = [effect for effect in made.effects if isinstance(effect, Halt)]
    assert halt == Halt(UnknownRaftVersion("log", 3, known=2))
    assert made.halted


def test_a_change_of_role_is_told_with_the_leader_and_nothing_else_is():
    made = replica()
    made.become_follower(Epoch(2), TWO)
    told = [one for one in made.effects if isinstance(one, Fact)]
    assert told == [
        Fact("role_changed", (("epoch", 2), ("role", "follower"), ("leader", str(TWO))))
    ]
    made.effects.clear()
    made.become_follower(Epoch(2), TWO)
    assert made.effects == []
    assert isinstance(made.role, Follower)
    assert made.role.heard_at_ms is None, "from a stranger unless it is said otherwise"
    made.become_unattached(Epoch(2))
    assert made.effects == [
        Fact("role_changed", (("epoch", 2), ("role", "unattached"), ("leader", None)))
    ]


@pytest.mark.rule("P52")
@pytest.mark.without("core.replica:Replica.append", "return", "pass")
def test_an_id_that_is_not_configured_ends_the_node_whatever_follows_it():
    made, at = replica(), Offset(3)
    made.log.append(Batch(at, at, Epoch(1), b"", (RaftVersion(1),)))
    batches = tuple(
        Batch(Offset(4 + n), Offset(4 + n), Epoch(1), b"", (AddVoter(Voter(key_of(name))),))
        for n, name in enumerate(("7", "1'"))
    )
    made.append(batches)
    [halt] = [effect for effect in made.effects if isinstance(effect, Halt)]
    assert halt.reason == UnlistedVoterIds("log", frozenset({NodeId(7)}))
    assert not [effect for effect in made.effects if isinstance(effect, AppendBatches)], (
        "a start after this one must not find the record in the log"
    )


@pytest.mark.rule("P17", "P36", "S7", "S19")
def test_who_may_stand_by_itself():
    made = replica()
    assert made.may_stand
    made.stopping = True
    assert not made.may_stand
    made.stopping, made.removed_below = False, made.log.end
    assert made.may_stand, "its own log tells it whether it was removed"
    made.removed_below = Offset(made.log.end + 1)
    assert not made.may_stand
    made.removed_below, made.log = Offset(0), LogIndex(VoterSet())
    assert not made.may_stand


@pytest.mark.rule("S1")
def test_a_leader_at_its_own_address_is_no_leader_and_delays_nothing():
    made, reborn = replica(), key_of("1'")
    before = made.role
    made.become_follower(Epoch(1), reborn)
    assert made.role is before
    made.become_follower(Epoch(2), reborn)
    assert isinstance(made.role, Unattached)
    assert (made.epoch, made.state.leader, made.leader) == (2, None, None)
    made.become_follower(Epoch(2), TWO)
    assert made.leader == TWO
    made.become_follower(Epoch(2), reborn)
    assert isinstance(made.role, Unattached)
    assert made.state.leader == TWO, "it is durable that it follows no other leader in this epoch"


@pytest.mark.rule("P40")
@pytest.mark.parametrize(
    ("retries", "base", "longest"),
    [(0, 20, 40), (1, 20, 80), (4, 20, 640), (5, 20, 1000), (9, 0, 1)],
)
def test_wait_after_a_lost_election_doubles_up_to_its_bound(retries: int, base: int, longest: int):
    made = replica(retry_backoff_ms=base)
    assert made.backoff(retries) == 1
    assert isinstance(made.rng, Ranges)
    assert made.rng.asked == [(1, longest + 1)]


def test_huge_number_of_lost_elections_makes_no_huge_number():
    made = replica(retry_backoff_ms=1, election_backoff_max_ms=1 << 40)
    made.backoff(10_000)
    assert isinstance(made.rng, Ranges)
    assert made.rng.asked == [(1, (1 << 16) + 1)]


@pytest.mark.rule("P22")
def test_truncation_says_what_it_did():
    made = replica()
    assert made.truncate(Offset(2)) is True
    assert made.effects == [TruncateLog(Offset(2))]
    made.effects.clear()
    assert made.truncate(Offset(0)) is False
    halt = next(one for one in made.effects if isinstance(one, Halt))
    assert halt.reason == TruncationBelowHighWatermark(Offset(0), Offset(1))
    assert made.log.end == 2


@pytest.mark.rule("P32")
def test_truncation_of_a_voter_record_is_told():
    made = replica()
    made.log.append(Batch(Offset(3), Offset(3), Epoch(1), b"", (AddVoter(Voter(key_of("3"))),)))
    made.truncate(Offset(3))
    assert [type(one).__name__ for one in made.effects] == ["Fact", "TruncateLog"]
    made.effects.clear()
    made.truncate(Offset(2))
    assert [type(one).__name__ for one in made.effects] == ["TruncateLog"]


@pytest.mark.rule("S31")
def test_a_call_to_stand_ends_when_it_ends():
    made = replica()
    made.called_until_ms = 500
    made.now_ms = 499
    assert made.is_called
    made.now_ms = 500
    assert not made.is_called
    made.now_ms, made.stopping = 499, True
    assert not made.is_called


@pytest.mark.rule("S31")
def test_a_call_lasts_two_rounds_of_the_candidate_that_cannot_win():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    observer = book["4"].replica
    election._be_called(observer, TWO)
    config = book.config
    lasts = 2 * (config.election_timeout_ms + config.election_backoff_max_ms)
    assert observer.called_until_ms == observer.now_ms + lasts
    role = Prospective(observer.now_ms + 7, 0)
    observer.role, observer.called_until_ms = role, 0
    election._be_called(observer, TWO)
    assert observer.role is role, "an election of an earlier call goes on"


@pytest.mark.rule("P22")
def test_each_truncation_has_a_number_of_its_own():
    """A flush from before one must not count for the log after it (S10)."""
    log = replica().log
    seen = [log.truncations]
    for end in (2, 1, 0):
        log.truncate(Offset(end))
        seen.append(log.truncations)
    assert seen == sorted(set(seen))
    assert (log.end, log.last_epoch) == (0, NO_EPOCH)


@pytest.mark.rule("S36")
@pytest.mark.without("core.replica:Replica.note_durable", "or log.end < self.own.round_target", "")
def test_own_catch_up_round_ends_where_the_truncated_log_has_an_end():
    """Else the disk counts as behind until the log is as long as it was before."""
    made = replica()
    made.log.durable_end = Offset(1)
    made.note_durable()
    assert made.own.round_target == 3
    made.log.truncate(Offset(2))
    made.now_ms += 2 * made.config.election_timeout_ms
    made.log.durable_end = Offset(2)
    made.note_durable()
    made.log.append(Batch(Offset(2), Offset(2), Epoch(1), b"x"))
    made.note_durable()
    assert made.has_caught_up_disk, "its disk has been behind for no time at all"
