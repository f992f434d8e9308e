"""What becomes of voter changes that wait: S11, S23, S24, `expired-change-still-buffered`."""

import pytest

from proofkit.playbook import Playbook
from raftnode.core.effects import Refused, VoterChangeCompleted
from raftnode.core.events import RequestAbandoned
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.records import AddVoter, RemoveVoter


def controls(book: Playbook, name: str, kind: type) -> int:
    """How many control records of a kind a log holds."""
    return sum(
        isinstance(control, kind) for batch in book[name].disk.log for control in batch.control
    )


def with_observer() -> Playbook:
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1500)
    return book


@pytest.mark.scenario("expired-change-still-buffered")
@pytest.mark.without(
    "core.membership.voter_changes:advance",
    "elif replica.now_ms >= change.deadline_ms:",
    "elif False:",
    "core.conclusions:deadlines",
    "times += [c.deadline_ms for c in role.changes if c.request_ids or c.appended is None]",
    "",
)
def test_expired_change_never_reaches_the_log():
    """Taking the deadline out of `voter_changes.advance` makes this fail."""
    book = with_observer()
    book.isolate("4")
    book.run(2500)
    request = book.add("1", "4", within_ms=300)
    assert book.answer(request) is None
    book.run(400)
    refused = book.answer(request)
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.WAITING
    assert refused.outcome == "not_done"
    book.heal()
    book.run(5000)
    assert book.voters("1") == "{1,2,3}"


@pytest.mark.rule("P31", "S11")
@pytest.mark.scenario("expired-change-still-buffered")
@pytest.mark.without(
    "core.membership.voter_changes:obstacle",
    "if replica.log.voter_record.offset >= replica.high_watermark:",
    "if False:",
)
def test_change_that_expired_in_the_log_still_holds_up_the_next():
    """No request waits for it any more, but it may yet be committed: a second beside it would be two.

    Looking for requests that wait, and not at the log, makes this fail.
    """
    book = with_observer()
    book.observer("5")
    book.run(1500)
    for name in ("2", "3", "4"):
        book[name].flushes = False
    first = book.add("1", "4", within_ms=300)
    book.run(400)
    timed_out = book.answer(first)
    assert isinstance(timed_out, Refused)
    assert (timed_out.refusal, timed_out.outcome) == (Refusal.TIMED_OUT, "unknown")
    book.run(10)
    second = book.add("1", "5")
    assert book.answer(second) is None
    assert book.voters("1") == "{1,2,3,4}"
    assert controls(book, "1", AddVoter) == 3 + 1
    for name in ("2", "3", "4"):
        book[name].flushes = True
    book.run(1500)
    assert isinstance(book.answer(second), VoterChangeCompleted)
    assert book.voters("2") == "{1,2,3,4,5}"


@pytest.mark.rule("S24")
@pytest.mark.without(
    "core.membership.voter_changes:abandon",
    "_forget(role, change)",
    "pass",
)
def test_change_can_be_given_up_before_its_record_is_appended():
    """S24. Taking the removal out of `voter_changes.abandon` makes this fail."""
    book = with_observer()
    book.isolate("4")
    book.run(2500)
    request = book.add("1", "4", within_ms=60_000)
    book.give("1", RequestAbandoned(request))
    book.heal()
    book.run(5000)
    assert book.voters("1") == "{1,2,3}"
    assert book.answer(request) is None


@pytest.mark.rule("S24")
@pytest.mark.without(
    "core.membership.pending_wait:PendingWait.leave",
    " and self.appended is None",
    "",
)
def test_change_that_is_in_the_log_is_not_given_up():
    """S24. Giving up appended changes too in `PendingWait.leave` makes this fail."""
    book = with_observer()
    request = book.add("1", "4")
    book.give("1", RequestAbandoned(request))
    assert book["1"].core.describe().pending_change is not None
    book.settle()
    assert book.voters("2") == "{1,2,3,4}"


@pytest.mark.rule("S23")
@pytest.mark.without(
    "core.membership.pending_wait:PendingWait.leave",
    "if request_id not in self.request_ids:",
    "if False:",
)
def test_abandoning_a_request_leaves_other_changes_alone():
    """S23. Not asking whose request it was in `PendingWait.leave` makes this fail.

    The removal that the leader appends itself answers no request.
    """
    book = Playbook.formed("1", "2", "3")
    reborn = book.wipe("3")
    book.run(1500)
    added = book.add("1", reborn, replaces="3")
    # Slow rounds: the replicas do not count as caught up when the Add commits.
    book.wait(1500, "1")
    while not isinstance(book.answer(added), VoterChangeCompleted):
        if not book.deliver(limit=1):
            book["2"].flush(book.now_ms)
            book[reborn].flush(book.now_ms)
            book["1"].flush(book.now_ms)
    [waiting] = book["1"].replica.role.changes
    assert (waiting.kind, waiting.appended) == ("remove", None)
    book.give("1", RequestAbandoned(added))
    book.run(3000)
    assert book.voters("1") == "{1,2,3'}"


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.membership.voter_changes:advance",
    "(ruled_out := _ruled_out(replica, change))",
    "(ruled_out := None)",
)
def test_add_that_waits_for_the_same_add_is_answered_as_a_duplicate():
    """S11: `already added` is said of a committed set, and the record is written once.

    Taking the second look at the voters out of `voter_changes.advance` makes this fail.
    """
    book = with_observer()
    first = book.add("1", "4")
    uncommitted = book["1"].replica.log.voter_record
    second = book.add("1", "4", expected=uncommitted)
    assert book.answer(second) is None
    book.settle()
    book.run(1000)
    assert isinstance(book.answer(first), VoterChangeCompleted)
    answer = book.answer(second)
    assert isinstance(answer, Refused)
    assert answer.refusal is Refusal.VOTER_ALREADY_ADDED
    assert controls(book, "2", AddVoter) == 3 + 1


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.membership.voter_changes:advance",
    "(ruled_out := _ruled_out(replica, change))",
    "(ruled_out := None)",
)
def test_remove_that_waits_for_the_same_remove_is_answered_as_not_found():
    """S11, for RemoveVoter."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1500)
    book.remove("1", "4")
    second = book.remove("1", "4", expected=book["1"].replica.log.voter_record)
    book.settle()
    book.run(1000)
    answer = book.answer(second)
    assert isinstance(answer, Refused)
    assert answer.refusal is Refusal.VOTER_ALREADY_REMOVED
    assert controls(book, "2", RemoveVoter) == 1


@pytest.mark.rule("S11")
@pytest.mark.without(
    "core.membership.voter_changes:_take_in",
    "if pending.same_as(change):",
    "if False:",
)
def test_identical_request_shares_the_wait():
    """S11. Taking the comparison out of `voter_changes._take_in` makes this fail."""
    book = with_observer()
    expected = book["1"].replica.log.voter_record
    book.isolate("4")
    book.run(2500)
    requests = [book.add("1", "4", expected=expected, within_ms=9000) for _ in range(2)]
    assert [book.answer(request) for request in requests] == [None, None]
    book.heal()
    book.run(3000)
    assert all(isinstance(book.answer(request), VoterChangeCompleted) for request in requests)
    assert controls(book, "2", AddVoter) == 3 + 1
