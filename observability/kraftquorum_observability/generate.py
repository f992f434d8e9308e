"""Writes the rules, the dashboards and the list of alerts: `make dashboards`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from kraftquorum_observability.alerts import ALERTS, kebab
from kraftquorum_observability.dashboards import DASHBOARDS
from kraftquorum_observability.dashboards.grafana import dashboard_json
from kraftquorum_observability.rules import RECORDINGS, rules_file

ROOT = Path(__file__).resolve().parents[2]
RULES = Path("charts/kraftquorum/rules/kraftquorum.yaml")
BOARDS = Path("charts/kraftquorum/dashboards")
PAGE = Path("docs/reference/alerts.md")
INTRODUCTION = (
    "`critical` needs a person at once, `warning` has time until the morning. How to get them: "
    "[monitoring](../operations/monitoring.md). Each leads to its runbook, as does its annotation "
    "`runbook_url`.\n"
)
OURS = ("charts/kraftquorum/rules/*.yaml", "charts/kraftquorum/dashboards/*.json")
"""Where every file is one that is made here."""


def files() -> dict[Path, str]:
    """Every generated file, by its path below the repository's root."""
    boards = {BOARDS / f"{board.uid}.json": dashboard_json(board) for board in DASHBOARDS}
    return {RULES: rules_file(), PAGE: alerts_page()} | boards


def alerts_page() -> str:
    """The alerts and the recording rules, for people."""
    lines = [
        "<!-- Made by `make dashboards`; do not edit. -->\n",
        "# Alerts\n",
        INTRODUCTION,
        "| Alert | Severity | After | Meaning |\n|---|---|---|---|",
        *(
            f"| [{alert.name}](../operations/runbooks/{kebab(alert.name)}.md) | {alert.severity} "
            f"| {alert.lasts} | {_plain(alert.description)} |"
            for alert in ALERTS
        ),
        "\n## When they fire\n",
        *(f"`{alert.name}`\n\n```promql\n{alert.expression.strip()}\n```\n" for alert in ALERTS),
        "## Recorded series\n",
        *(f"- `{recording.record}`" for recording in RECORDINGS),
        (
            "\nNext: [the runbooks](../operations/runbooks/README.md), "
            "[monitoring](../operations/monitoring.md)."
        ),
    ]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """A description without its figures."""
    return re.sub(r"\{\{[^}]*\}\}", "…", text)


def stale(root: Path = ROOT) -> list[Path]:
    """What is not as the code makes it, files that it no longer makes included."""
    made = files()
    known = [path.relative_to(root) for pattern in OURS for path in root.glob(pattern)]
    return [path for path in known if path not in made] + [
        path
        for path, text in made.items()
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write what is not current."""
    made = files()
    for path in stale():
        if path not in made:
            (ROOT / path).unlink()
            continue
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(made[path], encoding="utf-8")
        print(f"wrote {path}")  # noqa: T201 - a program for people
    return 0


if __name__ == "__main__":
    sys.exit(main())
