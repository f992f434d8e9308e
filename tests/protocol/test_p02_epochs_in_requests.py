"""P2, P23: requests carry the leader's epoch; answers carry the leader and the epoch known.

KIP-595: "FENCED_LEADER_EPOCH: if the leader epoch in the request is smaller than the
latest known to the target broker" and "UNKNOWN_LEADER_EPOCH: if ... larger".
"""

from dataclasses import replace

import pytest

from proofkit.playbook import Playbook, key_of
from raftnode.core.effects import SendResponse
from raftnode.core.events import RequestReceived
from raftnode.core.messages import ErrorCode, FetchRequest, FetchResponse, Response
from raftnode.core.types import Epoch


def fetch(book: Playbook, target: str, **changes: object) -> Response:
    parked = next(iter(book["1"].replica.role.parked.values())).request
    request = replace(parked, sequence=10**9, **changes)
    assert isinstance(request, FetchRequest)
    effects = book.give(target, RequestReceived(book.number(), request.replica, request))
    answers = [effect.response for effect in effects if isinstance(effect, SendResponse)]
    assert answers
    return answers[-1]


@pytest.mark.rule("P2")
@pytest.mark.parametrize("target", ["1", "2"])
@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
@pytest.mark.without(
    "core.replication.leadership:judge_epoch",
    "if epoch == replica.epoch:",
    "if True:",
    "core.replication.fetcher:refuse_fetch",
    "epoch, role = replica.epoch, replica.role",
    "epoch, role = request.epoch, replica.role",
)
def test_fetch_of_another_epoch_is_told_the_leader(target: str, epoch: int, error: ErrorCode):
    book = Playbook.formed("1", "2", "3")
    answer = fetch(book, target, epoch=Epoch(epoch), replica=key_of("9"))
    if target == "2":
        assert answer.error is error
        assert (answer.epoch, answer.leader) == (1, key_of("1"))
    else:
        # On a leader the connection must prove who fetches; the epoch is looked at first.
        assert answer.error is error
        assert (answer.epoch, answer.leader) == (1, key_of("1"))


@pytest.mark.rule("P23")
@pytest.mark.without(
    "core.replication.fetcher:refuse_fetch",
    "FetchResponse(error, epoch, replica.leader, endpoint)",
    "FetchResponse(error, epoch, None, endpoint)",
)
def test_follower_names_the_leader_to_a_fetcher():
    """P23: "NOT_LEADER_FOR_PARTITION ... the response contains the leader if known"."""
    book = Playbook.formed("1", "2", "3")
    answer = fetch(book, "2")
    assert isinstance(answer, FetchResponse)
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.leader == key_of("1")


@pytest.mark.rule("P24")
def test_fetch_in_anothers_name_is_refused():
    book = Playbook.formed("1", "2", "3")
    parked = next(iter(book["1"].replica.role.parked.values())).request
    effects = book.give("1", RequestReceived(book.number(), key_of("9"), parked))
    [answer] = [effect.response for effect in effects if isinstance(effect, SendResponse)]
    assert answer.error is ErrorCode.INVALID_REQUEST
