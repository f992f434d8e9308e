"""The same history and the same requests, to an Apache Kafka controller and to our core.

Both lead their third epoch over logs whose epochs begin at the same offsets. Where their
answers differ, the difference is one of those that are listed here, with its reason
(docs/evidence/proof.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from proofkit.kafkacontroller import NODE_ID, Controller, write_settings
from proofkit.playbook import Playbook, key_of
from raftnode.commands.storage import random_id
from raftnode.core.describe import describe
from raftnode.core.effects import SendResponse, ServeFetch
from raftnode.core.events import RequestReceived
from raftnode.core.messages import ErrorCode, FetchRequest, VoteRequest
from raftnode.core.types import Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.transport.hello import Hello, Identity, RefusalReason, refusal_of

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(900),
    pytest.mark.rule("P2", "P8", "P10", "P20", "P21", "P26"),
]

STRANGER = ReplicaKey(NodeId(8), uuid.UUID(int=8 << 64 | 8))
EPOCHS = 3
INVALID_REQUEST = 42


@dataclass
class Pair:
    """A controller of theirs and a leader of ours with the same history."""

    theirs: Controller
    ours: Playbook
    epoch: int
    end: int
    starts: list[tuple[int, int]]
    sequence: int = 0

    def replica(self, key: ReplicaKey) -> ReplicaKey:
        """Their name of a replica of ours."""
        if key == key_of("1"):
            return ReplicaKey(NodeId(NODE_ID), self.theirs.directory_id)
        return key

    def our_answer(self, source: ReplicaKey, request: Any) -> Any:
        effects = self.ours.give("1", RequestReceived(self.ours.number(), source, request))
        [answer] = [one.response for one in effects if isinstance(one, SendResponse | ServeFetch)]
        return answer

    def our_leader(self, answer: Any) -> int:
        return -1 if answer.leader is None else NODE_ID

    def fetch(self, *, epoch: int, last_epoch: int, offset: int) -> tuple[Any, Any]:
        """Their answer and ours."""
        self.sequence += 1
        request = FetchRequest(
            epoch=Epoch(epoch),
            replica=STRANGER,
            fetch_offset=Offset(offset),
            last_fetched_epoch=Epoch(last_epoch),
            acknowledged_offset=Offset(-1),
            high_watermark=Offset(-1),
            round_token=0,
            incarnation=1,
            sequence=self.sequence,
            max_bytes=1 << 20,
            max_wait_ms=0,
        )
        ours = self.our_answer(STRANGER, request)
        place = ours.diverging
        place = None if place is None else (place.epoch, place.end_offset)
        our = (int(ours.error), self.our_leader(ours), ours.epoch, place)
        return self.theirs.fetch(request), our

    def vote(self, **changes: Any) -> tuple[Any, Any]:
        """Their answer and ours."""
        asked = VoteRequest(
            Epoch(self.epoch),
            STRANGER,
            key_of("1"),
            LogPosition(Epoch(1), Offset(1)),
            pre_vote=True,
        )
        asked = replace(asked, **changes)
        ours = self.our_answer(STRANGER, asked)
        our = (int(ours.error), self.our_leader(ours), ours.epoch, ours.granted)
        return self.theirs.vote(replace(asked, voter=self.replica(asked.voter))), our


def same_history(theirs: Controller, end: int) -> Playbook:
    """Our leader of one, with their epochs at their offsets."""
    book = Playbook.formed("1")
    for epoch, start in theirs.epochs()[1:]:
        fill(book, start)
        book.crash("1", keep_unflushed=True)
        book.restart("1")
        book.elect("1")
        book.settle()
        assert book["1"].replica.epoch == epoch
    fill(book, end)
    book.settle()
    assert book["1"].replica.log.end == book["1"].replica.high_watermark == end
    return book


def fill(book: Playbook, end: int) -> None:
    while book["1"].replica.log.end < end:
        book.append("1", b"filling")
        book.settle()
    assert book["1"].replica.log.end == end, "their epochs begin too early to be repeated"


@pytest.fixture(scope="module")
def pair(kafka, host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    root = tmp_path_factory.mktemp("differential")
    # Else it writes a record every half second, and nothing can be compared.
    settings = write_settings(root, host, "metadata.max.idle.interval.ms=0\n")
    cluster_id = random_id()
    kafka.run(
        "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", str(settings)
    )
    command = kafka.command("kafka.Kafka", str(settings))
    theirs = Controller(command, root, host, cluster_id)
    for _ in range(EPOCHS - 1):
        with theirs.running():
            pass
    with theirs.running():
        found = theirs.describe()
        assert found.leader_epoch == EPOCHS
        end = found.high_watermark
        yield Pair(theirs, same_history(theirs, end), EPOCHS, end, theirs.epochs())


def test_describe_quorum_says_the_same(pair: Pair):
    theirs, ours = pair.theirs.describe(), describe(pair.ours["1"].replica)
    assert ours is not None
    assert theirs.error_code == 0
    assert pair.replica(ours.leader).node_id == theirs.leader_id
    assert (theirs.leader_epoch, theirs.high_watermark) == (ours.epoch, ours.high_watermark)
    assert [
        (one.replica_id, one.replica_directory_id, one.log_end_offset)
        for one in theirs.current_voters
    ] == [
        (pair.replica(one.key).node_id, pair.replica(one.key).directory_id, one.acknowledged)
        for one in ours.voters
    ]
    assert list(theirs.observers) == list(ours.observers) == []


def test_every_place_to_fetch_from(pair: Pair):
    """Each last epoch with each offset: whether the logs agree there, else where they part."""
    equal = 0
    for last_epoch in range(-1, EPOCHS + 2):
        for offset in range(pair.end + 3):
            theirs, ours = pair.fetch(epoch=EPOCHS, last_epoch=last_epoch, offset=offset)
            here = (0, NODE_ID, EPOCHS)
            if last_epoch < 0 or last_epoch > EPOCHS:
                # No log of a follower says that to Kafka: it is refused. We have an empty log
                # say -1, and tell a stranger with later epochs where to cut like any other.
                assert theirs == (INVALID_REQUEST, NODE_ID, EPOCHS, None)
                empty = last_epoch < 0
                place = None if empty and not offset else (-1, 0) if empty else (EPOCHS, pair.end)
                assert ours == (*here, place if offset else None)
            elif last_epoch < pair.starts[0][0] and offset:
                # Both say: cut all. Kafka gives the epoch that it was asked for, we give none.
                assert (theirs, ours) == ((*here, (last_epoch, 0)), (*here, (-1, 0)))
            else:
                assert theirs == ours, (last_epoch, offset)
                equal += 1
    assert equal > EPOCHS * pair.end


def test_fetches_of_other_epochs(pair: Pair):
    for epoch in (1, 2, EPOCHS, EPOCHS + 1, EPOCHS + 6):
        theirs, ours = pair.fetch(epoch=epoch, last_epoch=1, offset=1)
        assert theirs == ours, epoch
    theirs, ours = pair.fetch(epoch=-1, last_epoch=0, offset=0)
    # Fenced or invalid: no replica sends it.
    assert (theirs[0], ours[0]) == (INVALID_REQUEST, ErrorCode.FENCED_LEADER_EPOCH)


@pytest.mark.parametrize("pre_vote", [True, False], ids=["pre-vote", "vote"])
def test_votes_of_known_epochs(pair: Pair, pre_vote: bool):
    for epoch in range(1, EPOCHS + 1):
        for end in (1, 99):
            last = LogPosition(Epoch(epoch - 1), Offset(end))
            theirs, ours = pair.vote(epoch=Epoch(epoch), pre_vote=pre_vote, last=last)
            assert theirs == ours, (epoch, end)
            assert ours[3] is False


def test_votes_for_another_replica(pair: Pair):
    last = LogPosition(Epoch(2), Offset(1))
    other_disk = ReplicaKey(NodeId(NODE_ID), uuid.UUID(int=99))
    other_node = ReplicaKey(NodeId(9), pair.theirs.directory_id)
    for voter in (other_disk, other_node):
        theirs, ours = pair.vote(voter=voter, last=last)
        assert theirs == ours
        assert ours[0] == ErrorCode.INVALID_VOTER_KEY


def test_votes_that_no_candidate_asks_for(pair: Pair):
    """Kafka refuses them as invalid. So far we judge them like others, which is to grant none."""
    here = (NODE_ID, EPOCHS, False)
    before = pair.vote(epoch=Epoch(-1), last=LogPosition(Epoch(-1), Offset(0)))
    assert before == ((INVALID_REQUEST, *here), (ErrorCode.FENCED_LEADER_EPOCH, *here))
    ahead = pair.vote(last=LogPosition(Epoch(EPOCHS + 1), Offset(99)))
    assert ahead == ((INVALID_REQUEST, *here), (ErrorCode.NONE, *here))


def test_request_of_another_cluster_is_refused_before_it_is_judged(pair: Pair):
    """By the hello of the connection with us (S5), by the request with Kafka."""
    other = "AAAAAAAAAAAAAAAAAAAAAA"
    voter = pair.replica(key_of("1"))
    asked = VoteRequest(
        Epoch(EPOCHS), STRANGER, voter, LogPosition(Epoch(1), Offset(1)), pre_vote=True
    )
    assert pair.theirs.vote(asked, other)[0] == ErrorCode.INCONSISTENT_CLUSTER_ID
    own = Identity(voter, pair.theirs.cluster_id, incarnation=1)
    stranger = Hello(Identity(STRANGER, other, incarnation=1), voter)
    refusal = refusal_of(own, stranger, wanted=voter, dialled=voter)
    assert refusal is not None
    assert refusal.reason is RefusalReason.WRONG_CLUSTER


def test_stranger_of_a_higher_epoch_moves_a_leader_of_theirs_and_none_of_ours(pair: Pair):
    """S9; the last test, for their leader is gone. Even a pre-vote of no voter ends its epoch."""
    last = LogPosition(Epoch(1), Offset(1))
    theirs, ours = pair.vote(epoch=Epoch(EPOCHS + 1), last=last)
    assert theirs == (ErrorCode.NONE, -1, EPOCHS + 1, False)
    assert ours == (ErrorCode.NONE, NODE_ID, EPOCHS, False)
