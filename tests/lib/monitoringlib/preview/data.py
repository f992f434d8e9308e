"""From what Prometheus answered to what a panel shows: names, stretches, rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from monitoringlib.prometheus import STEP_S, Series

Window = tuple[float, float]
GAP_S = 2.5 * STEP_S
"""Points further apart than that are not joined: there was nothing between them."""


@dataclass(frozen=True, slots=True)
class Named:
    """A series as a panel shows it."""

    name: str
    points: list[tuple[float, float]]


def named(
    panel: dict[str, Any], answers: dict[str, list[Series]], window: Window
) -> Iterator[Named]:
    """A panel's series in a stretch of time, with their legends, in the panel's order."""
    for target in panel["targets"]:
        for series in answers[target["refId"]]:
            points = [one for one in series.points if window[0] <= one[0] <= window[1]]
            if points:
                yield Named(_legend(target.get("legendFormat", ""), series.labels), points)


def _legend(form: str, labels: dict[str, str]) -> str:
    if form in {"", "__auto"}:
        return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match.group(1), ""), form)


def stretches(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float, float]]:
    """Begin, end and value of each stretch in which a series keeps its value."""
    begin, value, last = points[0][0], points[0][1], points[0][0]
    for at, now in points[1:]:
        if now != value or at - last > GAP_S:
            end = at if at - last <= GAP_S else last + STEP_S
            yield begin, end, value
            begin, value = at, now
        last = at
    yield begin, last + STEP_S, value


def onsets(series: Sequence[Series], window: Window) -> list[float]:
    """When something began to be so, in a stretch of time."""
    found: list[float] = []
    for one in series:
        found += [begin for begin, _, _ in stretches([(at, 1.0) for at, _ in one.points])]
    merged: list[float] = []
    for at in sorted(one for one in found if window[0] <= one <= window[1]):
        if not merged or at - merged[-1] > GAP_S:
            merged.append(at)
    return merged


def table(
    panel: dict[str, Any], answers: dict[str, list[Series]], window: Window
) -> tuple[list[str], list[dict[str, Any]]]:
    """Headings and rows of a table, as its transformations make them, at the window's end."""
    organize = next(one for one in panel["transformations"] if one["id"] == "organize")["options"]
    rename: dict[str, str] = organize["renameByName"]
    order: dict[str, int] = organize["indexByName"]
    headings = [rename[name] for name in sorted(order, key=lambda one: order[one])]
    rows: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    labels = [set(one.labels) for series in answers.values() for one in series]
    shared = {name for name in rename if all(name in one for one in labels)}
    for letter, all_series in answers.items():
        for series in all_series:
            fresh = [value for at, value in series.points if 0 <= window[1] - at <= GAP_S]
            if not fresh:
                continue
            key = tuple(sorted((name, series.labels[name]) for name in shared))
            row = rows.setdefault(key, {})
            row |= {rename[name]: value for name, value in series.labels.items() if name in rename}
            if f"Value #{letter}" in rename:
                row[rename[f"Value #{letter}"]] = fresh[-1]
    sort = [one["displayName"] for one in panel["options"].get("sortBy", [])]
    found = sorted(rows.values(), key=lambda row: tuple(str(row.get(name, "")) for name in sort))
    return headings, found
