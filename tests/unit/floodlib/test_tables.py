"""The page about floods has the figures of the report beside it."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import pytest

from floodlib import tables
from floodlib.bounds import breaches
from floodlib.figures import VARIABLE, Figures, Waits, read
from proofkit.floods import ATTACKS

CALM = Waits(50, 0.01, 0.02)


def test_the_page_is_that_of_the_report() -> None:
    run = json.loads(tables.REPORT.read_text(encoding="utf-8"))
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page(run)


def test_the_report_has_each_flood_three_times_within_the_bounds() -> None:
    figures = [Figures.of(row) for row in json.loads(tables.REPORT.read_text())["figures"]]
    for kind in ATTACKS:
        assert len([row for row in figures if row.kind == kind]) >= 3, kind
    assert [breach for row in figures for breach in breaches(row)] == []


def test_a_row_has_medians_of_the_rounds_and_the_longest_call_of_all() -> None:
    rounds = [
        Figures("idle", "other addresses", 2000, CALM, Waits(9, during_s, worst_s), CALM, CALM, 0)
        for during_s, worst_s in ((0.011, 0.5), (0.013, 2.5), (0.06, 0.4))
    ]
    rounds[0] = replace(rounds[0], memory_bytes=7 << 20)
    machine = {"cores": "2", "memory": "1 MiB", "kernel": "K"}
    page = tables.page(tables.report(rounds, dt.datetime(2026, 1, 2, tzinfo=dt.UTC), machine))
    assert (
        f"|send nothing|2,000|other addresses|10.0 ms|13.0 ms|1.30{tables.TIMES} (1.10 to 6.00)|2,500 ms|7 MiB|"
        in page
    )
    assert "3 rounds of each flood, ended 2026-01-02 00:00 UTC" in page


def test_figures_are_read_as_they_were_reported(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Figures("idle", "other addresses", 2000, CALM, CALM, CALM, CALM, 5)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "figures"))
    row.report()
    row.report()
    assert read(tmp_path / "figures") == [row, row]
