"""What an answer that is not 2xx means: ask on, refused, or unknown."""

from __future__ import annotations

import json
import random

import pytest

from raftnode.client.errors import OutcomeUnknownError, RefusedError, UnavailableError
from raftnode.client.exchange import Answer, Call, answer_within_ms
from raftnode.client.leader_search import LeaderSearch
from raftnode.client.requests_to_nodes import Asker, Patience
from raftnode.core.types import Endpoint

A, B, C = (Endpoint(host, 1) for host in "abc")
READ, WRITE = Call("GET", "/v1/quorum"), Call("PUT", "/v1/kv/a", write=True)
PATIENCE = Patience(total_ms=100, attempt_ms=50, connect_ms=50, backoff_ms=5, backoff_max_ms=10)


def asker(*endpoints: Endpoint) -> Asker:
    return Asker(endpoints, PATIENCE, hosts_file=None, resolver=None, rng=random.Random(1))


def refused(status: int, error: str, outcome: str = "not_done", **fields: object) -> Answer:
    body = {"error": error, "message": "m", "outcome": outcome, **fields}
    return Answer(A, status, {}, json.dumps(body).encode())


def take(call: Call, answer: Answer) -> tuple[Asker, LeaderSearch, dict[Endpoint, str]]:
    """Have A's answer taken after A was asked."""
    asking = asker(A, B)
    asking.leader = A
    search = LeaderSearch((A,), A, random.Random(1))
    assert search.next() == A
    said: dict[Endpoint, str] = {}
    asking._take_refusal(call, answer, search, said)
    return asking, search, said


@pytest.mark.parametrize("call", [READ, WRITE])
@pytest.mark.parametrize("status", [421, 429, 503])
def test_what_may_succeed_elsewhere_is_asked_on(call: Call, status: int):
    asking, search, said = take(call, refused(status, "QUEUE_FULL"))
    assert said == {A: "QUEUE_FULL: m"}
    assert asking.leader == A
    assert search.next() is None


@pytest.mark.rule("P27", "P31")
@pytest.mark.without("client.requests_to_nodes:Asker._take_refusal", "search.hint(hinted)", "pass")
@pytest.mark.without("client.requests_to_nodes:Asker._take_refusal", "self.leader = hinted", "pass")
def test_who_does_not_lead_is_forgotten_and_its_hint_is_asked_next():
    asking, search, _ = take(WRITE, refused(421, "NOT_LEADER", leader_api="c:1"))
    assert asking.leader == C
    assert search.next() == C


def test_a_node_that_hints_at_itself_is_not_asked_again_at_once():
    asking, search, _ = take(WRITE, refused(421, "NOT_LEADER", leader_api="a:1"))
    assert asking.leader is None
    assert search.next() is None


@pytest.mark.parametrize("call", [READ, WRITE])
@pytest.mark.parametrize("status", [400, 404, 409, 413, 500, 504, 507])
def test_what_would_be_refused_again_is_refused(call: Call, status: int):
    with pytest.raises(RefusedError) as caught:
        take(call, refused(status, "LAST_VOTER"))
    assert (caught.value.error, caught.value.status, caught.value.endpoint) == (
        "LAST_VOTER",
        status,
        A,
    )


@pytest.mark.parametrize(
    "answer",
    [
        refused(504, "TIMED_OUT", "unknown"),
        refused(503, "NEWER_NAME", "unknown"),
        Answer(A, 503, {}, b"<html>"),
        Answer(A, 421, {}, b'{"error":"NOT_LEADER","message":"m"}'),
    ],
)
def test_an_unknown_outcome_ends_a_write_and_lets_a_read_go_on(answer: Answer):
    with pytest.raises(OutcomeUnknownError) as caught:
        take(WRITE, answer)
    assert caught.value.endpoint == A
    asking, _, said = take(READ, answer)
    assert list(said) == [A]
    assert asking.leader is None


@pytest.mark.parametrize(
    ("left_ms", "given_ms"), [(0, 1), (1, 1), (100, 90), (10_000, 9_000), (10**9, 600_000)]
)
def test_the_node_is_given_less_time_than_there_is_and_what_it_takes(left_ms: int, given_ms: int):
    assert answer_within_ms(left_ms) == given_ms


def test_a_client_has_a_node_to_ask():
    with pytest.raises(ValueError, match="at least one host:port"):
        asker()


async def test_no_node_is_asked_before_it_is_opened_nor_after_the_deadline():
    asking = asker(A)
    with pytest.raises(RuntimeError, match="context manager"):
        await asking.ask(READ, 100, leader=True)
    with pytest.raises(UnavailableError, match="none was asked"):
        await asking.ask(READ, 0, leader=True)
