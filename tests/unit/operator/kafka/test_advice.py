"""The advice about a quorum of Kafka's: the cases by hand, and what holds of every description."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kraftquorum_operator.kafka.advice import Kind, Limits, advise, majority
from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription, ReplicaState
from kraftquorum_operator.kafka.command import exit_code
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.exit_codes import AdviseExitCode
from kraftquorum_operator.kafka.facts import MappedController

NOW_MS, END = 1_700_000_000_000, 1000
LIMITS = Limits()


def directory(number: int) -> uuid.UUID:
    return uuid.UUID(int=1 << 90 | number)


def replica(node_id: int, *, disk: int = 0, lag: int = 0, age_ms: int | None = 100) -> ReplicaState:
    """A row; `age_ms` None: no Fetch since the election."""
    at_ms = -1 if age_ms is None else NOW_MS - age_ms
    end = -1 if age_ms is None else END - lag
    return ReplicaState(node_id, directory(node_id * 10 + disk), end, at_ms, at_ms)


def quorum(*voters: ReplicaState, observers: tuple[ReplicaState, ...] = ()) -> QuorumDescription:
    """A description whose leader is the first voter."""
    leader = replace(voters[0], log_end_offset=END, last_fetch_ms=NOW_MS, last_caught_up_ms=NOW_MS)
    return QuorumDescription(0, None, leader.node_id, 7, END, (leader, *voters[1:]), observers)


SILENT_MS = LIMITS.grace_ms + 1
MAP = tuple(MappedController(node_id, Address("c", 9000 + node_id)) for node_id in (1, 2, 3))

CASES = {
    "all fresh": (quorum(*map(replica, (1, 2, 3))), Kind.NOTHING, True),
    "one voter lags": (quorum(replica(1), replica(2), replica(3, lag=2000)), Kind.WAIT, False),
    "just silent": (quorum(replica(1), replica(2), replica(3, age_ms=9000)), Kind.WAIT, False),
    "silent for long": (
        quorum(replica(1), replica(2), replica(3, age_ms=SILENT_MS)),
        Kind.PROVIDE,
        False,
    ),
    "silent, and the new directory follows": (
        quorum(
            replica(1),
            replica(2),
            replica(3, age_ms=SILENT_MS),
            observers=(replica(3, disk=1, lag=5000),),
        ),
        Kind.WAIT,
        False,
    ),
    "silent, and the new directory has caught up": (
        quorum(
            replica(1),
            replica(2),
            replica(3, age_ms=SILENT_MS),
            observers=(replica(3, disk=1),),
        ),
        Kind.REPLACE,
        False,
    ),
    "silent since the election, and the new directory has caught up": (
        quorum(replica(1), replica(2), replica(3, age_ms=None), observers=(replica(3, disk=1),)),
        Kind.REPLACE,
        False,
    ),
    "within the grace time, and the new directory has caught up": (
        quorum(replica(1), replica(2), replica(3, age_ms=9000), observers=(replica(3, disk=1),)),
        Kind.WAIT,
        False,
    ),
    "two live directories under one id": (
        quorum(replica(1), replica(2), replica(3), observers=(replica(3, disk=1),)),
        Kind.DECISION_NEEDED,
        True,
    ),
    "two new directories under one id": (
        quorum(
            replica(1),
            replica(2),
            replica(3, age_ms=SILENT_MS),
            observers=(replica(3, disk=1), replica(3, disk=2)),
        ),
        Kind.DECISION_NEEDED,
        False,
    ),
    "two of five silent": (
        quorum(
            *map(replica, (1, 2, 3)),
            replica(4, age_ms=SILENT_MS),
            replica(5, age_ms=SILENT_MS),
            observers=(replica(4, disk=1),),
        ),
        Kind.WAIT,
        False,
    ),
    "the removal was done, the addition not": (
        quorum(replica(1), replica(2), observers=(replica(3, disk=1),)),
        Kind.ADD,
        False,
    ),
    "a controller of the map was never started": (
        quorum(replica(1), replica(2)),
        Kind.PROVIDE,
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_case(case: str) -> None:
    description, kind, safe = CASES[case]
    advice = advise(description, description, MAP)
    assert (advice.kind, advice.safe) == (kind, safe), advice.text


def test_a_replacement_names_both_directories() -> None:
    description, _, _ = CASES["silent, and the new directory has caught up"]
    advice = advise(description, description)
    assert advice.remove is not None
    assert advice.add is not None
    assert advice.remove.key == (3, directory(30))
    assert advice.add.key == (3, directory(31))


@pytest.mark.without("kraftquorum_operator.kafka.advice:_decide", "if twin:", "if False:")
def test_of_two_live_directories_neither_is_chosen() -> None:
    description, _, _ = CASES["two new directories under one id"]
    advice = advise(description, description)
    assert (advice.remove, advice.add) == (None, None)


def test_a_log_that_goes_back_is_a_directory_that_was_emptied() -> None:
    """Proposal 203 of Strimzi formats again under the old directory id."""
    before = quorum(*map(replica, (1, 2, 3)))
    after = quorum(replica(1), replica(2), replica(3, lag=900))
    advice = advise(after, before)
    assert advice.kind is Kind.DECISION_NEEDED
    assert "emptied under its old id" in advice.text


def test_without_an_id_map_a_missing_controller_is_not_known() -> None:
    description, _, _ = CASES["a controller of the map was never started"]
    assert advise(description, description).kind is Kind.NOTHING


def test_the_exit_code_says_first_whether_it_is_safe() -> None:
    codes = {
        case: exit_code(advise(description, description, MAP))
        for case, (description, _, _) in CASES.items()
    }
    assert codes["all fresh"] is AdviseExitCode.SAFE
    assert codes["two live directories under one id"] is AdviseExitCode.ACTION
    assert codes["silent, and the new directory has caught up"] is AdviseExitCode.AT_RISK


ROWS = st.tuples(st.sampled_from([0, 10, 5000]), st.sampled_from([None, 100, 9000, SILENT_MS]))


@st.composite
def descriptions(draw: st.DrawFn) -> QuorumDescription:
    voters = [
        replica(node_id, lag=lag, age_ms=age)
        for node_id, (lag, age) in enumerate(draw(st.lists(ROWS, min_size=1, max_size=7)))
    ]
    observers = tuple(
        replica(draw(st.integers(0, 8)), disk=disk, lag=lag, age_ms=age)
        for disk, (lag, age) in enumerate(draw(st.lists(ROWS, max_size=4)), 1)
    )
    return quorum(*voters, observers=observers)


@given(description=descriptions())
@example(description=CASES["two of five silent"][0])
@settings(max_examples=400, deadline=None)
@pytest.mark.without(
    "kraftquorum_operator.kafka.advice:_decide", "if len(silent) > 1:", "if False:"
)
def test_what_is_removed_is_silent_and_the_rest_is_fresh(description: QuorumDescription) -> None:
    advice = advise(description, description, MAP)
    if advice.remove is None:
        return
    fresh = {standing.state.key for standing in advice.voters if standing.fresh}
    rest = {standing.state.key for standing in advice.voters} - {advice.remove.key}
    assert advice.remove.key not in fresh
    assert rest == fresh
    assert len(rest) >= majority(len(advice.voters))
    assert advice.add is not None


@given(description=descriptions())
@settings(max_examples=400, deadline=None)
def test_what_is_added_is_the_one_fresh_replica_of_its_id(description: QuorumDescription) -> None:
    advice = advise(description, description, MAP)
    if advice.add is None:
        return
    rows = (*advice.voters, *advice.observers)
    live = [row for row in rows if row.fresh and row.state.node_id == advice.add.node_id]
    assert [row.state.key for row in live] == [advice.add.key]
    assert advice.add in description.observers


@given(description=descriptions())
@settings(max_examples=400, deadline=None)
def test_a_voter_that_may_be_lost_leaves_a_majority(description: QuorumDescription) -> None:
    advice = advise(description, description, MAP)
    fresh = {standing.state.key for standing in advice.voters if standing.fresh}
    for standing in advice.voters:
        left = fresh - {standing.state.key}
        needed = majority(len(advice.voters))
        if standing.fresh:
            assert standing.may_be_lost == (len(left) >= needed)
    assert advice.safe == (len(fresh) - 1 >= majority(len(advice.voters)))
