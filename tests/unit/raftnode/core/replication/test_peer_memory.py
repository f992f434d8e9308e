"""S3: a peer that has forgotten what was seen of it is known as such, and no other is."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofkit.playbook import Playbook, key_of
from raftnode.core.reasons.staleness import LowerEpoch, LowerStart, ShorterLog, UnknownStart
from raftnode.core.replication.peer_memory import (
    LINE_MAX,
    PEERS_MAX,
    Mark,
    PeerMemory,
    Start,
    is_believed,
)
from raftnode.core.types import Epoch, NodeId, Offset, ReplicaKey

pytestmark = pytest.mark.rule("S3")


def key(number: int) -> ReplicaKey:
    return ReplicaKey(NodeId(number), uuid.UUID(int=number + 1))


PEER = key(1)


def start(incarnation: int, *line: str, end: int = 0, epoch: int = -1) -> Start:
    return Start(incarnation, line, Offset(end), Epoch(epoch))


def admit(memory: PeerMemory, begun: Start, who: ReplicaKey = PEER) -> None:
    assert memory.why_stale(who, begun) is None
    marks = memory.marks_with(who, begun, ())
    if marks is not None:
        memory.admit(marks)


def test_later_starts_of_one_storage_are_welcome() -> None:
    memory = PeerMemory()
    admit(memory, start(1, "a"))
    admit(memory, start(2, "b", "a"))
    admit(memory, start(5, "e", "d", "c", "b", "a"))
    assert memory.mark_of(PEER) == Mark(5, "e")


def test_a_lower_incarnation_is_stale() -> None:
    """Taking the comparison of counts out of `_broken_line` makes this fail."""
    memory = PeerMemory()
    admit(memory, start(5, "e", "d"))
    assert memory.why_stale(PEER, start(4, "d")) == LowerStart(4, 5)
    assert memory.why_stale(PEER, start(4)) is not None


def test_another_start_of_the_same_incarnation_is_stale() -> None:
    """Two processes that both started from copies of one directory."""
    memory = PeerMemory()
    admit(memory, start(5, "e", "d"))
    assert memory.why_stale(PEER, start(5, "x", "d")) is not None
    assert memory.why_stale(PEER, start(5)) is not None


def test_an_old_copy_that_was_started_more_often_is_stale() -> None:
    """A pod that cannot start is started again and again: its count overtakes the one seen.

    Comparing counts alone makes this fail.
    """
    memory = PeerMemory()
    admit(memory, start(5, "e", "d", "c"))
    overtaken = start(7, "z", "y", "x", "w", "c")
    assert memory.why_stale(PEER, overtaken) == UnknownStart(5)


def test_a_line_that_does_not_reach_back_is_compared_by_its_count() -> None:
    memory = PeerMemory()
    admit(memory, start(5, "e"))
    line = [f"{number}" for number in range(LINE_MAX)]
    assert memory.why_stale(PEER, start(5 + LINE_MAX, *line)) is None
    assert memory.why_stale(PEER, start(5 + LINE_MAX - 1, *line)) is not None


def test_earlier_programs_are_compared_by_their_counts() -> None:
    memory = PeerMemory()
    admit(memory, start(5))
    admit(memory, start(5, "e"))
    admit(memory, start(6))
    assert memory.why_stale(PEER, start(5)) is not None


def test_a_log_that_ends_below_what_was_acknowledged_and_committed_is_stale() -> None:
    """Taking the comparison out of `_forgotten` makes this fail."""
    memory = PeerMemory()
    admit(memory, start(1, "a"))
    memory.acknowledged(PEER, Offset(10))
    memory.acknowledged(PEER, Offset(9))
    short = start(2, "b", "a", end=9)
    assert memory.why_stale(PEER, short) == ShorterLog(Offset(9), Offset(10))
    admit(memory, replace(short, log_end=Offset(10)))
    assert memory.why_stale(PEER, start(3, "c", "b", end=9)) is not None


def test_an_epoch_below_the_one_that_was_shown_is_stale() -> None:
    """It has forgotten a vote, perhaps. Taking the comparison out of `_forgotten` fails this."""
    memory = PeerMemory()
    admit(memory, start(1, "a", epoch=3))
    memory.showed(PEER, Epoch(7))
    memory.showed(PEER, Epoch(6))
    lower = start(2, "b", "a", epoch=6)
    assert memory.why_stale(PEER, lower) == LowerEpoch(Epoch(6), Epoch(7))
    admit(memory, start(2, "b", "a", epoch=7))


def test_a_hello_that_was_overtaken_by_its_own_acknowledgements_is_welcome() -> None:
    """The start was judged when it was first seen."""
    memory = PeerMemory()
    begun = start(1, "a")
    admit(memory, begun)
    memory.acknowledged(PEER, Offset(10))
    memory.showed(PEER, Epoch(7))
    assert memory.why_stale(PEER, begun) is None
    assert memory.marks_with(PEER, begun, ()) is None


def test_only_the_latest_start_is_current() -> None:
    memory = PeerMemory()
    first, second = start(1, "a"), start(2, "b", "a")
    assert memory.is_current(PEER, first)
    admit(memory, first)
    assert memory.is_current(PEER, first)
    admit(memory, second)
    assert memory.is_current(PEER, second)
    assert not memory.is_current(PEER, first)


def test_what_was_durable_is_remembered_by_the_next_process() -> None:
    memory = PeerMemory.restore({PEER: Mark(5, "e")})
    assert memory.why_stale(PEER, start(5, "x")) is not None
    assert memory.why_stale(PEER, start(6, "f", "e")) is None


def test_nothing_is_taken_over_before_it_is_durable() -> None:
    memory = PeerMemory()
    memory.marks_with(PEER, start(5, "e"), ())
    assert memory.mark_of(PEER) is None


def test_the_longest_unseen_that_is_no_voter_is_forgotten() -> None:
    memory = PeerMemory()
    voters = {key(0), key(2)}
    for number in range(PEERS_MAX + 1):
        begun = start(1, f"{number}")
        marks = memory.marks_with(key(number), begun, voters)
        assert marks is not None
        memory.admit(marks)
    remembered = [n for n in range(PEERS_MAX + 1) if memory.mark_of(key(n))]
    assert len(remembered) == PEERS_MAX
    assert 1 not in remembered
    assert {0, 2} <= set(remembered)


@given(st.integers(0, 2**32), st.booleans())
def test_a_replica_is_stale_exactly_if_its_volume_went_back(seed: int, restored: bool) -> None:
    """Any history of starts, seen or not, and at some place perhaps an older copy."""
    rng = random.Random(seed)
    memory = PeerMemory()
    line: list[str] = []
    copies = [list(line)]
    seen = 0
    for _ in range(rng.randint(1, 30)):
        line.insert(0, rng.randbytes(8).hex())
        copies.append(list(line))
        if rng.random() < 0.5:
            admit(memory, start(len(line), *line))
            seen = len(line)
    if restored:
        line = list(rng.choice(copies))
    kept = len(line)
    for _ in range(rng.randint(1, 20)):
        line.insert(0, rng.randbytes(8).hex())
    found = memory.why_stale(PEER, start(len(line), *line))
    assert (found is not None) == (kept < seen)


@pytest.mark.parametrize("number", [0, -1])
def test_nothing_acknowledged_means_nothing_to_miss(number: int) -> None:
    memory = PeerMemory()
    admit(memory, start(1, "a"))
    memory.acknowledged(PEER, Offset(number))
    assert memory.why_stale(PEER, start(2, "b", "a")) is None


@pytest.mark.rule("S16")
def test_only_voters_are_believed_by_who_has_any() -> None:
    book = Playbook.formed("1", "2")
    book.observer("3")
    assert is_believed(book["1"].replica, key_of("2"))
    assert not is_believed(book["1"].replica, key_of("3"))
    # It follows a leader that its old log does not know as a voter yet.
    old = book["2"].replica
    old.become_follower(Epoch(9), key_of("4"))
    assert is_believed(old, key_of("4"))
    assert not is_believed(old, key_of("5"))
    # No replica in its own set could tell it.
    assert is_believed(Playbook.formed("1")["1"].replica, key_of("3"))
    # It knows of no voters yet, so it has promised nothing to any replica.
    assert is_believed(book["3"].replica, key_of("4"))
