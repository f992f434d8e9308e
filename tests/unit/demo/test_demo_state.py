"""The rows that the table shows."""

from kraftquorum_demo.demo_state import DemoState, Figures, Row, rows
from kraftquorum_demo.history import ReplicaId
from kraftquorum_demo.record import Record
from kraftquorum_demo.sample_answers import C2, A, B, C, quorum


def test_rows_are_voters_then_observers_with_what_is_wrong():
    found = rows(quorum(B, [A, B, C], observers=[(C2, 0)], lagging=[A], committed=[A, B]))
    assert found == [
        Row(ReplicaId.of(A), "voter", 7, "not caught up"),
        Row(ReplicaId.of(B), "leader", 0, ""),
        Row(ReplicaId.of(C), "voter", 0, "not committed yet"),
        Row(ReplicaId.of(C2), "observer", 3, "catching up"),
    ]
    assert rows(None) == []


def test_figures_are_those_of_the_account():
    record = Record()
    record.acknowledge(record.begin("w0", None, b"v", 1.0), 0, 1.5)
    record.lose_sight(record.begin("w0", None, b"w", 1.5), "cut", 2.0)
    now = Figures.of(record, 4.0)
    assert (now.acknowledged, now.unknown, now.refused, now.stalled_s) == (1, 1, 0, 2.5)
    assert now.longest.seconds == 2.5


def test_voters_are_known_once_a_leader_answers_and_while_none_does():
    state = DemoState()
    assert state.voters() == []
    state.history.observe(quorum(A, [C, A, B, C2]), 1.0)
    assert state.voters() == [0, 1, 2]
    state.history.observe(quorum(A, [A, B]), 2.0)
    state.history.observe(None, 3.0)
    assert state.voters() == [0, 1]
