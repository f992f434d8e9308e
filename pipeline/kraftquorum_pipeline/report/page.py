"""Builds the report: one HTML page with its style and charts in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any, NamedTuple

import jinja2

from . import charts
from .model import QuorumFigures
from .svg import bytes_text, count_text, seconds_text

_CHANGES_SHOWN = 500


class Tile(NamedTuple):
    """A figure in large type."""

    value: str
    label: str
    state: str = ""


class Picture(NamedTuple):
    """A chart with its caption and its figures."""

    title: str
    text: str
    svg: str


class Table(NamedTuple):
    """The figures in full."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def render(quorums: Sequence[QuorumFigures], *, title: str, made: str, version: str) -> str:
    """Return the page.

    Args:
        quorums: the quorums, with one section each.
        title: the title of the page.
        made: the time of creation, as text.
        version: the version of the program.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    files = resources.files(__package__ or "")
    template = environment.from_string(files.joinpath("page.html").read_text(encoding="utf-8"))
    sections = [_section(quorum, number) for number, quorum in enumerate(quorums, start=1)]
    return template.render(
        title=title,
        made=made,
        version=version,
        style=files.joinpath("page.css").read_text(encoding="utf-8"),
        sections=sections,
        overview=_overview(quorums) if len(quorums) > 1 else None,
    )


def _overview(quorums: Sequence[QuorumFigures]) -> Table:
    rows = [
        (
            quorum.name,
            count_text(quorum.records),
            bytes_text(quorum.size),
            seconds_text(quorum.seconds),
            str(len(quorum.leaders)),
            str(len(quorum.repairs)),
            _longest(quorum),
            _audit_word(quorum),
        )
        for quorum in quorums
    ]
    columns = ("quorum", "records", "bytes", "span", "leaders", "repairs", "longest gap", "audit")
    return Table("All quorums", columns, rows)


def _section(quorum: QuorumFigures, number: int) -> dict[str, Any]:
    first, last = _clock(quorum.first_ms), _clock(quorum.last_ms)
    return {
        "anchor": f"q{number}",
        "name": quorum.name,
        "cluster_id": quorum.cluster_id,
        "span": f"{first} to {last} UTC" if quorum.records or quorum.changes else "empty",
        "tiles": _tiles(quorum),
        "pictures": _pictures(quorum, f"q{number}"),
        "events": [
            (str(place), _after(quorum, event.at_ms), event.title, event.violent)
            for place, event in enumerate(quorum.events, start=1)
        ],
        "tables": _tables(quorum),
        "audit": quorum.audit,
    }


def _tiles(quorum: QuorumFigures) -> list[Tile]:
    tiles = [
        Tile(count_text(quorum.records), "records committed"),
        Tile(bytes_text(quorum.size), "of keys and values"),
        Tile(str(len(quorum.leaders)), "leaders elected"),
        Tile(str(len(quorum.repairs)), "replicas replaced"),
        Tile(_longest(quorum), "longest gap before a leader"),
    ]
    if quorum.keys is not None:
        tiles.insert(1, Tile(count_text(quorum.keys), "keys at the end"))
    if quorum.count is not None:
        missing, twice = quorum.count["missing"], quorum.count["duplicated"]
        state = "bad" if missing or twice else "good"
        tiles.append(Tile(f"{missing} / {twice}", "acknowledged writes missing / twice", state))
    word = _audit_word(quorum)
    if word:
        tiles.append(Tile(word, "audit of all replicas", "good" if word == "ok" else "bad"))
    return tiles


def _longest(quorum: QuorumFigures) -> str:
    return seconds_text(max((gap.seconds for gap in quorum.gaps), default=0.0))


def _audit_word(quorum: QuorumFigures) -> str:
    return "" if quorum.audit is None else str(quorum.audit["verdict"])


def _pictures(quorum: QuorumFigures, name: str) -> list[Picture]:
    made: list[Picture] = []
    if quorum.voters or quorum.leaders:
        text = (
            "Each directory id has a row: a new disk is a new replica, even with the same "
            "node id. The thick part is the time as leader."
        )
        made.append(Picture("Voters and leaders", text, charts.roles(quorum, f"{name}-roles")))
    if quorum.bins:
        text = f"Committed records per second, in bins of {seconds_text(quorum.bin_ms / 1000)}."
        if quorum.gaps:
            text += " Shaded: from the last record of a leader to the first of the next."
        made.append(Picture("Writes", text, charts.writes(quorum, f"{name}-writes")))
    if quorum.latency:
        text = "As the clients measured it. Solid: the median; dashed: the 99th percentile."
        made.append(Picture("Latency", text, charts.latency(quorum, f"{name}-latency")))
    if any(repair.removed_ms is not None for repair in quorum.repairs):
        text = (
            "From the recorded loss of the disk until the new replica votes, and until the "
            "old one is removed."
        )
        made.append(Picture("Repairs", text, charts.repairs(quorum, f"{name}-repairs")))
    if quorum.size:
        text = "Keys and values of all committed records, summed up."
        made.append(Picture("Bytes written", text, charts.size(quorum, f"{name}-size")))
    return made


def _tables(quorum: QuorumFigures) -> list[Table]:
    tables: list[Table] = []
    if quorum.repairs:
        rows = [
            (
                str(repair.node_id),
                repair.old.partition("-")[2],
                repair.new.partition("-")[2],
                "" if repair.lost_ms is None else _after(quorum, repair.lost_ms),
                _after(quorum, repair.added_ms),
                "not yet" if repair.removed_ms is None else _after(quorum, repair.removed_ms),
            )
            for repair in quorum.repairs
        ]
        columns = ("node", "old storage", "new storage", "lost", "added", "old one removed")
        tables.append(Table("Repairs", columns, rows))
    if quorum.leaders:
        gaps = {gap.epoch: gap for gap in quorum.gaps}
        rows = [
            (
                str(span.epoch),
                span.replica,
                _after(quorum, span.from_ms),
                "the end" if span.until_ms is None else _after(quorum, span.until_ms),
                f"{gaps[span.epoch].seconds:.2f} s" if span.epoch in gaps else "",
            )
            for span in quorum.leaders
        ]
        columns = ("epoch", "leader", "first record", "last record", "gap before it")
        tables.append(Table("Leaders", columns, rows))
    if quorum.changes:
        rows = [
            (str(c.offset), str(c.epoch), _after(quorum, c.at_ms), c.what, c.replica)
            for c in quorum.changes[:_CHANGES_SHOWN]
        ]
        left = len(quorum.changes) - len(rows)
        note = f"{left} more are not shown." if left > 0 else ""
        columns = ("offset", "epoch", "at", "record", "replica")
        tables.append(Table("The quorum's own records", columns, rows, note))
    tables += _audit_tables(quorum)
    if quorum.bins:
        rows = [
            (_after(quorum, bin_.at_ms), count_text(bin_.records), count_text(bin_.size))
            for bin_ in quorum.bins
        ]
        width = seconds_text(quorum.bin_ms / 1000)
        tables.append(Table(f"Writes, each {width}", ("at", "records", "bytes"), rows))
    if quorum.latency:
        rows = [
            (
                _after(quorum, bin_.at_ms),
                f"{bin_.median_ms:.1f}",
                f"{bin_.high_ms:.1f}",
                f"{bin_.largest_ms:.1f}",
            )
            for bin_ in quorum.latency
        ]
        columns = ("at", "median ms", "99 % ms", "slowest ms")
        tables.append(Table("Latency", columns, rows))
    return tables


def _audit_tables(quorum: QuorumFigures) -> list[Table]:
    if quorum.audit is None:
        return []
    replicas = [
        (
            name,
            str(replica["replica"] or ""),
            "voter" if replica["voter"] else "",
            f"{replica['start_offset']} to {replica['end_offset']}",
            str(replica["agreed_end"]),
            bytes_text(replica["bytes"]),
            ", ".join(map(str, replica["snapshots"])),
        )
        for name, replica in quorum.audit["replicas"].items()
    ]
    columns = ("directory", "replica", "", "offsets", "agrees up to", "size", "snapshots at")
    tables = [Table("Replicas' files", columns, replicas, " ".join(quorum.audit["notes"]))]
    rows = [
        (
            finding["check"],
            "" if finding["place"]["offset"] < 0 else str(finding["place"]["offset"]),
            finding["reason"],
            _place(finding["place"]),
            "; ".join(_place(other) for other in finding["others"]),
        )
        for finding in quorum.audit["findings"]
    ]
    if rows:
        columns = ("check", "offset", "what is wrong", "where", "the other sides")
        tables.insert(0, Table("What the audit found", columns, rows))
    return tables


def _place(place: dict[str, Any]) -> str:
    byte = f" at byte {place['position']}" if place["position"] >= 0 else ""
    holds = f": {place['holds']}" if place["holds"] else ""
    return f"{place['replica']} {place['file']}{byte}{holds}"


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _after(quorum: QuorumFigures, at_ms: int) -> str:
    """Return a time as text: seconds since the first record in a short log, else clock time."""
    if quorum.seconds <= 900:
        return f"{(at_ms - charts.start_ms(quorum)) / 1000:.2f} s"
    return _clock(at_ms)
