"""Each block of commands in the how-tos and operations pages is run by a test, or a reason is here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guidelib.pages import COMMANDS, DOCS, ROOT, blocks

FOLDERS = ("howto", "operations")
RUNBOOKS = "operations/runbooks/"
"""tests/operator/test_runbooks.py runs every line of every block there."""

NOT_RUN: dict[str, tuple[int, str]] = {
    "howto/audit.md": (5, "needs Spark; tests/pipeline runs each command on a quorum's files"),
    "howto/client.md": (1, "installs a package; the page's program runs in tests/node"),
    "howto/kafka.md": (4, "needs Apache Kafka; tests/kafka runs the command and the resource"),
    "howto/lock-down-metrics.md": (
        2,
        "Helm, and a refusal by a network policy: tests/chart has the values, tests/e2e the pod",
    ),
    "howto/secure-a-quorum.md": (2, "parts of a command line, and keys of a cluster's API server"),
    "howto/spark-kubernetes.md": (3, "tests/onkubernetes runs them on a real kubelet"),
    "howto/spark.md": (9, "needs Spark and object stores; tests/pipeline runs each command"),
    "howto/voters.md": (1, "directory ids of a lost disk; tests/node/test_discovery.py"),
    "operations/image.md": (4, "needs a Docker engine; tests/image builds and runs the images"),
    "operations/install.md": (12, "needs Docker, kind or kubelets; tests/chart, tests/e2e install"),
    "operations/production.md": (2, "drains machines; tests/operator and tests/e2e do so"),
    "operations/status-page.md": (5, "needs the page's port; tests/page opens it in a browser"),
    "operations/upgrade.md": (2, "a watch without an end, and a list that differs"),
}
"""Pages with blocks that no test runs as they stand: how many, and why.

A page gets here only if the commands need what no gate has. Otherwise name the block with a comment
`<!-- example: NAME -->`, and run it in a test by `guidelib.reader`.
"""

PAGES = {
    str(path.relative_to(DOCS)): path
    for folder in FOLDERS
    for path in sorted((DOCS / folder).rglob("*.md"))
}
TESTS = {
    path: path.read_text("utf-8")
    for path in (ROOT / "tests").rglob("test_*.py")
    if path != Path(__file__)
}


@pytest.mark.parametrize("page", PAGES)
def test_each_block_names_its_language(page: str) -> None:
    """A block without one might have commands, and no check would see them."""
    bare = [block.text for block in blocks(PAGES[page].read_text("utf-8")) if not block.language]
    assert bare == [], "write sh, console, text or another language behind the fence"


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith(RUNBOOKS)])
def test_each_block_of_commands_is_run_or_has_a_reason(page: str) -> None:
    listed = blocks(PAGES[page].read_text("utf-8"))
    unnamed = [block.text for block in listed if block.language in COMMANDS and not block.name]
    count, why = NOT_RUN.get(page, (0, "none"))
    assert len(unnamed) == count, f"{page}: {unnamed}; the reason in NOT_RUN: {why}"


@pytest.mark.parametrize("page", PAGES)
def test_each_example_is_used_by_a_test_that_names_the_page(page: str) -> None:
    """A page that several tests read may have its examples in any of them."""
    readers = "".join(text for text in TESTS.values() if Path(page).name in text)
    for block in blocks(PAGES[page].read_text("utf-8")):
        if block.role == "example":
            assert re.search(rf"""["']{block.name}["']""", readers), f"{page}: {block.name}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_whose_commands_run_says_what_it_needs_and_what_comes_next(page: str) -> None:
    text = PAGES[page].read_text("utf-8")
    if any(block.role == "example" and block.language in COMMANDS for block in blocks(text)):
        assert re.search(r"\bYou need (?!not)", text), (
            "say what a reader needs before the first command"
        )
        assert "**Next:** " in text


def test_a_reason_is_for_a_page_that_exists() -> None:
    assert set(NOT_RUN) <= set(PAGES)
    assert all(count and why for count, why in NOT_RUN.values())
