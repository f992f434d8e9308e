"""The fenced blocks of a page.

A comment above a block says what a test does with it: `<!-- example: NAME -->` is run or used by
that name, `<!-- output: NAME -->` is what the example of that name prints. In an output `…` stands
for any text within a line, and a line of `…` alone for any lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
COMMANDS = frozenset({"sh", "bash", "console"})
"""The languages of blocks that a reader types."""

_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<role>example|output): (?P<name>[\w-]+) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, with what the comment above it says."""

    role: str
    """`example`, `output`, or empty: no test knows it by name."""
    name: str
    language: str
    text: str


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page, in its order."""
    return [
        Block(
            match["role"] or "",
            match["name"] or "",
            match["language"],
            re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
        )
        for match in _BLOCK.finditer(text)
    ]


class Page:
    """The examples of a page under `docs`, and what they print."""

    def __init__(self, path: str) -> None:
        self.path = DOCS / path
        named = [block for block in blocks(self.path.read_text("utf-8")) if block.name]
        self.examples = {block.name: block.text for block in named if block.role == "example"}
        self.outputs = {block.name: block.text for block in named if block.role == "output"}
        assert len(named) == len(self.examples) + len(self.outputs), f"{path}: a name occurs twice"
        assert self.outputs.keys() <= self.examples.keys(), f"{path}: an output of no example"


def prints(shown: str, printed: str) -> bool:
    """Whether a text is the output that a page shows."""
    lines = [
        r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown.rstrip("\n").split("\n")
    ]
    return re.fullmatch("".join(lines), printed.rstrip("\n") + "\n") is not None
