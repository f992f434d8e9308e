"""Pauses between the starts of a process that ends."""

from kraftquorum_devcluster.backoff import Backoff


def test_the_first_restart_is_at_once_and_the_pauses_then_double_up_to_a_limit():
    backoff = Backoff(first_s=0.5, max_s=3.0, reset_s=10.0)
    assert [backoff.after(1.0) for _ in range(6)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_a_process_that_ran_for_a_while_is_started_again_at_once():
    backoff = Backoff(first_s=0.5, max_s=3.0, reset_s=10.0)
    assert [backoff.after(ran_s) for ran_s in (0.1, 0.1, 0.1, 10.0, 0.1)] == [0, 0.5, 1, 0, 0.5]
