"""What clients and administrators are told when something cannot be done, and by which request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import (
    AppendAccepted,
    Done,
    LeadershipLost,
    Refused,
    VoterChangeCompleted,
)
from raftnode.core.events import (
    ClusterJoined,
    LatchReceived,
    ReassignmentRequested,
    Target,
)
from raftnode.core.membership import raft_version, voter_changes
from raftnode.core.membership.pending_change import PendingChange, PendingTarget
from raftnode.core.membership.pending_wait import PendingUpgrade
from raftnode.core.reasons.refusals import (
    AmbiguousId,
    AnotherTargetWaits,
    AnotherUpgradeWaits,
    AssignmentChanged,
    CannotTakeOver,
    DiskFull,
    FormationIncomplete,
    IdListedTwice,
    IdNotConfigured,
    LastOfItsId,
    LeadershipEnded,
    LeadershipEndedBeforeCommit,
    NotCommittedInTime,
    NotListed,
    NotStartedInTime,
    NotTheLeader,
    OtherCluster,
    Reason,
    ReassignmentPending,
    Refusal,
    TargetNeedsVersion,
    TooManyChanges,
    TooMuchUncommitted,
    UnknownId,
    UnknownVersion,
    VotersChanged,
)
from raftnode.core.reasons.waits import Awaited, CaughtUpMajority, NewerPrograms
from raftnode.core.roles import Confirmation
from raftnode.core.state import Latch
from raftnode.core.types import Epoch, NodeId, Offset, Voter, VoterRecordId, VoterSet

ASKING: dict[str, Callable[[Playbook, str], int]] = {
    "append": lambda book, name: book.append(name, b"data"),
    "confirm": lambda book, name: book.confirm(name),
    "add": lambda book, name: book.add(name, "4"),
    "remove": lambda book, name: book.remove(name, "3"),
    "transfer": lambda book, name: book.transfer(name),
    "upgrade": lambda book, name: book.upgrade(name, 2),
}


def refused(book: Playbook, request_id: int) -> Refused:
    answer = book.answer(request_id)
    assert isinstance(answer, Refused), answer
    assert answer.request_id == request_id
    return answer


@pytest.mark.parametrize("what", ASKING)
def test_who_does_not_lead_says_so_to_the_one_who_asked(what: str):
    book = Playbook.formed("1", "2", "3")
    answer = refused(book, ASKING[what](book, "2"))
    assert answer.refusal is Refusal.NOT_LEADER
    assert answer.reason == NotTheLeader()
    assert answer.outcome == "not_done"


@pytest.mark.parametrize(
    ("what", "refusal", "outcome"),
    [
        ("confirm", Refusal.NOT_LEADER, "not_done"),
        ("add", Refusal.LEADERSHIP_LOST, "unknown"),
    ],
)
def test_who_waits_for_a_leader_is_told_that_it_leads_no_more(
    what: str, refusal: Refusal, outcome: str
):
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("1")
    request = ASKING[what](book, "1")
    assert book.answer(request) is None
    book.run(6000)
    answer = refused(book, request)
    assert (answer.refusal, answer.outcome) == (refusal, outcome)
    assert isinstance(answer.reason, LeadershipEnded | LeadershipEndedBeforeCommit)


@pytest.mark.rule("P16", "S11", "S24")
def test_who_waits_is_told_what_the_end_of_leadership_means_for_it():
    """What is in the log may yet be committed by the next leader; nothing else may."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    replica, role = book["1"].replica, book["1"].replica.role
    record = replica.log.voter_record
    role.parked.clear()
    role.confirmations = [Confirmation(1, 99, for_read=True)]
    role.changes = [
        PendingChange("remove", Voter(key_of("3")), record, deadline_ms=0, request_ids={3, 2}),
        PendingChange(
            "remove", Voter(key_of("2")), record, deadline_ms=0, request_ids={4}, appended=Offset(7)
        ),
    ]
    role.upgrade = PendingUpgrade(2, deadline_ms=0, request_ids={5})
    role.target = PendingTarget(
        VoterSet(), None, deadline_ms=0, request_ids={6}, appended=Offset(8)
    )
    replica.become_resigned()

    def unknown(request_id: int, offset: int) -> Refused:
        return Refused(request_id, LeadershipEndedBeforeCommit(Offset(offset)), "unknown")

    def not_done(request_id: int) -> Refused:
        return Refused(request_id, LeadershipEnded())

    assert replica.effects[:7] == [
        not_done(1),
        not_done(2),
        not_done(3),
        unknown(4, 7),
        not_done(5),
        unknown(6, 8),
        LeadershipLost(replica.epoch),
    ]


def test_a_leader_that_has_too_much_in_waiting_says_how_much():
    book = Playbook.formed("1", "2", "3", config=CoreConfig(max_uncommitted_bytes=10))
    book.isolate("2", "3")
    assert isinstance(book.answer(book.append("1", b"x" * 8)), AppendAccepted)
    answer = refused(book, book.append("1", b"x" * 3))
    assert answer.refusal is Refusal.TOO_MUCH_UNCOMMITTED
    assert answer.reason == TooMuchUncommitted(8)


@pytest.mark.rule("P28", "P30", "S11")
def test_a_committed_change_tells_the_set_and_its_record():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    log = book["1"].replica.log
    for ask in (lambda: book.add("1", "4"), lambda: book.remove("1", "2")):
        at, request = VoterRecordId(log.end, Epoch(1)), ask()
        book.run(1000)
        assert log.voter_record == at
        assert book.answer(request) == VoterChangeCompleted(request, at, log.voters)


def test_full_disk_is_named():
    book = Playbook.formed("1")
    book.disk_space("1", low=True)
    answer = refused(book, book.append("1", b"data"))
    assert answer.refusal is Refusal.STORAGE_FULL
    assert answer.reason == DiskFull()
    book.disk_space("1", low=False)
    assert isinstance(book.answer(book.append("1", b"data")), AppendAccepted)


def test_leadership_is_handed_to_no_voter_that_could_not_take_it():
    book = Playbook.formed("1", "2", "3")
    book.isolate("2", "3")
    book.run(book.config.leader_timeout_ms - 100)
    assert book["1"].role == "leader"
    for wanted in ("2", None):
        answer = refused(book, book.transfer("1", wanted))
        assert answer.refusal is Refusal.WAITING
        assert answer.reason == CannotTakeOver(wanted and key_of(wanted), able=())
        assert book["1"].role == "leader"


def test_leadership_is_handed_to_the_one_that_is_caught_up_only():
    book = Playbook.formed("1", "2", "3")
    book.isolate("3")
    book.run(book.config.leader_timeout_ms - 100)
    answer = refused(book, book.transfer("1", "3"))
    assert answer.reason == CannotTakeOver(key_of("3"), able=(key_of("2"),))
    request = book.transfer("1", "2")
    assert book.answer(request) == Done(request)
    assert book["1"].role == "resigned"


def test_second_upgrade_to_another_version_is_refused_while_one_waits():
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.isolate("3")
    book.run(book.config.fetch_timeout_ms)
    first = book.upgrade("1", 1)
    assert book.answer(first) is None
    answer = refused(book, book.upgrade("1", 2))
    assert answer.refusal is Refusal.TOO_MANY_CHANGES
    assert answer.reason == AnotherUpgradeWaits(1)
    same = book.upgrade("1", 1)
    assert book.answer(same) is None, "an identical request shares the wait"


def test_unknown_raft_version_is_refused_by_name():
    book = Playbook.formed("1", "2", "3")
    for version in (-1, 3):
        answer = refused(book, book.upgrade("1", version))
        assert answer.refusal is Refusal.UNSUPPORTED_VERSION
        assert answer.reason == UnknownVersion(version, known=2)


@pytest.mark.rule("P33", "S15")
def test_target_that_cannot_be_is_refused_with_the_reason():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1500)
    reborn = book.wipe("4")
    book.run(1500)
    fours = frozenset({key_of("4"), key_of(reborn)})
    for targets, reason in [
        (("1", "#4"), AmbiguousId(NodeId(4), fours)),
        (("1", "4", reborn), IdListedTwice()),
        (("1", "#9"), UnknownId(NodeId(9))),
    ]:
        assert refused(book, book.reassign("1", *targets)).reason == reason
    assert refused(book, book.reassign("2", "1")).reason == NotTheLeader()
    book.isolate("2", "3")
    book.reassign("1", "1", "2")
    answer = refused(book, book.reassign("1", "1", "3"))
    assert answer.refusal is Refusal.TOO_MANY_CHANGES
    assert answer.reason == AnotherTargetWaits(book["1"].replica.log.target_voters)


@pytest.mark.rule("P33", "P54", "S11")
def test_target_of_another_version_or_of_voters_as_they_were_is_refused_with_what_is_now():
    book = Playbook.formed("1", "2", "3", raft_version=1)
    book.run(1500)
    answer = refused(book, book.reassign("1", "1", "2"))
    assert answer.refusal is Refusal.UNSUPPORTED_VERSION
    assert answer.reason == TargetNeedsVersion(1, needed=2)
    book = Playbook.formed("1", "2", "3")
    book.run(1500)
    now = book["1"].replica.log.assignment_record
    old = VoterRecordId(Offset(now.offset - 1), now.epoch)
    answer = refused(book, book.reassign("1", "1", "2", expected=old))
    assert answer.refusal is Refusal.STALE_VOTER_RECORD
    assert answer.reason == AssignmentChanged(now)


@pytest.mark.rule("S18")
def test_a_storage_that_belongs_somewhere_takes_no_other_latch():
    book = Playbook.formed("1", "2", "3")
    voters = book["1"].replica.log.base_voters
    for latch in (Latch("another", voters), Latch("playbook", voters.without(key_of("3")))):
        answer = refused(book, book.ask("1", lambda number, to=latch: LatchReceived(number, to)))
        assert answer.refusal is Refusal.ALREADY_FORMED
        assert answer.reason == OtherCluster("playbook")
    same = book.ask("1", lambda number: LatchReceived(number, Latch("playbook", voters)))
    assert book.answer(same) == Done(same)
    same = book.ask("1", lambda number: ClusterJoined(number, "playbook"))
    assert book.answer(same) == Done(same)
    book.blank("4")
    book.blank("5")
    joined = book.ask("5", lambda number: ClusterJoined(number, "playbook"))
    assert book.answer(joined) == Done(joined)
    observer = book["5"].replica
    assert observer.role.election_at_ms == observer.first_election_deadline()
    answer = refused(
        book, book.ask("4", lambda number: LatchReceived(number, Latch("playbook", voters)))
    )
    assert answer.refusal is Refusal.NOT_LISTED
    assert answer.reason == NotListed(key_of("4"), voters)
    assert book["4"].role == "blank"


@pytest.mark.rule("P52", "S19")
@pytest.mark.without(
    "core.replication.leadership:handle_append",
    "if replica.log.raft_version and not replica.log.formation_completed:",
    "if False:",
)
@pytest.mark.without(
    "core.membership.raft_version:_append",
    "records.extend(AddVoter(voter) for voter in replica.log.voters.voters)",
    "pass",
)
def test_writes_before_the_formation_is_complete_are_refused_with_the_reason():
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.run(1500)
    book.isolate("3")
    book.upgrade("1", 1)
    answer = refused(book, book.append("1", b"too early"))
    assert answer.refusal is Refusal.FORMATION_INCOMPLETE
    assert answer.reason == FormationIncomplete()


@pytest.mark.rule("P31", "S11")
@pytest.mark.parametrize("what", ["add", "remove"])
def test_change_that_is_appended_and_not_committed_in_time_has_an_unknown_outcome(what: str):
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("2", "3")
    end = book["1"].replica.log.end
    request = (
        book.add("1", "4", within_ms=500) if what == "add" else book.remove("1", "3", within_ms=500)
    )
    asked_at = book.now_ms
    book.run(499)
    assert book.answer(request) is None
    book.run(1)
    assert book.now_ms == asked_at + 500
    assert book.answer(request) == Refused(request, NotCommittedInTime(end), "unknown")
    [change] = book["1"].replica.role.changes
    assert (change.appended, change.request_ids) == (end, set())


@pytest.mark.rule("P31", "S24")
def test_change_that_waits_for_another_to_be_committed_is_given_up_in_time():
    book = Playbook.formed("1", "2", "3")
    for name in ("4", "5"):
        book.observer(name)
    book.run(1000)
    book.isolate("2", "3")
    book.add("1", "4", within_ms=60_000)
    request = book.add("1", "5", within_ms=500)
    assert book.answer(request) is None
    book.run(500)
    assert book.answer(request) == Refused(request, NotStartedInTime(Awaited.VOTER_CHANGE_COMMIT))


@pytest.mark.rule("P33", "S24")
def test_target_that_is_not_appended_in_time_says_what_it_waited_for():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("2", "3")
    added = book.add("1", "4", within_ms=60_000)
    assert book.answer(added) is None
    request = book.reassign("1", "1", "2", "4", within_ms=500)
    book.run(600)
    answer = refused(book, request)
    assert (answer.refusal, answer.outcome) == (Refusal.WAITING, "not_done")
    assert answer.reason == NotStartedInTime(Awaited.ASSIGNMENT_COMMIT)


@pytest.mark.rule("P33", "P35", "S11")
def test_only_a_target_is_taken_back_without_naming_the_record_that_was_seen():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    old = book["1"].replica.log.assignment_record
    book.isolate("4")
    book.run(book.config.fetch_timeout_ms + 500)
    book.reassign("1", "1", "2", "3", "4")
    book.run(1000)

    def asked(*names: str, expected: VoterRecordId | None) -> int:
        targets = tuple(Target(key_of(name).node_id) for name in names)
        return book.ask("1", lambda number: ReassignmentRequested(number, targets, expected, 10**6))

    for request in (asked(expected=old), asked("1", "2", expected=None)):
        assert refused(book, request).refusal is Refusal.STALE_VOTER_RECORD
    request = asked(expected=None)
    book.run(1000)
    assert book.answer(request) == Done(request)
    assert not book["1"].replica.log.target_voters


@pytest.mark.rule("P33", "S11")
def test_target_that_waits_is_told_when_a_voter_change_was_first():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book["2"].flushes = book["3"].flushes = False
    book.add("1", "4")
    book.remove("1", "3")
    request = book.reassign("1", "1", "2")
    assert book.answer(request) is None
    book["2"].flushes = book["3"].flushes = True
    book.run(1000)
    assert book.voters("1") == "{1,2,4}"
    answer = refused(book, request)
    assert (answer.refusal, answer.outcome) == (Refusal.STALE_VOTER_RECORD, "not_done")
    assert answer.reason == AssignmentChanged(book["1"].replica.log.assignment_record)
    assert book["1"].replica.role.target is None


@pytest.mark.rule("P33", "S11")
def test_target_that_is_appended_and_not_committed_in_time_has_an_unknown_outcome():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("2", "3")
    end = book["1"].replica.log.end
    request = book.reassign("1", "1", "2", "4", within_ms=500)
    book.abandon("1", 12345)
    assert book["1"].replica.log.end > end
    book.run(600)
    assert book.answer(request) == Refused(request, NotCommittedInTime(end), "unknown")


@pytest.mark.rule("S24")
def test_target_in_the_log_stays_wanted_though_no_client_waits_for_it():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("2", "3")
    request = book.reassign("1", "1", "2", "4")
    role = book["1"].replica.role
    book.abandon("1", request)
    assert role.target is not None
    assert role.target.request_ids == set()
    book.heal()
    book.run(5000)
    assert book.voters("1") == "{1,2,4}"
    assert book.answer(request) is None


@pytest.mark.rule("P29")
def test_as_many_changes_wait_as_the_configuration_says():
    book = Playbook.formed("1", "2", "3", config=CoreConfig(pending_changes_max=2))
    for name in ("4", "5", "6"):
        book.observer(name)
    book.run(1000)
    book.isolate("2", "3", "4", "5", "6")
    book.run(book.config.fetch_timeout_ms)
    waiting = [book.add("1", name) for name in ("4", "5")]
    assert [book.answer(one) for one in waiting] == [None, None]
    answer = refused(book, book.add("1", "6"))
    assert answer.refusal is Refusal.TOO_MANY_CHANGES
    assert answer.reason == TooManyChanges(2)


@pytest.mark.rule("P29", "P30", "S11")
@pytest.mark.without(
    "core.membership.voter_changes:_without_effect",
    'if change.kind == "add" and present:',
    "if False:",
)
def test_what_is_so_already_is_said_whatever_it_was_compared_with():
    """A client that asks again after a timeout compares with a record that its own change replaced."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    old = book["1"].replica.log.voter_record
    book.add("1", "4")
    book.run(1000)
    book.remove("1", "3")
    book.run(1000)
    assert book.voters("1") == "{1,2,4}"
    answer = refused(book, book.add("1", "4", expected=old))
    assert answer.refusal is Refusal.VOTER_ALREADY_ADDED
    answer = refused(book, book.remove("1", "3", expected=old))
    assert answer.refusal is Refusal.VOTER_ALREADY_REMOVED


@pytest.mark.rule("S11")
def test_a_change_that_waits_is_told_when_another_was_first():
    book = Playbook.formed("1", "2", "3")
    for name in ("4", "5"):
        book.observer(name)
    book.run(1000)
    book.isolate("5")
    book.run(book.config.fetch_timeout_ms + 500)
    expected = book["1"].replica.log.voter_record
    waiting = book.add("1", "5", within_ms=60_000)
    assert book.answer(waiting) is None
    book.add("1", "4")
    answer = refused(book, waiting)
    assert (answer.refusal, answer.outcome) == (Refusal.STALE_VOTER_RECORD, "not_done")
    assert answer.reason == VotersChanged(expected, book["1"].replica.log.voter_record)


@pytest.mark.rule("P31", "P33", "P56")
def test_what_is_in_the_log_says_that_it_waits_for_a_majority():
    book = Playbook.formed("1", "2", "3", raft_version=1)
    reborn = book.wipe("3")
    book.run(1000)
    book.isolate("2", reborn)
    role = book["1"].replica.role
    book.add("1", reborn)
    [change] = role.changes
    assert change.waiting_for is Awaited.NEW_MAJORITY
    book.heal()
    book.run(1000)
    book.remove("1", "3")
    book.run(1000)
    book.isolate("2", reborn)
    book.upgrade("1", 2)
    assert role.upgrade.waiting_for is Awaited.MAJORITY
    book.heal()
    book.run(1000)
    book.isolate("2", reborn)
    book.reassign("1", "1", "2")
    assert role.target.waiting_for is Awaited.MAJORITY


@pytest.mark.rule("S13", "S23")
def test_a_change_that_waits_for_a_majority_says_how_many_it_has_and_needs():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.isolate("2", "3")
    book.run(book.config.fetch_timeout_ms + 500)
    assert book.answer(book.add("1", "4")) is None
    [change] = book["1"].replica.role.changes
    assert change.waiting_for == CaughtUpMajority(2, of=4, needed=3)


@pytest.mark.rule("P29", "P30", "P54", "S12")
def test_what_a_version_rules_out_is_refused_with_what_to_do_about_it():
    book = Playbook.formed("1", "2", "3", raft_version=1)
    book.observer("4")
    book.run(1500)
    voters = book["1"].replica.log.voters
    assert refused(book, book.add("1", "4")).reason == IdNotConfigured(NodeId(4), voters)
    assert refused(book, book.remove("1", "3")).reason == LastOfItsId(key_of("3"))


@pytest.mark.rule("P34", "P35")
def test_while_voters_are_reassigned_no_other_request_changes_them():
    """Who is asked for makes no difference, in the target or not."""
    book = Playbook.formed("1", "2", "3")
    for name in ("4", "5"):
        book.observer(name)
    book.run(1000)
    book.isolate("4")
    book.run(book.config.fetch_timeout_ms + 500)
    book.reassign("1", "1", "2", "3", "4", within_ms=60_000)
    book.run(1000)
    assert book["1"].replica.log.target_voters
    for request in (book.add("1", "4"), book.add("1", "5"), book.remove("1", "3")):
        answer = refused(book, request)
        assert answer.refusal is Refusal.REASSIGNMENT_PENDING
    assert book.voters("1") == "{1,2,3}"


@pytest.mark.rule("P34", "S23")
def test_what_the_leader_wants_by_itself_gives_way_only_to_a_target_that_has_its_voter():
    """A removal after a replacement that came before the target."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("2", "3")
    book.reassign("1", "1", "2")
    replica = book["1"].replica
    assert set(replica.log.target_voters) == {key_of("1"), key_of("2")}

    def ruled_out(name: str) -> Reason | None:
        record = replica.log.voter_record
        own = PendingChange("remove", Voter(key_of(name)), record, deadline_ms=replica.now_ms)
        return voter_changes._ruled_out(replica, own)

    assert ruled_out("3") is None
    assert ruled_out("2") == ReassignmentPending(replica.log.target_voters)


@pytest.mark.rule("P56")
def test_upgrade_waits_for_what_is_appended_and_not_committed():
    """The record may be the very next one to be committed."""
    book = Playbook.formed("1", "2", "3", raft_version=1)
    reborn = book.wipe("3")
    book.run(1000)
    book.isolate("2", reborn)
    replica = book["1"].replica
    book.add("1", reborn)
    assert replica.log.voter_record.offset == replica.high_watermark
    assert raft_version.obstacle(replica, replica.role, 2) is Awaited.VOTER_CHANGE_COMMIT
    book.heal()
    book.run(2000)
    book.remove("1", "3")
    book.run(2000)
    book.isolate("2", reborn)
    book.upgrade("1", 2)
    assert replica.log.raft_version_record == replica.high_watermark
    assert raft_version.obstacle(replica, replica.role, 2) is Awaited.UPGRADE_COMMIT


@pytest.mark.rule("P56")
def test_upgrade_to_the_version_that_is_ends_at_once():
    for version in (0, 1, 2):
        book = Playbook.formed("1", "2", "3", raft_version=version)
        book.run(1000)
        request = book.upgrade("1", version)
        assert book.answer(request) == Done(request)


@pytest.mark.rule("P56")
def test_upgrade_asks_the_programs_of_voters_and_of_observers_that_are_there():
    book = Playbook.formed("1", "2", "3", raft_version=1)
    book.observer("4")
    book.run(1000)
    replica = book["1"].replica
    known = replica.role.progress[key_of("4")]
    known.raft_version_max = 1
    waits_for = NewerPrograms(2, frozenset({key_of("4")}))
    assert raft_version.obstacle(replica, replica.role, 2) == waits_for
    known.last_fetch_ms = book.now_ms - book.config.fetch_timeout_ms - 1
    assert raft_version.obstacle(replica, replica.role, 2) is None


@pytest.mark.rule("S24")
def test_giving_one_change_up_gives_up_that_one_wherever_it_stands():
    book = Playbook.formed("1", "2", "3")
    for name in ("4", "5"):
        book.observer(name)
    book.run(1000)
    book.isolate("2", "3", "4", "5")
    book.run(book.config.fetch_timeout_ms)
    kept, given_up = book.add("1", "4"), book.add("1", "5")
    book.abandon("1", given_up)
    assert [change.request_ids for change in book["1"].replica.role.changes] == [{kept}]


@pytest.mark.rule("S24", "P56")
def test_upgrade_is_given_up_with_the_last_that_waits_for_it_unless_it_is_in_the_log():
    book = Playbook.formed("1", "2", "3", raft_version=0)
    book.isolate("3")
    book.run(book.config.fetch_timeout_ms)
    first, second = book.upgrade("1", 1), book.upgrade("1", 1)
    role = book["1"].replica.role
    book.abandon("1", first)
    assert role.upgrade is not None
    assert role.upgrade.request_ids == {second}
    role.upgrade.appended = book["1"].replica.high_watermark
    book.abandon("1", second)
    assert role.upgrade is not None
    role.upgrade.appended = None
    role.upgrade.request_ids.add(second)
    book.abandon("1", second)
    assert role.upgrade is None


@pytest.mark.rule("S23")
@pytest.mark.parametrize("replaced", ["4", "9"])
def test_nothing_is_removed_for_what_replaces_itself_or_no_voter(replaced: str):
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    book.add("1", "4", replaces=replaced)
    book.run(3000)
    assert book.voters("1") == "{1,2,3,4}"
    assert book["1"].replica.role.changes == []


@pytest.mark.rule("S23")
def test_removal_of_what_was_replaced_waits_for_so_long_and_for_no_answer():
    book = Playbook.formed("1", "2", "3")
    book.observer("3'")
    book.run(1000)
    book.add("1", "3'", replaces="3")
    role = book["1"].replica.role
    for _ in range(100):
        removal = [change for change in role.changes if change.kind == "remove"]
        if removal or not book.deliver(limit=1):
            break
        for node in book.nodes.values():
            node.flush(book.now_ms)
    [removal] = removal
    assert removal.key == key_of("3")
    assert removal.request_ids == set()
    assert removal.deadline_ms == book.now_ms + 5 * book.config.fetch_timeout_ms
