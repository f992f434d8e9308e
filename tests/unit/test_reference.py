"""The reference pages say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from raftnode.api.errors import ERRORS
from raftnode.settings import NodeSettings

ROOT = Path(__file__).resolve().parents[2]


def load_tool() -> ModuleType:
    path = ROOT / "tools" / "generate_reference.py"
    spec = importlib.util.spec_from_file_location("generate_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()


@pytest.mark.parametrize("name", list(TOOL.PAGES))
def test_page_is_current(name: str):
    found = (ROOT / "docs" / "reference" / name).read_text()
    assert found == TOOL.render()[name], "run: python tools/generate_reference.py"


def test_pages_name_every_error_and_setting():
    pages = TOOL.render()
    assert all(f"`{name}`" in pages["http-api.md"] for name in ERRORS)
    assert all(f"`{name}`" in pages["node-settings.md"] for name in NodeSettings.model_fields)


def test_pages_do_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch):
    before = TOOL.render()
    monkeypatch.setenv("RAFTNODE_NODE_ID", "9")
    monkeypatch.setenv("COLUMNS", "40")
    assert TOOL.render() == before
