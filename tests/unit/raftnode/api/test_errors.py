"""The table of errors keeps the two rules that clients build on."""

from __future__ import annotations

import uuid

import pytest

from raftnode.api.errors import DOCUMENT_NAMES, ERRORS, RETRIABLE_STATUSES, not_leader, refusal
from raftnode.core.types import Endpoint, NodeId, ReplicaKey

KEY = ReplicaKey(NodeId(2), uuid.UUID(int=5))


def test_what_may_have_been_done_is_never_retriable():
    unknown = {name for name, kind in ERRORS.items() if kind.outcome == "unknown"}
    assert unknown == {"TIMED_OUT", "LEADERSHIP_LOST", "INTERNAL"}
    for name in unknown:
        assert ERRORS[name].status not in RETRIABLE_STATUSES
        assert not ERRORS[name].retriable


@pytest.mark.parametrize(
    "name",
    ["NOT_LEADER", "NODE_BLANK", "QUEUE_FULL", "SHUTTING_DOWN", "NOT_COMMITTED", "NOT_CONFIRMED"],
)
def test_what_another_time_or_node_may_serve_is_retriable(name: str):
    assert ERRORS[name].retriable


@pytest.mark.parametrize(
    "name",
    [
        "INVALID_REQUEST",
        "STALE_VOTER_RECORD",
        "STORAGE_FULL",
        "LAST_VOTER",
        "INCONSISTENT_CLUSTER_ID",
    ],
)
def test_what_would_be_refused_again_is_not(name: str):
    assert not ERRORS[name].retriable


def test_all_statuses_are_errors_and_all_names_are_stable_words():
    for name, kind in ERRORS.items():
        assert 400 <= kind.status < 600
        assert name == name.upper()
        assert name.replace("_", "").isalpha()
        assert kind.meaning.endswith(".")


@pytest.mark.rule("P3")
@pytest.mark.without("api.errors:refusal", "status=kind.status", "status=500")
@pytest.mark.without("api.errors:refusal", "outcome=kind.outcome", "outcome='not_done'")
def test_a_refusal_has_the_tables_status_and_outcome():
    error = refusal("TIMED_OUT", "late", leader=KEY, leader_api=Endpoint("a", 1))
    assert (error.error, error.status, error.outcome) == ("TIMED_OUT", 504, "unknown")
    assert (error.leader, error.leader_api, str(error)) == (KEY, Endpoint("a", 1), "late")
    with pytest.raises(KeyError):
        refusal("NO_SUCH_NAME", "x")


@pytest.mark.rule("P3", "P27")
@pytest.mark.without("api.errors:not_leader", "leader_api=leader_api", "leader_api=None")
def test_who_does_not_lead_says_who_does_as_far_as_it_knows():
    assert "knows of no leader" in str(not_leader(None, None))
    error = not_leader(KEY, Endpoint("b", 2))
    assert (error.status, error.outcome, error.leader_api) == (421, "not_done", Endpoint("b", 2))
    assert str(error).endswith(f"the leader is {KEY} at b:2")


@pytest.mark.rule("P3", "P29", "P30")
def test_each_error_of_the_documents_for_clients_has_a_name_here():
    """KIP-595's, 642's and 856's, apart from those that only replicas answer each other."""
    assert set(DOCUMENT_NAMES.values()) == {
        "INVALID_CLUSTER_ID",
        "INVALID_REQUEST",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_OUT_OF_RANGE",
        "VOTER_ALREADY_ADDED",
        "VOTER_ALREADY_REMOVED",
    }
    assert set(DOCUMENT_NAMES) <= set(ERRORS)
