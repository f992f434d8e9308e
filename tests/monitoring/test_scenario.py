"""A quorum's hard day on a real Prometheus: every panel, rule and annotation has what it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from kraftquorum_observability.rules import SAFE
from monitoringlib import check, scenario
from monitoringlib.preview.__main__ import draw, window
from monitoringlib.preview.collect import Record, collect
from monitoringlib.preview.data import onsets
from monitoringlib.prometheus import Prometheus, Series
from monitoringlib.scenario import PLAN, Course

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(900)]


@dataclass
class Day:
    problems: list[str] = field(default_factory=list)
    provoked: list[str] = field(default_factory=list)
    critical: list[Series] = field(default_factory=list)
    targets: list[dict[str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    record: Record | None = None


async def provoked(prometheus: Prometheus, course: Course) -> list[str]:
    """What is found in three things that are wrong."""
    known = await prometheus.names()
    found: list[str] = []
    for expression in (
        "sum(raftnode_no_such_metric)",
        "raftnode_current_epoch +",
        "raftnode_current_epoch < -5",
    ):
        found += await check._of(prometheus, course, known, "test", [expression])
    return found


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    seen = Day()

    async def judge(prometheus: Prometheus, course: Course) -> None:
        seen.problems = await check.problems(prometheus, course)
        seen.provoked = await provoked(prometheus, course)
        seen.critical = await prometheus.over(
            'ALERTS{alertstate="firing", severity="critical"}', course.began_s, course.ended_s
        )
        seen.targets = [one["labels"] for one in await prometheus.targets()]
        seen.names = await prometheus.names()
        seen.record = await collect(prometheus, course)

    out: Path = tmp_path_factory.mktemp("day")
    scenario.run(out, judge, Console(soft_wrap=True))
    return seen


def test_every_expression_has_a_value_and_no_error(day: Day) -> None:
    assert day.problems == []


def test_what_is_wrong_would_have_been_found(day: Day) -> None:
    unknown, broken, empty = day.provoked
    assert "no target has the metric raftnode_no_such_metric" in unknown
    assert "parse error" in broken
    assert "stayed empty" in empty


def test_counters_bring_no_second_series(day: Day) -> None:
    assert not {name for name in day.names if name.endswith("_created")}


def test_what_the_operator_repairs_by_itself_wakes_no_person(day: Day) -> None:
    assert day.critical == []


def test_nodes_have_the_labels_that_rules_and_dashboards_ask_for(day: Day) -> None:
    nodes = [one for one in day.targets if one["job"] == "kraftquorum-nodes"]
    assert len(nodes) == 3
    assert {one["node_id"] for one in nodes} == {"0", "1", "2"}
    assert {(one["namespace"], one["quorum"]) for one in nodes} == {("default", "demo")}


def test_the_quorum_dashboard_alone_tells_of_the_lost_disk(day: Day) -> None:
    """When the disk died, what the operator did, and when the quorum was safe again."""
    record = day.record
    assert record is not None
    course = record.course
    board = check.boards()["kraftquorum-quorum"]
    shown = window("kraftquorum-quorum", course)
    by_title = {
        panel["title"]: record.answers["kraftquorum-quorum"][str(panel["id"])]
        for panel in check.panels(board)
    }
    died_s = next(at for title, at in course.faults if "disk of the follower" in title)

    lost = onsets(record.marks["kraftquorum-quorum"]["Disk lost"], shown)
    assert lost
    assert 0 <= lost[0] - died_s <= 60

    panel = next(p for p in check.panels(board) if p["title"] == "What the operator does")
    steps = {
        target["legendFormat"]
        for target in panel["targets"]
        for series in by_title[panel["title"]][target["refId"]]
        if any(died_s <= at <= shown[1] for at, _ in series.points)
    }
    # Steps of less than a second fall between two scrapes: which ones are left differs. A counter
    # misses nothing.
    assert any(step.startswith("Replacement") for step in steps)
    panel = next(p for p in check.panels(board) if p["title"] == "Voter changes")
    increases = [
        max((value for at, value in series.points if died_s <= at <= shown[1]), default=0.0)
        for answers in by_title[panel["title"]].values()
        for series in answers
        if series.labels.get("action") == "AddVoter"
    ]
    assert max(increases) > 0

    [level] = by_title["Was it safe?"]["A"]
    after = [(at, value) for at, value in level.points if died_s <= at <= shown[1]]
    unsafe = [at for at, value in after if value < SAFE]
    assert unsafe
    # At any time of its rest: a scrape that is late, for which a second is enough, is no lost disk.
    rest_s = course.step("follower's disk")[1] - PLAN.linger_s
    assert SAFE in {value for at, value in after if at >= rest_s}


def test_the_pictures_can_be_drawn(day: Day, tmp_path: Path) -> None:
    assert day.record is not None
    made = draw(day.record, tmp_path)
    boards = ("fleet", "quorum", "node", "operator")
    assert {path.name for path in made} == {f"dashboard-{name}.png" for name in boards}
    assert all(20_000 < path.stat().st_size < 400_000 for path in made)
