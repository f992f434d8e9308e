"""What `kafka advise` says that the operator would do, the operator's planner does.

The advice is stricter: it replaces a voter only while all others are fresh. So each replacement that
it gives is the planner's, and not the other way round.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraftquorum_operator.kafka.advice import Kind, Limits, advise
from kraftquorum_operator.kafka.codec.describe_quorum import QuorumDescription, ReplicaState
from kraftquorum_operator.kafka.connection import Address
from kraftquorum_operator.kafka.facts import MappedController, NodeFacts, View
from kraftquorum_operator.kafka.quorum import Unheard, quorum_of, replica_of
from kraftquorum_operator.model.engine import KAFKA
from kraftquorum_operator.model.observation import ClaimRecord, Latch, Node, Observation
from kraftquorum_operator.plan.actions import AddVoter, Decision, RecordClaims, RemoveVoter
from proofkit.operatorworld.decision import decide
from proofkit.operatorworld.observations import CLUSTER, claim, healthy, pod, spec

AT_MS, NOW_MS, END = 1_700_000_000_000, 1_000_000, 5_000
LIMITS = Limits(grace_ms=5_000)


def row(node_id: int, age_ms: int, lag: int, disk: int = 0) -> ReplicaState:
    directory_id = uuid.UUID(int=1 << 90 | node_id * 10 + disk)
    return ReplicaState(node_id, directory_id, END - lag, AT_MS - age_ms, AT_MS - age_ms)


ages = st.sampled_from([0, 400, 4_000, 6_000, 60_000])
lags = st.sampled_from([0, 3, 2_000])


@st.composite
def descriptions(draw: st.DrawFn) -> QuorumDescription:
    """The leader is voter 0. Of each other id there may be no voter, and a new directory."""
    voters, observers = [row(0, 0, 0)], list[ReplicaState]()
    for node_id in range(1, draw(st.sampled_from([3, 5]))):
        votes = draw(st.integers(0, 4)) > 0
        if votes:
            voters.append(row(node_id, draw(ages), draw(lags)))
        if not votes or draw(st.booleans()):
            observers.append(row(node_id, draw(ages), draw(lags), disk=1))
    return QuorumDescription(0, None, 0, 7, END, tuple(voters), tuple(observers))


def wanted_of(description: QuorumDescription) -> range:
    rows = (*description.voters, *description.observers)
    return range(1 + max(state.node_id for state in rows))


def observation_of(description: QuorumDescription) -> Observation:
    """Of each id, the newest directory is in its pod, and has survived a restart."""
    facts = NodeFacts(Address("c", 9093), 1, 2, changes_voters=True, cluster_id=CLUSTER)
    view = View((facts,), {}, description, description, confirmed=True)
    quorum = quorum_of(view, Unheard(), NOW_MS, LIMITS)
    assert quorum is not None
    made = healthy(len(wanted_of(description)))
    assert made.statefulset is not None
    rows = {state.node_id: state for state in (*description.voters, *description.observers)}
    last = {state.node_id: state for state in (*description.observers, *description.voters)}
    records = {n: ClaimRecord(replica_of(last[n]).directory_id, f"claim-{n}") for n in sorted(rows)}
    voting = {
        replica.node_id
        for replica in quorum.replicas
        if replica_of(rows[replica.node_id]) == replica
    }
    nodes = tuple(
        Node(replica_of(state), 2, CLUSTER, "follower", 7, END, END, END, (), True, f"c-{n}:9093")
        for n, state in sorted(rows.items())
        if state.last_fetch_ms >= AT_MS - LIMITS.grace_ms
    )
    return replace(
        made,
        engine=KAFKA,
        quorum=quorum,
        latch=Latch(CLUSTER, ()),
        nodes=nodes,
        statefulset=replace(made.statefulset, records=tuple(records.items())),
        claims=tuple(replace(claim(n), record=record) for n, record in records.items()),
        pods=tuple(pod(n, voter=n in voting) for n in sorted(rows)),
    )


def planned(description: QuorumDescription) -> Decision:
    wanted = spec(voters=len(wanted_of(description)))
    return decide(wanted, observation_of(description), NOW_MS)


def wanted_map(description: QuorumDescription) -> list[MappedController]:
    return [MappedController(n, Address("c", 9000 + n)) for n in wanted_of(description)]


@pytest.mark.rule("S23")
@given(description=descriptions())
@settings(deadline=None, max_examples=300)
def test_a_replacement_that_is_advised_is_the_planners_next_step(
    description: QuorumDescription,
) -> None:
    advice = advise(description, description, wanted_map(description), LIMITS)
    assume(advice.kind in {Kind.REPLACE, Kind.ADD})
    step = planned(description)
    if advice.kind is Kind.REPLACE:
        assert advice.remove is not None
        assert isinstance(step, RemoveVoter)
        assert step.replica == replica_of(advice.remove)
    else:
        assert advice.add is not None
        assert isinstance(step, AddVoter | RecordClaims)
        if isinstance(step, AddVoter):
            assert step.replica == replica_of(advice.add)


def test_the_planner_replaces_one_of_two_lost_voters_where_the_advice_waits() -> None:
    """Three of five go on without both, and four of five after the first replacement."""
    lost = (row(3, 60_000, 9), row(4, 60_000, 9))
    voters = (row(0, 0, 0), row(1, 400, 0), row(2, 400, 0), *lost)
    description = QuorumDescription(0, None, 0, 7, END, voters, (row(3, 400, 0, disk=1),))
    assert advise(description, description, (), LIMITS).kind is Kind.WAIT
    step = planned(description)
    assert isinstance(step, RemoveVoter)
    assert step.replica == replica_of(lost[0])
