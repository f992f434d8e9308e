"""S35, S36: a disk that is alive and makes nothing durable.

Fetches go on being answered by a leader whose flush hangs, so that its followers are content;
but its own log end counts for nothing, and no other replica may lead.
"""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import AppendAccepted, Confirmed, Refused
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.types import Offset

STALLED_MS = 3000
"""`leader_timeout_ms` of the default configuration."""


def quiet(*names: str) -> Playbook:
    book = Playbook.formed(*names)
    book.run(1000)
    return book


def is_committed(book: Playbook, name: str, data: bytes) -> bool:
    """Whether a record of this data stands below the high watermark of a replica."""
    mark = book[name].high_watermark
    return any(batch.data == data and batch.end_offset <= mark for batch in book[name].disk.log)


@pytest.mark.rule("S35")
@pytest.mark.without(
    "core.conclusions:_resign_without_majority",
    "elif leadership.others_can_lead_instead(replica, role):",
    "elif False:",
)
def test_a_leader_whose_flush_hangs_transfers_leadership_within_the_leader_timeout():
    book = quiet("1", "2", "3")
    book.hang("1")
    first = book.append("1", b"by the others")
    book.settle()
    assert isinstance(book.answer(first), AppendAccepted)
    assert is_committed(book, "1", b"by the others")  # a majority without the leader
    book.run(STALLED_MS - 100)
    assert book.leaders == ["1"]
    book.run(1000)
    [leader] = book.leaders
    assert leader != "1"
    book.append(leader, b"goes on")
    book.settle()
    assert is_committed(book, leader, b"goes on")
    read = book.confirm(leader)
    book.run(1000)
    assert isinstance(book.answer(read), Confirmed)


@pytest.mark.rule("S35")
@pytest.mark.parametrize("names", [("1",), ("1", "2"), ("1", "2", "3")])
def test_a_leader_whose_flush_hangs_stays_where_the_others_can_do_nothing_without_it(
    names: tuple[str, ...],
):
    """Another leader could commit nothing and get no vote; the write is acknowledged once it can."""
    book = quiet(*names)
    for down in names[2:]:
        book.crash(down)
    book.hang("1")
    written = book.append("1", b"waits")
    book.run(2 * STALLED_MS)
    assert book.leaders == ["1"]
    assert not is_committed(book, "1", b"waits")
    book.go_on("1")
    book.settle()
    assert isinstance(book.answer(written), AppendAccepted)
    assert is_committed(book, "1", b"waits")


@pytest.mark.rule("S35")
@pytest.mark.without(
    "core.replication.leadership:others_can_lead_instead",
    "return well >=",
    "return True or well >=",
)
def test_a_leader_whose_flush_hangs_stays_while_another_voter_is_away():
    """The others committed without it before, and cannot any more."""
    book = quiet("1", "2", "3")
    book.hang("1")
    book.append("1", b"by the others")
    book.settle()
    book.crash("3")
    book.run(2 * STALLED_MS)
    assert book.leaders == ["1"]
    book.go_on("1")
    book.append("1", b"goes on")
    book.settle()
    assert is_committed(book, "1", b"goes on")


@pytest.mark.rule("S35")
@pytest.mark.without(
    "core.replication.leadership:others_can_lead_instead",
    "if not replica.has_stalled_disk or replica.high_watermark <= replica.log.durable_end:",
    "if not replica.has_stalled_disk:",
)
def test_a_leader_stays_where_every_disk_hangs_though_the_followers_fetch_on():
    """With two Fetches under way a follower asks on for a while; it commits no more than it."""
    book = Playbook.formed("1", "2", "3", config=CoreConfig(fetches_in_flight_max=5))
    book.run(1000)
    for name in ("1", "2", "3"):
        book.hang(name)
    book.append("1", b"durable nowhere")
    book.run(STALLED_MS + 500)
    assert book.leaders == ["1"]
    for name in ("1", "2", "3"):
        book.go_on(name)
    book.run(1000)
    assert book.leaders == ["1"]
    assert is_committed(book, "1", b"durable nowhere")


@pytest.mark.rule("S35")
def test_a_disk_that_flushes_slowly_but_surely_moves_no_leadership():
    """Each flush is progress, though the log is never durable to its end."""
    book = quiet("1", "2", "3")
    book["1"].flushes = False
    for turn in range(8):
        book.append("1", b"before %d" % turn)
        book.run(STALLED_MS // 2)
        end = book["1"].disk.end
        book.append("1", b"after %d" % turn)
        book["1"].flush(book.now_ms)
        assert book["1"].disk.end > end
        book.append("1", b"not yet durable %d" % turn)
        book.run(STALLED_MS // 4)
    assert book.leaders == ["1"]


@pytest.mark.rule("S35")
@pytest.mark.without(
    "core.raft:RaftCore.handle",
    "replica.note_durable()",
    "pass",
)
def test_a_leader_that_was_idle_for_long_is_given_its_time():
    """The wait for the disk begins with the record that waits, not with the last one before it."""
    book = quiet("1", "2", "3")
    book.run(10 * STALLED_MS)
    book.hang("1")
    book.append("1", b"first for long")
    book.run(STALLED_MS - 100)
    assert book.leaders == ["1"]


@pytest.mark.rule("S35")
@pytest.mark.without(
    "core.elections.election:_may_start", "and not replica.has_stalled_disk", "and True"
)
@pytest.mark.without(
    "core.replica:Replica.has_stalled_disk", "at is not None and self.now_ms >= at", "False"
)
def test_a_replica_whose_disk_stalls_starts_no_election_until_it_goes_on():
    """Its vote for itself would wait for the disk, and with it everything that it is asked."""
    book = quiet("1", "2", "3")
    book.hang("2")
    book.append("1", b"not durable at 2")
    book.run(STALLED_MS)
    book.isolate("2")
    book.run(4 * STALLED_MS)
    assert book["2"].role in {"unattached", "follower"}
    assert book["2"].stuck is None
    book.go_on("2")
    book.run(2 * STALLED_MS)
    assert book["2"].role == "prospective"
    book.heal()
    book.run(2 * STALLED_MS)
    assert book.leaders == ["1"]
    assert book["2"].high_watermark == book["1"].high_watermark


@pytest.mark.rule("S35")
def test_a_follower_whose_flush_hangs_counts_as_behind_and_comes_back_by_itself():
    book = quiet("1", "2", "3")
    book.hang("2")
    book.append("1", b"without 2")
    book.run(STALLED_MS)
    assert book.leaders == ["1"]
    assert is_committed(book, "1", b"without 2")
    described = book["1"].core.describe() if book["1"].core else None
    assert described is not None
    assert {voter.key: voter.caught_up for voter in described.voters} == {
        key_of("1"): True,
        key_of("2"): False,
        key_of("3"): True,
    }
    book.go_on("2")
    book.run(STALLED_MS)
    assert is_committed(book, "2", b"without 2")


@pytest.mark.rule("S36")
@pytest.mark.without(
    "core.membership.voter_changes:_caught_up", "return replica.has_caught_up_disk", "return True"
)
def test_no_voter_is_removed_while_the_leader_itself_does_not_keep_up():
    """{1,2} would need 1, whose disk hangs; if it goes for good, 2 and 3 could elect no leader."""
    book = quiet("1", "2", "3")
    book["1"].flushes = False  # only the log's: barriers pass, as on a disk of slow flushes
    book.append("1", b"waits for the disk")
    book.run(2100)
    asked = book.remove("1", "3")
    book.settle()
    assert book.answer(asked) is None
    assert book.voters("2") == "{1,2,3}"
    book.crash("1")
    book.run(3 * STALLED_MS)
    [leader] = book.leaders
    book.append(leader, b"goes on")
    book.settle()
    assert is_committed(book, leader, b"goes on")


@pytest.mark.rule("S36")
@pytest.mark.without("core.membership.voter_changes:append", "replica.emit(ProveDisk())", "pass")
def test_no_voter_is_removed_by_a_leader_whose_idle_disk_hangs():
    """Nothing waits for the disk yet, so nothing shows that it hangs but a write."""
    book = quiet("1", "2", "3")
    book.rounds_answered = False
    book.hang("1")
    asked = book.remove("1", "3")
    book.settle()
    assert (book.answer(asked), book.voters("2"), book["1"].stuck is None) == (
        None,
        "{1,2,3}",
        False,
    )
    book.crash("1")
    book.run(3 * STALLED_MS)
    [leader] = book.leaders
    book.append(leader, b"goes on")
    book.settle()
    assert is_committed(book, leader, b"goes on")


@pytest.mark.rule("S36")
@pytest.mark.without(
    "core.describe:_self", "caught_up=replica.has_caught_up_disk", "caught_up=True"
)
@pytest.mark.without(
    "core.replica:Replica.has_caught_up_disk",
    "log.durable_end >= log.end or self.own.is_caught_up(",
    "True or self.own.is_caught_up(",
)
def test_a_leader_describes_its_own_disk_as_it_would_another_voters():
    book = quiet("1", "2", "3")
    before = book["1"].replica.log.end
    book["1"].flushes = False
    book.append("1", b"waits for the disk")
    book.run(2600)
    described = book["1"].core.describe() if book["1"].core else None
    assert described is not None
    own = described.voters[0]
    assert (own.key, own.caught_up, own.acknowledged) == (key_of("1"), False, Offset(before))
    assert own.last_caught_up_age_ms is not None
    assert own.last_caught_up_age_ms >= 2000
    refused = book.answer(book.transfer("1", "1"))
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.WAITING
