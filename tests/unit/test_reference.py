"""The reference pages say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

import generate_reference
from raftnode.api.errors import ERRORS
from raftnode.settings import NodeSettings

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", list(generate_reference.PAGES))
def test_page_is_current(name: str):
    found = (ROOT / "docs" / name).read_text()
    assert found == generate_reference.render()[name], "run: python tools/generate_reference.py"


def test_pages_name_every_error_and_setting():
    pages = generate_reference.render()
    assert all(f"`{name}`" in pages["reference/http-api.md"] for name in ERRORS)
    assert all(
        f"`{name}`" in pages["reference/node-settings.md"] for name in NodeSettings.model_fields
    )


def test_pages_do_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch):
    before = generate_reference.render()
    monkeypatch.setenv("RAFTNODE_NODE_ID", "9")
    monkeypatch.setenv("COLUMNS", "40")
    assert generate_reference.render() == before
