"""P39, P41, P42, P43, P46, P50, P52, P55: roles, leadership, commitment and formation."""

import itertools

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import AppendAccepted, PersistQuorumState, Refused
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.records import AddVoter, FormationCompleted, LeaderChange, RaftVersion
from raftnode.core.state import QuorumState


@pytest.mark.rule("P39")
@pytest.mark.without(
    "core.raft:RaftCore._attach",
    "replica.become_resigned()",
    "leadership.become_leader(replica, frozenset())",
)
@pytest.mark.without("core.roles:role_name", "return", "return 'unattached' or")
def test_p39_restarted_leader_is_resigned_and_a_restarted_follower_follows():
    book = Playbook.formed("1", "2", "3")
    for name in ("1", "2"):
        book.crash(name)
        book.restart(name)
    assert book["1"].role == "resigned"
    assert (book["2"].role, book["2"].replica.leader) == ("follower", key_of("1"))


@pytest.mark.rule("P39")
@pytest.mark.without(
    "core.elections.election:_election_at",
    "return at if _may_start(replica) else None",
    "return at",
)
def test_p39_observer_is_never_a_candidate():
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(1000)
    for name in ("1", "2", "3"):
        book.crash(name)
    seen: set[str] = set()
    for _ in range(60):
        book.run(500)
        seen.add(book["4"].role)
    assert seen <= {"follower", "unattached"}


@pytest.mark.rule("P41")
@pytest.mark.without(
    "core.replication.leadership:majority_lost_at",
    "if needed <= 0:",
    "if True:",
)
def test_p41_leader_resigns_without_fetches_of_a_majority_and_bumps_no_epoch():
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    book.run(book.config.leader_timeout_ms + 50)
    assert book["1"].role in {"resigned", "prospective"}
    book.run(20_000)
    assert book["1"].replica.epoch == 1


@pytest.mark.rule("P42")
def test_p42_high_watermark_is_the_majoritys_end_and_never_falls():
    book = Playbook.formed("1", "2", "3")
    marks = [book["1"].high_watermark]
    for count in range(6):
        book["2"].flushes = count % 2 == 0
        book["3"].flushes = count % 3 != 0
        book.append("1", b"%d" % count)
        book.settle()
        marks.append(book["1"].high_watermark)
        durable = sorted(len(book[n].disk.durable) for n in "123")
        assert len([b for b in book["1"].disk.log if b.end_offset <= marks[-1]]) <= durable[1]
    assert marks == sorted(marks)


@pytest.mark.rule("P42")
@pytest.mark.without(
    "core.replica:Replica.raise_high_watermark", "max(self.high_watermark, offset)", "offset"
)
def test_p42_high_watermark_does_not_fall_with_a_leader_that_knows_less():
    """3 was told that a record is committed, and 2, which leads next, was not."""
    book = Playbook.formed("1", "2", "3")
    book.append("1", b"committed")
    book.deliver("fetch-answer")
    for name in ("1", "2", "3"):
        book[name].flush(book.now_ms)
    book.deliver("fetch")
    assert book.deliver("fetch-answer", "1", "3") == 1
    known = book["3"].high_watermark
    assert known == book["1"].high_watermark > book["2"].high_watermark
    book.drop()
    book.crash("1")
    book["3"].flushes = False
    book.elect("2")
    assert book["3"].replica.leader == book["2"].key
    book.run(600)
    assert book["2"].high_watermark < known
    assert book["3"].high_watermark == known


@pytest.mark.rule("P43")
def test_p43_append_is_accepted_at_once_and_committed_by_the_majority():
    book = Playbook.formed("1", "2", "3")
    book.isolate("2", "3")
    request = book.append("1", b"x")
    answer = book.answer(request)
    assert isinstance(answer, AppendAccepted)
    book.run(300)
    assert book["1"].high_watermark <= answer.base_offset


@pytest.mark.rule("P46", "S1")
def test_p46_leader_with_its_uuid_stands_in_the_quorum_state():
    """S1: B's QuorumStateData with the leader's UUID added."""
    book = Playbook.formed("1", "2", "3")
    assert book["2"].disk.state == QuorumState(1, key_of("1"), key_of("1"))


@pytest.mark.rule("P46")
@pytest.mark.without(
    "core.replica:Replica.persist",
    "if state != self.state:",
    "if True:",
)
def test_p46_nothing_is_persisted_twice():
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.impatient("2")  # and comes back to the leader that it had
    book.run(500)
    assert book["2"].role == "follower"
    for name in ("1", "2", "3"):
        states = [e.state for e in book[name].effects if isinstance(e, PersistQuorumState)]
        assert all(one != other for one, other in itertools.pairwise(states))


@pytest.mark.rule("P50", "P52")
@pytest.mark.without(
    "core.replication.leadership:become_leader",
    "records.extend(AddVoter(voter) for voter in log.voters.voters)",
    "pass",
)
@pytest.mark.rule("S12")
@pytest.mark.without(
    "core.replication.leadership:become_leader",
    "RaftVersion(log.base_raft_version)",
    "RaftVersion(1)",
)
def test_p50_p52_first_batch_holds_leader_version_and_all_voters():
    book = Playbook.formed("1", "2", "3")
    first, second = book["3"].disk.log[:2]
    assert [type(control) for control in first.control] == [
        LeaderChange,
        RaftVersion,
        AddVoter,
        AddVoter,
        AddVoter,
    ]
    assert first.control[0] == LeaderChange(
        key_of("1"), tuple(map(key_of, "123")), first.control[0].granting_voters
    )
    assert first.control[1] == RaftVersion(2)
    assert second.control == (FormationCompleted(),)


@pytest.mark.rule("P52")
@pytest.mark.without(
    "core.replication.leadership:handle_append",
    "if replica.log.raft_version and not replica.log.formation_completed:",
    "if False:",
)
def test_p52_no_writes_until_all_voters_have_the_voters():
    book = Playbook()
    book.latch("1", "2", "3")
    book.isolate("3")
    book.impatient("1")
    book.settle()
    assert book["1"].role == "leader"
    refused = book.answer(book.append("1", b"early"))
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.FORMATION_INCOMPLETE
    book.heal()
    book.run(3000)
    assert isinstance(book.answer(book.append("1", b"now")), AppendAccepted)


@pytest.mark.rule("P55")
@pytest.mark.without(
    "core.membership.voter_changes:_remove_replaced", "role.changes.append(", "(lambda _: None)("
)
def test_p55_replacement_is_added_before_the_lost_one_is_removed():
    book = Playbook.formed("1", "2", "3")
    reborn = book.wipe("3")
    book.run(1500)
    book.add("1", reborn, replaces="3")
    sizes: list[int] = []
    for _ in range(40):
        sizes.append(len(book["1"].replica.log.voters))
        book.deliver()
        for node in book.nodes.values():
            node.flush(book.now_ms)
    assert sorted(set(sizes)) == [3, 4]
    assert sizes[0] == 4
    assert book.voters("1") == "{1,2,3'}"
