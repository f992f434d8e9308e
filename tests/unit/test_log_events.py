"""docs/reference/log-events.md lists exactly the events that the node logs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {"debug", "info", "warning", "error", "exception"}


def named(tree: ast.AST) -> Iterator[str]:
    """The names in `_log.info("…")`, `lines.say(_log.info, "…")` and `replica.fact("…")`."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        method, owner = call.func.attr, call.func.value
        logs = method in LEVELS and isinstance(owner, ast.Name) and owner.id == "_log"
        place = 1 if method == "say" else 0 if logs or method == "fact" else None
        if place is None or len(call.args) <= place:
            continue
        match call.args[place]:
            case ast.Constant(value=str() as name):
                yield name
            case _:
                continue


def test_page_lists_every_event_once_and_in_order():
    sources = (ROOT / "raftnode" / "raftnode").rglob("*.py")
    events = {name for source in sources for name in named(ast.parse(source.read_text()))}
    page = (ROOT / "docs" / "reference" / "log-events.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == sorted(events)


def test_an_event_is_a_noun_and_what_happened_to_it():
    page = (ROOT / "docs" / "reference" / "log-events.md").read_text()
    for event in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE):
        past = ("ed", "lost", "taken", "rebuilt", "written")
        assert event.endswith(past), event
