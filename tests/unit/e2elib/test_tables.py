"""The pages with the suite's figures are what its report says."""

import json

import pytest

from e2elib import tables
from e2elib.figures import Figures, Report


def case(**fields):
    plain = {
        "name": "n",
        "title": "A pod deleted",
        "until": "full redundancy",
        "outcome": "passed",
        "seconds": 7.25,
        "stall_s": 0.5,
        "acknowledged": 900,
        "unknown": 1,
        "refused": 2,
        "lost": 0,
        "doubled": 0,
        "wrong": 0,
        "measures": {},
        "why": "",
        "at": "2026-11-21 10:00",
    }
    return plain | fields


def report(*cases):
    return {
        "cluster": {"title": "kind, 3 workers", "version": "v1.34.4"},
        "machine": {"cores": 2, "load_1min": 1.5, "system": "Linux"},
        "images": {"registry/node:e2e": 108_000_000},
        "seconds": {"all": 600.0, "images": 40.0},
        "cases": list(cases),
    }


def test_committed_pages_are_what_the_committed_report_says():
    found = json.loads(tables.REPORT.read_text())
    assert tables.PAGE.read_text() == tables.page(found), "run `make e2e-docs`"
    text = tables.PROMISES.read_text()
    assert text == tables.with_promises(text, found), "run `make e2e-docs`"


def test_the_committed_run_lost_nothing_and_doubled_nothing():
    found = json.loads(tables.REPORT.read_text())["cases"]
    assert len(found) > 20
    assert {one["outcome"] for one in found} == {"passed"}
    assert sum(one["lost"] + one["doubled"] + one["wrong"] for one in found) == 0
    assert all(one["acknowledged"] > 0 for one in found if one["stall_s"] is not None)


def test_the_committed_run_is_better_than_each_limit():
    found = json.loads(tables.REPORT.read_text())["cases"]
    measured = {key: value for one in found for key, value in one["measures"].items()}
    for what, limit, _, keys in tables.PROMISED:
        assert max(measured[key] for key in keys) < limit, what


def test_a_case_is_a_row_and_one_that_was_not_done_is_said():
    text = tables.page(report(case(), case(title="Full", outcome="skipped", why="no volumes")))
    assert "|A pod deleted|7.2|full redundancy|0.50|900|1|2|0|0|" in text
    assert "- Full: skipped, no volumes" in text
    assert "|Full|" not in text
    assert "`node` 108 MB" in text


def test_the_worst_of_several_measures_counts_and_a_missing_one_is_said():
    measures = {"disk_recovery_follower_s": 9.0, "claim_recovery_follower_s": 12.5}
    text = tables.promises(report(case(measures=measures)))
    assert "|A follower's disk is lost: full redundancy|12.5|< 60|" in text
    assert "|The leader's disk is lost: full redundancy|not measured|" in text
    failed = tables.promises(report(case(measures=measures, outcome="failed")))
    assert "12.5" not in failed


def test_a_page_without_its_marks_is_refused():
    with pytest.raises(ValueError, match="is missing"):
        tables.with_promises("# Promises\n", report())


def test_the_report_is_there_after_each_case(tmp_path):
    path = tmp_path / "e2e" / "report.json"
    written = Report(path)
    written.add(Figures("first", "The first", outcome="passed", seconds=1.0))
    written.add(Figures("second", "The second"))
    found = json.loads(path.read_text())
    assert [one["outcome"] for one in found["cases"]] == ["passed", "failed"]


def test_a_run_of_some_cases_takes_their_places_in_the_last_report(tmp_path):
    path = tmp_path / "report.json"
    whole = Report(path)
    whole.facts["cluster"] = "ours"
    whole.add(Figures("first", "The first", outcome="passed", seconds=1.0))
    whole.took("all", 600.0)
    whole.add(Figures("second", "The second"))
    again = Report(path, partly=True)
    again.add(Figures("first", "The first", outcome="passed", seconds=2.0))
    found = json.loads(path.read_text())
    assert [(one["name"], one["seconds"]) for one in found["cases"]] == [
        ("first", 2.0),
        ("second", None),
    ]
    again.took("all", 20.0)
    again.took("install", 5.0)
    assert again.seconds == {"all": 600.0, "install": 5.0}
    assert found["cluster"] == "ours"
    assert all(one["at"] for one in found["cases"])
    Report(path).add(Figures("third", "The third"))
    assert len(json.loads(path.read_text())["cases"]) == 1, "a whole run begins again"
