"""S11, S13, S14, P28-P32: `two-adds`, `two-removes`, `add-and-remove`, `autojoin-readds-removed`."""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import Refused, VoterChangeCompleted
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.reasons.waits import Awaited, CatchUp, CaughtUpMajority
from raftnode.core.types import VoterRecordId

pytestmark = pytest.mark.rule("P28")


@pytest.mark.rule("P28")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("add", "5"), ("add", "6")),
        (("remove", "4"), ("remove", "3")),
        (("add", "5"), ("remove", "4")),
    ],
    ids=["two-adds", "two-removes", "add-and-remove"],
)
@pytest.mark.scenario("two-adds", "two-removes", "add-and-remove")
@pytest.mark.without(
    "core.membership.voter_changes:obstacle",
    "if not leadership.epoch_committed(replica, role):",
    "if False:",
)
def test_changes_of_leaders_of_different_epochs_never_decide_side_by_side(
    first: tuple[str, str], second: tuple[str, str]
):
    """Ongaro 2015, P28. Taking `epoch_committed` out of `voter_changes.obstacle` makes this fail.

    1 appends a change that no replica hears of. 2 leads with the old set, and must not
    append one of its own before an entry of its epoch is committed: with both, 1's
    set and 2's could have majorities that do not meet.
    """
    book = Playbook.formed("1", "2", "3", "4")
    for name in ("5", "6"):
        book.observer(name)
    book.run(1500)
    change = {"add": book.add, "remove": book.remove}
    change[first[0]]("1", first[1])
    book.isolate("1")
    book.drop()
    for name in ("3", "4"):
        book[name].flushes = False
    book.elect("2")
    role = book["2"].replica.role
    for _ in range(4):
        book.wait(20, "5", "6", "2")
        book.settle()
    for name in ("3", "4", "5", "6"):
        # As far as catching up goes, nothing speaks against the change.
        progress = role.progress.setdefault(key_of(name), type(role.progress[key_of("3")])())
        progress.last_fetch_ms = progress.round_started_ms = book.now_ms
        progress.round_ms = 0
    request = change[second[0]]("2", second[1])
    assert book.answer(request) is None
    [pending] = role.changes
    assert pending.appended is None
    assert pending.waiting_for is Awaited.OWN_EPOCH_COMMIT
    for name in ("3", "4"):
        book[name].flushes = True
    book.run(1000)
    assert isinstance(book.answer(request), VoterChangeCompleted)


@pytest.mark.rule("P31")
@pytest.mark.without(
    "core.membership.voter_changes:obstacle",
    "if replica.log.voter_record.offset >= replica.high_watermark:",
    "if False:",
)
def test_second_change_waits_until_the_first_is_committed():
    """P31. Taking the first obstacle out of `voter_changes.obstacle` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    for name in ("4", "5"):
        book.observer(name)
    book.run(1500)
    book.add("1", "4")
    second = book.add("1", "5")
    assert book.voters("1") == "{1,2,3,4}"
    assert book.answer(second) is None
    book.run(1500)
    assert isinstance(book.answer(second), VoterChangeCompleted)


@pytest.mark.rule("S11")
@pytest.mark.scenario("autojoin-readds-removed")
@pytest.mark.without(
    "core.membership.voter_changes:_refusal",
    "if change.expected != log.voter_record:",
    "if False:",
    "core.membership.voter_changes:advance",
    "if change.expected != replica.log.voter_record:",
    "if False:",
)
def test_autojoin_readds_removed():
    """KAFKA-19850, S11: a delayed AddVoter must not add again what was removed since.

    Comparing no voter record in `voter_changes._refusal` and `voter_changes.advance` makes this fail.
    """
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    seen = book["1"].replica.log.voter_record
    book.remove("1", "4")
    book.run(1000)
    late = book.answer(book.add("1", "4", expected=seen))
    assert isinstance(late, Refused)
    assert late.refusal is Refusal.STALE_VOTER_RECORD
    assert book.voters("1") == "{1,2,3}"


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.membership.voter_changes:advance",
    "if change.expected != replica.log.voter_record:",
    "if False:",
)
def test_change_that_waits_is_compared_again_before_it_is_appended():
    """S11. Taking the comparison out of `voter_changes.advance` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    for name in ("4", "5"):
        book.observer(name)
    book.run(1500)
    book.isolate("4")
    book.run(2500)
    waits = book.add("1", "4")
    book.add("1", "5")
    book.heal()
    book.run(1500)
    answer = book.answer(waits)
    assert isinstance(answer, Refused)
    assert answer.refusal is Refusal.STALE_VOTER_RECORD
    assert book.voters("1") == "{1,2,3,5}"


@pytest.mark.rule("S14")
@pytest.mark.without(
    "core.replication.leadership:_acknowledged",
    "for voter in replica.log.voters:",
    "for voter in {*replica.log.voters, *role.progress}:",
)
@pytest.mark.without(
    "core.log_index:LogIndex._apply_control",
    "voters, record = voters.without(key), offset",
    "record = offset",
)
def test_removed_replica_may_be_added_again_and_is_not_counted_in_between():
    """S14: the same (id, UUID); nothing that it acknowledges counts between the two records."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.remove("1", "4")
    book.run(1000)
    book.isolate("2", "3")
    before = book["1"].high_watermark
    book.append("1", b"1 and 4 are no majority")
    book.run(800)
    assert book["4"].replica.log.end > before
    assert book["1"].high_watermark == before
    book.heal()
    book.run(6000)
    [leader] = book.leaders
    added = book.add(leader, "4")
    book.run(1000)
    assert isinstance(book.answer(added), VoterChangeCompleted)
    assert book.voters("4") == "{1,2,3,4}"


@pytest.mark.rule("P32")
@pytest.mark.without(
    "core.log_index:LogIndex.truncate",
    "while len(self.history) > 1 and",
    "while False and",
)
def test_voters_apply_on_append_and_revert_on_truncation():
    """P32. Taking the history out of `LogIndex.truncate` makes this fail."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.isolate("1")
    book.remove("1", "4")
    assert book.voters("1") == "{1,2,3}"
    book["1"].flush(book.now_ms)
    book.drop()
    book.run(4000)
    book.heal()
    book.run(4000)
    assert book.voters("1") == "{1,2,3,4}"
    assert book["1"].replica.log.voter_record == book["2"].replica.log.voter_record


@pytest.mark.scenario("isolated-leader-removes-node")
@pytest.mark.without(
    "core.membership.voter_changes:obstacle",
    "if able < after.majority:",
    "if False:",
    "core.membership.voter_changes:_confirm_majority",
    "if there < after.majority:",
    "if False:",
)
def test_isolated_leader_removes_no_voter():
    """RedisRaft #17; no replica answers it, and it knows already that none keeps up."""
    book = Playbook.formed("1", "2", "3")
    book.run(1500)
    book.isolate("1")
    book.wait(2400, "1")
    assert book["1"].role == "leader"
    request = book.remove("1", "2")
    assert book.answer(request) is None
    assert book.voters("1") == "{1,2,3}"
    assert book["1"].replica.role.changes[0].waiting_for == CaughtUpMajority(1, of=2, needed=2)


@pytest.mark.rule("P28", "S13")
@pytest.mark.without(
    "core.membership.voter_changes:obstacle",
    'if change.kind == "add" and not _caught_up(replica, role, change.key):',
    "if False:",
)
def test_observer_that_does_not_keep_up_is_not_added():
    """S13, P28. Taking `_caught_up` of the added one out of `voter_changes.obstacle` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1500)
    book.isolate("4")
    book.wait(2100, "1")
    for name in ("2", "3"):
        book["1"].replica.role.progress[key_of(name)].last_fetch_ms = book.now_ms
    book.add("1", "4")
    assert book.voters("1") == "{1,2,3}"
    assert book["1"].replica.role.changes[0].waiting_for == CatchUp(key_of("4"))


@pytest.mark.rule("P29", "P30")
@pytest.mark.parametrize(
    ("kind", "voter", "refusal"),
    [
        ("add", "2", Refusal.VOTER_ALREADY_ADDED),
        ("add", "9", Refusal.NOT_AN_OBSERVER),
        ("remove", "9", Refusal.VOTER_ALREADY_REMOVED),
        ("remove", "2'", Refusal.VOTER_ALREADY_REMOVED),
    ],
)
def test_change_that_makes_no_sense_is_refused_at_once(kind: str, voter: str, refusal: Refusal):
    """P29, P30."""
    book = Playbook.formed("1", "2", "3")
    answer = book.answer({"add": book.add, "remove": book.remove}[kind]("1", voter))
    assert isinstance(answer, Refused)
    assert (answer.refusal, answer.outcome) == (refusal, "not_done")


@pytest.mark.rule("P30")
@pytest.mark.without(
    "core.membership.voter_changes:_refusal",
    'if change.kind == "remove" and len(log.voters) == 1:',
    "if False:",
)
def test_last_voter_is_never_removed():
    """P30. Taking the length out of `voter_changes._refusal` makes this fail."""
    book = Playbook.formed("1")
    answer = book.answer(book.remove("1", "1"))
    assert isinstance(answer, Refused)
    assert answer.refusal is Refusal.LAST_VOTER


@pytest.mark.rule("P29", "P31")
def test_only_the_leader_changes_voters():
    """P29, P31."""
    book = Playbook.formed("1", "2", "3")
    answer = book.answer(book.remove("2", "3"))
    assert isinstance(answer, Refused)
    assert answer.refusal is Refusal.NOT_LEADER


@pytest.mark.rule("S11")
def test_change_whose_leader_fell_has_an_open_outcome():
    """S11: "unknown" is said of a record that is in the log, and of no other."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.isolate("1")
    request = book.remove("1", "4")
    book.run(4000)
    answer = book.answer(request)
    assert isinstance(answer, Refused)
    assert answer.outcome == "unknown"


@pytest.mark.rule("P26", "S11")
def test_description_says_what_is_committed_and_which_record_it_comes_from():
    """S11, P26."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.remove("1", "4")
    seen = book["1"].core.describe()
    assert seen is not None
    assert (len(seen.voters), len(seen.committed_voters)) == (3, 4)
    assert not seen.voter_record_committed
    assert seen.voter_record == VoterRecordId(7, 1)
    assert seen.pending_change is not None
    book.settle()
    seen = book["1"].core.describe()
    assert seen.voter_record_committed
    assert len(seen.committed_voters) == 3
    assert book["2"].core.describe() is None


@pytest.mark.rule("P26")
@pytest.mark.without(
    "core.describe:describe",
    " and _is_observer(replica, progress)",
    "",
)
def test_a_removed_voter_that_never_came_is_no_observer():
    """P26. Listing all progress in `describe` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.crash("3")
    book.elect("2")
    book.run(1000)
    book.remove("2", "3")
    book.run(1000)
    described = book["2"].core.describe()
    assert key_of("3") not in described.committed_voters
    assert [found.key for found in described.observers] == []
