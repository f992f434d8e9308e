"""The order of asking: hints first, each endpoint once a round."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftnode.client.leader_search import LeaderSearch, backoff_ms
from raftnode.core.types import Endpoint

pytestmark = pytest.mark.rule("P27")

A, B, C, D = (Endpoint(name, 1) for name in "abcd")


def drain(search: LeaderSearch) -> list[Endpoint]:
    found: list[Endpoint] = []
    while (endpoint := search.next()) is not None:
        found.append(endpoint)
    return found


@pytest.mark.without(
    "client.leader_search:LeaderSearch.begin_round",
    "[first, *rest] if first is not None else rest",
    "rest",
)
@pytest.mark.without(
    "client.leader_search:LeaderSearch.next", "if endpoint not in self._asked:", "if True:"
)
def test_round_asks_the_remembered_leader_first_and_each_endpoint_once():
    search = LeaderSearch([A, B, C], C, random.Random(1))
    found = drain(search)
    assert found[0] == C
    assert sorted(found) == [A, B, C]
    search.begin_round(None)
    assert sorted(drain(search)) == [A, B, C]


@pytest.mark.without(
    "client.leader_search:LeaderSearch.hint",
    "self._queue.insert(0, endpoint)",
    "self._queue.append(endpoint)",
)
@pytest.mark.rule("P31")
def test_hint_is_asked_next_also_when_it_is_new():
    search = LeaderSearch([A, B], A, random.Random(1))
    assert search.next() == A
    search.hint(D)
    assert search.next() == D
    assert drain(search) == [B]


def test_hint_to_one_that_was_asked_waits_for_the_next_round():
    search = LeaderSearch([A], A, random.Random(1))
    assert search.next() == A
    search.hint(A)
    assert search.next() is None


@pytest.mark.without(
    "client.leader_search:LeaderSearch.hint", " and self._hints < _HINTS_PER_ROUND_MAX", ""
)
def test_hints_of_one_round_are_bounded():
    search = LeaderSearch([A], None, random.Random(1))
    for port in range(1, 100):
        search.hint(Endpoint("x", port))
    assert len(drain(search)) < 12


@given(st.integers(0, 10_000), st.integers(1, 500), st.integers(1, 5000), st.integers())
def test_backoff_never_exceeds_its_maximum(rounds: int, first_ms: int, max_ms: int, seed: int):
    rng = random.Random(seed)
    pause_ms = backoff_ms(rounds, first_ms=first_ms, max_ms=max_ms, rng=rng)
    assert 0 < pause_ms <= max_ms
