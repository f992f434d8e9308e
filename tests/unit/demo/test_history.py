"""Who voted and led when, and what is said of it."""

from kraftquorum_demo.history import Fault, History, ReplicaId, Span, StepSpan, living_observers
from kraftquorum_demo.sample_answers import C2, A, B, C, quorum


def test_a_new_disk_is_a_new_seat():
    history = History()
    assert history.observe(quorum(A, [A, B, C], epoch=1), 1.0) == [
        f"{ReplicaId.of(A)} leads in epoch 1",
        f"{ReplicaId.of(A)} is a voter",
        f"{ReplicaId.of(B)} is a voter",
        f"{ReplicaId.of(C)} is a voter",
    ]
    assert history.observe(quorum(A, [A, B, C, C2], epoch=1), 2.0) == [
        f"{ReplicaId.of(C2)} is a voter"
    ]
    gone = history.observe(quorum(A, [A, B, C2], epoch=1), 3.0)
    assert gone == [f"{ReplicaId.of(C)} is a voter no longer"]
    assert history.voters[ReplicaId.of(C)] == [Span(1.0, 3.0)]
    assert history.voters[ReplicaId.of(C2)] == [Span(2.0)]
    assert history.observe(quorum(A, [A, B, C2], epoch=1), 4.0) == []


def test_a_reign_ends_when_its_leader_was_last_heard_of():
    history = History()
    history.observe(quorum(A, [A, B, C], epoch=1), 1.0)
    assert history.observe(None, 5.0) == [f"no leader answers; the last was {ReplicaId.of(A)}"]
    assert history.observe(None, 5.0) == []
    history.observe(quorum(B, [A, B, C], epoch=3), 7.0)
    assert [
        (leadership.replica_id, leadership.epoch, leadership.span)
        for leadership in history.leaderships
    ] == [
        (ReplicaId.of(A), 1, Span(1.0, 5.0)),
        (ReplicaId.of(B), 3, Span(7.0)),
    ]


def test_a_leader_that_was_only_slow_leads_again():
    history = History()
    history.observe(quorum(A, [A], epoch=1), 1.0)
    history.observe(None, 5.0)
    assert history.observe(quorum(A, [A], epoch=1), 6.0) == [f"{ReplicaId.of(A)} leads again"]
    assert [leadership.span for leadership in history.leaderships] == [Span(1.0)]


def test_no_replica_leads_before_the_first_leader():
    assert History().observe(None, 1.0) == []


def test_observers_that_stopped_fetching_are_not_shown():
    found = quorum(A, [A, B], observers=[(C, 100), (C2, 9000)])
    assert [ReplicaId.of(observer) for observer in living_observers(found)] == [ReplicaId.of(C)]
    history = History()
    history.observe(found, 1.0)
    history.observe(quorum(A, [A, B]), 2.0)
    assert history.observers == {ReplicaId.of(C): [Span(1.0, 2.0)]}


def test_close_ends_everything():
    history = History()
    history.observe(quorum(A, [A], observers=[(B, 0)]), 1.0)
    history.steps.append(StepSpan("step", Span(1.0)))
    history.faults.append(Fault(1.5, "fault", violent=True))
    history.close(9.0)
    spans = [*history.voters[ReplicaId.of(A)], *history.observers[ReplicaId.of(B)]]
    spans += [history.leaderships[0].span, history.steps[0].span]
    assert {span.until_s for span in spans} == {9.0}
