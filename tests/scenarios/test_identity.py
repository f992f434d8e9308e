"""Who is who: S1, S3, S5, S16; `leader-disk-wiped-hears-itself`, `id-reuse`, blank peers."""

import dataclasses
import typing

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core import messages
from raftnode.core.effects import Refused, SendResponse
from raftnode.core.events import ClusterJoined, LatchReceived, RequestReceived
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    ErrorCode,
    FetchRequest,
    Request,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.reasons.halts import StorageFenced
from raftnode.core.reasons.refusals import Refusal
from raftnode.core.records import RAFT_VERSION, Batch, RaftVersion
from raftnode.core.state import Latch
from raftnode.core.types import Epoch, LogPosition, Offset, ReplicaKey, Voter, VoterSet


def asked(book: Playbook, name: str, source: str, request: Request):
    """What a replica answers to a request."""
    effects = book.give(name, RequestReceived(book.number(), key_of(source), request))
    [response] = [effect.response for effect in effects if isinstance(effect, SendResponse)]
    return response


@pytest.mark.rule("S1")
@pytest.mark.without(
    "core.replica:Replica.become_follower",
    "if leader.node_id == self.key.node_id:",
    "if leader == self.key:",
)
@pytest.mark.scenario("leader-disk-wiped-hears-itself")
def test_leader_disk_wiped_hears_itself():
    """S1. Comparing keys instead of ids in `Replica.become_follower` makes this fail.

    "The leader is 1" reaches 1': that is its own address, so it knows no leader.
    """
    book = Playbook.formed("1", "2", "3")
    reborn = book.wipe("1")
    book.run(300)
    assert book[reborn].role == "unattached"
    assert book[reborn].replica.leader is None
    assert not [m for m in book.pending if m.source == reborn and m.target in {"1", reborn}]
    book.elect("2")
    book.run(1000)
    assert book[reborn].replica.leader == key_of("2")


@pytest.mark.rule("P24")
@pytest.mark.scenario("id-reuse")
@pytest.mark.without(
    "core.replication.leadership:progress_of",
    "if source not in role.progress:",
    "same = (key for key in role.progress if key.node_id == source.node_id)\n    source = next(same, source)\n    if source not in role.progress:",
)
def test_id_reuse_makes_another_replica():
    """`id-reuse`, P24: 3' fetches and acknowledges as itself; what 3 acknowledged stays 3's.

    Keeping progress by node id would make this fail.
    """
    book = Playbook.formed("1", "2", "3")
    reborn = book.wipe("3")
    book.run(1000)
    role = book["1"].replica.role
    assert {key_of("3"), key_of(reborn)} <= set(role.progress)
    assert key_of(reborn) not in book["1"].replica.log.voters
    book.isolate("2")
    request = book.append("1", b"alone")
    book.run(500)
    assert book["1"].high_watermark == book["1"].replica.log.end - 1, request


@pytest.mark.rule("S3")
@pytest.mark.without(
    "core.replication.leadership:_is_fenced",
    "if not progress.fenced and (gone_back or request.acknowledged_offset < progress.acknowledged):",
    "if False:",
)
def test_old_volume_put_back_is_fenced():
    """S3. Taking the comparison out of `leadership._is_fenced` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    old = book["3"].saved()
    book.append("1", b"counted")
    book.settle()
    book.crash("3")
    book["3"].disk = old
    book.isolate("2")
    book.append("1", b"not yet")
    book["1"].flush(book.now_ms)
    book.restart("3")
    book.run(400)
    assert book["3"].halted is not None
    assert isinstance(book["3"].halted.reason, StorageFenced)
    assert book["1"].high_watermark == 7
    assert book["1"].core.describe().voters[2].fenced


@pytest.mark.rule("S3")
@pytest.mark.without(
    "core.replication.leadership:_acknowledged",
    "and not progress.fenced",
    "",
)
def test_fenced_replica_is_counted_no_more():
    """S3. Ignoring `fenced` in `leadership._acknowledged` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.isolate("2")
    book["1"].flushes = False
    before = book["1"].high_watermark
    book.append("1", b"acknowledged by 3 alone")
    book.settle()
    progress = book["1"].replica.role.progress[key_of("3")]
    assert progress.acknowledged == before + 1
    progress.fenced = True
    book["1"].flush(book.now_ms)
    assert book["1"].high_watermark == before


@pytest.mark.rule("S3")
@pytest.mark.without(
    "core.replication.leadership:handle_fetch",
    "if request.incarnation <= progress.incarnation and request.sequence <= progress.sequence:",
    "if False:",
)
def test_delayed_fetch_of_an_earlier_time_does_not_fence():
    """S3. Taking the sequence out of `leadership.handle_fetch` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    [parked] = [
        fetch.request
        for fetch in book["1"].replica.role.parked.values()
        if fetch.request.replica == key_of("3")
    ]
    book.append("1", b"later")
    book.settle()
    answer = asked(book, "1", "3", parked)
    assert answer.error is ErrorCode.INVALID_REQUEST
    book.run(1000)
    assert book["3"].halted is None
    assert not book["1"].replica.role.progress[key_of("3")].fenced


@pytest.mark.rule("P6", "S5")
@pytest.mark.parametrize(
    "message", [VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest]
)
def test_requests_name_both_sides_by_id_and_uuid(message: type):
    """S5: no request can leave out who asks and who is meant; a Fetch goes to its connection."""
    types = typing.get_type_hints(message, vars(messages))
    needed = {f.name for f in dataclasses.fields(message) if f.default is dataclasses.MISSING}
    names = {"voter"} if message is not FetchRequest else {"replica"}
    if message is VoteRequest:
        names.add("candidate")
    assert names <= needed
    assert all(types[name] is ReplicaKey for name in names)


@pytest.mark.rule("P10", "S1")
@pytest.mark.without(
    "core.elections.election:_judge",
    "if request.voter != replica.key:",
    "if False:",
)
def test_vote_for_another_uuid_is_refused():
    """P10, S1. Taking the comparison out of `election._judge` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    book.crash("1")
    book.run(2100)
    request = VoteRequest(
        Epoch(9), key_of("3"), key_of("2'"), LogPosition(Epoch(8), Offset(99)), pre_vote=False
    )
    answer = asked(book, "2", "3", request)
    assert answer.error is ErrorCode.INVALID_VOTER_KEY
    assert book["2"].replica.epoch < 9


@pytest.mark.rule("S18")
@pytest.mark.scenario("unsaved-vote-of-blank-peer")
@pytest.mark.without(
    "core.elections.election:_judge",
    "if isinstance(replica.role, Blank):",
    "if False:",
)
def test_unsaved_vote_of_blank_peer():
    """TiKV #8381, S18: an empty disk votes for no replica, whatever it is asked.

    Taking the `Blank` branch out of `election._judge` makes this fail.
    """
    book = Playbook()
    book.blank("3")
    for pre_vote in (True, False):
        request = VoteRequest(
            Epoch(1), key_of("1"), key_of("3"), LogPosition(Epoch(-1), Offset(0)), pre_vote
        )
        answer = asked(book, "3", "1", request)
        assert isinstance(answer, VoteResponse)
        assert (answer.error, answer.granted) == (ErrorCode.INCONSISTENT_CLUSTER_ID, False)
    assert book["3"].role == "blank"


@pytest.mark.rule("P4", "S16")
@pytest.mark.without(
    "core.replication.fetcher:_judge_begin",
    "request.leader != source or ",
    "",
)
def test_forged_begin_gets_an_error_and_stops_no_node():
    """S16. Taking the comparison with the source out of `fetcher._judge_begin` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    forged = BeginQuorumEpochRequest(Epoch(7), key_of("3"), key_of("2"), None)
    answer = asked(book, "2", "9", forged)
    assert isinstance(answer, BeginQuorumEpochResponse)
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert (book["2"].replica.epoch, book["2"].replica.leader) == (1, key_of("1"))
    assert book["2"].halted is None


@pytest.mark.rule("P13")
@pytest.mark.without(
    "core.replication.fetcher:_judge_begin",
    "if request.epoch == replica.epoch and known not in {None, request.leader}:",
    "if False:",
)
def test_second_leader_of_an_epoch_is_refused():
    """P13. Taking the comparison with the known leader out of `_judge_begin` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    other = BeginQuorumEpochRequest(Epoch(1), key_of("3"), key_of("2"), None)
    assert asked(book, "2", "3", other).error is ErrorCode.INVALID_REQUEST
    assert book["2"].replica.leader == key_of("1")


@pytest.mark.rule("S18")
@pytest.mark.without(
    "core.raft:RaftCore._join",
    "if is_latch and replica.key not in event.latch.voters:",
    "if False:",
)
@pytest.mark.rule("P51", "S20")
@pytest.mark.without(
    "core.raft:RaftCore._join",
    "if is_latch and replica.key not in event.latch.voters:",
    "if False:",
)
def test_latch_is_taken_once_and_only_by_whom_it_lists():
    """S18. Taking either refusal out of `RaftCore._join` makes this fail."""
    book = Playbook()
    book.latch("1", "2", "3")
    others = Latch("another", VoterSet.of([Voter(key_of("1"))]))
    refused = book.answer(book.ask("1", lambda request_id: LatchReceived(request_id, others)))
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.ALREADY_FORMED
    book.blank("4")
    refused = book.answer(book.ask("4", lambda request_id: LatchReceived(request_id, others)))
    assert isinstance(refused, Refused)
    assert refused.refusal is Refusal.NOT_LISTED
    assert book["4"].role == "blank"
    refused = book.answer(book.ask("1", lambda request_id: ClusterJoined(request_id, "another")))
    assert isinstance(refused, Refused)


@pytest.mark.rule("P53", "S19", "S20")
@pytest.mark.without(
    "core.replica:Replica.may_stand",
    "if self.stopping or not self.log.voters or self.log.end < self.removed_below:\n        return False",
    "if not self.log.voters:\n        return True",
)
def test_replica_without_voters_never_stands():
    """S19. Letting an empty set stand in `Replica.may_stand` makes this fail."""
    book = Playbook()
    book.observer("1")
    assert not book["1"].replica.may_stand
    book.run(20_000)
    assert book["1"].role == "unattached"
    assert book["1"].replica.epoch == -1


@pytest.mark.rule("S3")
@pytest.mark.without(
    "core.replication.leadership:_is_fenced",
    "request.incarnation < progress.incarnation",
    "False",
)
def test_old_volume_is_fenced_by_its_incarnation_though_nothing_was_written_since():
    """S3: it has forgotten votes. Leaving the incarnation out of `_is_fenced` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    old = book["3"].saved()
    for _ in range(2):
        book.crash("3")
        book.restart("3")
        book.run(400)
    book.crash("3")
    book["3"].disk = old
    book.restart("3")
    book.run(400)
    assert book["3"].halted is not None
    assert isinstance(book["3"].halted.reason, StorageFenced)


@pytest.mark.rule("P54", "S12")
@pytest.mark.without(
    "core.replica:Replica.append",
    "if self.log.raft_version > RAFT_VERSION:",
    "if False:",
)
def test_log_of_a_later_raft_version_is_not_gone_on_with():
    """S12. Taking the check out of `Replica.append` makes this fail."""
    book = Playbook.formed("1", "2", "3")
    replica = book["2"].replica
    base = replica.log.end
    later = Batch(base, base, replica.epoch, b"", (RaftVersion(RAFT_VERSION + 1),))
    replica.append((later,))
    assert replica.halted
