"""The client's account: what is counted, and what it refuses to confuse."""

import pytest

from kraftquorum_demo.record import Outcome, Record, Stall


def test_every_write_ends_as_exactly_one_outcome():
    record = Record()
    first, second, third = (record.begin("w0", "k", b"%d" % n, n) for n in range(3))
    record.acknowledge(first, 7, 3.0)
    record.refuse(second, "not leader", 3.1)
    record.lose_sight(third, "cut", 3.2)
    assert (first.outcome, first.offset) == (Outcome.ACKNOWLEDGED, 7)
    assert (second.outcome, second.reason) == (Outcome.REFUSED, "not leader")
    assert (third.outcome, third.ended_s) == (Outcome.UNKNOWN, 3.2)
    assert record.count(Outcome.PENDING) == 0
    with pytest.raises(ValueError, match="already ended as acknowledged"):
        record.lose_sight(first, "cut", 4.0)


def test_two_writes_that_could_not_be_told_apart_are_refused():
    record = Record()
    record.begin("w0", "k", b"v", 0)
    record.begin("w1", None, b"v", 0)
    with pytest.raises(ValueError, match="twice"):
        record.begin("w1", "k", b"v", 0)


def test_a_refused_write_may_be_written_again():
    record = Record()
    record.refuse(record.begin("w0", "k", b"v", 0), "queue full", 1)
    record.acknowledge(record.begin("w0", "k", b"v", 2), 5, 3)
    assert record.count(Outcome.ACKNOWLEDGED) == 1


def test_what_is_open_at_the_end_is_unknown():
    record = Record()
    write = record.begin("w0", None, b"v", 0)
    record.close(1.0)
    assert write.outcome is Outcome.UNKNOWN
    assert record.stalled_s(9.0) == 0.0


def test_the_longest_stall_counts_the_one_that_goes_on():
    record = Record()
    record.acknowledge(record.begin("w0", None, b"0", 10.0), 0, 10.1)
    record.acknowledge(record.begin("w0", None, b"1", 10.1), 1, 12.0)
    assert record.longest_stall(12.5) == Stall(10.1, 12.0)
    assert record.longest_stall(20.0) == Stall(12.0, 20.0)
    assert record.stalled_s(12.5) == pytest.approx(0.5)
    record.close(20.0)
    assert record.longest_stall(99.0) == Stall(12.0, 20.0)


def test_stalls_are_all_gaps_between_acknowledgements_from_first_write_to_last():
    record = Record()
    record.acknowledge(record.begin("w0", None, b"0", 1.0), 0, 3.0)
    record.acknowledge(record.begin("w0", None, b"1", 3.0), 1, 3.2)
    record.close(5.0)
    assert record.stalls(1.0) == [Stall(1.0, 3.0), Stall(3.2, 5.0)]
    assert record.acknowledged_at() == [3.0, 3.2]


def test_an_account_without_writes_has_no_stalls():
    record = Record()
    record.close(5.0)
    assert record.stalls(0.0) == []
    assert record.longest_stall(9.0).seconds == 0.0


def record_of(*acknowledged_at: float) -> Record:
    record = Record()
    for number, at_s in enumerate(acknowledged_at):
        record.acknowledge(record.begin("w0", None, b"%d" % number, 1.0), number, at_s)
    record.close(10.0)
    return record


def test_a_stall_with_a_part_in_a_time_counts_as_a_whole():
    record = record_of(2.0, 3.0, 7.0)
    assert record.longest_within(2.5, 9.0) == Stall(3.0, 7.0)
    assert record.longest_within(4.0, 6.5) == Stall(3.0, 7.0)
    assert record.longest_within(6.0, 9.5) == Stall(3.0, 7.0)
    assert record.longest_within(2.0, 3.0) == Stall(2.0, 3.0)
    assert record.longest_within(0.0, 0.5) == Stall(0.0, 0.0)


def test_every_stall_is_within_a_time_or_outside_of_it():
    record = record_of(2.0, 3.0, 7.0, 8.5)
    for from_s, until_s in ((2.9, 3.1), (6.9, 8.6), (0.0, 2.5), (9.0, 9.5)):
        both = {record.longest_within(from_s, until_s), record.longest_outside(from_s, until_s)}
        assert Stall(3.0, 7.0) in both


def test_a_stall_outside_a_time_shares_no_part_of_it():
    record = record_of(2.0, 3.0, 7.0, 8.5)
    assert record.longest_outside(5.0, 6.0) == Stall(7.0, 8.5)
    assert record.longest_outside(3.0, 7.0) == Stall(7.0, 8.5)
    assert record.longest_outside(8.0, 8.2) == Stall(3.0, 7.0)
    assert record.longest_outside(0.0, 10.0) == Stall(0.0, 0.0)
