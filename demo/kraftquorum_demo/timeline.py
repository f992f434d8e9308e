"""The picture of a run: who voted and led when, how fast writes went, what was broken.

Colours are Okabe and Ito's, which people with any colour vision tell apart; leaders
are also thicker and faults also numbered, so that nothing is said by colour alone.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kraftquorum_devcluster.paths import cache_root

from .history import Fault, History, ReplicaId
from .record import Stall

_VOTER, _LEADER, _FAULT, _WISH, _RATE = "#56B4E9", "#0072B2", "#D55E00", "#555555", "#009E73"
_STALL = "#E69F00"
_TITLE = "A quorum through scaling, a killed leader, two destroyed disks and one that hangs"
_BIN_S = 0.5
_MARK_SHARE = 0.018
"""Of the width: two marks nearer than this cover each other."""
STALL_SHOWN_S = 0.4


def draw(
    path: Path,
    history: History,
    acknowledged_at: Sequence[float],
    stalls: Sequence[Stall],
    end_s: float,
) -> None:
    """Draw the picture into a file.

    Args:
        path: The file; its ending names the format.
        history: Of the run, closed.
        acknowledged_at: When each write was acknowledged.
        stalls: Stretches without an acknowledgement that are to be marked.
        end_s: Where the picture ends.
    """
    os.environ.setdefault("MPLCONFIGDIR", str(cache_root() / "matplotlib"))
    import matplotlib as mpl  # noqa: PLC0415 - slow, and only needed at the end

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of the backend

    replica_ids = list(history.voters)
    height = 2.6 + 0.34 * len(replica_ids) + 2.2
    figure: Any
    figure, (above, below) = plt.subplots(
        2,
        1,
        sharex=True,
        figsize=(13, height),
        gridspec_kw={"height_ratios": [0.34 * len(replica_ids) + 0.8, 2.0]},
        layout="constrained",
    )
    _draw_voters(above, history, replica_ids, end_s)
    _draw_writes(below, acknowledged_at, stalls, end_s)
    below.set_xlim(min(step.span.from_s for step in history.steps), end_s)
    _draw_faults(above, below, history.faults)
    below.set_xlabel("seconds since the demo began")
    figure.suptitle(_TITLE, x=0.5)
    figure.text(0.01, -0.01, _key(history.faults), va="top", fontsize=9)
    figure.savefig(path, dpi=130, bbox_inches="tight", pad_inches=0.2)
    plt.close(figure)


def _draw_voters(
    axes: Any, history: History, replica_ids: Sequence[ReplicaId], end_s: float
) -> None:
    rows = {
        replica_id: len(replica_ids) - 1 - number for number, replica_id in enumerate(replica_ids)
    }
    for replica_id, spans in history.voters.items():
        for span in spans:
            until_s = span.until_s if span.until_s is not None else end_s
            bar = [(span.from_s, until_s - span.from_s)]
            axes.broken_barh(bar, (rows[replica_id] - 0.3, 0.6), facecolors=_VOTER)
    for replica_id, spans in history.observers.items():
        for span in spans if replica_id in rows else ():
            until_s = span.until_s if span.until_s is not None else end_s
            axes.hlines(rows[replica_id], span.from_s, until_s, color=_VOTER, linewidth=2.5)
    for leadership in history.leaderships:
        if leadership.replica_id not in rows:
            continue
        from_s, until_s = leadership.span.from_s, leadership.span.until_s or end_s
        bar = [(from_s, until_s - from_s)]
        axes.broken_barh(bar, (rows[leadership.replica_id] - 0.42, 0.84), facecolors=_LEADER)
        if until_s - from_s > end_s / 14:
            where = (from_s + min(until_s, end_s)) / 2, rows[leadership.replica_id]
            text = f"leads, epoch {leadership.epoch}"
            axes.text(
                *where, text, color="white", ha="center", va="center", fontsize=8, clip_on=True
            )
    axes.set_yticks(list(rows.values()), [_label(replica_id) for replica_id in replica_ids])
    axes.tick_params(axis="y", labelfontfamily="monospace", labelsize=9)
    axes.set_ylim(-0.7, len(replica_ids) - 0.1)
    axes.set_title("voters, a row for each directory id", loc="left", fontsize=10, pad=16)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    _legend(axes, [(_LEADER, "leader"), (_VOTER, "voter (thin: observer)")])


def _draw_writes(
    axes: Any, acknowledged_at: Sequence[float], stalls: Sequence[Stall], end_s: float
) -> None:
    bins = [number * _BIN_S for number in range(int(end_s / _BIN_S) + 2)]
    counts = [0] * len(bins)
    for at_s in acknowledged_at:
        counts[int(at_s / _BIN_S)] += 1
    rates = [count / _BIN_S for count in counts]
    axes.fill_between(bins, rates, step="post", color=_RATE, alpha=0.35, linewidth=0)
    axes.step(bins, rates, where="post", color=_RATE, linewidth=1.2)
    top = max(1.0, *rates) * 1.3
    for stall in stalls:
        axes.axvspan(stall.from_s, stall.until_s, color=_STALL, alpha=0.45, linewidth=0)
        where = (stall.from_s + stall.until_s) / 2, top * 0.97
        axes.text(*where, f"{stall.seconds:.1f} s", ha="center", va="top", fontsize=8)
    axes.set_ylim(0, top)
    axes.set_ylabel("writes per second")
    axes.set_title("acknowledged writes", loc="left", fontsize=10)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    stalled = f"nothing acknowledged for more than {STALL_SHOWN_S} s"
    _legend(axes, [(_RATE, "acknowledged"), (_STALL, stalled)])


def _draw_faults(above: Any, below: Any, faults: Sequence[Fault]) -> None:
    width_s = below.get_xlim()[1] - below.get_xlim()[0]
    last_s, height = -width_s, 1.0
    for number, fault in enumerate(faults, start=1):
        # A mark that would cover the one before it stands lower.
        height = height - 0.07 if fault.at_s - last_s < width_s * _MARK_SHARE else 1.0
        last_s = fault.at_s
        colour = _FAULT if fault.violent else _WISH
        style = "-" if fault.violent else "--"
        for axes in (above, below):
            axes.axvline(fault.at_s, color=colour, linestyle=style, linewidth=1.4)
        above.annotate(
            str(number),
            (fault.at_s, height),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="center",
            fontsize=9,
            color="white",
            bbox={"boxstyle": "circle", "facecolor": colour, "edgecolor": "white"},
        )


def _legend(axes: Any, entries: Sequence[tuple[str, str]]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - as above

    handles = [Patch(facecolor=colour, label=text) for colour, text in entries]
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1, 1.01),
        ncols=len(entries),
        fontsize=8,
        frameon=False,
    )


def _key(faults: Sequence[Fault]) -> str:
    lines = [f"{n}  {f.at_s:6.1f} s  {f.title}" for n, f in enumerate(faults, start=1)]
    return "\n".join(lines)


def _label(replica_id: ReplicaId) -> str:
    return f"node {replica_id.node_id}  {replica_id.directory_id}"
