from kraftquorum_devcluster.processnode.probes import ProbeSchedule, ProbeSettings, ProbeState


def observe(state, results):
    return [(state.observe(success=r), state.holds)[1] for r in results]


def test_defaults_are_those_of_kubernetes():
    assert ProbeSettings.from_spec({}) == ProbeSettings(0, 10, 1, 1, 3)
    spec = {"initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 3}
    spec |= {"successThreshold": 4, "failureThreshold": 5}
    assert ProbeSettings.from_spec(spec) == ProbeSettings(1, 2, 3, 4, 5)


def test_failures_count_in_a_row():
    state = ProbeState(ProbeSettings(failure_threshold=3))
    assert observe(state, [True, False, False, True, False, False]) == [True] * 6
    assert observe(state, [False]) == [False]
    assert observe(state, [True]) == [True]


def test_successes_count_in_a_row():
    state = ProbeState(ProbeSettings(success_threshold=2, failure_threshold=1))
    assert observe(state, [True, False, True, True]) == [None, False, False, True]


def test_only_changes_are_told():
    state = ProbeState(ProbeSettings(failure_threshold=1))
    assert [state.observe(success=r) for r in (True, True, False, False)] == [
        True,
        False,
        True,
        False,
    ]


def test_eager_questions_do_not_use_up_the_failures():
    schedule = ProbeSchedule(ProbeSettings(period_s=10), eager_period_s=0.2)
    assert schedule.delay_s == 0.2
    counted = [schedule.counts(t / 5, success=False) for t in range(101)]
    assert [i / 5 for i, c in enumerate(counted) if c] == [0, 10, 20]


def test_initial_delay_shifts_the_first_failure_that_counts():
    schedule = ProbeSchedule(ProbeSettings(initial_delay_s=5, period_s=10), eager_period_s=1)
    assert schedule.counts(5, success=False)
    assert not schedule.counts(14.9, success=False)
    assert schedule.counts(15, success=False)


def test_after_a_success_the_period_rules_and_everything_counts():
    schedule = ProbeSchedule(ProbeSettings(period_s=10), eager_period_s=0.2)
    assert schedule.counts(0.2, success=True)
    assert schedule.delay_s == 10
    assert schedule.counts(1, success=False)
