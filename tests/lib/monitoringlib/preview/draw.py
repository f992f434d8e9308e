"""Draws one dashboard into a picture, panel by panel, where its JSON puts them."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from monitoringlib.preview.collect import Record
from monitoringlib.preview.data import (
    Named,
    Window,
    named,
    onsets,
    stretches,
    table,
)
from monitoringlib.preview.look import (
    BORDER,
    CANVAS,
    COLORS,
    COLUMNS,
    DIM,
    DPI,
    GRID,
    MARGIN_PX,
    PANEL,
    ROW_PX,
    SERIES,
    TEXT,
    WIDTH_PX,
    mapping_of,
    quantity,
    threshold_color,
)

_HEAD_PX = 56
_TITLE_PX = 20
_AXIS_PX = 20
_LEGEND_PX = 18
_LANE_NAME_PX = 190
_PALETTE = 96

Axes = Any
"""matplotlib's, whose methods take what they are given, by its types."""

Mark = tuple[str, float, str]
"""Name, time and colour of an annotation."""


class Painter:
    """One picture.

    Args:
        board: the dashboard's JSON.
        record: the run.
        window: the stretch of time, in Unix seconds.
    """

    def __init__(self, board: dict[str, Any], record: Record, window: Window) -> None:
        self._board = board
        self._answers = record.answers[board["uid"]]
        self._window = window
        bottom = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in board["panels"])
        self._height_px = _HEAD_PX + bottom * ROW_PX + MARGIN_PX
        self._figure: Any = Figure(
            figsize=(WIDTH_PX / DPI, self._height_px / DPI), dpi=DPI, facecolor=CANVAS
        )
        self._marks = self._find_marks(record)

    def _find_marks(self, record: Record) -> list[Mark]:
        found: list[Mark] = []
        for one in self._board.get("annotations", {}).get("list", []):
            series = record.marks[self._board["uid"]][one["name"]]
            color = COLORS[one["iconColor"]]
            found += [(one["name"], at, color) for at in onsets(series, self._window)]
        return sorted(found, key=lambda mark: mark[1])

    def paint(self, path: Path) -> None:
        """Draw everything and write a PNG with few colours."""
        self._header()
        named_marks = True
        for panel in self._board["panels"]:
            if panel["type"] == "row":
                self._row(panel)
                continue
            self._frame(panel)
            match panel["type"]:
                case "stat":
                    self._figures(panel)
                case "table":
                    self._table(panel)
                case "state-timeline":
                    self._lanes(panel, named_marks=named_marks)
                    named_marks = False
                case _:
                    self._lines(panel)
        raw = io.BytesIO()
        self._figure.savefig(raw, format="png", facecolor=CANVAS)
        picture = Image.open(raw).convert("RGB")
        small = picture.quantize(_PALETTE, dither=Image.Dither.NONE)
        path.parent.mkdir(parents=True, exist_ok=True)
        small.save(path, optimize=True)

    # -- places ------------------------------------------------------------------------------

    def _box(self, spot: dict[str, int]) -> tuple[float, float, float, float]:
        """Left, top, width, height in pixels, from the picture's upper left corner."""
        unit = (WIDTH_PX - 2 * MARGIN_PX) / COLUMNS
        return (
            MARGIN_PX + spot["x"] * unit,
            _HEAD_PX + spot["y"] * ROW_PX,
            spot["w"] * unit,
            spot["h"] * ROW_PX,
        )

    def _axes(self, left: float, top: float, width: float, height: float) -> Axes:
        return self._figure.add_axes(
            (
                left / WIDTH_PX,
                1 - (top + height) / self._height_px,
                width / WIDTH_PX,
                height / self._height_px,
            )
        )

    def _text(self, left: float, top: float, text: str, **style: Any) -> None:
        style = {"color": TEXT, "fontsize": 8.5, "va": "top"} | style
        self._figure.text(left / WIDTH_PX, 1 - top / self._height_px, text, **style)

    # -- frames ------------------------------------------------------------------------------

    def _header(self) -> None:
        self._text(MARGIN_PX, 12, self._board["title"], fontsize=14, weight="bold")
        begin, end = (_clock(at) for at in self._window)
        self._text(MARGIN_PX, 36, self._board["description"], color=DIM)
        words = f"from a real run, {begin} to {end} UTC"
        self._text(WIDTH_PX - MARGIN_PX, 36, words, color=DIM, ha="right")

    def _row(self, panel: dict[str, Any]) -> None:
        left, top, _, height = self._box(panel["gridPos"])
        words = f"▾ {panel['title']}"
        self._text(left + 2, top + height / 2, words, fontsize=10, weight="bold", va="center")

    def _frame(self, panel: dict[str, Any]) -> None:
        left, top, width, height = self._box(panel["gridPos"])
        patch = FancyBboxPatch(
            ((left + 3) / WIDTH_PX, 1 - (top + height - 3) / self._height_px),
            (width - 6) / WIDTH_PX,
            (height - 6) / self._height_px,
            boxstyle="square,pad=0",
            facecolor=PANEL,
            edgecolor=BORDER,
            linewidth=0.8,
            transform=self._figure.transFigure,
            zorder=-1,
        )
        self._figure.add_artist(patch)
        self._text(left + 10, top + 9, panel["title"], weight="bold")

    # -- kinds -------------------------------------------------------------------------------

    def _series(self, panel: dict[str, Any]) -> list[Named]:
        return list(named(panel, self._answers[str(panel["id"])], self._window))

    def _figures(self, panel: dict[str, Any]) -> None:
        left, top, width, height = self._box(panel["gridPos"])
        series, unit = self._series(panel), panel["fieldConfig"]["defaults"].get("unit", "")
        mapping = mapping_of(panel)
        for place, one in enumerate(series):
            value = one.points[-1][1]
            text, color = mapping.get(
                value, (quantity(value, unit), threshold_color(panel, value) or PANEL)
            )
            part = (width - 16) / len(series)
            axes = self._axes(left + 8 + place * part, top + 28, part - 2, height - 38)
            axes.set_facecolor(color)
            _bare(axes)
            plain = color == PANEL
            ink = TEXT if plain else CANVAS
            label = one.name if len(series) > 1 else ""
            size = 12 if len(text) > 8 else 20
            shown = textwrap.fill(text, 22)
            axes.text(
                0.5, 0.55, shown, color=ink, fontsize=size, weight="bold", ha="center", va="center"
            )
            axes.text(0.5, 0.04, label, color=DIM if plain else ink, fontsize=8, ha="center")

    def _lanes(self, panel: dict[str, Any], *, named_marks: bool) -> None:
        left, top, width, height = self._box(panel["gridPos"])
        series, mapping = self._series(panel), mapping_of(panel)
        names = list(dict.fromkeys(one.name for one in series))
        inner = height - _TITLE_PX - _AXIS_PX - 14 - (14 if named_marks else 0)
        aside = max([_LANE_NAME_PX, *(5.6 * len(name) + 16 for name in names)])
        axes = self._axes(
            left + aside,
            top + _TITLE_PX + 8 + (14 if named_marks else 0),
            width - aside - 14,
            inner,
        )
        self._time_axis(axes, named_marks=named_marks)
        axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), names, color=TEXT, fontsize=7.5)
        for one in series:
            lane = names.index(one.name)
            for begin, end, value in stretches(one.points):
                text, color = mapping.get(value, (quantity(value, ""), SERIES[0]))
                axes.barh(lane, end - begin, left=begin, height=0.72, color=color, linewidth=0)
                pixels = (end - begin) / (self._window[1] - self._window[0]) * width
                if text and pixels > 6.2 * len(text):
                    style = {"color": CANVAS, "fontsize": 7.5, "ha": "center", "va": "center"}
                    axes.text((begin + end) / 2, lane, text, **style)
        if not series:
            axes.text(0.5, 0.5, "nothing", transform=axes.transAxes, color=DIM, ha="center")

    def _lines(self, panel: dict[str, Any]) -> None:
        left, top, width, height = self._box(panel["gridPos"])
        series = self._series(panel)
        defaults = panel["fieldConfig"]["defaults"]
        unit = defaults.get("unit", "")
        bars = defaults.get("custom", {}).get("drawStyle") == "bars"
        inner = height - _TITLE_PX - _AXIS_PX - _LEGEND_PX - 18
        axes = self._axes(left + 62, top + _TITLE_PX + 10, width - 78, inner)
        self._time_axis(axes)
        floor: dict[float, float] = {}
        for place, one in enumerate(series):
            color = SERIES[place % len(SERIES)]
            if bars:
                bottom = [floor.get(at, 0.0) for at, _ in one.points]
                values = [value for _, value in one.points]
                times = [at for at, _ in one.points]
                axes.bar(times, values, width=1, bottom=bottom, color=color, linewidth=0)
                floor |= {
                    at: base + value for at, base, value in zip(times, bottom, values, strict=True)
                }
                continue
            for part in _joined(one):
                axes.plot(*zip(*part, strict=True), color=color, linewidth=1.1)
        values = [value for one in series for _, value in one.points]
        if not values or max(values) == min(values) == 0:
            axes.set_ylim(0, 1)
        else:
            axes.set_ylim(bottom=min(0, *values))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(_shows(unit)))
        axes.tick_params(axis="y", labelsize=7.5, colors=DIM, length=0)
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        self._legend(left + 12, top + height - _LEGEND_PX - 5, width - 24, series)

    def _legend(self, left: float, top: float, width: float, series: list[Named]) -> None:
        at = left
        for place, one in enumerate(series):
            needed = 5.4 * len(one.name) + 22
            last = place == len(series) - 1
            if at + needed + (0 if last else 50) > left + width:
                self._text(at, top, f"+ {len(series) - place} more", color=DIM, fontsize=7.5)
                return
            self._text(at, top - 1, "▬", color=SERIES[place % len(SERIES)], fontsize=7.5)
            self._text(at + 13, top, one.name, color=TEXT, fontsize=7.5)
            at += needed

    def _table(self, panel: dict[str, Any]) -> None:
        left, top, width, height = self._box(panel["gridPos"])
        headings, rows = table(panel, self._answers[str(panel["id"])], self._window)
        sizes = [
            max([len(name), *(len(_cell(row.get(name))) for row in rows)]) + 2 for name in headings
        ]
        spots = [sum(sizes[:place]) / max(sum(sizes), 1) for place in range(len(sizes))]
        words = _words_by_column(panel)
        line_px = min(22.0, (height - 46) / (len(rows) + 1))
        for name, spot in zip(headings, spots, strict=True):
            x = left + 14 + spot * (width - 24)
            self._text(x, top + 32, name, color=COLORS["light-blue"], fontsize=8)
            for place, row in enumerate(rows):
                text, color = _cell(row.get(name)), TEXT
                if name in words and row.get(name) in words[name]:
                    text, color = words[name][row[name]]
                y = top + 32 + (place + 1) * line_px
                self._text(x, y, text, color=color, fontsize=7.5)

    # -- time --------------------------------------------------------------------------------

    def _time_axis(self, axes: Axes, *, named_marks: bool = False) -> None:
        axes.set_facecolor(PANEL)
        axes.set_xlim(*self._window)
        for side in axes.spines.values():
            side.set_visible(False)
        pixels = axes.get_position().width * WIDTH_PX
        step = _tick_step(self._window[1] - self._window[0], pixels / 85)
        first = -(-self._window[0] // step) * step
        ticks = [first + place * step for place in range(200)]
        ticks = [at for at in ticks if at <= self._window[1]]
        axes.set_xticks(ticks, [_clock(at) for at in ticks])
        axes.tick_params(axis="x", labelsize=7.5, colors=DIM, length=0)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        last = -1e9
        for name, at, color in self._marks:
            axes.axvline(at, color=color, linewidth=1, linestyle=(0, (3, 2)), zorder=3)
            if named_marks:
                share = (at - self._window[0]) / (self._window[1] - self._window[0])
                text = f"{name} {_clock(at)}"
                begin = min(share * pixels, pixels - 5.6 * len(text))
                if begin > last:
                    style = {"color": color, "fontsize": 7.5, "ha": "left", "va": "bottom"}
                    axes.text(begin / pixels, 1.02, text, transform=axes.transAxes, **style)
                    last = begin + 5.6 * len(text)


def _joined(series: Named) -> list[list[tuple[float, float]]]:
    """The points of a line, apart where there was nothing between them."""
    found: list[list[tuple[float, float]]] = [[]]
    for point in series.points:
        if found[-1] and point[0] - found[-1][-1][0] > 2.5:
            found.append([])
        found[-1].append(point)
    return found


def _words_by_column(panel: dict[str, Any]) -> dict[str, dict[float, tuple[str, str]]]:
    """What a table's overrides show instead of numbers, by heading."""
    found: dict[str, dict[float, tuple[str, str]]] = {}
    for one in panel["fieldConfig"].get("overrides", []):
        for prop in one["properties"]:
            if prop["id"] == "mappings":
                found[one["matcher"]["options"]] = {
                    float(value): (shown["text"], COLORS[shown["color"]])
                    for mapping in prop["value"]
                    for value, shown in mapping["options"].items()
                }
    return found


def _cell(value: Any) -> str:
    return quantity(value, "") if isinstance(value, float) else str(value or "")


def _shows(unit: str) -> Callable[[float, int], str]:
    return lambda value, _place: quantity(value, unit)


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def _tick_step(span_s: float, most: float) -> float:
    for step in (5, 10, 15, 30, 60, 120, 300, 600, 1800):
        if span_s / step <= most:
            return step
    return 3600


def prepare() -> None:
    """Set what all pictures share; once, before the first."""
    mpl.use("agg")
    cast("dict[str, Any]", mpl.rcParams)["font.family"] = "DejaVu Sans"
