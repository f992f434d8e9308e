"""A budget of lines: few of a kind in a minute, and none forgotten without being counted."""

from __future__ import annotations

import logging

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from raftnode import log_limit
from raftnode.log_limit import LibraryLines, LineBudget


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def record(error: BaseException | None = None, message: str = "of %s") -> logging.LogRecord:
    exc_info = None if error is None else (type(error), error, None)
    return logging.LogRecord("aiohttp.server", logging.ERROR, "f", 1, message, ("a",), exc_info)


def test_lines_of_a_kind_are_few_and_the_next_one_counts_the_others():
    clock = Clock()
    budget = LineBudget(lines=2, per_s=60, clock=clock)
    assert [budget.take("a") for _ in range(5)] == [{}, {}, None, None, None]
    assert budget.take("b") == {}, "another kind has a budget of its own"
    clock.now_s = 59.9
    assert budget.take("a") is None
    clock.now_s = 60
    assert [budget.take("a") for _ in range(3)] == [{"left_out": 4}, {}, None]
    clock.now_s = 500
    assert budget.take("a") == {"left_out": 1}


def test_a_fault_of_the_program_keeps_its_traceback_a_few_times():
    lines = LibraryLines(LineBudget(lines=2))
    faults = [record(LookupError("ours")) for _ in range(3)]
    assert [lines.filter(one) for one in faults] == [True, True, False]
    assert faults[0].exc_info is not None
    assert faults[0].getMessage() == "of a"
    assert not lines.filter(record(ConnectionResetError())), "it has gone"


def test_what_a_library_left_out_is_counted_and_what_it_quotes_is_short():
    clock = Clock()
    lines = LibraryLines(LineBudget(lines=1, per_s=60, clock=clock))
    assert lines.filter(record())
    assert not lines.filter(record())
    clock.now_s = 60
    last = record(message="%s" + "x" * 5000)
    assert lines.filter(last)
    assert last.getMessage().endswith("x (1 like it left out)")
    assert len(last.getMessage()) < 300


def test_a_malformed_request_is_one_line_without_what_it_quotes(monkeypatch: pytest.MonkeyPatch):
    said: list[tuple[str, dict[str, object]]] = []
    log = type("Log", (), {"info": lambda _, event, **fields: said.append((event, fields))})
    monkeypatch.setattr(log_limit, "_log", log())
    lines = LibraryLines(LineBudget(lines=1))
    error = BadHttpMessage("no colon:\n\n  b'" + "y" * 5000)
    assert not lines.filter(record(error))
    assert not lines.filter(record(error))
    assert said == [("request_malformed", {"remote": "a", "problem": "BadHttpMessage: no colon"})]
