"""Draws the charts of a quorum: voters and leaders, writes, latency, size, repairs. Pure.

No fact depends on colour alone: leaders are taller and labelled, faults are numbered, and every
chart has its figures in a table below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .model import LatencyBin, QuorumFigures, Span
from .svg import Drawing, Scale, bytes_text, count_text, seconds_text, ticks, time_ticks

_WIDTH, _LEFT, _RIGHT = 960.0, 206.0, 22.0
_ROW, _TOP, _BOTTOM = 30.0, 40.0, 34.0
_PLOT = 190.0
_LABEL_WIDTH = 74.0
_MARK_NEAR = 17.0
_GAP_TOLD_S = 0.5


def _times(quorum: QuorumFigures) -> tuple[int, int]:
    """The span of time that all pictures of a quorum share."""
    marks = [event.at_ms for event in quorum.events]
    first = min([quorum.first_ms, *(at for at in marks if at)])
    return first, max([quorum.last_ms, first + 1, *marks])


def start_ms(quorum: QuorumFigures) -> int:
    """The start of the time axis: the first record, or an event before it."""
    return _times(quorum)[0]


def _x(quorum: QuorumFigures) -> Scale:
    return Scale(*_times(quorum), _LEFT, _WIDTH - _RIGHT)


def _time_axis(drawing: Drawing, quorum: QuorumFigures, x: Scale, bottom: float) -> None:
    top = _TOP
    for at_ms, label in time_ticks(*_times(quorum)):
        drawing.line((x(at_ms), top), (x(at_ms), bottom), "grid")
        drawing.text(x(at_ms), bottom + 18, label, "tick", "middle")


def _marks(drawing: Drawing, quorum: QuorumFigures, x: Scale, bottom: float) -> None:
    """Draw a numbered line for each event."""
    last, row = -1e9, 0
    for number, event in enumerate(quorum.events, start=1):
        place = x(event.at_ms)
        row = row + 1 if place - last < _MARK_NEAR else 0
        last = place
        kind = "violent" if event.violent else "wish"
        top = _TOP - 22
        drawing.line((place, top + 9), (place, bottom), f"mark {kind}")
        centre = place + 17 * row
        drawing.add("circle", cx=centre, cy=top, r=8.5, cls=f"badge {kind}", tip=event.title)
        drawing.text(centre, top + 3.8, str(number), "badge-text", "middle")


def roles(quorum: QuorumFigures, name: str) -> str:
    """Draw a row for each replica: when it was a voter, and when it was leader."""
    replicas = list(dict.fromkeys(span.replica for span in (*quorum.voters, *quorum.leaders)))
    height = _TOP + _ROW * len(replicas) + _BOTTOM
    bottom = height - _BOTTOM
    drawing = Drawing(
        _WIDTH,
        height,
        "Voters and leaders over time",
        f"{len(replicas)} replicas, {len(quorum.leaders)} leaderships, {len(quorum.events)} "
        "events. A replica with a new disk has a row of its own.",
        name,
    )
    x = _x(quorum)
    end_ms = _times(quorum)[1]
    _time_axis(drawing, quorum, x, bottom)
    for number, replica in enumerate(replicas):
        middle = _TOP + _ROW * (number + 0.5)
        row = _Row(drawing, x, middle, end_ms)
        node, _, disk = replica.partition("-")
        drawing.text(8, middle + 4, f"node {node}", "row")
        drawing.text(_LEFT - 12, middle + 4, _short(disk), "disk", "end")
        drawing.line((_LEFT, middle + _ROW / 2), (_WIDTH - _RIGHT, middle + _ROW / 2), "rule")
        for span in quorum.voters:
            if span.replica == replica:
                _bar(row, span, 12.0, "voter", f"{replica} votes")
        for span in quorum.leaders:
            if span.replica == replica:
                tip = f"{replica} leads in epoch {span.epoch}"
                width = _bar(row, span, 22.0, "leader", tip)
                if width > _LABEL_WIDTH:
                    centre = x(span.from_ms) + width / 2
                    label = f"leads · epoch {span.epoch}"
                    drawing.text(
                        centre, middle + 4, label if width > 108 else f"epoch {span.epoch}",
                        "on-leader", "middle",
                    )  # fmt: skip
    _marks(drawing, quorum, x, bottom)
    return drawing.render()


@dataclass(frozen=True, slots=True)
class _Row:
    """The row of a replica in a drawing."""

    drawing: Drawing
    x: Scale
    middle: float
    end_ms: int


def _bar(row: _Row, span: Span, height: float, cls: str, label: str) -> float:
    """Draw a span of time; return its width."""
    x, end_ms, middle = row.x, row.end_ms, row.middle
    until_ms = end_ms if span.until_ms is None else span.until_ms
    width = max(1.5, x(until_ms) - x(span.from_ms))
    row.drawing.add(
        "rect",
        x=x(span.from_ms),
        y=middle - height / 2,
        width=width,
        height=height,
        rx=3,
        cls=cls,
        tip=f"{label}, {seconds_text((until_ms - span.from_ms) / 1000)}",
    )
    return width


def _short(disk: str) -> str:
    return disk if len(disk) <= 12 else f"{disk[:10]}…"


def _plot(
    drawing: Drawing, quorum: QuorumFigures, high: float, label: Callable[[float], str]
) -> tuple[Scale, Scale]:
    """Draw the axes of a chart over time."""
    x = _x(quorum)
    marks = ticks(high)
    y = Scale(0, marks[-1], _TOP + _PLOT, _TOP)
    _time_axis(drawing, quorum, x, _TOP + _PLOT)
    for value in marks:
        drawing.line((_LEFT, y(value)), (_WIDTH - _RIGHT, y(value)), "rule")
        drawing.text(_LEFT - 12, y(value) + 4, label(value), "tick", "end")
    return x, y


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)


def _steps(
    values: Sequence[tuple[int, float]], width_ms: int, x: Scale, y: Scale
) -> list[tuple[float, float]]:
    """Draw bins as steps; missing bins are zero."""
    points: list[tuple[float, float]] = []
    ground, last_ms = y(0), None
    for at_ms, value in values:
        if last_ms != at_ms:
            if last_ms is not None:
                points.append((x(last_ms), ground))
            points.append((x(at_ms), ground))
        points += [(x(at_ms), y(value)), (x(at_ms + width_ms), y(value))]
        last_ms = at_ms + width_ms
    if last_ms is not None:
        points.append((x(last_ms), ground))
    return points


def writes(quorum: QuorumFigures, name: str) -> str:
    """Committed records per second."""
    per_s = [(bin_.at_ms, bin_.records * 1000 / quorum.bin_ms) for bin_ in quorum.bins]
    high = max((rate for _, rate in per_s), default=0.0)
    drawing = Drawing(
        _WIDTH,
        _TOP + _PLOT + _BOTTOM,
        "Writes per second",
        f"Committed records, in bins of {seconds_text(quorum.bin_ms / 1000)}; at most "
        f"{count_text(round(high, 1))} per second. Shaded: time without a record of a "
        "leader.",
        name,
    )
    x, y = _plot(drawing, quorum, high, count_text)
    for gap in quorum.gaps:
        left, right = x(gap.from_ms), x(gap.until_ms)
        drawing.add(
            "rect",
            x=left,
            y=_TOP,
            width=max(1.5, right - left),
            height=_PLOT,
            cls="gap",
            tip=f"{gap.seconds:.1f} s until the leader of epoch {gap.epoch}",
        )
        if gap.seconds >= 0.5:
            drawing.text(
                (left + right) / 2, _TOP + 14, f"{gap.seconds:.1f} s", "gap-text", "middle"
            )
    points = _steps(per_s, quorum.bin_ms, x, y)
    if points:
        drawing.add("path", d=_path(points) + "Z", cls="rate-area")
        drawing.add("path", d=_path(points), cls="rate")
    _marks(drawing, quorum, x, _TOP + _PLOT)
    for gap in quorum.gaps:
        if gap.seconds >= _GAP_TOLD_S:
            middle = (x(gap.from_ms) + x(gap.until_ms)) / 2
            drawing.text(middle, _TOP + 14, f"{gap.seconds:.1f} s", "gap-text", "middle")
    return drawing.render()


def latency(quorum: QuorumFigures, name: str) -> str:
    """The latency of clients: the median and the 99th percentile."""
    high = max((bin_.high_ms for bin_ in quorum.latency), default=0.0)
    drawing = Drawing(
        _WIDTH,
        _TOP + _PLOT + _BOTTOM,
        "Latency of acknowledged writes",
        f"From the clients' own record, in bins of {seconds_text(quorum.bin_ms / 1000)}: the "
        "median and the 99th percentile.",
        name,
    )
    x, y = _plot(drawing, quorum, high, lambda value: f"{count_text(value)} ms")
    for run in _runs(quorum.latency, quorum.bin_ms):
        places = [x(bin_.at_ms + quorum.bin_ms / 2) for bin_ in run]
        for cls, heights in (
            ("high", [y(bin_.high_ms) for bin_ in run]),
            ("median", [y(bin_.median_ms) for bin_ in run]),
        ):
            points = list(zip(places, heights, strict=True))
            if len(points) == 1:
                drawing.add("circle", cx=points[0][0], cy=points[0][1], r=2, cls=f"dot {cls}")
            else:
                drawing.add("path", d=_path(points), cls=cls)
    _marks(drawing, quorum, x, _TOP + _PLOT)
    return drawing.render()


def _runs(bins: Sequence[LatencyBin], width_ms: int) -> list[list[LatencyBin]]:
    """Group adjacent bins, so that no line crosses a time without writes."""
    runs: list[list[LatencyBin]] = []
    for bin_ in bins:
        if runs and bin_.at_ms - runs[-1][-1].at_ms == width_ms:
            runs[-1].append(bin_)
        else:
            runs.append([bin_])
    return runs


def size(quorum: QuorumFigures, name: str) -> str:
    """Keys and values written so far."""
    sums = list(accumulate(bin_.size for bin_ in quorum.bins))
    drawing = Drawing(
        _WIDTH,
        _TOP + _PLOT + _BOTTOM,
        "Bytes written",
        f"Keys and values of all records so far: {bytes_text(sums[-1] if sums else 0)} at the end.",
        name,
    )
    x, y = _plot(drawing, quorum, float(sums[-1] if sums else 0), bytes_text)
    points = [
        (x(bin_.at_ms + quorum.bin_ms), y(total))
        for bin_, total in zip(quorum.bins, sums, strict=True)
    ]
    if points:
        first, last = x(quorum.bins[0].at_ms), points[-1][0]
        whole = [(first, y(0)), *points]
        drawing.add("path", d=_path([*whole, (last, y(0))]) + "Z", cls="size-area")
        drawing.add("path", d=_path(whole), cls="size")
    return drawing.render()


def repairs(quorum: QuorumFigures, name: str) -> str:
    """The duration of each replacement of a disk, by parts."""
    rows = [repair for repair in quorum.repairs if repair.removed_ms is not None]
    height = 14.0 + _ROW * len(rows) + _BOTTOM
    drawing = Drawing(
        _WIDTH,
        height,
        "Replaced disks",
        "From the recorded loss to the new replica's AddVoter and the old one's RemoveVoter.",
        name,
    )
    starts = [repair.added_ms if repair.lost_ms is None else repair.lost_ms for repair in rows]
    high = max(
        ((repair.removed_ms or 0) - start for repair, start in zip(rows, starts, strict=True)),
        default=1,
    )
    marks = ticks(max(high, 1) / 1000)
    x = Scale(0, marks[-1], _LEFT, _WIDTH - _RIGHT - 90)
    for mark in marks:
        drawing.line((x(mark), 8), (x(mark), height - _BOTTOM), "grid")
        drawing.text(x(mark), height - _BOTTOM + 18, f"{mark:g} s", "tick", "middle")
    for number, (repair, start) in enumerate(zip(rows, starts, strict=True)):
        middle = 10 + _ROW * (number + 0.5)
        removed = (repair.removed_ms or 0) - start
        added = repair.added_ms - start
        drawing.text(8, middle + 4, f"node {repair.node_id}", "row")
        drawing.text(_LEFT - 12, middle + 4, _short(repair.new.partition("-")[2]), "disk", "end")
        for cls, from_, until, label in (
            ("repairing", 0, added, "until the new replica was a voter"),
            ("removing", added, removed, "until the old one was removed"),
        ):
            left = x(from_ / 1000)
            drawing.add(
                "rect",
                x=left,
                y=middle - 8,
                width=max(2.0, x(until / 1000) - left),
                height=16,
                rx=3,
                cls=cls,
                tip=f"{(until - from_) / 1000:.2f} s {label}",
            )
        drawing.text(x(removed / 1000) + 8, middle + 4, f"{removed / 1000:.1f} s", "value")
    return drawing.render()
