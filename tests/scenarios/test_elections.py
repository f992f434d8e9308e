"""S7, S8, S9, S17 and the named scenarios about elections and pre-votes."""

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import AppendBatches, PersistQuorumState, SendResponse
from raftnode.core.events import RequestReceived, ResponseReceived, ShutdownRequested
from raftnode.core.messages import (
    EndQuorumEpochRequest,
    ErrorCode,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.roles import Candidate
from raftnode.core.types import Epoch, LogPosition, Offset


def removed_uncommitted() -> Playbook:
    """Only 4 has its own removal; leader 1 is gone."""
    book = Playbook.formed("1", "2", "3", "4")
    book.run(1000)
    book.remove("1", "4")
    book.deliver("fetch-answer", "1", "4")
    book["4"].flush(book.now_ms)
    book.crash("1")
    book.drop()
    return book


@pytest.mark.rule("S7")
@pytest.mark.without(
    "core.replica:Replica.may_stand",
    "return self.may_be_voter(self.key)",
    "return self.is_voter",
    "core.elections.election:_judge_pre_vote",
    "_be_called(replica, request.candidate)",
    "pass",
)
@pytest.mark.scenario("removed-uncommitted-must-stand")
def test_removed_uncommitted_must_stand():
    """S7. Letting only `is_voter` stand in `Replica.may_stand` makes this fail.

    That alone does not, since S31: 4 would be called to stand by those that it refuses.
    """
    book = removed_uncommitted()
    book.run(15_000)
    assert len(book.leaders) == 1
    assert book.leaders[0] in {"2", "3"}
    assert book.voters("2") == book.voters("3") == "{1,2,3}"


@pytest.mark.rule("S7", "S8")
@pytest.mark.without(
    "core.elections.election:campaign",
    "replica.key if replica.is_voter else None",
    "replica.key",
)
def test_removed_candidate_does_not_vote_for_itself():
    """S7, S8. Voting for oneself in any case in `election.campaign` makes this fail."""
    book = removed_uncommitted()
    book.run(15_000)
    voted = [e.state.voted for e in book["4"].effects if isinstance(e, PersistQuorumState)]
    assert key_of("4") not in voted


@pytest.mark.rule("S8")
@pytest.mark.scenario("hw-assumes-leader-in-set")
@pytest.mark.without(
    "core.replication.leadership:_acknowledged",
    "for voter in replica.log.voters:",
    "for voter in {*replica.log.voters, replica.key}:",
)
def test_hw_assumes_leader_in_set():
    """KAFKA-16530, S8: a leader outside the set does not count itself.

    Yielding the leader's own end for every leader in `leadership._acknowledged` makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.isolate("3")
    book.remove("1", "1")
    book.settle()
    # {2, 3}: 2 has it, 3 has not. With the leader's own copy it would be two.
    assert book["2"].replica.log.end == 7
    assert book["1"].high_watermark == 6
    assert book["1"].role == "leader"
    book.heal()
    book.run(6000)
    assert book.leaders in (["2"], ["3"])


@pytest.mark.rule("P41", "S8")
@pytest.mark.without(
    "core.replication.leadership:majority_lost_at",
    "- (1 if replica.is_voter else 0)",
    "- 1",
)
def test_leader_outside_the_set_is_not_its_own_majority():
    """S8, P41. Taking `is_voter` out of `leadership.majority_lost_at` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.isolate("1")
    book.remove("1", "1")
    book["1"].replica.log.history[-1] = book["1"].replica.log.history[-1]
    book.heal()
    book.isolate("3")
    book.run(3500)
    assert "1" not in book.leaders


@pytest.mark.rule("S9")
@pytest.mark.scenario("removed-voter-disrupts")
@pytest.mark.without(
    "core.elections.election:_judge",
    "if _withholds_votes(replica):",
    "if False:",
)
def test_voter_with_a_fresh_leader_ignores_votes_and_their_epochs():
    """S9, `removed-voter-disrupts`. Taking `_withholds_votes` out of `election._judge` fails this."""
    book = Playbook.formed("1", "2", "3")
    answer = book.vote("9", "2", 50)
    assert not answer.granted
    assert answer.leader == key_of("1")
    assert not book.vote("9", "1", 50).granted
    assert (book["1"].replica.epoch, book["2"].replica.epoch) == (1, 1)
    assert book.leaders == ["1"]


@pytest.mark.rule("S9")
@pytest.mark.without("core.elections.epoch_rules:believed", "counts(replica, source)", "True")
def test_pre_vote_of_a_stranger_moves_no_epoch():
    """S9. Believing any candidate in `epoch_rules.believed` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    assert not book.vote("9", "1", 50, pre=True).granted
    assert book.leaders == ["1"]
    assert book["1"].replica.epoch == 1


@pytest.mark.rule("P41")
@pytest.mark.scenario("zombie-leader-no-fetch")
@pytest.mark.without(
    "core.replication.leadership:majority_lost_at",
    "if needed <= 0:",
    "if True:",
)
def test_zombie_leader_no_fetch():
    """KAFKA-15489, P41. Returning None from `leadership.majority_lost_at` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    book.run(book.config.leader_timeout_ms + 600)
    assert "1" not in book.leaders


@pytest.mark.scenario("prevote-counted-as-vote")
@pytest.mark.without(
    "core.elections.election:handle_vote_response",
    "if request.pre_vote != isinstance(role, Prospective):",
    "if False:",
)
def test_prevote_counted_as_vote():
    """canonical/raft #196. Taking the kind out of `election.handle_vote_response` fails this."""
    book = Playbook.formed("1", "2", "3")
    book.crash("1")
    book.run(2100)
    book.impatient("2")
    book.deliver("pre-vote", "2", "3")
    [granted] = [m for m in book.pending if m.kind == "pre-vote-answer" and m.target == "2"]
    book.deliver("pre-vote-answer", "3", "2")
    role = book["2"].replica.role
    assert isinstance(role, Candidate)
    late = VoteRequest(
        book["2"].replica.epoch,
        key_of("2"),
        key_of("3"),
        LogPosition(Epoch(1), Offset(6)),
        pre_vote=True,
    )
    assert granted.response is not None
    answer = VoteResponse(ErrorCode.NONE, book["2"].replica.epoch, None, granted=True)
    book.give("2", ResponseReceived(key_of("3"), late, answer))
    assert book["2"].role == "candidate"
    assert role.granted == {key_of("2")}


@pytest.mark.without(
    "core.elections.election:_judge",
    "_judge_pre_vote(replica, request)",
    "_judge_vote(replica, request)",
)
def test_prevote_changes_nothing_on_disk():
    """KIP-996: neither epoch nor vote nor timers move for a question.

    Answering pre-votes by `_judge_vote` makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    book.crash("1")
    book.run(2100)
    before = (book["2"].disk.state, book["2"].replica.role.election_at_ms)
    assert book.vote("3", "2", 1, pre=True).granted
    assert (book["2"].disk.state, book["2"].replica.role.election_at_ms) == before


@pytest.mark.scenario("prevote-ping-pong")
@pytest.mark.without(
    "core.replication.fetcher:_next_fetch",
    "replica.config.fetch_max_wait_ms if isinstance(replica.role, Follower) else 0",
    "replica.config.fetch_max_wait_ms",
)
def test_prevote_ping_pong():
    """Kafka #17807: a voter that lost patience with a healthy leader comes back at once.

    Letting it wait for news, as `fetch_max_wait_ms` says, makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.impatient("2")
    assert book["2"].role == "prospective"
    book.run(100)
    assert book["2"].role == "follower"
    assert book["2"].replica.epoch == 1


@pytest.mark.rule("P18")
@pytest.mark.scenario("prevote-blocks-transfer")
@pytest.mark.without(
    "core.elections.election:on_election_time",
    "campaign(replica)",
    "stand(replica)",
)
def test_prevote_blocks_transfer():
    """canonical/raft #203, P18: the chosen successor asks for no pre-vote.

    Taking `transfer` out of `election.on_election_time` makes this fail.
    """
    book = Playbook.formed("1", "2", "3", "4", "5")
    book.run(1000)
    book.transfer("1", "4")
    book.deliver("end", "1", "4")
    assert book["4"].role == "candidate"
    book.settle()
    assert book.leaders == ["4"]


@pytest.mark.rule("P9")
@pytest.mark.scenario("demoted-leader-never-votes")
@pytest.mark.without(
    "core.elections.election:_judge",
    "return ErrorCode.NONE, _judge_vote(replica, request)",
    "return ErrorCode.NONE, replica.is_voter and _judge_vote(replica, request)",
)
def test_demoted_leader_never_votes():
    """scylla #10618, P9: a leader that removed itself votes for its successors.

    Refusing candidates for want of membership in `election._judge` makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.remove("1", "1")
    book.run(1000)
    assert book["1"].role == "follower"
    book.crash(book.leaders[0])
    book.run(1900)
    book.now_ms += 200
    assert book.vote("3", "1", 99).granted


@pytest.mark.rule("P9")
@pytest.mark.without(
    "core.elections.election:_judge",
    "return ErrorCode.NONE, _judge_vote(replica, request)",
    "return ErrorCode.NONE, replica.is_voter and _judge_vote(replica, request)",
)
def test_removed_replica_outside_the_set_votes():
    """P9 (B wins). Refusing replicas that are not in the own set makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(500)
    book.crash("1")
    book.run(2500)
    assert book.vote("2", "4", 9).granted


@pytest.mark.rule("P39")
@pytest.mark.scenario("leader-reinit-same-epoch")
@pytest.mark.without(
    "core.raft:RaftCore._attach",
    "replica.become_resigned()",
    "leadership.become_leader(replica, frozenset())",
)
def test_leader_reinit_same_epoch():
    """KAFKA-10527, P39. Starting as leader again in `RaftCore._attach` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book["1"].flushes = False
    book.append("1", b"lost by 1")
    book.deliver()
    book.crash("1")
    book.restart("1")
    assert book["1"].role == "resigned"
    assert not [e for e in book["1"].effects if isinstance(e, AppendBatches)]
    book["1"].flushes = True
    book.run(5000)
    assert len(book.leaders) == 1
    assert book[book.leaders[0]].replica.epoch > 1
    assert book["1"].records == book["2"].records == book["3"].records


@pytest.mark.rule("S9", "S17")
@pytest.mark.without(
    "core.replication.fetcher:_judge_end",
    "if request.leader not in {None, source}:",
    "if request.leader != source:",
)
def test_end_of_a_candidate_is_accepted_in_its_epoch():
    """S17: leader -1. Demanding a leader in `fetcher._judge_end` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    request = EndQuorumEpochRequest(Epoch(2), None, key_of("2"), (key_of("2"), key_of("3")))
    effects = book.give("2", RequestReceived(book.number(), key_of("3"), request))
    [answer] = [effect.response for effect in effects if isinstance(effect, SendResponse)]
    assert answer.error is ErrorCode.NONE
    # It stands at once, but asks first: the candidate's leader may be well (S9).
    assert book["2"].replica.epoch == 2
    assert book["2"].role == "prospective"


@pytest.mark.rule("S9", "S16")
@pytest.mark.without(
    "core.replication.fetcher:_judge_end",
    "if source != replica.leader and not epoch_rules.counts(replica, source):",
    "if False:",
)
def test_end_of_a_stranger_moves_nothing():
    """S9, S16. Asking no replica for its place among the voters in `_judge_end` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.observer("4")
    book.run(500)
    before = (book["2"].replica.state, book["2"].role)
    for listed in ((key_of("2"), key_of("3")), (key_of("3"),)):
        request = EndQuorumEpochRequest(Epoch(9), key_of("4"), key_of("2"), listed)
        effects = book.give("2", RequestReceived(book.number(), key_of("4"), request))
        [answer] = [effect.response for effect in effects if isinstance(effect, SendResponse)]
        assert answer.error is ErrorCode.INVALID_REQUEST
        assert (book["2"].replica.state, book["2"].role) == before


@pytest.mark.rule("P17")
@pytest.mark.without(
    "core.raft:RaftCore._dispatch",
    "election.withdraw(replica)",
    "pass",
)
def test_a_stopping_candidate_withdraws_and_is_never_elected():
    """P17. Acting on ShutdownRequested only as leader makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("1")
    book.stand("2")
    assert book["2"].role in {"prospective", "candidate"}
    book.give("2", ShutdownRequested())
    assert book["2"].role == "unattached"
    book.run(5000)
    assert "2" not in book.leaders


@pytest.mark.without(
    "core.replica:Replica._leave",
    "self.respond(fetch.request_id, gone)",
    "pass",
)
def test_fetches_that_wait_are_answered_when_leadership_ends_however_it_ends():
    """Taking the answers out of `Replica._leave` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    parked = {fetch.request_id for fetch in book["1"].replica.role.parked.values()}
    assert parked
    request = VoteRequest(
        Epoch(7), key_of("2"), key_of("1"), book["2"].replica.log.position, pre_vote=True
    )
    effects = book.give("1", RequestReceived(book.number(), key_of("2"), request))
    answered = {effect.request_id for effect in effects if isinstance(effect, SendResponse)}
    assert parked <= answered


@pytest.mark.rule("S17")
@pytest.mark.without(
    "core.replication.fetcher:_judge_end",
    "if known not in {None, request.leader}:",
    "if request.leader is not None and known not in {None, request.leader}:",
)
def test_end_of_a_candidate_does_not_depose_the_winner():
    """S17. Accepting leader -1 whatever leader is known makes this fail."""
    book = Playbook.formed("1", "2", "3")
    request = EndQuorumEpochRequest(Epoch(1), None, key_of("2"), (key_of("2"), key_of("3")))
    effects = book.give("2", RequestReceived(book.number(), key_of("3"), request))
    [answer] = [effect.response for effect in effects if isinstance(effect, SendResponse)]
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert book["2"].replica.leader == key_of("1")


@pytest.mark.rule("P18", "S17")
@pytest.mark.without(
    "core.replication.fetcher:handle_end",
    "place = request.preferred_successors.index(replica.key)",
    "place = 1 + request.preferred_successors.index(replica.key)",
)
def test_successors_are_counted_from_zero():
    """S17, P18: the first stands now, the second a little later.

    Counting places from one in `fetcher.handle_end` makes this fail.
    """
    book = Playbook.formed("1", "2", "3")
    for name, place in (("2", 0), ("3", 1)):
        request = EndQuorumEpochRequest(
            Epoch(1), key_of("1"), key_of(name), (key_of("2"), key_of("3"))
        )
        book.give(name, RequestReceived(book.number(), key_of("1"), request))
        assert (book[name].role == "candidate") == (place == 0)
    wait = book["3"].replica.role.election_at_ms - book.now_ms
    assert 0 < wait <= book.config.retry_backoff_max_ms


@pytest.mark.rule("P14", "S17")
@pytest.mark.without(
    "core.replication.leadership:handle_begin_response",
    "replica.now_ms + replica.config.retry_backoff_max_ms // 4",
    "10**12",
)
def test_end_is_sent_once_and_begin_until_it_is_heard():
    """S17, P14. Taking the retry out of `leadership.handle_begin_response` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.run(1000)
    book.isolate("3")
    book.transfer("1", "2")
    book.settle()
    assert book.leaders == ["2"]
    begins = sum(m.kind == "begin" for m in book.pending)
    for _ in range(4):
        book.wait(300, "2")
        begins += book.deliver("begin", "2", "3")
    assert begins >= 3
    ends = sum(
        type(getattr(effect, "request", None)) is EndQuorumEpochRequest
        for effect in book["1"].effects
    )
    assert ends == 2
