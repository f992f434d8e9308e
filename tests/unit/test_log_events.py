"""docs/reference has exactly the events that the node and the operator log."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {"debug", "info", "warning", "error", "exception"}
LOGGERS = {"_log", "log", "bound"}
PAGES = {
    "log-events.md": ROOT / "raftnode" / "raftnode",
    "operator-log-events.md": ROOT / "operator" / "kraftquorum_operator",
}


def named(tree: ast.AST) -> Iterator[str]:
    """The names in `_log.info("…")`, `lines.say(_log.info, "…")` and `replica.fact("…")`.

    And in `write("…")`, where `write` is a method of a logger.
    """
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        place = _place(call.func)
        if place is None or len(call.args) <= place:
            continue
        match call.args[place]:
            case ast.Constant(value=str() as name):
                yield name
            case _:
                continue


def _place(function: ast.expr) -> int | None:
    """The place of the event among a call's arguments; None: it logs nothing."""
    match function:
        case ast.Name(id="write"):
            return 0
        case ast.Attribute(attr="say"):
            return 1
        case ast.Attribute(attr="fact"):
            return 0
        case ast.Attribute(attr=method, value=ast.Name(id=owner)):
            return 0 if method in LEVELS and owner in LOGGERS else None
        case _:
            return None


def listed(page: str) -> list[str]:
    text = (ROOT / "docs" / "reference" / page).read_text()
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_page_lists_every_event_once_and_in_order(page: str):
    sources = PAGES[page].rglob("*.py")
    events = {name for source in sources for name in named(ast.parse(source.read_text()))}
    assert listed(page) == sorted(events)


@pytest.mark.parametrize("page", PAGES)
def test_an_event_is_a_noun_and_what_happened_to_it(page: str):
    for event in listed(page):
        past = ("ed", "lost", "taken", "rebuilt", "written")
        assert event.endswith(past), event
