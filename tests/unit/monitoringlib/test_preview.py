"""From series to what a picture shows."""

from __future__ import annotations

import json

import pytest

from monitoringlib.preview import data, look
from monitoringlib.preview.collect import Record
from monitoringlib.prometheus import Series
from monitoringlib.scenario import Course


def test_a_lane_ends_where_the_value_changes_or_the_series_does() -> None:
    points = [(0.0, 1.0), (1.0, 1.0), (2.0, 2.0), (3.0, 2.0), (10.0, 2.0)]
    assert list(data.stretches(points)) == [(0.0, 2.0, 1.0), (2.0, 4.0, 2.0), (10.0, 11.0, 2.0)]


def test_a_mark_is_where_something_begins_and_only_in_the_window() -> None:
    points = [(float(at), 1.0) for at in (0, 1, 10, 11, 12, 30)]
    assert data.onsets([Series({}, points)], (5.0, 20.0)) == [10.0]
    both = [Series({}, [(10.0, 1.0)]), Series({}, [(11.0, 1.0)])]
    assert data.onsets(both, (0.0, 20.0)) == [10.0]


def test_series_have_the_names_of_their_legends() -> None:
    panel = {"targets": [{"refId": "A", "legendFormat": "node {{node_id}}"}, {"refId": "B"}]}
    answers = {
        "A": [Series({"node_id": "1"}, [(1.0, 5.0)]), Series({"node_id": "2"}, [(99.0, 5.0)])],
        "B": [Series({"x": "y"}, [(2.0, 6.0)])],
    }
    found = list(data.named(panel, answers, (0.0, 10.0)))
    assert [one.name for one in found] == ["node 1", "x=y"]


def test_a_table_joins_its_answers_by_what_they_share() -> None:
    organize = {
        "renameByName": {"id": "Node", "uuid": "Storage", "Value #B": "Lag"},
        "indexByName": {"id": 0, "uuid": 1, "Value #B": 2},
    }
    panel = {
        "transformations": [{"id": "merge"}, {"id": "organize", "options": organize}],
        "options": {"sortBy": [{"displayName": "Node"}]},
    }
    answers = {
        "A": [
            Series({"id": "2", "uuid": "b"}, [(9.0, 1.0)]),
            Series({"id": "1", "uuid": "a"}, [(9.0, 1.0)]),
        ],
        "B": [Series({"id": "1"}, [(9.0, 7.0)]), Series({"id": "3"}, [(1.0, 7.0)])],
    }
    headings, rows = data.table(panel, answers, (0.0, 10.0))
    assert headings == ["Node", "Storage", "Lag"]
    assert rows == [{"Node": "1", "Storage": "a", "Lag": 7.0}, {"Node": "2", "Storage": "b"}]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"),
        (2.0, "s", "2 s"),
        (1536.0, "bytes", "1.5 KiB"),
        (1000.0, "bytes", "1000 B"),
        (1536.0, "Bps", "1.5 KiB/s"),
        (0.253, "percentunit", "25.3 %"),
        (12.0, "reqps", "12/s"),
        (7500.0, "short", "7500"),
        (2_500_000.0, "short", "2.5M"),
    ],
)
def test_numbers_are_short_and_have_their_unit(value: float, unit: str, text: str) -> None:
    assert look.quantity(value, unit) == text


def test_a_run_can_be_drawn_again(tmp_path) -> None:
    course = Course("n", "q", 1.0, 2.0, [("a step", 1.0, 2.0)], [("a fault", 1.5)])
    record = Record(
        course, {"b": {"1": {"A": [Series({"x": "y"}, [(1.0, 2.0)])]}}}, {"b": {"m": []}}
    )
    record.save(tmp_path / "series.json")
    loaded = Record.load(tmp_path / "series.json")
    assert loaded.answers == record.answers
    assert json.dumps(loaded.course.steps) == json.dumps([["a step", 1.0, 2.0]])
