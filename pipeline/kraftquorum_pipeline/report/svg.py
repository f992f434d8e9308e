"""Draws SVG that takes its colours from the page, so that it follows the page's theme. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape

_STEPS_S = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600),
    *(7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to coordinates, both ends included."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value; outside values are put at the nearer end."""
        width = self.high - self.low
        share = (value - self.low) / width if width else 0.0
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))


@dataclass(slots=True)
class Drawing:
    """An SVG element with its content.

    Attributes:
        title: the text that a screen reader reads first.
        description: what the picture shows, in a sentence or two.
    """

    width: float
    height: float
    title: str
    description: str
    name: str
    parts: list[str] = field(default_factory=list[str])

    def add(
        self, tag: str, text: str | None = None, *, tip: str = "", **attributes: object
    ) -> None:
        """Add an element; `_` in names becomes `-`, `cls` is `class`, a `tip` shows on hovering."""
        written = "".join(
            f' {_attribute(name)}="{escape(_value(value))}"'
            for name, value in attributes.items()
            if value is not None
        )
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        inner += "" if text is None else escape(text)
        self.parts.append(f"<{tag}{written}>{inner}</{tag}>" if inner else f"<{tag}{written}/>")

    def text(self, x: float, y: float, text: str, cls: str = "", anchor: str = "start") -> None:
        """Add text."""
        self.add("text", text, x=x, y=y, cls=cls or None, text_anchor=anchor)

    def line(self, start: tuple[float, float], end: tuple[float, float], cls: str) -> None:
        """Add a line."""
        self.add("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], cls=cls)

    def render(self) -> str:
        """Return the element."""
        return (
            f'<svg viewBox="0 0 {_value(self.width)} {_value(self.height)}" role="img" '
            f'aria-labelledby="{self.name}-t {self.name}-d">'
            f'<title id="{self.name}-t">{escape(self.title)}</title>'
            f'<desc id="{self.name}-d">{escape(self.description)}</desc>'
            + "".join(self.parts)
            + "</svg>"
        )


def _attribute(name: str) -> str:
    return "class" if name == "cls" else name.replace("_", "-")


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def ticks(high: float, count: int = 4) -> list[float]:
    """Return round values from 0 on, the last at or above `high`."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    return [step * number for number in range(math.ceil(high / step - 1e-9) + 1)]


def time_ticks(from_ms: int, until_ms: int, count: int = 8) -> Iterator[tuple[int, str]]:
    """Round times within a span, with their labels: seconds in a short span, else the clock."""
    span_s = max(0.001, (until_ms - from_ms) / 1000)
    step_s = next((step for step in _STEPS_S if span_s / step <= count), _STEPS_S[-1])
    if span_s <= 900:
        for number in range(int(span_s / step_s) + 1):
            seconds = number * step_s
            yield from_ms + round(seconds * 1000), f"{seconds:g} s"
        return
    step_ms = int(step_s * 1000)
    form = "%d %b" if step_s >= 86_400 else "%H:%M" if span_s < 86_400 else "%d %b %H:%M"
    for at_ms in range(-(-from_ms // step_ms) * step_ms, until_ms + 1, step_ms):
        yield at_ms, datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)


def bytes_text(size: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def count_text(value: float) -> str:
    """Format a number with separated thousands."""
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 1000 else f"{value:g}"


def seconds_text(seconds: float) -> str:
    """Format a duration."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
