"""Asks a real Prometheus every expression of every panel, rule and annotation.

What is read is what is committed: the dashboards' JSON and the rules' file. A problem is an
expression that cannot be evaluated, a metric that no target has, or a panel with nothing in it
after a day in which everything happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from kraftquorum_observability.generate import BOARDS, ROOT, RULES
from monitoringlib.prometheus import Prometheus, QueryError
from monitoringlib.scenario import Course

RATE_INTERVAL = "10s"
"""What Grafana would choose for such short scrapes, so that a rate has some samples."""

KAFKA_BOARD = "kraftquorum-kafka"
KAFKA_METRICS = "kraftquorum_kafka_"

_JOINS = ("by", "without", "on", "ignoring", "group_left", "group_right")
_WORDS = frozenset({*_JOINS, "and", "or", "unless", "bool", "offset", "inf", "nan"})
_GROUPING = re.compile(rf"\b(?:{'|'.join(_JOINS)})\s*\([^)]*\)")
_SELECTOR = re.compile(r"\{[^}]*\}")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_RANGE = re.compile(r"\[[^]]*\]")
_NAME = re.compile(r"[A-Za-z_:][\w:]*")


@dataclass(frozen=True, slots=True)
class Target:
    """One expression of a panel, with this run's values for the variables."""

    letter: str
    expression: str
    legend: str
    instant: bool


def boards() -> dict[str, dict[str, Any]]:
    """The committed dashboards, by their names."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / BOARDS).glob("*.json"))
    }


def boards_about(*, kafka: bool) -> dict[str, dict[str, Any]]:
    """The dashboard about Apache Kafka, or those about our quorums, which `scenario` fills."""
    return {name: board for name, board in boards().items() if (name == KAFKA_BOARD) == kafka}


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A dashboard's panels, without the headings between them."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def targets(panel: dict[str, Any], course: Course) -> list[Target]:
    """What a panel asks for."""
    return [
        Target(
            one["refId"],
            filled(one["expr"], course),
            one.get("legendFormat", ""),
            bool(one.get("instant")),
        )
        for one in panel["targets"]
    ]


def filled(expression: str, course: Course) -> str:
    """An expression with values for Grafana's variables."""
    for name, value in (
        ("$__rate_interval", RATE_INTERVAL),
        ("$cluster", ""),
        ("$namespace", course.namespace),
        ("$quorum", course.quorum),
        ("$kafka", ".*"),
        ("$node", ".*"),
    ):
        expression = expression.replace(name, value)
    return expression


def metric_names(expression: str) -> set[str]:
    """The names of the series that an expression asks for."""
    text = _TEXT.sub("", expression)
    for pattern in (_SELECTOR, _RANGE, _GROUPING):
        text = pattern.sub(" ", text)
    found: set[str] = set()
    for match in _NAME.finditer(text):
        called = text[match.end() :].lstrip().startswith("(")
        after_digit = match.start() > 0 and text[match.start() - 1].isdigit()
        if match.group() not in _WORDS and not called and not after_digit:
            found.add(match.group())
    return found


def selectors(expression: str) -> list[tuple[str, str]]:
    """Each series that an expression asks for, with the text between its braces."""
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(match.group()[1:-1])
        return f"{{{len(held) - 1}}}"

    # A brace inside of quotes is text, but every selector has its quotes inside of braces.
    text = _SELECTOR.sub(hold, expression)
    text = _TEXT.sub(" ", text)
    for pattern in (_RANGE, _GROUPING):
        text = pattern.sub(" ", text)
    pairs: list[tuple[str, str]] = []
    for match in _NAME.finditer(text):
        rest = text[match.end() :].lstrip()
        after_digit = match.start() > 0 and text[match.start() - 1].isdigit()
        if match.group() in _WORDS or rest.startswith("(") or after_digit:
            continue
        place = re.match(r"\{(\d+)\}", rest)
        pairs.append((match.group(), held[int(place.group(1))] if place else ""))
    return pairs


async def problems(prometheus: Prometheus, course: Course, *, kafka: bool = False) -> list[str]:
    """Everything that is wrong with the committed dashboards and rules, in sentences.

    Args:
        prometheus: is asked.
        course: in which time.
        kafka: about Apache Kafka only, or about all else.
    """
    known = await prometheus.names()
    found = [
        f"rule {rule['name']}: {rule['health']} {rule.get('lastError', '')}"
        for rule in await prometheus.rules()
        if rule["health"] != "ok"
    ]
    found += await _of_rules(prometheus, course, known, kafka=kafka)
    for name, board in boards_about(kafka=kafka).items():
        for panel in panels(board):
            where = f"{name}, panel {panel['title']!r}"
            asked = [one.expression for one in targets(panel, course)]
            # Not every lane is there every day; of all else every line and column is.
            groups = [asked] if panel["type"] == "state-timeline" else [[one] for one in asked]
            for group in groups:
                found += await _of(prometheus, course, known, where, group)
        for one in board.get("annotations", {}).get("list", []):
            where = f"{name}, annotation {one['name']!r}"
            found += await _of(prometheus, course, known, where, [filled(one["expr"], course)])
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                series = re.fullmatch(r"label_values\((.*), \w+\)", variable["query"])
                assert series is not None, variable
                where = f"{name}, variable {variable['name']!r}"
                asked = [filled(series.group(1), course)]
                found += await _of(prometheus, course, known, where, asked)
    return found


async def _of_rules(
    prometheus: Prometheus, course: Course, known: set[str], *, kafka: bool
) -> list[str]:
    found: list[str] = []
    groups = yaml.safe_load((ROOT / RULES).read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        metrics = metric_names(rule["expr"])
        if any(name.startswith(KAFKA_METRICS) for name in metrics) != kafka:
            continue
        if "record" in rule:
            where = f"recording rule {rule['record']}"
            found += await _of(prometheus, course, known, where, [rule["expr"]])
            found += await _of(prometheus, course, known, where, [rule["record"]])
        else:
            where = f"alert {rule['alert']}"
            found += await _of(prometheus, course, known, where, [rule["expr"]], empty=True)
    return found


async def _of(
    prometheus: Prometheus,
    course: Course,
    known: set[str],
    where: str,
    expressions: list[str],
    *,
    empty: bool = False,
) -> list[str]:
    """What is wrong with some expressions, of which one at least must have had a value.

    Args:
        prometheus: is asked.
        course: in which time.
        known: names of all series.
        where: for the sentences.
        expressions: to be evaluated.
        empty: whether they may all be empty.
    """
    found: list[str] = []
    points = 0
    for expression in expressions:
        unknown = metric_names(expression) - known
        found += [f"{where}: no target has the metric {name}" for name in sorted(unknown)]
        try:
            answer = await prometheus.over(expression, course.began_s, course.ended_s)
        except QueryError as error:
            found.append(f"{where}: {error}: {expression}")
        else:
            points += sum(len(series.points) for series in answer)
    if not points and not empty and not found:
        found.append(f"{where}: stayed empty: {expressions[0]}")
    return found
