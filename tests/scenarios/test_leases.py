"""S33: a leader answers reads alone only while a majority keeps its promise to elect no other."""

import random
from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.effects import Confirmed
from raftnode.core.events import RequestReceived
from raftnode.core.messages import EndQuorumEpochRequest, ErrorCode, FetchResponse
from raftnode.core.raft import RaftCore
from raftnode.core.roles import Follower, Leader
from raftnode.core.start_state import StartState

pytestmark = pytest.mark.rule("S33")

LEASES = CoreConfig(lease_clock_drift_percent=10)
PROMISE_MS = LEASES.fetch_timeout_ms
LEASE_MS = PROMISE_MS * 90 // 100 - 2


def leased(*names: str) -> Playbook:
    """A quorum led by 1, which has a lease that began now."""
    book = Playbook.formed(*(names or ("1", "2", "3")), config=LEASES)
    book.run(1000)
    book.confirm("1")
    book.settle()
    assert reads_alone(book, "1")
    return book


def reads_alone(book: Playbook, name: str) -> bool:
    """Whether a read is answered before any other replica was asked."""
    return isinstance(book.answer(book.confirm(name)), Confirmed)


def leader(book: Playbook, name: str) -> Leader:
    role = book[name].replica.role
    assert isinstance(role, Leader)
    return role


def promised_ms(book: Playbook, name: str) -> int:
    """For how long the replica still votes for no replica."""
    return book[name].replica.promised_until_ms - book.now_ms


@pytest.mark.without(
    "core.replication.leadership:handle_confirm", "read_lease.covers_reads(replica, role)", "False"
)
def test_a_read_within_a_lease_takes_no_round():
    book = leased()
    book.append("1", b"x")
    book.settle()
    read = book.answer(book.confirm("1"))
    assert isinstance(read, Confirmed)
    assert read.high_watermark == book["1"].replica.log.end
    assert not book.pending


@pytest.mark.without(
    "core.config:CoreConfig.promise_ms",
    "self.fetch_timeout_ms if self.lease_clock_drift_percent else 0",
    "self.fetch_timeout_ms",
)
def test_nothing_is_promised_unless_it_is_said_how_far_clocks_may_differ():
    book = Playbook.formed("1", "2", "3", config=CoreConfig())
    book.run(1000)
    book.confirm("1")
    book.settle()
    assert book["2"].replica.promised_until_ms == 0
    assert not reads_alone(book, "1")


@pytest.mark.rule("S11")
@pytest.mark.without("core.replication.leadership:handle_confirm", "if event.for_read and ", "if ")
def test_a_voter_change_is_never_confirmed_by_a_lease():
    book = leased()
    assert book.answer(book.confirm("1", for_read=False)) is None


@pytest.mark.without(
    "core.elections.read_lease:note_promise",
    "* (100 - replica.config.lease_clock_drift_percent) // 100 - _TICK_MS",
    "",
)
def test_a_lease_is_shorter_than_the_promise_by_what_clocks_may_differ():
    """Counting the whole promise makes this fail: a voter's clock may run faster."""
    book = leased()
    book.isolate("1")
    book.wait(LEASE_MS - 1, "1")
    assert reads_alone(book, "1")
    book.wait(1, "1")
    assert not reads_alone(book, "1")
    assert promised_ms(book, "2") > PROMISE_MS // 20


@pytest.mark.without(
    "core.elections.read_lease:note_promise", "began_ms + lease_ms", "replica.now_ms + lease_ms"
)
def test_a_lease_begins_with_its_round_and_not_with_the_fetch_that_tells():
    """The Fetch may have been on its way for as long as the promise lasts."""
    book = leased()
    book.isolate("3")
    book.wait(LEASE_MS, "1")
    book.deliver("fetch-answer")
    book.deliver("fetch")
    read = book.confirm("1")
    book.deliver("fetch-answer")
    book.wait(1100, "1")
    book.deliver("fetch", "2", "1")
    assert isinstance(book.answer(read), Confirmed), "the round is done"
    book.wait(LEASE_MS - 1100 - 1, "1")
    assert reads_alone(book, "1")
    book.wait(1, "1")
    assert not reads_alone(book, "1")


@pytest.mark.without(
    "core.elections.election:_judge",
    "if _withholds_votes(replica):",
    "if has_fresh_leader(replica):",
)
@pytest.mark.without(
    "core.elections.election:_withholds_votes", " or replica.now_ms < replica.promised_until_ms", ""
)
def test_a_higher_epoch_does_not_end_a_promise():
    """A voter that follows no leader any more keeps what it promised."""
    book = leased()
    book.isolate("1")
    book.vote("3", "2", 5, pre=True)
    assert book["2"].role == "unattached"
    assert not book.vote("3", "2", 5).granted
    assert reads_alone(book, "1")
    book.now_ms += promised_ms(book, "2") - 1
    assert not book.vote("3", "2", 5).granted
    book.now_ms += 1
    assert book.vote("3", "2", 5).granted
    assert not reads_alone(book, "1")


@pytest.mark.without(
    "core.elections.election:_judge_pre_vote",
    "if _withholds_votes(replica):",
    "if has_fresh_leader(replica):",
)
def test_no_voter_is_told_to_stand_while_the_promise_holds():
    book = leased()
    book.vote("3", "2", 5, pre=True)
    assert not book.vote("3", "2", 5, pre=True).granted
    book.now_ms += promised_ms(book, "2")
    assert book.vote("3", "2", 5, pre=True).granted


@pytest.mark.without(
    "core.elections.election:election_deadline", "due >= replica.promised_until_ms", "True"
)
@pytest.mark.without(
    "core.elections.election:election_deadline",
    "due is None or due >= replica.promised_until_ms",
    "True",
)
def test_no_voter_votes_for_itself_either_while_the_promise_holds():
    """Freed of its leader by a higher epoch, a voter would stand before the lease ends."""
    book = leased()
    book.isolate("1", "2", "3")
    book.vote("3", "2", 5, pre=True)
    end = book["2"].replica.promised_until_ms
    book.impatient("2")
    assert book["2"].role == "unattached"
    book.now_ms = end
    book.impatient("2")
    assert book["2"].role == "prospective"


@pytest.mark.without(
    "core.raft:RaftCore.__init__", "now_ms + start.quiet_ms if start.quiet_ms else 0", "0"
)
def test_a_promise_outlives_the_process():
    """A voter that forgot its leader in a crash would elect another one at once."""
    book = leased()
    book.isolate("1")
    book.crash("2")
    book.now_ms += 100
    book.restart("2")
    assert not book.vote("3", "2", 5).granted
    assert reads_alone(book, "1")
    assert promised_ms(book, "2") == PROMISE_MS
    book.impatient("2")
    assert book["2"].role in {"unattached", "follower"}
    book.now_ms += PROMISE_MS
    assert not reads_alone(book, "1")
    assert book.vote("3", "2", 5).granted


@pytest.mark.without(
    "core.replica:Replica.promise", "max(self.promised_until_ms, until_ms)", "until_ms"
)
def test_a_shorter_promise_does_not_end_a_longer_one():
    """A restart with a shorter timeout: what was promised before it is still counted on."""
    book = leased()
    book.crash("2")
    book["2"].config = replace(LEASES, fetch_timeout_ms=1000)
    book.restart("2")
    book.settle()  # it hears its leader, and promises less
    assert promised_ms(book, "2") == PROMISE_MS
    book.isolate("1")
    book.wait(LEASE_MS - 1, "1")
    assert reads_alone(book, "1")
    assert not book.vote("3", "2", 5).granted


@pytest.mark.without(
    "core.elections.election:election_deadline",
    " + due % replica.config.election_backoff_max_ms",
    "",
)
def test_who_promised_for_as_long_does_not_stand_at_the_same_time():
    """Else all that started together would stand in one millisecond, and divide the votes."""
    book = leased()
    book.isolate("1", "2", "3")
    stands: set[int] = set()
    for name, election_ms in (("2", 50), ("3", 90)):
        role = book[name].replica.role
        assert isinstance(role, Follower)
        role.election_at_ms = book.now_ms + election_ms
        stands.add(book._deadlines()[name])
    end, now, most = (
        book["2"].replica.promised_until_ms,
        book.now_ms,
        LEASES.election_backoff_max_ms,
    )
    assert stands == {end + (now + 50) % most, end + (now + 90) % most}
    role = book["2"].replica.role
    assert isinstance(role, Follower)
    role.election_at_ms = book["2"].replica.promised_until_ms = end + 7
    assert book._deadlines()["2"] == end + 7, "who is due when it is over waits no longer"


@pytest.mark.rule("S3")
@pytest.mark.without("core.elections.read_lease:covers_reads", "not at.fenced and ", "")
def test_who_was_fenced_is_not_counted():
    """Its storage went back, and may have forgotten more than records."""
    book = leased()
    for progress in leader(book, "1").progress.values():
        progress.fenced = True
    assert not reads_alone(book, "1")


@pytest.mark.rule("P16")
@pytest.mark.without("core.replication.fetcher:handle_end", "replica.promised_until_ms = 0", "pass")
def test_a_leader_that_transfers_leadership_gives_its_lease_up():
    """Its voters need not wait: it says itself that it leads no more."""
    book = leased()
    before = book.now_ms
    book.transfer("1", "2")
    assert not reads_alone(book, "1")
    book.settle()
    assert (book.leaders, book.now_ms) == (["2"], before)


def test_the_leaders_own_word_ends_the_promise_at_once():
    book = leased()
    voters = (key_of("2"), key_of("3"))
    end = EndQuorumEpochRequest(book["3"].replica.epoch, key_of("1"), key_of("3"), voters)
    book.give("3", RequestReceived(book.number(), key_of("1"), end))
    assert book["3"].replica.promised_until_ms == 0


@pytest.mark.without(
    "core.replication.fetcher:handle_end", "if request.leader is not None:", "if True:"
)
def test_a_candidate_that_gives_up_frees_no_voter_of_a_promise():
    book = leased()
    book.vote("3", "2", 5, pre=True)
    end = EndQuorumEpochRequest(
        book["2"].replica.epoch, None, key_of("2"), (key_of("1"), key_of("2"))
    )
    book.give("2", RequestReceived(book.number(), key_of("3"), end))
    assert promised_ms(book, "2") == PROMISE_MS
    assert not book.vote("3", "2", 5).granted


@pytest.mark.without(
    "core.elections.read_lease:covers_reads", "replica.now_ms < at.promised_until_ms", "True"
)
def test_who_promises_nothing_is_not_counted():
    """One whose program or setting knows no leases votes as soon as it likes."""
    book = Playbook.formed("1", "2", "3", config=LEASES)
    for name in ("2", "3"):
        book[name].replica.config = CoreConfig()
    book.run(5000)
    book.confirm("1")
    book.settle()
    assert not reads_alone(book, "1")
    book["2"].replica.config = LEASES
    book.run(1000)
    book.confirm("1")
    book.settle()
    assert reads_alone(book, "1"), "1 and 2 are a majority"


@pytest.mark.without(
    "core.elections.read_lease:note_promise",
    "min(request.promise_ms, replica.config.promise_ms)",
    "request.promise_ms",
)
def test_no_follower_is_believed_to_promise_more_than_the_leader_would():
    """A number that is damaged, or of another setting, makes no lease without end."""
    book = leased()
    for name in ("2", "3"):
        book[name].replica.config = replace(LEASES, fetch_timeout_ms=10**9)
    book.settle()
    book.run(2000)
    book.confirm("1")
    book.settle()
    book.isolate("1")
    book.wait(LEASE_MS, "1")
    assert not reads_alone(book, "1")


@pytest.mark.rule("S8")
@pytest.mark.without(
    "core.elections.read_lease:covers_reads", "promised + replica.is_voter", "promised + 1"
)
def test_a_leader_outside_the_set_does_not_count_itself():
    book = leased("1", "2", "3", "4")
    book.isolate("3", "4")
    book.remove("1", "1")
    book.wait(LEASE_MS - 100, "1")
    for _ in range(4):
        book.deliver()
        book["2"].flush(book.now_ms)
    book.confirm("1", for_read=False)  # a round, which 2 alone echoes
    book.deliver("fetch-answer")
    book.deliver("fetch")
    assert book.voters("1") == "{2,3,4}"
    book.wait(200, "1")
    assert leader(book, "1").progress[key_of("2")].promised_until_ms > book.now_ms
    assert not reads_alone(book, "1")


@pytest.mark.without(
    "core.elections.read_lease:covers_reads",
    "for key in replica.log.voters if key != replica.key",
    "for key in role.progress",
)
@pytest.mark.without(
    "core.elections.read_lease:covers_reads",
    "for key in replica.log.voters if key != replica.key",
    "for key in role.progress",
)
def test_observers_promises_are_no_lease():
    """They elect no leader, so what they promise keeps no other leader away."""
    book = leased()
    for name in ("4", "5"):
        book.observer(name)
    book.run(500)
    book.isolate("2", "3")
    book.run(500)
    book.confirm("1", for_read=False)  # a round, which the observers alone echo
    book.run(LEASE_MS - 400)
    progress = leader(book, "1").progress
    assert all(progress[key_of(name)].promised_until_ms > book.now_ms for name in "45")
    assert all(progress[key_of(name)].promised_until_ms <= book.now_ms for name in "23")
    assert not reads_alone(book, "1")


@pytest.mark.rule("P42", "S11")
@pytest.mark.without(
    "core.replication.leadership:handle_confirm",
    "epoch_committed(replica, role) and read_lease",
    "read_lease",
)
def test_no_lease_before_the_own_epoch_has_committed_something():
    """What the last leader acknowledged is not known to be committed before."""
    book = leased()
    book.append("1", b"x")
    book.settle()  # acknowledged; the others do not know yet that it is committed
    book["1"].flushes = book["2"].flushes = False
    book.transfer("1", "2")
    book.settle()
    assert book.leaders == ["2"]
    book.confirm("2", for_read=False)
    book.settle()
    assert leader(book, "2").progress[key_of("3")].promised_until_ms > book.now_ms
    assert not reads_alone(book, "2")


def test_every_round_that_is_under_way_counts():
    """The echo of an older one is on its way while a newer one begins."""
    book = Playbook.formed("1", "2", "3", config=LEASES)
    book.run(1000)
    book.confirm("1")
    book.now_ms += 10
    book.confirm("1")
    book.deliver("fetch-answer")
    book.deliver("fetch", "2", "1")
    assert reads_alone(book, "1")


def test_a_quarter_of_the_promise_is_over_before_it_is_renewed():
    """And no more than that; an odd promise is rounded to what makes the lease shorter."""
    config = replace(LEASES, fetch_timeout_ms=2001)
    book = Playbook.formed("1", "2", "3", config=config)
    book.run(1000)
    book.confirm("1")
    book.settle()
    token = leader(book, "1").round_token
    book.isolate("1")
    for ms, tokens in ((499, 0), (1, 1), (499, 0), (1, 1)):
        book.wait(ms, "1")
        before = leader(book, "1").round_token
        assert reads_alone(book, "1")
        assert leader(book, "1").round_token == before + tokens
    assert leader(book, "1").rounds[token] == book.now_ms - 1000
    book.wait(1798 - 1000, "1")
    assert not reads_alone(book, "1")


@pytest.mark.without(
    "core.elections.read_lease:wants_round", "replica.config.promise_ms // 4", "10**9"
)
def test_reads_that_go_on_keep_the_lease():
    """Only the first of them waits."""
    book = leased()
    for _ in range(100):
        book.run(100)
        assert reads_alone(book, "1")
    assert leader(book, "1").round_token < 30, "a round now and then"


@pytest.mark.without("core.elections.read_lease:begin_round", "del role.rounds[oldest]", "break")
def test_a_leader_remembers_no_more_rounds_than_promises_last():
    book = leased()
    for _ in range(100):
        book.run(100)
        book.confirm("1", for_read=False)
    assert len(leader(book, "1").rounds) == PROMISE_MS // 100


@pytest.mark.rule("S11")
@pytest.mark.without("core.replication.fetcher:_correct_token", "replica.promise()", "pass")
def test_a_token_that_was_corrected_comes_with_a_promise_too():
    """What it echoes next it has heard from the refusal, and at no earlier time."""
    book = leased()
    role = book["2"].replica.role
    assert isinstance(role, Follower)
    role.round_token = 99  # damaged on the way
    book.now_ms += 400
    book.confirm("1", for_read=False)
    book["2"].replica.promised_until_ms = 0
    book.deliver("fetch-answer")
    book["2"].replica.promised_until_ms = 0
    book.deliver("fetch", "2", "1")
    [refused] = [one for one in book.pending if one.target == "2"]
    assert isinstance(refused.response, FetchResponse)
    assert refused.response.error == ErrorCode.INVALID_REQUEST
    book.deliver("fetch-answer", "1", "2")
    assert role.round_token == leader(book, "1").round_token
    assert promised_ms(book, "2") == PROMISE_MS


def test_a_start_of_a_storage_that_promised_nothing_may_vote_at_once():
    disk = leased()["2"].disk
    core = RaftCore(
        StartState(disk.key, log=disk.index(), state=disk.state, cluster_id=disk.cluster_id),
        rng=random.Random(1),
        now_ms=5,
    )
    assert core.replica.promised_until_ms == 0
