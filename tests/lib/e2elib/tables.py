"""The report of a run as pages of the documentation.

`python -m e2elib.tables REPORT` takes a run's report into the repository
and writes both pages from it; without an argument it writes them from the report that is there.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
REPORT = ROOT / "docs" / "evidence" / "e2e.json"
PAGE = ROOT / "docs" / "evidence" / "e2e.md"
PROMISES = ROOT / "docs" / "concepts" / "promises.md"
BEGIN, END = "<!-- e2e -->", "<!-- /e2e -->"

Json = dict[str, Any]

_TITLE = """<!-- Made by `make e2e-docs` from e2e.json, the report of a run. Do not edit. -->

# Results of the end-to-end suite

Every case runs on real kubelets, installed by Helm from the images, with six clients that write all
the time ([how to run it](../contributing/e2e.md)) and default settings, unless its row says otherwise.
*Seconds* are from the fault until everything works again. *Stall* is the longest time in which no
client got an acknowledgement. *Unknown* are writes that were sent and never answered. The client
reports these and never repeats them. *Refused* are writes that failed and that no node did.
"""

PROMISED: Sequence[tuple[str, float, str, Sequence[str]]] = (
    (
        "The leader's process dies: a write is acknowledged again",
        10.0,
        "failover, endpoint switched",
        ("failover_s",),
    ),
    (
        "The leader's pod is deleted: a write is acknowledged again",
        20.0,
        "switchover, endpoint switched",
        ("switchover_s",),
    ),
    (
        "Rolling upgrade and back: longest stall of writes",
        20.0,
        "switchover, once in a rolling update",
        ("upgrade_stall_s",),
    ),
    (
        "A follower's disk is lost: full redundancy",
        60.0,
        "recovery from a degraded state",
        ("disk_recovery_follower_s", "claim_recovery_follower_s"),
    ),
    (
        "The leader's disk is lost: full redundancy",
        60.0,
        "recovery from a degraded state",
        ("disk_recovery_leader_s", "claim_recovery_leader_s"),
    ),
)
"""The promise, CloudNativePG's limit in seconds, its name there, and our measures: the worst counts."""


def page(report: Json) -> str:
    """The table of all cases."""
    lines = [_TITLE, *_facts(report), ""]
    lines += [
        "|Case|Seconds|until|Longest write stall|Acknowledged|Unknown|Refused|Lost|Duplicated|",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    cases: list[Json] = report["cases"]
    lines += [_row(case) for case in cases if case["outcome"] == "passed"]
    left = [case for case in cases if case["outcome"] != "passed"]
    if left:
        lines += ["", "Not part of this run:", ""]
        lines += [f"- {case['title']}: {case['outcome']}, {case['why']}" for case in left]
    return "\n".join(lines) + "\n"


def _facts(report: Json) -> list[str]:
    machine, cluster, seconds = report["machine"], report["cluster"], report["seconds"]
    sizes: dict[str, int] = report.get("images", {})
    images = ", ".join(
        f"`{name.rpartition('/')[2].partition(':')[0]}` {size / 1e6:.0f} MB"
        for name, size in sizes.items()
    )
    parts = {"images": "images", "cluster": "cluster", "install": "operator installed"}
    spent = [
        f"{title} {seconds[key]:.0f} s" for key, title in parts.items() if seconds.get(key, 0) >= 1
    ]
    version = cluster["version"].removeprefix("v")
    times = sorted(case["at"] for case in report["cases"])
    ended = f"; cases ended {times[0]} to {times[-1]} UTC" if all(times) else ""
    load = f"load {machine['load_1min']} at the end"
    return [
        f"- **Cluster**: {cluster['title']}, Kubernetes {version}",
        f"- **Machine**: {machine['cores']} cores, {load}, {machine['system']}",
        *([f"- **Images**, unpacked: {images}"] if images else []),
        f"- **The run**: {seconds['all'] / 60:.1f} minutes ({', '.join(spent)}){ended}",
    ]


def _row(case: Json) -> str:
    cells = [
        case["title"],
        _figure(case["seconds"], 1),
        case["until"] if case["seconds"] is not None else "",
        _figure(case["stall_s"], 2),
        *(str(case[key]) for key in ("acknowledged", "unknown", "refused", "lost", "doubled")),
    ]
    return f"|{'|'.join(cells)}|"


def _figure(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def promises(report: Json) -> str:
    """The comparison with CloudNativePG's limits."""
    measured: dict[str, float] = {}
    for case in report["cases"]:
        if case["outcome"] == "passed":
            measured |= case["measures"]
    lines = ["|What|Here, s|CloudNativePG, s|which is|", "|---|---:|---:|---|"]
    for what, limit, kind, keys in PROMISED:
        seconds = [measured[key] for key in keys if key in measured]
        here = f"{max(seconds):.1f}" if len(seconds) == len(keys) else "not measured"
        lines.append(f"|{what}|{here}|< {limit:.0f}|{kind}|")
    return "\n".join(lines)


def with_promises(text: str, report: Json) -> str:
    """The page of promises with its table written again.

    Raises:
        ValueError: the marks of the table are missing.
    """
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{BEGIN} … {END} is missing")
    return f"{head}{BEGIN}\n{promises(report)}\n{END}{tail}"


def main(arguments: Sequence[str]) -> int:
    """Write both pages."""
    if arguments:
        shutil.copyfile(arguments[0], REPORT)
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    PAGE.write_text(page(report), encoding="utf-8")
    text = PROMISES.read_text(encoding="utf-8")
    PROMISES.write_text(with_promises(text, report), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
