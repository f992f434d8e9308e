"""Plots of a report: ratios of all workloads, and rates by the number of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kraftquorum_bench.report import Report, Result

CLIENTS = (64, 512, 2048)
_OURS, _PEER = "#2a6fbb", "#b0b0b0"


def draw(report: Report, directory: Path) -> list[Path]:
    """Write the plots as SVG; returns their paths."""
    import matplotlib as mpl  # noqa: PLC0415 - a second to import, for this alone

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "kraftquorum"  # equal reports, equal files
    directory.mkdir(parents=True, exist_ok=True)
    drawn = [_ratios(report, directory / "ratios.svg")]
    drawn += [
        _by_clients(report, name, directory / f"{name}.svg")
        for name in pictures_of(report)
        if name != "ratios"
    ]
    return drawn


def pictures_of(report: Report) -> dict[str, str]:
    """What `draw` draws of a report: names of files, and what each shows."""
    pictures = {"ratios": "How many times better ours is than its peer, by workload"}
    for operation, words in (("put", "Puts"), ("get", "Linearizable reads")):
        if any(f"{operation}_{clients}" in report.workloads for clients in CLIENTS):
            pictures[operation] = f"{words} a second by the number of clients"
    return pictures


def factor_better(result: Result) -> float | None:
    """How many times better ours is: above 1 whatever the figure's direction."""
    if not result.ratio:
        return None
    return result.ratio if result.higher_is_better else 1 / result.ratio


def _ratios(report: Report, path: Path) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415

    rows = [
        (f"{name} ({result.peer_name})", factor)
        for name, result in reversed(report.workloads.items())
        if (factor := factor_better(result)) is not None
    ]
    plotting: Any = plt
    figure, axes = plotting.subplots(figsize=(9, 1 + 0.28 * max(len(rows), 1)))
    axes.barh(
        [name for name, _ in rows],
        [factor - 1 for _, factor in rows],
        left=1,
        color=[_OURS if factor >= 1 else _PEER for _, factor in rows],
    )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.margins(y=0.01)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("times better than the peer (left of 1: worse)")
    return _save(figure, path)


def _by_clients(report: Report, operation: str, path: Path) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415

    plotting: Any = plt
    figure, axes = plotting.subplots(figsize=(7, 4))
    series: dict[str, list[tuple[int, float]]] = {}
    for clients in CLIENTS:
        for suffix, by in (("", "sessions"), ("_http", "HTTP")):
            result = report.workloads.get(f"{operation}_{clients}{suffix}")
            if result is None:
                continue
            series.setdefault(f"ours, {by}", []).append((clients, result.ours))
            if result.peer is not None and not suffix:
                series.setdefault(str(result.peer_name), []).append((clients, result.peer))
    for name, points in series.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(CLIENTS, [f"{clients:,}" for clients in CLIENTS])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("clients")
    axes.set_ylabel("puts/s" if operation == "put" else "linearizable reads/s")
    axes.legend()
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot as plt  # noqa: PLC0415

    plotting: Any = plt
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plotting.close(figure)
    return path
