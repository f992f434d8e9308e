"""What a blank replica takes from the answers to its announcements, and what it does not (S5)."""

from __future__ import annotations

import random
import uuid

import pytest

from raftnode.core.config import CoreConfig
from raftnode.core.effects import Effect, PersistClusterId, PersistQuorumState, SendRequest
from raftnode.core.events import RequestFailed, ResponseReceived, TimePassed
from raftnode.core.log_index import LogIndex
from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse
from raftnode.core.raft import RaftCore
from raftnode.core.roles import Blank
from raftnode.core.start_state import StartState
from raftnode.core.state import QuorumState
from raftnode.core.types import Epoch, NodeId, ReplicaKey

pytestmark = pytest.mark.rule("S5", "P53")

OWN, OLD = (ReplicaKey(NodeId(3), uuid.UUID(int=number)) for number in (33, 3))
LEADER, OTHER = (ReplicaKey(NodeId(number), uuid.UUID(int=number)) for number in (1, 2))
CONFIG = CoreConfig(announces_blank=True)
NOT_WANTED = ErrorCode.INCONSISTENT_CLUSTER_ID


class Announcer:
    """A blank replica and its clock."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.core = RaftCore(
            StartState(OWN, log=LogIndex(), state=QuorumState(), cluster_id=None),
            rng=random.Random(0),
            now_ms=0,
            config=CONFIG,
        )

    def announce(self) -> SendRequest:
        """Wait for the next Fetch."""
        self.now_ms = max(self.now_ms, self.core.next_deadline_ms() or 0)
        effects = self.core.handle(TimePassed(), self.now_ms)
        [request] = [effect for effect in effects if isinstance(effect, SendRequest)]
        assert isinstance(request.request, FetchRequest)
        return request

    def answer(
        self,
        source: ReplicaKey = LEADER,
        *,
        error: ErrorCode = NOT_WANTED,
        leader: ReplicaKey | None = LEADER,
        join: str | None = None,
    ) -> list[Effect]:
        """Send the next Fetch and answer it; a Fetch that follows at once fails."""
        request = self.announce().request
        response = FetchResponse(error, Epoch(7), leader, join=join)
        return self.core.handle(ResponseReceived(source, request, response), self.now_ms)

    @property
    def is_blank(self) -> bool:
        """Whether nothing has been taken over."""
        replica = self.core.replica
        known = (isinstance(replica.role, Blank), replica.cluster_id, replica.epoch)
        return known == (True, None, -1)


def test_announcement_names_no_epoch_and_asks_for_nothing():
    sent = Announcer().announce()
    assert sent.target is None
    assert isinstance(sent.request, FetchRequest)
    assert (sent.request.blank, sent.request.epoch, sent.request.max_wait_ms) == (True, -1, 0)


def test_leader_that_does_not_want_it_as_a_voter_changes_nothing():
    blank = Announcer()
    for _ in range(20):
        effects = blank.answer()
        assert not [e for e in effects if isinstance(e, PersistClusterId | PersistQuorumState)]
        assert blank.is_blank
    assert blank.now_ms >= 18 * CONFIG.announce_interval_ms, "it announces itself at its leisure"


def test_leader_that_wants_it_as_a_voter_is_believed():
    blank = Announcer()
    effects = blank.answer(error=ErrorCode.NONE, join="cluster")
    assert PersistClusterId("cluster") in effects
    assert blank.core.replica.cluster_id == "cluster"
    assert blank.core.replica.epoch == -1, "the first Fetch as a member brings the epoch"


@pytest.mark.without(
    "core.membership.discovery:take_answer",
    "if response.error == ErrorCode.NONE and response.join is not None and leader == source:",
    "if response.join is not None:",
)
@pytest.mark.parametrize(
    ("error", "leader"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, OTHER),
        (ErrorCode.NONE, OTHER),
        (ErrorCode.NONE, None),
        (NOT_WANTED, LEADER),
    ],
)
def test_only_the_leader_itself_can_make_it_join(error: ErrorCode, leader: ReplicaKey | None):
    blank = Announcer()
    blank.answer(error=error, leader=leader, join="cluster")
    assert blank.is_blank


def test_of_two_clusters_at_its_addresses_it_joins_the_one_that_adds_it():
    blank = Announcer()
    blank.answer(LEADER)
    blank.core.handle(RequestFailed(LEADER, blank.announce().request), blank.now_ms)
    assert blank.announce().target is None, "it asks at its addresses again"
    blank = Announcer()
    blank.answer(OTHER, leader=OTHER)
    assert blank.is_blank
    effects = blank.answer(OTHER, leader=OTHER, error=ErrorCode.NONE, join="second")
    [fetch] = [e.request for e in effects if isinstance(e, SendRequest)]
    assert isinstance(fetch, FetchRequest)
    assert not fetch.blank
    late = FetchResponse(ErrorCode.NONE, Epoch(9), LEADER, join="first")
    blank.core.handle(ResponseReceived(LEADER, fetch, late), blank.now_ms)
    assert blank.core.replica.cluster_id == "second"


def test_answer_that_comes_after_its_request_was_given_up_is_ignored():
    blank = Announcer()
    first = blank.announce().request
    late = FetchResponse(ErrorCode.NONE, Epoch(7), LEADER, join="first")
    blank.core.handle(RequestFailed(None, first), blank.now_ms)
    blank.core.handle(ResponseReceived(LEADER, first, late), blank.now_ms)
    assert blank.is_blank


def test_hint_to_an_earlier_disk_of_its_own_id_is_not_followed():
    """That address leads back here (S1)."""
    blank = Announcer()
    blank.answer(OTHER, error=ErrorCode.FENCED_LEADER_EPOCH, leader=OLD)
    assert blank.announce().target is None


def test_hint_is_followed_at_once_and_forgotten_when_it_fails():
    blank = Announcer()
    effects = blank.answer(OTHER, error=ErrorCode.FENCED_LEADER_EPOCH, leader=LEADER)
    [sent] = [effect for effect in effects if isinstance(effect, SendRequest)]
    assert sent.target == LEADER
    blank.core.handle(RequestFailed(LEADER, sent.request), blank.now_ms)
    assert blank.announce().target is None


@pytest.mark.without("core.membership.discovery:take_answer", "role.leader_hint is None and ", "")
def test_replicas_that_name_each_other_as_the_leader_are_not_asked_without_a_pause():
    """A storage that was put back may name a leader of long ago, which names the other."""
    blank = Announcer()
    request, asked, named = blank.announce().request, OTHER, LEADER
    for _ in range(20):
        response = FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, Epoch(7), named)
        effects = blank.core.handle(ResponseReceived(asked, request, response), blank.now_ms)
        sent = [effect for effect in effects if isinstance(effect, SendRequest)]
        request = (sent or [blank.announce()])[0].request
        asked, named = named, asked
    assert blank.now_ms >= 18 * CONFIG.announce_interval_ms
    assert blank.is_blank


def asks_a_server() -> tuple[Announcer, SendRequest]:
    """Announce a replica to a leader that does not want it, until it asks a server again."""
    blank = Announcer()
    blank.answer(LEADER)
    for _ in range(CONFIG.announcements_max):
        request = blank.announce()
        assert request.target == LEADER
        response = FetchResponse(NOT_WANTED, Epoch(7), LEADER)
        blank.core.handle(ResponseReceived(LEADER, request.request, response), blank.now_ms)
    request = blank.announce()
    assert request.target is None
    return blank, request


@pytest.mark.without(
    "core.replication.fetcher:_fetch_target",
    "return leader if announcements < replica.config.announcements_max else None",
    "return leader",
)
def test_leader_of_one_of_two_clusters_does_not_keep_it_from_the_other():
    """Both are in its list of addresses, and the one that it meets last adds it."""
    blank, request = asks_a_server()
    response = FetchResponse(NOT_WANTED, Epoch(3), OTHER)
    blank.core.handle(ResponseReceived(OTHER, request.request, response), blank.now_ms)
    request = blank.announce()
    assert request.target == OTHER
    response = FetchResponse(ErrorCode.NONE, Epoch(3), OTHER, join="second")
    blank.core.handle(ResponseReceived(OTHER, request.request, response), blank.now_ms)
    assert blank.core.replica.cluster_id == "second"


@pytest.mark.without("core.replication.fetcher:handle_fetch_failure", "and not asked_server", "")
def test_server_that_does_not_answer_costs_it_no_leader():
    blank, request = asks_a_server()
    blank.core.handle(RequestFailed(None, request.request), blank.now_ms)
    assert blank.announce().target == LEADER
