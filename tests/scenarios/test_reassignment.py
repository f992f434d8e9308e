"""P33-P37, S15: from the voters that are to those that are asked for, whichever replica leads."""

import random

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import (
    Done,
    Fact,
    Refused,
    SendRequest,
    VoterChangeCompleted,
)
from raftnode.core.elections import leadership_transfer
from raftnode.core.events import Target
from raftnode.core.log_head import LogHead
from raftnode.core.log_index import LogIndex
from raftnode.core.membership import voter_changes
from raftnode.core.membership.reassignment import _transfer_leadership, _voter, differences
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.reasons.waits import (
    Awaited,
    BlockedStep,
    BlockedSteps,
    CatchUp,
    CaughtUpMajority,
    SuccessorLeadership,
    SuccessorLog,
)
from raftnode.core.records import AddVoter, Batch, RemoveVoter, TargetVoters
from raftnode.core.replica import Replica
from raftnode.core.replication.progress import Progress
from raftnode.core.roles import Leader, Resigned
from raftnode.core.state import QuorumState
from raftnode.core.types import (
    FIRST_OFFSET,
    Endpoint,
    Epoch,
    LogPosition,
    NodeId,
    Offset,
    Voter,
    VoterRecordId,
    VoterSet,
)


def voters_of(*names: str) -> VoterSet:
    return VoterSet.of(Voter(key_of(name)) for name in names)


def refusal_of(book: Playbook, request: int) -> Refusal | None:
    answer = book.answer(request)
    return answer.refusal if isinstance(answer, Refused) else None


def steps(book: Playbook, name: str) -> list[str]:
    """Every change of the voters after the formation, in order: `+4`, `-1`, `target`, `done`."""
    found: list[str] = []
    for batch in book[name].disk.log:
        for control in batch.control if len(batch.control) == 1 else ():
            match control:
                case AddVoter(voter):
                    found.append(f"+{voter.key.node_id}")
                case RemoveVoter(key):
                    found.append(f"-{key.node_id}")
                case TargetVoters(voters):
                    found.append("target" if voters else "done")
    return found


def with_observers(*names: str, voters: tuple[str, ...] = ("1", "2", "3")) -> Playbook:
    book = Playbook.formed(*voters)
    for name in names:
        book.observer(name)
    book.run(1500)
    return book


@pytest.mark.rule("P33", "P34")
@pytest.mark.without(
    "core.membership.reassignment:_step",
    "[voter for voter in going if voter.key != replica.key]",
    "list(going)",
    "core.membership.voter_changes:_confirm_majority",
    "if there < after.majority:",
    "if False:",
)
def test_all_voters_are_replaced_and_the_leader_goes_last():
    """KIP-642's own example. Letting the leader be removed first makes this fail."""
    book = with_observers("4", "5", "6")
    request = book.reassign("1", "4", "5", "6")
    book.settle()
    assert book.answer(request) == Done(request)
    book.run(15_000)
    [leader] = book.leaders
    assert leader in {"4", "5", "6"}
    assert book.voters(leader) == "{4,5,6}"
    assert steps(book, leader) == ["target", "+4", "-2", "+5", "-3", "+6", "-1", "done"]
    assert not book[leader].replica.log.target_voters
    assert book["1"].role in {"follower", "unattached"}
    book.append(leader, b"goes on")
    book.run(1000)
    assert b"goes on" in book["1"].records  # as an observer


@pytest.mark.rule("P34")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("1", "2", "3", "4", "5"), ["target", "+4", "+5", "done"]),
        (("1",), ["target", "-2", "-3", "done"]),
        (("1", "2", "4"), ["target", "+4", "-3", "done"]),
        (("1", "4"), ["target", "-2", "+4", "-3", "done"]),
        (("1", "2", "3"), []),
    ],
    ids=["grow", "shrink", "swap", "shrink-and-swap", "same"],
)
def test_additions_come_before_removals_while_as_many_are_to_come(
    target: tuple[str, ...], expected: list[str]
):
    """Turning `len(coming) >= len(going)` round in `reassignment._step` makes this fail."""
    book = with_observers("4", "5")
    request = book.reassign("1", *target)
    book.run(6000)
    assert book.answer(request) == Done(request)
    assert steps(book, "1") == expected
    assert book.voters("1") == "{" + ",".join(target) + "}"


@pytest.mark.rule("P34")
def test_of_those_that_are_to_go_the_ones_that_are_gone_anyway_go_first():
    book = with_observers(voters=("1", "2", "3", "4", "5"))
    book.isolate("5")
    book.run(2500)
    book.reassign("1", "1", "2", "3")
    book.run(3000)
    assert steps(book, "1") == ["target", "-5", "-4", "done"]


@pytest.mark.rule("P34", "S10")
def test_the_end_is_told_at_once_to_who_waits_when_the_leaders_own_disk_was_the_last():
    book = with_observers()
    replica, role = book["1"].replica, book["1"].replica.role
    book.reassign("1", "1", "2")
    while book.deliver(limit=1) and not role.changes:
        for node in book.nodes.values():
            node.flush(book.now_ms)
    book["1"].flushes = False
    book.settle()
    assert (replica.log.voters.majority, len(role.changes)) == (2, 1)
    assert key_of("2") in role.parked
    book["1"].flush(book.now_ms)
    assert (role.changes, role.parked) == ([], {})
    assert steps(book, "1") == ["target", "-3", "done"]


@pytest.mark.rule("P34", "S13")
def test_a_step_that_cannot_be_made_says_what_each_way_waits_for():
    book = with_observers(voters=("1", "2", "3", "4", "5"))
    book.isolate("4", "5")
    book.run(2500)
    book.reassign("1", "1", "4", "5")
    book.run(500)
    majority = CaughtUpMajority(2, of=4, needed=3)
    assert book["1"].replica.role.step_waits_for == BlockedSteps(
        tuple(BlockedStep("remove", key_of(name), majority) for name in ("2", "3"))
    )


@pytest.mark.rule("P34", "P37")
@pytest.mark.without(
    "core.membership.voter_changes:obstacle",
    'if change.kind == "add" and not _caught_up(replica, role, change.key):',
    "if False:",
)
@pytest.mark.without(
    "core.membership.reassignment:_first_that_may", "if waiting_for is None:", "if True:"
)
def test_observer_is_added_only_once_it_is_caught_up():
    """Another that is caught up goes first. Taking `_caught_up` out of `obstacle` fails this."""
    book = with_observers("4", "5")
    book.isolate("4")
    book.run(2500)
    book.reassign("1", "1", "2", "3", "4", "5")
    book.run(1000)
    assert steps(book, "1") == ["target", "+5"]
    described = book["1"].core.describe()
    assert described.target_committed
    assert described.step_waits_for == BlockedSteps(
        (BlockedStep("add", key_of("4"), CatchUp(key_of("4"))),)
    )
    book.heal()
    book.run(2500)
    assert steps(book, "1") == ["target", "+5", "+4", "done"]


@pytest.mark.rule("P34", "P28")
@pytest.mark.without(
    "core.membership.reassignment:_step",
    "(reason := _not_settled(replica, role))",
    "(reason := None)",
)
def test_next_step_waits_until_the_last_is_committed():
    """Taking `_not_settled` out of `reassignment._step` makes this fail."""
    book = with_observers("4", "5")
    for name in ("2", "3", "4"):
        book[name].flushes = False
    book.reassign("1", "1", "2", "3", "4", "5")
    book.run(400)
    assert steps(book, "1") == ["target"]
    assert book.voters("1") == "{1,2,3}"
    for name in ("2", "3", "4"):
        book[name].flushes = True
    book.run(2500)
    assert steps(book, "1") == ["target", "+4", "+5", "done"]


@pytest.mark.rule("P34", "P28")
@pytest.mark.without(
    "core.membership.reassignment:_not_settled",
    "if not leadership.epoch_committed(replica, role):",
    "if False:",
    "core.membership.voter_changes:obstacle",
    "if not leadership.epoch_committed(replica, role):",
    "if False:",
)
def test_successor_takes_no_step_before_an_entry_of_its_own_epoch_is_committed():
    """The guard that KIP-642 lacks. Taking it out of `_not_settled` and `obstacle` fails this.

    1 adds 4, and no replica hears of it. 2 leads with the target in its log and must not add 5 before
    its epoch's entry is committed: {1,2,3,4} and {1,2,3,5} have majorities that do not meet.
    """
    book = with_observers("4", "5")
    book["2"].flushes = book["3"].flushes = True
    request = book.reassign("1", "1", "2", "3", "4", "5")
    book.settle()
    assert book.answer(request) == Done(request)
    book = with_observers("4", "5")
    book.reassign("1", "1", "2", "3", "4", "5")
    book["1"].flush(book.now_ms)
    while book["2"].replica.log.end < book["1"].replica.log.end:
        book.deliver()
        book["2"].flush(book.now_ms)
    assert book["2"].replica.log.target_voters
    book.isolate("1")
    book.drop()
    book["3"].flushes = False
    book.elect("2")
    role = book["2"].replica.role
    for name in ("3", "4", "5"):
        # As far as catching up goes, nothing speaks against a step.
        progress = role.progress.setdefault(key_of(name), type(role.progress[key_of("3")])())
        progress.last_fetch_ms = progress.round_started_ms = book.now_ms
        progress.round_ms = 0
    # The target itself is below what 2 takes for committed; its own entry is not.
    book["2"].replica.high_watermark = Offset(role.epoch_start)
    book.wait(10, "2")
    assert book.voters("2") == "{1,2,3}"
    assert role.step_waits_for is Awaited.OWN_EPOCH_COMMIT
    book["3"].flushes = True
    book.run(3000)
    assert book.voters("2") == "{1,2,3,4,5}"


@pytest.mark.rule("P34")
@pytest.mark.parametrize("after", range(9))
def test_any_leader_goes_on_from_any_step(after: int):
    """The leader dies after its n-th record; the others end where it wanted to go.

    Keeping the target in memory instead of in the log makes this fail.
    """
    book = with_observers("4", "5", "6")
    book.reassign("1", "4", "5", "6")
    wanted = len(book["1"].disk.log) + after
    for _ in range(4000):
        book.run(1)
        [*leaders] = book.leaders
        if not leaders or len(book[leaders[0]].disk.log) >= wanted:
            break
    crashed = book.leaders[0] if book.leaders else None
    if crashed:
        book.crash(crashed)
        book.run(10_000)
        book.restart(crashed)
    book.run(30_000)
    [leader] = book.leaders
    assert book.voters(leader) == "{4,5,6}"
    assert steps(book, leader)[-1] == "done"


@pytest.mark.rule("P34", "P32")
@pytest.mark.without(
    "core.log_index:LogIndex.truncate",
    "while self.targets and",
    "while False and",
)
def test_target_that_is_not_committed_is_cut_off_with_its_log():
    """Taking `targets` out of `LogIndex.truncate` makes this fail."""
    book = with_observers("4")
    book.isolate("1")
    request = book.reassign("1", "1", "2", "4")
    assert book["1"].replica.log.target_voters
    book["1"].flush(book.now_ms)
    book.drop()
    book.run(6000)
    assert refusal_of(book, request) is Refusal.LEADERSHIP_LOST
    book.heal()
    book.run(6000)
    assert not book["1"].replica.log.target_voters
    assert book.voters("1") == "{1,2,3}"


@pytest.mark.rule("P35")
@pytest.mark.without(
    "core.membership.reassignment:_stale",
    "taken_back or ",
    "",
)
def test_reassignment_is_taken_back_and_what_was_done_stays():
    book = with_observers("4", "5")
    book.isolate("5")
    book.run(2500)
    book.reassign("1", "1", "2", "3", "4", "5")
    book.run(1500)
    assert book.voters("1") == "{1,2,3,4}"
    request = book.reassign("1")
    book.run(500)
    assert book.answer(request) == Done(request)
    book.heal()
    book.run(4000)
    assert book.voters("1") == "{1,2,3,4}"
    again = book.reassign("1")
    assert book.answer(again) == Done(again)


@pytest.mark.rule("P35")
def test_pending_target_is_replaced_by_another_or_by_the_old_set():
    """In the middle of {1,2,3} to {1,4,5}: back to {1,2,3}, as KIP-642 has it."""
    book = with_observers("4", "5")
    book.isolate("5")
    book.run(2500)
    book.reassign("1", "1", "4", "5")
    book.run(2000)
    assert book.voters("1") != "{1,2,3}"
    request = book.reassign("1", "1", "2", "3")
    book.run(4000)
    assert book.answer(request) == Done(request)
    assert book.voters("1") == "{1,2,3}"
    assert steps(book, "1")[-1] == "done"


@pytest.mark.rule("P33", "S11")
@pytest.mark.without(
    "core.membership.reassignment:_stale",
    "if taken_back or pending.expected == now:",
    "if True:",
)
def test_target_is_compared_and_set():
    """Comparing nothing in `reassignment._stale` makes this fail."""
    book = with_observers("4")
    seen = book["1"].replica.log.assignment_record
    book.reassign("1", "1", "2", "3", "4")
    book.run(2000)
    late = book.reassign("1", "1", "2", "3", expected=seen)
    assert refusal_of(book, late) is Refusal.STALE_VOTER_RECORD
    assert book.voters("1") == "{1,2,3,4}"


@pytest.mark.rule("P33", "S11")
def test_same_target_is_joined_another_has_to_wait():
    book = with_observers("4", "5")
    book["2"].flushes = book["3"].flushes = False
    first = book.reassign("1", "1", "2", "3", "4")
    again = book.reassign("1", "1", "2", "3", "4")
    other = book.reassign("1", "1", "2", "3", "5")
    assert refusal_of(book, other) is Refusal.TOO_MANY_CHANGES
    assert book.answer(first) is None
    book["2"].flushes = book["3"].flushes = True
    book.run(500)
    assert book.answer(first) == Done(first)
    assert book.answer(again) == Done(again)


@pytest.mark.rule("P34")
@pytest.mark.without(
    "core.membership.voter_changes:_ruled_out",
    "or _crosses_target(replica, change)",
    "",
)
def test_voters_are_not_changed_by_hand_meanwhile():
    """Taking `_crosses_target` out of `voter_changes._ruled_out` makes this fail."""
    book = with_observers("4", "5")
    book.isolate("5")
    book.run(2500)
    waits = book.add("1", "5")
    assert book.answer(waits) is None
    book.reassign("1", "1", "2", "3", "4", "5")
    book.run(1000)
    assert refusal_of(book, waits) in {Refusal.REASSIGNMENT_PENDING, Refusal.STALE_VOTER_RECORD}
    for change in (book.add("1", "5"), book.remove("1", "3")):
        assert refusal_of(book, change) is Refusal.REASSIGNMENT_PENDING
    book.reassign("1")
    book.heal()
    book.run(2000)
    removed = book.remove("1", "3")
    book.run(1000)
    assert isinstance(book.answer(removed), VoterChangeCompleted)


@pytest.mark.rule("S11", "P34")
def test_who_asks_for_the_very_step_that_is_under_way_waits_with_it():
    book = with_observers("4")
    role, before = book["1"].replica.role, book["1"].replica.log.voter_record
    book.reassign("1", "1", "2", "3", "4")
    while not role.changes:
        assert book.deliver(limit=1)
        for node in book.nodes.values():
            node.flush(book.now_ms)
    joined = book.add("1", "4", expected=before)
    assert book.answer(joined) is None
    book.run(1000)
    assert isinstance(book.answer(joined), VoterChangeCompleted)
    assert steps(book, "1") == ["target", "+4", "done"]


@pytest.mark.rule("S15")
def test_target_is_pinned_to_the_disk_that_it_had():
    """A disk that is lost meanwhile is not replaced in the target by the next of its id."""
    book = with_observers("4")
    book.isolate("4")
    book.run(2500)
    request = book.reassign("1", "1", "2", "3", "#4")
    book.run(500)
    assert book.answer(request) == Done(request)
    book.heal()
    book.crash("4")
    book.wipe("4")
    book.run(6000)
    assert book.voters("1") == "{1,2,3}"
    assert [str(key) for key in book["1"].replica.log.target_voters][-1] == str(key_of("4"))


@pytest.mark.rule("S15")
@pytest.mark.without(
    "core.membership.reassignment:_pinned",
    "if len(keys) > 1:",
    "if False:",
)
@pytest.mark.without(
    "core.membership.reassignment:_pinned",
    "if not keys:",
    "if not keys:\n            continue\n        if False:",
)
def test_ambiguous_and_unknown_ids_are_refused():
    """Taking either refusal out of `reassignment._pinned` makes this fail."""
    book = with_observers("4")
    reborn = book.wipe("4")
    book.run(1500)
    assert refusal_of(book, book.reassign("1", "1", "#4")) is Refusal.AMBIGUOUS_VOTER
    assert refusal_of(book, book.reassign("1", "1", "4", reborn)) is Refusal.AMBIGUOUS_VOTER
    assert refusal_of(book, book.reassign("1", "1", "#9")) is Refusal.NOT_AN_OBSERVER
    assert refusal_of(book, book.reassign("2", "1", "2")) is Refusal.NOT_LEADER
    named = book.reassign("1", "1", "2", "3", reborn)
    book.run(2000)
    assert book.answer(named) == Done(named)
    assert book.voters("1") == "{1,2,3,4'}"


@pytest.mark.rule("P54")
@pytest.mark.parametrize("version", [0, 1])
def test_no_reassignment_before_version_2(version: int):
    book = Playbook.formed("1", "2", "3", raft_version=version)
    book.run(1500)
    assert refusal_of(book, book.reassign("1", "1", "2")) is Refusal.UNSUPPORTED_VERSION


@pytest.mark.rule("S15")
def test_place_of_a_target_is_the_one_asked_for_else_the_recorded_else_the_one_it_fetches_from():
    places = [Endpoint(f"{name}.example", 9093) for name in ("asked", "recorded", "fetching")]
    asked, recorded, fetching = places
    one, two, three, four = (key_of(name) for name in ("1", "2", "3", "4"))
    log = LogIndex(VoterSet.of([Voter(one), Voter(two, recorded)]))
    replica = Replica(one, CoreConfig(), random.Random(0), log, QuorumState(Epoch(1)), "c")
    known = {two: Progress(endpoint=fetching), three: Progress(endpoint=fetching)}
    role = Leader(Epoch(1), 0, progress=known)
    for key, place in [(two, recorded), (three, fetching), (four, None)]:
        assert _voter(replica, role, key, Target(key.node_id)) == Voter(key, place)
        named = Target(key.node_id, endpoint=asked)
        assert _voter(replica, role, key, named) == Voter(key, asked)


@pytest.mark.rule("P34")
def test_lone_voter_transfers_leadership_to_its_successor():
    """{1} to {2}: only 2 can remove 1."""
    book = with_observers("2", voters=("1",))
    book.reassign("1", "2")
    book.run(8000)
    assert book.leaders == ["2"]
    assert book.voters("2") == "{2}"
    assert steps(book, "2") == ["target", "+2", "-1", "done"]


@pytest.mark.rule("P34")
@pytest.mark.without(
    "core.membership.reassignment:_transfer_leadership",
    "voter_changes.caught_up_voters(replica, role, replica.log.target_voters)",
    "[key for key in replica.log.target_voters if key != replica.key]",
)
def test_leader_that_no_voter_can_succeed_stays(monkeypatch: pytest.MonkeyPatch):
    """Taking the caught-up voters out of `_transfer_leadership` makes this fail."""
    book = Playbook.formed("1", "2")
    book.run(1500)
    monkeypatch.setattr(voter_changes, "caught_up_voters", lambda *_: [])
    book.reassign("1", "2")
    book.run(1000)
    assert book["1"].role == "leader"
    assert book["1"].replica.role.step_waits_for is Awaited.SUCCESSOR
    monkeypatch.undo()
    book.run(4000)
    assert (book.leaders, book.voters("2")) == (["2"], "{2}")


@pytest.mark.rule("P34", "S24")
def test_request_that_waits_too_long_or_is_abandoned_leaves_no_target():
    book = with_observers("4")
    book.isolate("1")
    book.append("1", b"x")
    book.remove("1", "3")
    waits = book.reassign("1", "1", "2", "4", within_ms=500)
    assert book.answer(waits) is None
    book.abandon("1", waits)
    assert book["1"].replica.role.target is None
    waits = book.reassign("1", "1", "2", "4", within_ms=500)
    book.wait(600, "1")
    assert refusal_of(book, waits) is Refusal.WAITING
    assert not book["1"].replica.log.target_voters


@pytest.mark.rule("P26", "P34")
def test_description_tells_the_target_and_how_far_it_is():
    book = with_observers("4")
    book.isolate("4")
    book.run(2500)
    book.reassign("1", "1", "2", "4")
    book.run(300)
    described = book["1"].core.describe()
    assert [one.key.node_id for one in described.target_voters] == [1, 2, 4]
    assert described.target_record == book["1"].replica.log.assignment_record
    assert described.step_waits_for is not None
    book.heal()
    book.run(4000)
    done = book["1"].core.describe()
    assert (done.target_voters, done.step_waits_for) == ((), None)
    assert [one.key.node_id for one in done.voters] == [1, 2, 4]


@pytest.mark.rule("S15")
def test_target_below_an_offset_is_what_a_snapshot_there_carries():
    log = LogIndex()
    targets = [voters_of("1", "2").voters, voters_of("3").voters, ()]
    for offset, target in enumerate(targets):
        batch = Batch(Offset(offset), Offset(offset), Epoch(1), b"", (TargetVoters(target),))
        log.append(batch)
    at = [set(log.target_at(Offset(end))) for end in range(4)]
    assert at == [set(), set(voters_of("1", "2")), set(voters_of("3")), set()]
    log.truncate(FIRST_OFFSET)
    assert not log.target_voters


@pytest.mark.rule("S15")
@pytest.mark.without(
    "core.log_index:LogIndex._begin_with",
    "if has_target_record else []",
    "if False else []",
)
@pytest.mark.without(
    "core.log_index:LogIndex.trim",
    "for sets in (self.history, self.targets):",
    "self.targets.clear()\n    for sets in (self.history,):",
)
def test_log_that_begins_with_a_snapshot_goes_on_towards_its_target():
    """Taking `targets` out of `LogIndex._begin_with` or `trim` makes this fail."""
    target, voters = voters_of("2", "3"), voters_of("1", "2")
    position, record = LogPosition(Epoch(2), Offset(9)), VoterRecordId(Offset(4), Epoch(1))
    log = LogIndex()
    log.install(LogHead(position, voters, record, 2, formation_completed=True))
    assert not log.target_voters
    log.install(LogHead(position, voters, record, 2, True, target))
    assert log.target_voters == target
    assert log.target_record == log.assignment_record == VoterRecordId(Offset(8), Epoch(2))
    for offset, wanted in ((9, ()), (10, target.voters), (11, ())):
        log.append(Batch(Offset(offset), Offset(offset), Epoch(2), b"", (TargetVoters(wanted),)))
    log.snapshot = LogPosition(Epoch(2), Offset(11))
    log.trim(Offset(11))
    assert [at.record.offset for at in log.targets] == [10, 11]
    assert log.target_at(Offset(11)) == target


def test_differences_are_in_the_order_of_keys():
    coming, going = differences(voters_of("1", "2", "3"), voters_of("5", "3", "4"))
    assert [voter.key.node_id for voter in coming] == [4, 5]
    assert [voter.key.node_id for voter in going] == [1, 2]
    assert Target(NodeId(1)).directory_id is None


@pytest.mark.rule("P33", "P28")
@pytest.mark.without(
    "core.membership.reassignment:_not_settled",
    "if not leadership.epoch_committed(replica, role):",
    "if False:",
)
def test_target_waits_for_an_entry_of_the_leaders_own_epoch():
    """Taking that guard out of `reassignment._not_settled` makes this fail."""
    book = with_observers("4")
    book["1"].flushes = book["3"].flushes = False
    book.elect("2")
    assert book["2"].high_watermark <= book["2"].replica.role.epoch_start
    request = book.reassign("2", "1", "2")
    assert not book["2"].replica.log.target_voters
    assert book["2"].replica.role.target.waiting_for is Awaited.OWN_EPOCH_COMMIT
    book["1"].flushes = book["3"].flushes = True
    book.run(3000)
    assert book.answer(request) == Done(request)


@pytest.mark.rule("P34")
@pytest.mark.without(
    "core.membership.reassignment:_transfer_leadership",
    "if last is not None and replica.now_ms - last < again:",
    "if False:",
)
def test_leader_that_is_elected_again_does_not_transfer_leadership_in_circles():
    """Each attempt writes a record. Taking `transferred_at_ms` out of `_transfer_leadership` fails this."""
    book = Playbook.formed("1", "2")
    book.run(1500)
    book["1"].replica.transferred_at_ms = book.now_ms
    book.reassign("1", "2")
    book.run(2 * book.config.fetch_timeout_ms - 100)
    assert book.leaders == ["1"]
    assert book["1"].replica.role.step_waits_for is Awaited.TRANSFER_PAUSE
    book.run(3000)
    assert (book.leaders, book.voters("2")) == (["2"], "{2}")


@pytest.mark.rule("P18", "P34")
def test_leadership_is_handed_to_the_one_that_is_named_and_again_only_after_a_while():
    book = with_observers()
    book.isolate("2", "3")
    book.reassign("1", "2", "3")
    replica, role = book["1"].replica, book["1"].replica.role
    last = replica.now_ms - 2 * book.config.fetch_timeout_ms
    replica.transferred_at_ms = last + 1
    assert _transfer_leadership(replica, role) is Awaited.TRANSFER_PAUSE
    assert (replica.transferred_at_ms, replica.role) == (last + 1, role)
    replica.transferred_at_ms = last
    best = key_of("3")  # both have the same
    assert _transfer_leadership(replica, role) == SuccessorLeadership(best)
    assert replica.transferred_at_ms == replica.now_ms
    assert _transfer_leadership(replica, role) == SuccessorLog(best)
    replica.now_ms += book.config.election_timeout_ms - 1
    leadership_transfer.advance(replica, role)
    assert replica.role is role
    replica.now_ms += 1
    leadership_transfer.advance(replica, role)
    assert isinstance(replica.role, Resigned)
    [told] = [one for one in replica.effects if isinstance(one, Fact) and "preferred" in str(one)]
    assert ("preferred", str(best)) in told.fields
    ends = [one.request for one in replica.effects if isinstance(one, SendRequest)]
    assert [end.preferred_successors for end in ends] == [(best, key_of("2"))] * 2


@pytest.mark.rule("P33", "S3")
@pytest.mark.without(
    "core.membership.reassignment:_pinned",
    "and (key == replica.key or key not in role.progress or not role.progress[key].fenced)",
    "",
)
def test_replica_that_lost_what_it_acknowledged_is_no_target():
    """Taking `fenced` out of `reassignment._pinned` makes this fail."""
    book = with_observers("4")
    book["1"].replica.role.progress[key_of("4")].fenced = True
    for target in ("4", "#4"):
        refused = book.reassign("1", "1", "2", target)
        assert refusal_of(book, refused) is Refusal.NOT_AN_OBSERVER
