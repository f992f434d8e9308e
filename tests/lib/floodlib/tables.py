"""The figures of a run as a page of the documentation.

`python -m floodlib.tables FIGURES` takes the file of a run into the repository and writes the page;
without an argument it writes the page from the report that is there.
"""

from __future__ import annotations

import datetime as dt
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from floodlib.bounds import BEFORE_MIN_S, HOLDING, MEDIAN_MAX_S, RATIO_MAX, WORST_MAX_S
from floodlib.figures import Figures, Waits, read
from kraftquorum_bench.machine import describe_machine

ROOT = Path(__file__).resolve().parents[3]
REPORT = ROOT / "docs" / "evidence" / "floods.json"
PAGE = ROOT / "docs" / "evidence" / "floods.md"

KINDS = {
    "idle": "send nothing",
    "trickle_head": "send a head byte by byte",
    "trickle_body": "send a body byte by byte",
    "requests": "write, each the next value at once",
    "read_nothing": "ask for values of 512 KiB, and read nothing",
    "idle_sessions": "open a session, and do nothing in it",
    "deaf_sessions": "ask for values of 512 KiB in a session, and read nothing",
    "greedy_sessions": "send more in a session than its credits allow",
    "handshakes": "begin TLS handshakes, again and again",
}
TIMES = "\N{MULTIPLICATION SIGN}"
Json = dict[str, Any]


def report(figures: Sequence[Figures], ended: dt.datetime, machine: dict[str, str]) -> Json:
    """The report of a run."""
    return {
        "machine": machine,
        "ended": f"{ended:%Y-%m-%d %H:%M} UTC",
        "figures": [asdict(row) for row in figures],
    }


def page(run: Json) -> str:
    """The page of a report."""
    cases: defaultdict[tuple[str, str], list[Figures]] = defaultdict(list)
    for row in map(Figures.of, run["figures"]):
        cases[row.kind, row.against].append(row)
    rounds = {len(rows) for rows in cases.values()}
    machine = run["machine"]
    working = ", ".join(f"`{kind}`" for kind in KINDS if kind not in HOLDING)
    return f"""<!-- Made by `make floods-docs` from floods.json, the report of a run. Do not edit. -->

# What a flood takes from other clients

A process floods the leader of three voters with many connections, for 12 s or until the limits have
refused some of it (`make floods`). A connection that the node closes is opened again. Meanwhile another client writes one value after the other, with 50 ms in between, and
a third describes the quorum as the operator does, on a new connection each time. Before the flood
both do the same for 4 s. `tests/node/test_floods.py` has the flood's details. It also fails if the
leader changes, if a call of either client fails, or if the leader's memory grows by 512 MiB.

- **Machine**: {machine["cores"]} cores, {machine["memory"]}, {machine["kernel"]}; the flood, all \
nodes and the clients share it
- **The run**: {_rounds(rounds)} of each flood, ended {run["ended"]}

*Before* and *during* are medians of the rounds' medians, and *ratio* is the median of the rounds'
ratios with the lowest and the highest. *Longest* is of all rounds. *Memory* is how much the leader
has more than before, at most. *The same address* is that of both clients. *Another subject, with
TLS* has a token of its own: all clients have TLS and tokens there, which is the default of a quorum
that the operator makes. These floods have fewer connections: the process that floods shares two
cores with the nodes, and of 2,000 handshakes a quarter outlasted the deadline for a head.

## Writes of another client

|The connections|Number|Flood from|Before|During|Ratio|Longest|Memory|
|---|---:|---|---:|---:|---:|---:|---:|
{_table(cases, _writes, memory=True)}

## Calls of the operator, each on a new connection

|The connections|Number|Flood from|Before|During|Ratio|Longest|
|---|---:|---|---:|---:|---:|---:|
{_table(cases, _describes, memory=False)}

A call of a little more than 1 s had a new connection whose first packet found the listener's queue
of 128 full: the client's system sends the packet again after 1 s. Connections that are open do not
wait so. Other programs ran on the machine meanwhile: a ratio below 1 says that they had more of the
processors before the flood than during it, and no more.

## What the tests demand

| bound | reason |
|---|---|
| A median during a flood that completes no request is at most {RATIO_MAX:g} times the median \
before, or {RATIO_MAX * BEFORE_MIN_S * 1e3:.0f} ms | such a flood gets nothing that another client \
would need; an undisturbed call takes up to {BEFORE_MIN_S * 1e3:.0f} ms while the machine is busy |
| The median during any other flood ({working}) is at most {MEDIAN_MAX_S:g} s | these clients use \
their share of the leader; {MEDIAN_MAX_S:g} s is half of the default `fetch_timeout_ms`, after which \
followers start an election |
| No call takes more than {WORST_MAX_S:g} s | a connection whose first two packets are lost takes \
3 s, and its call may take 1 s |

**Next:** [threat model](../concepts/security.md), [what TLS costs](tls-cost.md), [proof](proof.md).
""".replace("\\\n", "")


def _rounds(rounds: set[int]) -> str:
    low, high = min(rounds), max(rounds)
    return f"{low} rounds" if low == high else f"{low} to {high} rounds"


def _writes(row: Figures) -> tuple[Waits, Waits]:
    return row.writes_before, row.writes


def _describes(row: Figures) -> tuple[Waits, Waits]:
    return row.describes_before, row.describes


def _table(
    cases: dict[tuple[str, str], list[Figures]],
    part: Callable[[Figures], tuple[Waits, Waits]],
    *,
    memory: bool,
) -> str:
    lines: list[str] = []
    for (kind, against), rows in cases.items():
        pairs = [part(row) for row in rows]
        ratios = [during.median_s / before.median_s for before, during in pairs]
        cells = [
            KINDS[kind],
            f"{rows[0].connections:,}",
            against,
            _ms(statistics.median(before.median_s for before, _ in pairs)),
            _ms(statistics.median(during.median_s for _, during in pairs)),
            f"{statistics.median(ratios):.2f}{TIMES} ({min(ratios):.2f} to {max(ratios):.2f})",
            _ms(max(during.worst_s for _, during in pairs)),
        ]
        if memory:
            cells.append(f"{max(row.memory_bytes for row in rows) / 2**20:.0f} MiB")
        lines.append(f"|{'|'.join(cells)}|")
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:,.0f} ms"


def main(*arguments: str) -> None:
    """Take a run's figures, if they are named, and write the page."""
    for name in arguments:
        path = Path(name)
        ended = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
        taken = report(read(path), ended, describe_machine(path.parent))
        REPORT.write_text(f"{json.dumps(taken, indent=1)}\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(REPORT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
