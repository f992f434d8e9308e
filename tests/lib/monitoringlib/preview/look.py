"""Colours, sizes and numbers, as a dashboard shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CANVAS, PANEL, BORDER, GRID = "#111217", "#181b1f", "#2c3235", "#2a2e33"
TEXT, DIM = "#d8d9da", "#8e9297"
COLORS: Mapping[str, str] = {
    "green": "#73bf69",
    "yellow": "#f2cc0c",
    "orange": "#ff9830",
    "red": "#f2495c",
    "dark-red": "#c4162a",
    "blue": "#5794f2",
    "light-blue": "#8ab8ff",
    "text": "#6e7178",
}
SERIES = (
    "#73bf69",
    "#f2cc0c",
    "#5794f2",
    "#ff9830",
    "#f2495c",
    "#b877d9",
    "#8ab8ff",
    "#fa6400",
    "#c0d8ff",
    "#96d98d",
    "#ffa6b0",
    "#a352cc",
)
WIDTH_PX, ROW_PX, MARGIN_PX, DPI = 1480, 27, 12, 100
COLUMNS = 24


def quantity(value: float, unit: str) -> str:
    """A number with its unit, short."""
    match unit:
        case "s":
            return f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
        case "bytes":
            for name in ("B", "KiB", "MiB", "GiB", "TiB"):
                if abs(value) < 1024 or name == "TiB":
                    return f"{value:.0f} {name}" if 1000 <= value < 1024 else f"{value:.3g} {name}"
                value /= 1024
            raise AssertionError("the last one returns")
        case "Bps":
            return f"{quantity(value, 'bytes')}/s"
        case "percentunit":
            return f"{value * 100:.3g} %"
        case "reqps" | "rec/s":
            return f"{_short(value)}/s"
        case _:
            return _short(value)


def _short(value: float) -> str:
    for limit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1000 if name == 'k' else limit):.3g}{name}"
    return f"{value:.0f}" if value == int(value) else f"{value:.3g}"


def mapping_of(panel: dict[str, Any]) -> dict[float, tuple[str, str]]:
    """What single values are shown as: text and colour."""
    found: dict[float, tuple[str, str]] = {}
    for one in panel["fieldConfig"]["defaults"].get("mappings", []):
        for value, shown in one["options"].items():
            found[float(value)] = (shown.get("text", ""), COLORS[shown["color"]])
    return found


def threshold_color(panel: dict[str, Any], value: float) -> str | None:
    """The colour of a value by the panel's limits; None: it has none."""
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
    found = None
    for step in steps:
        if step.get("value") is None or value >= step["value"]:
            found = COLORS[step["color"]]
    return found
