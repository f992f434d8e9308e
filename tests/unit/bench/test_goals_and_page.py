"""The goals, their verdicts, and the page that shows them."""

import re
from pathlib import Path

import pytest

from kraftquorum_bench.goals import (
    EXPLANATIONS,
    GOALS,
    ExplanationsError,
    read_explanations,
    unexplained,
)
from kraftquorum_bench.page import render, render_tls
from kraftquorum_bench.plots import draw, factor_better
from kraftquorum_bench.report import FILE
from kraftquorum_bench.workloads import all_workloads

EVIDENCE = Path(__file__).resolve().parents[3] / "docs" / "evidence"
BY_NAME = {goal.name: goal for goal in GOALS}


@pytest.mark.parametrize(
    ("name", "figures", "verdict"),
    [
        ("put_64", {"put_64": ([250.0], [100.0])}, "met"),
        ("put_64", {"put_64": ([249.0], [100.0])}, "not met"),
        ("put_1", {"put_1": ([0.9], [1.0])}, "met"),
        ("put_1", {"put_1": ([0.91], [1.0])}, "not met"),
        ("memory", {"memory": ([48.0], [])}, "met"),
        ("memory", {"memory": ([48.1], [])}, "not met"),
        ("put_64", {"put_64": ([250.0], [])}, "not measured"),
        ("put_64", {}, "not measured"),
        ("leader_64", {"put_64": ([250.0], [])}, "met"),
        ("leader_512", {"put_512": ([250.0], [])}, "not met"),
        ("bulk", {"bulk_etcd": ([60_000.0], [])}, "met"),
        ("bulk_to_puts", {"bulk_etcd": ([1000.0], []), "put_64": ([1.0], [100.0])}, "met"),
        (
            "bulk_to_puts",
            {
                "bulk_etcd": ([1000.0], []),
                "put_64": ([1.0], [50.0]),
                "put_512": ([1.0], [101.0]),
            },
            "not met",
        ),
        ("bulk_to_puts", {"bulk_etcd": ([1000.0], [])}, "not measured"),
        ("log_size", {"log_10mb": ([100.0], []), "log_1gb": ([90.0], [])}, "met"),
        ("log_size", {"log_10mb": ([100.0], []), "log_1gb": ([89.0], [])}, "not met"),
        ("follower", {"members_3": ([9.0], []), "members_9": ([3.0], [])}, "met"),
        ("follower", {"members_9": ([3.0], [])}, "not measured"),
    ],
)
def test_verdicts_at_their_bounds(make_report, name, figures, verdict):
    assert BY_NAME[name].verdict(make_report(figures)) == verdict


def test_cost_of_a_follower_is_the_growth_through_six(make_report):
    report = make_report({"members_3": ([9.0], []), "members_9": ([3.0], [])})
    nine = report.workloads["members_9"]
    grown = nine.model_copy(update={"our_figures": {"leader_us": 40.0 * 2.26}})
    report = report.model_copy(update={"workloads": {**report.workloads, "members_9": grown}})
    assert BY_NAME["follower"].value(report) == pytest.approx(21)
    assert BY_NAME["follower"].verdict(report) == "not met"


def test_without_a_run_nothing_is_measured():
    assert {goal.verdict(None) for goal in GOALS} == {"not measured"}


def test_each_goal_has_a_name_of_its_own_and_stands_on_a_workload(make_report):
    assert len(BY_NAME) == len(GOALS)
    everything = {row.name: ([1.0], [1.0]) for row in all_workloads()}
    report = make_report(everything)
    assert [goal.name for goal in GOALS if goal.value(report) is None] == []


def test_an_unmet_goal_without_explanation_is_found(report):
    assert unexplained(report, {}) == ["memory"]
    assert unexplained(report, {"memory": "imports"}) == []


def test_explanations_are_read_whole():
    text = '[memory]\nreason = "Imports."\nnext = "Fewer of them."\n'
    assert read_explanations(text) == {"memory": "Imports. Fewer of them."}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[put_65]\nreason = "x"\n', r"\[put_65\] is no goal; goals are: bulk "),
        ("[memory]\n", r"\[memory\] must have `reason`"),
        ('[memory]\nreason = "x"\nwhy = "y"\n', r"\[memory\] must have `reason`"),
    ],
)
def test_wrong_explanations_are_named(text, said):
    with pytest.raises(ExplanationsError, match=said):
        read_explanations(text)


def test_the_page_shows_ratios_goals_and_what_is_missing(report):
    text = render(report, {"memory": "Imports take\n61 MiB | today."})
    assert (
        "|Puts, 64 clients, sessions|**3.00×**|1.00 to 4.00|higher|200 op/s|100 op/s|etcd 3.6.8|40|"
        in text
    )
    assert "|Put, 1 client: median latency to etcd's|≤ 0.90×, better 0.70×|0.90×|met|" in text
    assert "**not met**: Imports take 61 MiB \\| today.|" in text
    assert "- kafka: no Java \\| here" in text
    assert "whole, 42 minutes, ended 2026-01-02 03:04 UTC" in text
    assert "no explanation yet" in render(report, {})


def test_the_committed_page_is_of_the_committed_report():
    committed = EVIDENCE / "performance.json"
    report = FILE.read(committed) if committed.exists() else None
    explanations = read_explanations(EXPLANATIONS.read_text(encoding="utf-8"))
    page = (EVIDENCE / "performance.md").read_text(encoding="utf-8")
    assert page == render(report, explanations), "run make bench-docs"
    assert report is None or unexplained(report, explanations) == []
    tls_page = (EVIDENCE / "tls-cost.md").read_text(encoding="utf-8")
    assert tls_page == render_tls(report), "run make bench-docs"


def test_the_pages_about_tls_and_performance_show_one_run():
    report = FILE.read(EVIDENCE / "performance.json")
    performance, tls = render(report, {}), render_tls(report)
    ratios = re.findall(r"TLS and a token, beside neither\|\*\*([\d.]+)×", performance)
    assert re.findall(r"\|([\d.]+)× \(", tls) == ratios
    assert len(ratios) == 4
    run = f"ended {report.made_at} UTC"
    assert run in performance
    assert run in tls
    assert "etcd" not in tls
    assert "No full run" in render_tls(None)


def test_a_lower_figure_that_is_better_counts_the_other_way(report):
    assert factor_better(report.workloads["put_64"]) == 3
    assert factor_better(report.workloads["put_1"]) == pytest.approx(1 / 0.9)
    assert factor_better(report.workloads["memory"]) is None


def test_plots_are_equal_for_equal_reports(report, tmp_path):
    first, second = draw(report, tmp_path / "a"), draw(report, tmp_path / "b")
    assert [path.name for path in first] == ["ratios.svg", "put.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_report_without_a_peer_can_be_drawn(make_report, tmp_path):
    assert [path.name for path in draw(make_report({"memory": ([1.0], [])}), tmp_path)] == [
        "ratios.svg"
    ]
