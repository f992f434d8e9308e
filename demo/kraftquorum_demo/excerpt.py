"""The end of a run as README shows it: `make demo-docs` writes it from ``report.json``.

The lines are those that the demo prints (`report`), without the figures that README leaves out.
A test renders the figures of README's block again, and so finds a block that the demo no longer
prints.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .report import KEPT, LIMITS_S, timing_lines, verdict_lines
from .verify import Verdict

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- demo -->", "<!-- /demo -->"
COUNTS_SHOWN = ("acknowledged", "unknown", "lost", "duplicated")


def excerpt(report: Mapping[str, Any]) -> str:
    """The figures that were promised, as a block of README.

    Raises:
        ValueError: the run broke a promise, missed a limit or was short: README shows whole runs.
    """
    missed = [target["figure"] for target in report["targets"] if not target["met"]]
    if not report["ok"] or missed:
        raise ValueError(f"the run broke a promise or missed a limit: {', '.join(missed) or 'ok'}")
    missing = sorted(LIMITS_S.keys() - report["seconds"].keys())
    if report["short"] or missing:
        raise ValueError(f"the run was not whole: short, or without {missing}; run make demo")
    seconds = {name: value for name, value in report["seconds"].items() if name in LIMITS_S}
    verdict = Verdict(
        **{name: report[name] for name in COUNTS_SHOWN}, unknown_found=report["unknown_found"]
    )
    counts = [line for line in verdict_lines(verdict) if line.split()[0] in COUNTS_SHOWN]
    return "\n".join(["```", *counts, *timing_lines(seconds), KEPT, "```"])


def with_excerpt(text: str, report: Mapping[str, Any]) -> str:
    """A page with its block written again.

    Raises:
        ValueError: the marks of the block are missing, or the run cannot be shown.
    """
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{BEGIN} … {END} is missing")
    return f"{head}{BEGIN}\n{excerpt(report)}\n{END}{tail}"


def main(arguments: Sequence[str]) -> int:
    """Write README's block from the report that is named."""
    report = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    README.write_text(with_excerpt(README.read_text(encoding="utf-8"), report), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
