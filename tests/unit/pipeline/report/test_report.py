"""The course of a quorum from its control records, and its pictures, without Spark."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from kraftquorum_pipeline.report import charts
from kraftquorum_pipeline.report.control_records import ControlRow, find_repairs, follow, read_row
from kraftquorum_pipeline.report.model import (
    Bin,
    Change,
    Event,
    LatencyBin,
    QuorumFigures,
    Repair,
    Span,
)
from kraftquorum_pipeline.report.svg import bytes_text, seconds_text, ticks, time_ticks

A, B, C, B2 = "0-AAAAAAAAAAAA", "1-BBBBBBBBBBBB", "2-CCCCCCCCCCCC", "1-DDDDDDDDDDDD"


def row(
    offset: int, at_ms: int, kind: str, who: object, *, epoch: int = 1, before: int = 0
) -> ControlRow:
    field = "leader" if kind == "LeaderChange" else "voter"
    return ControlRow(offset, epoch, at_ms, before or at_ms, kind, {field: who})


ROWS = [
    row(0, 1000, "LeaderChange", A),
    row(2, 1000, "AddVoter", A),
    row(3, 1000, "AddVoter", {"node_id": 1, "directory_id": "BBBBBBBBBBBB"}),
    row(4, 1000, "AddVoter", C),
    row(90, 9000, "AddVoter", B2),
    row(92, 9100, "RemoveVoter", B),
    row(150, 15_000, "LeaderChange", C, epoch=3, before=12_500),
]


@pytest.fixture
def quorum() -> QuorumFigures:
    made = QuorumFigures("demo", "cluster", 1000, 20_000, 200, 193, 5000, 7, 500)
    made.bins = [Bin(1000 + 500 * n, 5, 130) for n in range(38) if not 22 < n < 28]
    made.latency = [LatencyBin(one.at_ms, 3.0, 9.0, 20.0) for one in made.bins]
    made.events = [
        Event(4000, "scale to 5"),
        Event(5000, "disk of the follower wiped", violent=True, lost_replica=B),
        Event(5050, "SIGKILL of the leader 0 (AAAAAAAA…)", violent=True),
    ]
    follow(made, ROWS)
    return made


def test_leaders_follow_each_other_with_the_gap_between(quorum):
    assert quorum.leaders == [Span(A, 1000, 12_500, 1), Span(C, 15_000, None, 3)]
    assert [(gap.epoch, gap.seconds) for gap in quorum.gaps] == [(3, 2.5)]


def test_voters_have_their_spans_in_order_of_arrival(quorum):
    assert quorum.voters == [
        Span(A, 1000, None),
        Span(B, 1000, 9100),
        Span(C, 1000, None),
        Span(B2, 9000, None),
    ]


def test_a_repair_is_a_new_disk_added_before_the_old_one_is_removed(quorum):
    assert quorum.repairs == [Repair(1, B, B2, 5000, 9000, 9100)]


def test_voters_from_before_a_trimmed_log_are_there_from_its_begin():
    def state(as_of, *who):
        told = [{"node_id": int(one[0]), "directory_id": one[2:]} for one in who]
        return ControlRow(79, 1, 0, 0, "VoterSet", {"voters": told, "as_of": as_of})

    late = QuorumFigures("demo", "cluster", 8000, 20_000, 200, 193, 5000, 7, 500)
    follow(late, [state(79, A, B, C), *ROWS[4:6]])
    assert late.voters == [
        Span(A, 8000, None),
        Span(B, 8000, 9100),
        Span(C, 8000, None),
        Span(B2, 9000, None),
    ]
    assert late.repairs == [Repair(1, B, B2, None, 9000, 9100)]
    assert [change.what for change in late.changes] == ["AddVoter", "RemoveVoter"]
    # The current voters, by a record that may lie behind what was exported, say nothing of then;
    # who is removed does, and whom a leader names.
    newer = QuorumFigures("demo", "cluster", 8000, 20_000, 200, 193, 5000, 7, 500)
    fields = {"leader": C, "voters": [A, B2, C]}
    elected = ControlRow(150, 3, 15_000, 12_500, "LeaderChange", fields)
    follow(newer, [state(500, A, B2, C, "3-EEEEEEEEEEEE"), *ROWS[4:6], elected])
    assert newer.voters == late.voters
    assert newer.repairs == late.repairs


def test_scaling_down_and_up_is_no_repair():
    changes = [
        Change(1, 1, 1, "AddVoter", B),
        Change(2, 2, 1, "RemoveVoter", B),
        Change(3, 3, 1, "AddVoter", B2),
    ]
    assert find_repairs(changes) == []


def test_a_repair_that_is_not_finished_is_shown_as_such():
    changes = [Change(1, 1, 1, "AddVoter", B), Change(3, 3, 1, "AddVoter", B2)]
    assert find_repairs(changes) == [Repair(1, B, B2, None, 3, None)]


@pytest.mark.parametrize(
    "event",
    [
        Event(5000, "wiped"),
        Event(5000, "wiped", lost_replica=A),
        Event(9500, "wiped", lost_replica=B),
    ],
    ids=["no disk", "another disk", "later"],
)
def test_the_time_of_loss_is_that_of_this_disk(event):
    changes = [Change(1, 1, 1, "AddVoter", B), Change(9000, 3, 1, "AddVoter", B2)]
    assert find_repairs(changes, [event])[0].lost_ms is None


def test_a_row_of_spark_is_read():
    told = {"offset": 3, "epoch": 2, "at_ms": 9, "before_ms": None, "control": "AddVoter"}
    read = read_row({**told, "fields": '{"voter": "0-A"}'})
    assert read == ControlRow(3, 2, 9, 9, "AddVoter", {"voter": "0-A"})


# -- pictures ----------------------------------------------------------------------------

PICTURES = {
    "roles": charts.roles,
    "writes": charts.writes,
    "latency": charts.latency,
    "size": charts.size,
    "repairs": charts.repairs,
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_well_formed_says_what_it_is_and_stays_inside(quorum, name):
    text = PICTURES[name](quorum, name)
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{name}-t {name}-d"
    assert [root[0].get("id"), root[1].get("id")] == [f"{name}-t", f"{name}-d"]
    assert root[1].text
    _, _, width, height = map(float, root.get("viewBox").split())
    for element in root.iter():
        for attribute, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            value = element.get(attribute)
            assert value is None or 0 <= float(value) <= limit, ET.tostring(element)
        if element.get("width") is not None:
            assert float(element.get("width")) > 0
    assert "style=" not in text, "colours are the page's"


def test_every_replica_has_its_row_and_every_event_its_number(quorum):
    text = charts.roles(quorum, "roles")
    assert text.count('class="row"') == 4
    assert re.findall(r'class="badge-text"[^>]*>(\d+)<', text) == ["1", "2", "3"]
    assert "leads in epoch 3" in text


def test_no_line_is_drawn_across_a_time_without_writes(quorum):
    assert charts.latency(quorum, "latency").count('class="median"') == 2


def test_an_empty_quorum_has_pictures_too():
    empty = QuorumFigures("empty", "cluster")
    for draw in PICTURES.values():
        ET.fromstring(draw(empty, "p"))


def test_names_cannot_break_out_of_a_picture(quorum):
    quorum.events = [Event(4000, '"><script>alert(1)</script>')]
    assert "<script" not in charts.roles(quorum, "roles")


@pytest.mark.parametrize(
    ("high", "expected"),
    [(0, [0, 1]), (7, [0, 2, 4, 6, 8]), (298, [0, 100, 200, 300]), (0.3, [0, 0.1, 0.2, 0.3])],
)
def test_ticks_are_round_and_reach_the_highest(high, expected):
    assert ticks(high) == pytest.approx(expected)


def test_times_are_seconds_in_a_short_log_and_clocks_in_a_long_one():
    short = [label for _, label in time_ticks(0, 60_000)]
    assert short == [f"{n} s" for n in range(0, 61, 10)]
    day = [label for _, label in time_ticks(1_795_248_000_000, 1_795_248_000_000 + 6 * 3_600_000)]
    assert len(day) >= 4
    assert all(re.fullmatch(r"\d\d:\d\d", label) for label in day)


def test_sizes_and_durations_for_people():
    assert [bytes_text(n) for n in (0, 999, 1500, 2_345_678)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.35 MB",
    ]
    assert [seconds_text(n) for n in (1.23, 300, 9000)] == ["1.2 s", "5.0 min", "2.5 h"]
