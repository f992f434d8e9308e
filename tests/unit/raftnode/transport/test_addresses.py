from __future__ import annotations

import uuid

from raftnode.core.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from raftnode.transport.addresses import ENTRIES_MAX, AddressBook

A = ReplicaKey(NodeId(1), uuid.UUID(int=1))
HELLO, LEADER, RECORD, BOOT = (Endpoint(name, 9) for name in ("hello", "leader", "record", "boot"))


def test_own_word_comes_before_the_leaders_and_the_records() -> None:
    book = AddressBook((BOOT, BOOT))
    assert book.candidates(A) == (BOOT,)
    book.set_voters(VoterSet.of([Voter(A, RECORD)]))
    assert book.candidates(A) == (RECORD,)
    book.learn_leader(A, LEADER)
    book.learn_hello(A, HELLO)
    assert book.candidates(A) == (HELLO, LEADER, RECORD)
    book.learn_hello(A, RECORD)
    assert book.candidates(A) == (RECORD, LEADER)


def test_voters_of_the_set_in_force_replace_the_last_ones() -> None:
    book = AddressBook()
    book.set_voters(VoterSet.of([Voter(A, RECORD)]))
    book.set_voters(VoterSet.of([Voter(A, None)]))
    assert book.candidates(A) == ()


def test_absent_advice_changes_nothing() -> None:
    book = AddressBook()
    book.learn_hello(A, HELLO)
    book.learn_hello(A, None)
    assert book.candidates(A) == (HELLO,)


def test_advice_is_bounded() -> None:
    book = AddressBook()
    for number in range(ENTRIES_MAX + 10):
        book.learn_hello(ReplicaKey(NodeId(number), uuid.UUID(int=1)), HELLO)
    assert len(book._hellos) == ENTRIES_MAX
    assert book.candidates(ReplicaKey(NodeId(0), uuid.UUID(int=1))) == ()
