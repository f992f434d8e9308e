"""S30: a leader without disk space hands leadership over before it refuses writes."""

import pytest

from proofkit.playbook import Playbook
from raftnode.core.effects import AppendAccepted, Refused
from raftnode.core.reasons.refusals import Refusal


@pytest.mark.rule("S30")
@pytest.mark.without(
    "core.conclusions:_resign_without_space",
    "replica.disk_low\n",
    "False\n",
)
def test_leader_without_disk_space_transfers_leadership():
    """Taking the `disk_low` branch out of `conclusions._resign_without_space` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.disk_space("1", low=True)
    book.run(1000)
    [leader] = book.leaders
    assert leader != "1"
    accepted = book.append(leader, b"goes on")
    book.settle()
    assert isinstance(book.answer(accepted), AppendAccepted)


@pytest.mark.without(
    "core.replication.leadership:handle_append",
    "if replica.disk_low:",
    "if False:",
)
def test_leader_without_disk_space_and_without_a_successor_refuses_writes():
    """Taking the `disk_low` branch out of `leadership.handle_append` makes this fail."""
    book = Playbook.formed("1")
    book.disk_space("1", low=True)
    refused = book.answer(book.append("1", b"no room"))
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.STORAGE_FULL
    assert book.leaders == ["1"]


@pytest.mark.without(
    "core.replication.leadership:become_leader",
    "if replica.disk_low:",
    "if False:",
)
def test_replicas_that_are_all_without_disk_space_do_not_transfer_leadership_in_circles():
    """Every transfer writes a record, which is the last thing that full disks want.

    Letting `Leader.transfer_at_ms` be the start of the epoch makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    for name in ("1", "2", "3"):
        book.disk_space(name, low=True)
    before = book["1"].replica.epoch
    book.run(30_000)
    assert len(book.leaders) == 1
    assert book[book.leaders[0]].replica.epoch <= before + 4


@pytest.mark.without(
    "core.replication.fetcher:handle_end",
    "replica.disk_low",
    "False",
)
def test_successor_without_disk_space_leaves_it_to_the_next():
    """Obeying every first place in `fetcher.handle_end` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.disk_space("2", low=True)
    book.disk_space("1", low=True)
    book.run(2000)
    assert book.leaders == ["3"]


@pytest.mark.rule("S30")
@pytest.mark.without(
    "core.replication.fetcher:_take",
    "replica.disk_full",
    "False",
)
def test_a_follower_whose_disk_is_full_takes_no_records_and_catches_up_later():
    """Taking the `disk_full` branch out of `fetcher._take` makes this fail.

    It goes on voting and following: no replica stands for election, and writes are committed by
    the others.
    """
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    epoch, end = book["1"].replica.epoch, book["3"].replica.log.end
    book.disk_space("3", low=True, full=True)
    accepted = book.append("1", b"for those with room")
    book.run(10_000)
    assert isinstance(book.answer(accepted), AppendAccepted)
    assert book["1"].replica.high_watermark == book["1"].replica.log.end > end
    assert book["3"].replica.log.end == end
    assert (book.leaders, book["1"].replica.epoch) == (["1"], epoch)
    book.disk_space("3", low=False)
    book.run(3000)
    assert book["3"].replica.log.end == book["1"].replica.log.end


@pytest.mark.rule("S30")
def test_a_follower_whose_disk_is_full_still_votes():
    """What is left of its reserve is for that: without its vote no replica could lead here."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.disk_space("3", low=True, full=True)
    book.crash("1")
    book.run(10_000)
    assert book.leaders == ["2"]
