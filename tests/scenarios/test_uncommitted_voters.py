"""Voters in force that no replica knows to be committed: `campaign-with-unapplied-change`, and joints.

A set counts from the moment that its record is in the log (P32). Where it counted only once it
is applied, a replica that starts again and knows nothing to be committed would go by a set of
long ago. There are no joint sets here; what is nearest to them are a replacement (S23) and a
reassignment (P34), whose second step must be made once, and after the first is committed.
"""

from collections import defaultdict

import pytest

from proofkit.playbook import Playbook, ScriptedNode
from raftnode.core.effects import Effect, PersistQuorumState, VoterChangeCompleted
from raftnode.core.records import AddVoter, RemoveVoter


def five_of_three() -> Playbook:
    """The voters 1, 2 and 3 have become five; 2 and 3 are down, and will start knowing nothing."""
    book = Playbook.formed("1", "2", "3")
    for name in ("4", "5"):
        book.observer(name)
        book.run(1500)
        added = book.add("1", name)
        book.run(1500)
        assert isinstance(book.answer(added), VoterChangeCompleted)
    assert book.voters("2") == book.voters("3") == "{1,2,3,4,5}"
    for name in ("2", "3"):
        book.crash(name)
    book.drop()
    return book


def change_hands(book: Playbook) -> None:
    """1, 4 and 5 go down, and 2 and 3 come back."""
    for name in ("1", "4", "5"):
        book.crash(name)
    for name in ("2", "3"):
        book.restart(name)
    assert book["2"].high_watermark == book["3"].high_watermark == 0
    book.run(10_000)


GOES_BY_WHAT_IS_APPLIED = pytest.mark.without(
    "core.elections.election:_count",
    "replica.log.voters",
    "replica.log.committed_voters(replica.high_watermark).voters",
)


@pytest.mark.rule("P32")
@pytest.mark.scenario("campaign-with-unapplied-change")
@GOES_BY_WHAT_IS_APPLIED
def test_candidate_that_has_applied_no_change_counts_by_the_newest_set():
    """raft-rs #221. With the set that it has applied, 2 would lead the epoch that 4 leads."""
    leaders: dict[int, set[str]] = defaultdict(set)

    def watch(node: ScriptedNode, effect: Effect) -> None:
        if isinstance(effect, PersistQuorumState) and effect.state.leader == node.key:
            leaders[effect.state.epoch].add(node.name)

    book = five_of_three()
    book.watch = watch
    book.transfer("1", "4")
    book.settle()
    assert book.leaders == ["4"]
    change_hands(book)
    assert leaders == {2: {"4"}}


@pytest.mark.rule("P32")
@pytest.mark.scenario("apply-time-config-unsafe")
@GOES_BY_WHAT_IS_APPLIED
def test_what_the_new_voters_acknowledged_outlives_those_that_do_not_know_them_committed():
    """etcd #7625: two of the old set are no majority, though they have applied no other."""
    book = five_of_three()
    before = book["1"].high_watermark
    book.append("1", b"acknowledged by 1, 4 and 5")
    book.settle()
    assert book["1"].high_watermark == before + 1
    change_hands(book)
    for name in ("1", "4", "5"):
        book.restart(name)
    book.run(10_000)
    assert len(book.leaders) == 1
    for name in "12345":
        assert book[name].records == [b"acknowledged by 1, 4 and 5"]


@pytest.mark.rule("P32")
@pytest.mark.scenario("apply-time-config-unsafe")
@pytest.mark.without(
    "core.replication.leadership:_acknowledged",
    "in replica.log.voters:",
    "in replica.log.committed_voters(replica.high_watermark).voters:",
    "core.replication.leadership:majority_offset",
    "replica.log.voters.majority",
    "replica.log.committed_voters(replica.high_watermark).voters.majority",
)
def test_one_of_two_is_removed_though_it_is_dead():
    """Were the old set to commit its own end, two of two would be needed, for ever."""
    book = Playbook.formed("1", "2")
    book.run(1000)
    book.crash("2")
    removed = book.remove("1", "2")
    book.run(1000)
    assert isinstance(book.answer(removed), VoterChangeCompleted)
    assert book.voters("1") == "{1}"


@pytest.mark.rule("S7", "S31")
@pytest.mark.scenario("demoted-leader-never-votes")
@pytest.mark.without(
    "core.replica:Replica.may_stand",
    "return self.may_be_voter(self.key)",
    "return self.is_voter",
    "core.elections.election:_be_called",
    "if replica.may_stand or not replica.log.voters:",
    "if True:",
)
def test_leader_whose_own_removal_is_in_its_log_alone_can_lead_again():
    """scylla #10618: 2 cannot win, for 1 has more; 1 must, though it is no voter any more.

    It stands by itself (S7), and would be called to (S31).
    """
    book = Playbook.formed("1", "2")
    book.run(1000)
    book.isolate("1")
    book.remove("1", "1")
    book["1"].flush(book.now_ms)
    book.drop()
    book.run(5000)
    assert book.leaders == []
    assert (book.voters("1"), book.voters("2")) == ("{2}", "{1,2}")
    book.heal()
    book.run(10_000)
    assert book.leaders == ["2"]
    assert book.voters("1") == book.voters("2") == "{2}"


def removals(book: Playbook, name: str) -> int:
    """How many removals a log holds."""
    return sum(isinstance(c, RemoveVoter) for batch in book[name].disk.log for c in batch.control)


@pytest.mark.rule("S11", "S23")
@pytest.mark.scenario("double-leave-joint")
@pytest.mark.without(
    "core.membership.voter_changes:advance",
    "if change.expected != replica.log.voter_record:",
    "if False:",
    "core.membership.voter_changes:_without_effect",
    'if change.kind == "remove" and not present:',
    "if False:",
)
def test_replaced_voter_is_removed_once_though_two_want_it_gone():
    """etcd #12582: the leader leaves the window of four by itself, and is told to as well."""
    book = Playbook.formed("1", "2", "3")
    reborn = book.wipe("3")
    book.run(1500)
    added = book.add("1", reborn, replaces="3")
    assert book.answer(added) is None
    removed = book.remove("1", "3")
    assert len(book["1"].replica.role.changes) == 2
    book.run(3000)
    assert isinstance(book.answer(added), VoterChangeCompleted)
    assert isinstance(book.answer(removed), VoterChangeCompleted)
    assert book.voters("1") == book.voters("2") == "{1,2,3'}"
    assert removals(book, "1") == 1


@pytest.mark.rule("P28", "P31", "P34")
@pytest.mark.scenario("leave-recovered-uncommitted-joint")
@pytest.mark.without(
    "core.membership.reassignment:_not_settled",
    "log = replica.log\n",
    "log = replica.log\n    return None\n",
    "core.membership.voter_changes:obstacle",
    "if replica.log.voter_record.offset >= replica.high_watermark:",
    'if change.kind == "remove":\n        return None\n    if False:',
    "core.membership.voter_changes:_confirm_majority",
    "if there < after.majority:",
    "if False:",
)
def test_second_step_waits_for_the_first_that_a_new_leader_found_in_its_log():
    """camunda #60086: the set that is to be left must itself be committed first.

    1 was to bring 4 in for 3, and died when only 2 had the addition. 2 leads with it.
    """
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1500)
    book.reassign("1", "1", "2", "4")
    book["3"].flushes = book["4"].flushes = False
    for _ in range(100):
        if any(isinstance(c, AddVoter) for b in book["2"].disk.log[2:] for c in b.control):
            break
        if not book.deliver(limit=1):
            book["1"].flush(book.now_ms)
            book["2"].flush(book.now_ms)
    book["2"].flush(book.now_ms)
    book.crash("1")
    book.drop()
    book.elect("2")
    found = book["2"].replica.log.voter_record
    assert book.voters("2") == "{1,2,3,4}"
    assert found.epoch == 1
    # Both keep up, as far as their leader can see; but nothing of theirs is durable.
    for name in ("3", "4"):
        progress = book["2"].replica.role.progress[book[name].key]
        progress.round_started_ms, progress.round_ms = book.now_ms, 0
    book.wait(20, "2")
    book.settle()
    assert book["2"].high_watermark <= found.offset
    assert removals(book, "2") == 0
    book["3"].flushes = book["4"].flushes = True
    book.run(3000)
    assert book.voters("2") == book.voters("4") == "{1,2,4}"
