"""Which metrics an expression asks for, and what Grafana's variables become."""

from __future__ import annotations

import pytest

from kraftquorum_observability.alerts import ALERTS
from kraftquorum_observability.rules import RECORDINGS
from monitoringlib import check
from monitoringlib.scenario import Course

COURSE = Course("here", "demo", 0.0)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('max by (quorum) (a_total{quorum="b", x=~"c|d"}) > 0', {"a_total"}),
        (
            "histogram_quantile(0.99, sum by (le) (rate(a_seconds_bucket[5m])))",
            {"a_seconds_bucket"},
        ),
        ("a and on (namespace, quorum) b unless on () c or vector(0)", {"a", "b", "c"}),
        ("a * on (instance, job) group_left () (b_info * 0 + 1)", {"a", "b_info"}),
        ("quorum:a:max * 0 + 1e3", {"quorum:a:max"}),
        ('label_replace(a, "b", "$1", "c", "(.*)")', {"a"}),
        ("time() - max by (x) (a > 0 or b) > 4 * 3600", {"a", "b"}),
    ],
)
def test_the_names_in_an_expression(expression: str, names: set[str]) -> None:
    assert check.metric_names(expression) == names


@pytest.mark.parametrize(
    ("expression", "pairs"),
    [
        ('max by (x) (a{b="c"}) > 0 or d', [("a", 'b="c"'), ("d", "")]),
        (
            'rate(a_total{b=~"c|d"}[5m]) * on (e) group_left () (f * 0)',
            [("a_total", 'b=~"c|d"'), ("f", "")],
        ),
        ('label_replace(a{b="c"}, "d", "$1", "e", "(.+)")', [("a", 'b="c"')]),
        ("time() - quorum:a:max{b} > 4 * 1e3", [("quorum:a:max", "b")]),
    ],
)
def test_the_selectors_in_an_expression(expression: str, pairs: list[tuple[str, str]]) -> None:
    assert check.selectors(expression) == pairs


def test_every_rule_asks_for_something_that_is_ours() -> None:
    for expression in (*(one.expression for one in ALERTS), *(r.expression for r in RECORDINGS)):
        names = check.metric_names(expression)
        assert names
        ours = ("raftnode_", "kraftquorum_", "process_", "quorum:", "node:")
        assert all(name.startswith(ours) or name == "up" for name in names), names


def test_no_variable_is_left_over() -> None:
    for name, board in check.boards().items():
        for panel in check.panels(board):
            for target in check.targets(panel, COURSE):
                asked = target.expression.replace('"$1"', "")
                assert "$" not in asked, f"{name}: {asked}"
