"""Write charts/kraftquorum/README.md from its values.yaml; with --check, say whether it is current.

A comment that begins with `# --` describes the key below it; its next lines go on with `#`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

CHART = Path(__file__).resolve().parent.parent / "charts" / "kraftquorum"
MADE = "<!-- Made by tools/generate_chart_readme.py from values.yaml; do not edit. -->\n"
KEY = re.compile(r"^( *)([A-Za-z]+):")
PARTS = {
    "image": "Images",
    "watch": "What is watched, and the CRDs",
    "replicas": "How it runs",
    "statusPage": "The status page and the metrics",
    "rbac": "Rights",
    "resources": "The pod",
    "networkPolicy": "Network policies",
    "monitoring": "Monitoring",
}
"""First key of each section → its heading."""


class Value(NamedTuple):
    """A described value.

    Attributes:
        path: with dots, as `--set` takes it.
        default: as in values.yaml.
        about: its description.
    """

    path: str
    default: Any
    about: str


def values(text: str) -> Iterator[Value]:
    """Every described value, in the order of the file."""
    content = yaml.safe_load(text)
    keys: list[tuple[int, str]] = []
    about: list[str] = []
    for line in text.splitlines():
        words = line.strip()
        if words.startswith("# --"):
            about = [words.removeprefix("# --").strip()]
        elif words.startswith("#") and about:
            about.append(words.removeprefix("#").strip())
        elif match := KEY.match(line):
            indent = len(match[1])
            keys = [*((i, key) for i, key in keys if i < indent), (indent, match[2])]
            if about:
                path = [key for _, key in keys]
                default: Any = content
                for key in path:
                    default = default[key]
                yield Value(".".join(path), default, " ".join(about))
            about = []
        elif not words:
            about = []


def render(text: str) -> str:
    """The page for a values.yaml."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    lines = [
        MADE,
        f"# Chart `{chart['name']}`\n",
        f"{chart['description']} For Kubernetes `{chart['kubeVersion']}`.\n",
        "```",
        "helm install kraftquorum charts/kraftquorum -n kraftquorum-system --create-namespace",
        "```\n",
        _INSTALL,
        _STRICT,
        "## Names\n",
        *_HEAD,
    ]
    parts_begun = {"nameOverride"}
    for value in values(text):
        first = value.path.partition(".")[0]
        if first in PARTS and first not in parts_begun:
            lines += ["", f"## {PARTS[first]}\n", *_HEAD]
        parts_begun.add(first)
        lines.append(f"| `{value.path}` | {_default(value.default)} | {_cell(value.about)} |")
    return "\n".join(lines) + "\n"


_INSTALL = (
    "How to install, upgrade and uninstall it, and what stays then: "
    "[docs/operations/install.md](../../docs/operations/install.md).\n"
)
_STRICT = (
    "A value that does not exist here, or cannot be, is refused by `values.schema.json` "
    "before anything is changed.\n"
)
_HEAD = ("| Value | Default | Meaning |", "|---|---|---|")


def _default(value: Any) -> str:
    return f"`{_cell(json.dumps(value, ensure_ascii=False))}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Write the page, or with --check compare it."""
    wanted = render((CHART / "values.yaml").read_text())
    page = CHART / "README.md"
    current = page.exists() and page.read_text() == wanted
    if "--check" in sys.argv[1:]:
        print("current" if current else "stale: charts/kraftquorum/README.md")
        return 0 if current else 1
    page.write_text(wanted)
    print("was current" if current else "wrote charts/kraftquorum/README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
