"""A reader finds the next step on every page: each page for users ends with a link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = ("concepts", "howto", "operations", "reference", "tutorials")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / "docs" / folder).rglob("*.md"))
LAST_LINES = 8
README_LINES = 90


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_a_page_ends_with_a_link(page):
    last = [line for line in page.read_text().splitlines() if line.strip()][-LAST_LINES:]
    assert re.search(r"\]\([^)]+\)", "\n".join(last)), f"{page.name} ends without a next step"


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < README_LINES
