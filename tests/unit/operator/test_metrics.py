"""The operator's metrics of a quorum, which are removed with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftquorum_operator.metrics import Metrics
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.plan.actions import Done, Wait
from proofkit.operatorworld.observations import (
    blank,
    healthy,
    node,
    pod,
    quorum,
    spec,
    voter,
    with_node,
    with_pod,
    without_node,
)

THREE = spec(voters=3)
KEY = {"namespace": "test", "quorum": "demo"}


def shown(observation: Observation, wanted: Any = THREE) -> Any:
    metrics = Metrics()
    metrics.observe(observation, wanted, Done("x"), 0)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"kraftquorum_{name}", KEY | labels)

    return value


def four() -> Observation:
    """The replacement of 2 is a voter, and the lost one is still there (S23)."""
    voters = [voter(0), voter(1), voter(2, silent_ms=60_000), voter(2, "b")]
    return with_node(replace(healthy(), quorum=quorum(voters)), node(2, "b"))


def test_a_healthy_quorum_is_as_wanted() -> None:
    value = shown(healthy())
    for name in (
        "voters_unlike_spec",
        "replacements_open",
        "voters_storage_gone",
        "pods_storage_failing",
        "quorum_lost",
    ):
        assert value(name) == 0, name
    assert value("fault_tolerance") == 1
    assert value("condition", condition="Available") == 1
    assert value("condition", condition="Degraded") == 0
    assert value("actions_total", action="AddVoter", result="done") == 0


def test_the_window_of_a_replacement_is_open_while_an_id_has_two_voters() -> None:
    value = shown(four())
    assert value("replacements_open") == 1
    assert value("voters_unlike_spec") == 1
    assert value("voters_storage_gone") == 1
    assert value("operations", operation="Replacement", step="RemoveVoter") == 1


@pytest.mark.parametrize(("wanted", "unlike"), [(1, 2), (2, 1), (3, 0), (5, 2)])
def test_voters_too_many_and_too_few_are_counted(wanted: int, unlike: int) -> None:
    assert shown(healthy(), spec(voters=wanted))("voters_unlike_spec") == unlike


@pytest.mark.parametrize(
    ("code", "failing"), [(10, 1), (11, 1), (12, 1), (17, 1), (18, 1), (19, 0), (1, 0), (14, 0)]
)
def test_an_exit_code_of_the_disk_is_a_failing_disk_until_the_pod_is_ready(
    code: int, failing: int
) -> None:
    ended = replace(pod(2), exit_code=code, ready=False)
    assert shown(with_pod(without_node(healthy(), 2), ended))("pods_storage_failing") == failing
    ready = replace(ended, ready=True)
    assert shown(with_pod(healthy(), ready))("pods_storage_failing") == 0


def test_a_lost_storage_is_lost_also_while_its_replacement_is_probed() -> None:
    away = without_node(healthy(), 2)
    silent = [voter(0), voter(1), voter(2, silent_ms=60_000)]
    probed = replace(away, quorum=quorum(silent, observers=[voter(2, "b", silent_ms=10)]))
    assert shown(probed)("voters_storage_gone") == 1
    assert shown(replace(away, quorum=quorum(silent)))("voters_storage_gone") == 0
    well = replace(
        healthy(), quorum=quorum([voter(n) for n in range(3)], observers=[voter(2, "b")])
    )
    assert shown(well)("voters_storage_gone") == 0


def test_without_a_leader_there_is_no_number_of_voters() -> None:
    metrics = Metrics()
    metrics.observe(healthy(), THREE, Done("x"), 0)
    metrics.observe(replace(healthy(), quorum=None), THREE, Done("x"), 0)
    assert metrics.registry.get_sample_value("kraftquorum_voters", KEY) is None
    assert metrics.registry.get_sample_value("kraftquorum_voters_wanted", KEY) == 3


def test_an_operation_has_one_step_at_a_time_and_then_none() -> None:
    metrics = Metrics()

    def steps() -> set[tuple[str, str]]:
        return {
            (sample.labels["operation"], sample.labels["step"])
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name == "kraftquorum_operations"
        }

    metrics.observe(blank(), THREE, Wait("x", "y"), 0)
    assert steps() == {("Formation", "WriteLatch")}
    metrics.observe(four(), THREE, Wait("x", "y"), 0)
    assert steps() == {("Replacement", "RemoveVoter")}
    metrics.observe(healthy(), THREE, Done("x"), 0)
    assert steps() == set()


def test_nothing_is_left_of_a_quorum_that_is_gone() -> None:
    metrics = Metrics()
    metrics.observe(four(), THREE, Wait("node_answers", "x"), 0)
    metrics.reconcile_seconds.labels("test", "demo").observe(1)
    metrics.forget("test", "demo")
    left = {
        sample.name
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("quorum") == "demo"
    }
    assert left == set()


def test_an_operator_on_standby_says_nothing_of_a_quorum() -> None:
    metrics = Metrics()
    metrics.observe(four(), THREE, Wait("node_answers", "x"), 0)
    metrics.show_standby("test", "demo")
    value = metrics.registry.get_sample_value
    for name in ("fault_tolerance", "voters", "quorum_lost", "last_reconcile_timestamp_seconds"):
        assert value(f"kraftquorum_{name}", KEY) is None
    assert value("kraftquorum_blocked", KEY | {"guard": "node_answers"}) is None
    assert value("kraftquorum_reconciles_total", KEY | {"result": "standby"}) == 1
    metrics.observe(healthy(), THREE, Done("x"), 0)
    assert value("kraftquorum_fault_tolerance", KEY) == 1


def test_the_list_of_labels_is_true() -> None:
    metrics = Metrics("1")
    metrics.observe(four(), THREE, Wait("node_answers", "x"), 0)
    metrics.reconcile_seconds.labels("test", "demo").observe(1)
    metrics.request("kubernetes", "GET", "2xx", 0.1)
    labels_of = {row.name: row.labels for row in Metrics.rows()}
    for family in metrics.registry.collect():
        for sample in family.samples:
            named = {name for name in sample.labels if name != "le"}
            assert named == set(labels_of[family.name]), family.name
