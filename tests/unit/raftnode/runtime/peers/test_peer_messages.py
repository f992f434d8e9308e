"""Callbacks become events, effects become frames; nothing grows without a limit."""

import uuid

import pytest
from prometheus_client import CollectorRegistry

from proofkit.playbook import Playbook, key_of
from raftnode.core.config import CoreConfig
from raftnode.core.events import RequestFailed, RequestReceived, ResponseReceived
from raftnode.core.messages import (
    BeginQuorumEpochRequest,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from raftnode.core.records import Batch
from raftnode.core.types import Endpoint, Epoch, LogPosition, NodeId, Offset, ReplicaKey
from raftnode.runtime.metrics.node_metrics import NodeMetrics
from raftnode.runtime.peers import peer_messages as module
from raftnode.runtime.peers.peer_messages import Peering, rank_of
from raftnode.transport import AddressBook, Failure, FailureReason, Identity
from raftnode.transport.connection_limits import Rank

PEER = ReplicaKey(NodeId(2), uuid.UUID(int=22))
VOTE = VoteRequest(Epoch(3), PEER, PEER, LogPosition(Epoch(1), Offset(5)), False)
BEGIN = BeginQuorumEpochRequest(Epoch(3), PEER, PEER, None)
GRANTED = VoteResponse(ErrorCode.NONE, Epoch(3), None, True)
FETCH = FetchRequest(
    epoch=Epoch(3),
    replica=PEER,
    fetch_offset=Offset(0),
    last_fetched_epoch=Epoch(-1),
    acknowledged_offset=Offset(0),
    high_watermark=Offset(0),
    round_token=0,
    incarnation=1,
    max_bytes=100,
    max_wait_ms=500,
    sequence=1,
    endpoint=None,
)


class Pool:
    """Remembers what it was to send."""

    def __init__(self) -> None:
        self.sent = []
        self.heard_of = []

    def send(self, target, request, timeout_ms) -> None:
        self.sent.append((target, request, timeout_ms))

    def send_bootstrap(self, request, timeout_ms) -> None:
        self.sent.append((None, request, timeout_ms))

    def noticed(self, key) -> None:
        self.heard_of.append(key)


class Around:
    """A peering with a counted backlog."""

    def __init__(self) -> None:
        self.events = []
        self.waiting = 0
        self.addresses = AddressBook()
        self.registry = CollectorRegistry()
        ids = iter(range(1, 1_000_000))
        self.peering = Peering(
            self.events.append,
            lambda: next(ids),
            self.addresses,
            timeout_ms=2000,
            vote_timeout_ms=1000,
            backlog=lambda: self.waiting,
            metrics=NodeMetrics(self.registry),
        )
        self.pool = self.peering.pool = Pool()


@pytest.fixture
def around():
    return Around()


def test_a_request_is_answered_once_to_who_asked(around):
    answers = []
    around.peering.on_request(PEER, VOTE, answers.append)
    [event] = around.events
    assert event == RequestReceived(1, PEER, VOTE)
    around.peering.respond(1, GRANTED)
    around.peering.respond(1, GRANTED)
    around.peering.respond(77, GRANTED)
    assert answers == [GRANTED]


def test_of_too_many_unanswered_requests_the_oldest_is_forgotten(around, monkeypatch):
    monkeypatch.setattr(module, "UNANSWERED_MAX", 2)
    answers = []
    for name in "abc":
        around.peering.on_request(PEER, VOTE, lambda _, name=name: answers.append(name))
    for request_id in (1, 2, 3):
        around.peering.respond(request_id, GRANTED)
    assert answers == ["b", "c"]


def test_a_flood_of_requests_is_dropped_once_the_core_is_far_behind(around):
    around.waiting = module.BACKLOG_MAX
    around.peering.on_request(PEER, VOTE, lambda _: None)
    assert around.events == []
    assert len(around.peering._unanswered) == 0
    around.peering.on_response(PEER, VOTE, GRANTED)  # one per request of our own: bounded
    around.waiting = 0
    around.peering.on_request(PEER, VOTE, lambda _: None)
    assert [type(event) for event in around.events] == [ResponseReceived, RequestReceived]


def test_outcomes_of_requests_are_events(around):
    around.peering.on_response(PEER, VOTE, GRANTED)
    around.peering.on_failure(PEER, VOTE, Failure(FailureReason.TIMED_OUT, ""))
    around.peering.on_failure(None, FETCH, Failure(FailureReason.UNREACHABLE, ""))
    assert around.events == [
        ResponseReceived(PEER, VOTE, GRANTED),
        RequestFailed(PEER, VOTE),
        RequestFailed(None, FETCH),
    ]


def test_a_fetch_may_wait_longer_by_its_own_wait(around):
    around.peering.send(PEER, BEGIN)
    around.peering.send(PEER, FETCH)
    around.peering.send(None, FETCH)
    assert around.pool.sent == [(PEER, BEGIN, 2000), (PEER, FETCH, 2500), (None, FETCH, 2500)]


def test_a_request_for_a_vote_ends_with_its_round(around):
    around.peering.send(PEER, VOTE)
    assert around.pool.sent == [(PEER, VOTE, 1000)]


def test_addresses_are_learned_from_leaders_and_from_those_who_dial(around):
    leader = ReplicaKey(NodeId(3), uuid.UUID(int=33))
    response = FetchResponse(ErrorCode.NONE, Epoch(3), leader, Endpoint("leader", 1))
    around.peering.on_response(PEER, FETCH, response)
    assert around.addresses.candidates(leader) == (Endpoint("leader", 1),)
    around.peering.on_called(Identity(PEER, "c", 1, Endpoint("peer", 2), Endpoint("api", 3)))
    assert around.addresses.candidates(PEER) == (Endpoint("peer", 2),)
    assert around.peering.api_endpoint_of(PEER) == Endpoint("api", 3)
    assert around.pool.heard_of == [PEER]


def test_strangers_hellos_do_not_pile_up(around, monkeypatch):
    monkeypatch.setattr(module, "API_ENDPOINTS_MAX", 2)
    keys = [ReplicaKey(NodeId(2), uuid.UUID(int=number)) for number in (1, 2, 3)]
    for key in keys:
        around.peering.on_hello(Identity(key, None, 1, None, Endpoint("api", 3)))
    around.peering.on_hello(Identity(PEER, None, 1))
    assert [around.peering.api_endpoint_of(key) is None for key in keys] == [True, False, False]
    assert around.peering.api_endpoint_of(PEER) is None


RESPONSE = "runtime.peers.peer_messages:Peering.on_response"


@pytest.mark.rule("P58")
@pytest.mark.without(RESPONSE, "self._metrics.fetched_records.inc(records)", "pass")
@pytest.mark.without(RESPONSE, "batch.end_offset - batch.base_offset for", "1 for")
@pytest.mark.without(
    "runtime.peers.peer_messages:Peering.on_request",
    "isinstance(request, FetchRequest |",
    "(True or",
)
@pytest.mark.without("runtime.metrics.node_metrics:NodeMetrics.peer_fetched", ".inc()", ".inc(0)")
def test_fetches_records_and_failures_are_counted(around):
    around.peering.on_request(PEER, FETCH, lambda _: None)
    around.peering.on_request(PEER, VOTE, lambda _: None)
    batches = (Batch(Offset(3), Offset(6), Epoch(1)), Batch(Offset(7), Offset(7), Epoch(1)))
    found = FetchResponse(ErrorCode.NONE, Epoch(1), PEER, batches=batches)
    around.peering.on_response(PEER, FETCH, found)
    around.peering.on_failure(PEER, VOTE, Failure(FailureReason.TIMED_OUT, ""))
    value, peer = around.registry.get_sample_value, {"peer_id": str(PEER.node_id)}
    assert value("raftnode_peer_fetches_total", peer) == 1
    assert value("raftnode_fetched_records_total") == 5
    failures = "raftnode_peer_request_failures_total"
    assert value(failures, peer | {"reason": "timed_out"}) == 1


@pytest.mark.rule("S5")
@pytest.mark.without("runtime.peers.peer_messages:rank_of", "and progress.has_asked", "")
def test_blank_replica_takes_no_connection_of_an_observer_that_fetches():
    """Many of them may announce themselves at once; each ranks with the strangers."""
    book = Playbook.formed("1", "2", "3", config=CoreConfig(announces_blank=True))
    book.observer("4")
    book.blank("5")
    book.run(1000)
    replica = book["1"].replica
    ranks = {name: rank_of(replica, key_of(name)) for name in ("2", "4", "5", "6")}
    assert ranks == {
        "2": Rank.VOTER,
        "4": Rank.OBSERVER,
        "5": Rank.STRANGER,
        "6": Rank.STRANGER,
    }
