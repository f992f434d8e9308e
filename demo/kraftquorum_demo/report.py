"""The figures of a run: as ``report.json`` for programs, as text for people.

Pure but for `machine`.
"""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, cast

from raftnode.client import LogRecord

from .history import Hang, History
from .log_comparison import Agreement
from .record import Stall
from .verify import Verdict

CONTROL_SHOWN = ("AddVoter", "RemoveVoter")
KEPT = "Every promise was kept."
_NAMES = {
    "first_leader": "apply → first leader",
    "load": "zone files loaded",
    "scale_up": "scale up",
    "scale_down": "scale down, leader killed",
    "follower_disk": "follower's disk wiped → full redundancy",
    "leader_disk": "leader's disk wiped → full redundancy",
    "hung_disk_stall": "longest write stall, leader's disk hung",
    "longest_write_stall": "longest write stall of the other steps",
    "whole_demo": "whole demo, without the build",
}
LIMITS_S = {
    "follower_disk": 30.0,
    "leader_disk": 30.0,
    "hung_disk_stall": 10.0,
    "longest_write_stall": 5.0,
    "whole_demo": 180.0,
}


@dataclass(frozen=True, slots=True)
class Control:
    """One control record of the log that changed the voters or the leader."""

    offset: int
    epoch: int
    kind: str
    node_id: int | None
    directory_id: str | None

    @classmethod
    def of(cls, record: LogRecord) -> "Control":
        """Read it off a record of the API."""
        fields = record.fields or {}
        who = cast("Mapping[str, Any]", fields.get("voter") or fields.get("leader") or {})
        return cls(
            record.offset,
            record.epoch,
            record.control or "",
            who.get("node_id"),
            who.get("directory_id"),
        )

    def as_dict(self) -> dict[str, object]:
        """For the report."""
        return {
            "offset": self.offset,
            "epoch": self.epoch,
            "record": self.kind,
            "node_id": self.node_id,
            "directory_id": self.directory_id,
        }


def control_records(log: Iterable[LogRecord]) -> list[Control]:
    """All control records, in order of offset."""
    return [Control.of(record) for record in log if record.control is not None]


def control_lines(controls: Sequence[Control]) -> list[str]:
    """The voter changes as a table for people."""
    lines = [f"{'offset':>8} {'epoch':>6}  {'record':<12} {'id':>2}  directory id"]
    lines += [
        f"{c.offset:>8} {c.epoch:>6}  {c.kind:<12} {c.node_id:>2}  {c.directory_id}"
        for c in controls
        if c.kind in CONTROL_SHOWN
    ]
    return lines


def verdict_figures(verdict: Verdict) -> dict[str, int]:
    """The figures of the comparison, the promised ones first."""
    return {
        "acknowledged": verdict.acknowledged,
        "unknown": verdict.unknown,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "out_of_order": verdict.out_of_order,
        "bytes_mismatched": verdict.bytes_mismatched,
        "unexpected": verdict.unexpected,
        "unknown_found": verdict.unknown_found,
        "refused": verdict.refused,
    }


def verdict_lines(verdict: Verdict) -> list[str]:
    """What the comparison came to, for people."""
    figures = verdict_figures(verdict)
    written = figures.pop("unknown_found")
    lines = [f"{name:>18}  {value}" for name, value in figures.items()]
    if verdict.unknown:
        lines[1] += f"   ({written} of them turned out to be written)"
    lines += [f"    differs: {text}" for text in verdict.differences]
    return lines


def targets(seconds: Mapping[str, float]) -> list[dict[str, object]]:
    """Each figure that has a limit, and whether it was met."""
    return [
        {
            "figure": name,
            "seconds": round(seconds[name], 3),
            "limit_s": limit_s,
            "met": seconds[name] < limit_s,
        }
        for name, limit_s in LIMITS_S.items()
        if name in seconds
    ]


def timing_lines(seconds: Mapping[str, float]) -> list[str]:
    """The times as a table for people."""
    lines: list[str] = []
    for name, words in _NAMES.items():
        if name in seconds:
            limit_s = LIMITS_S.get(name)
            judged = "" if limit_s is None else f"   (limit {limit_s:.0f} s)"
            missed = limit_s is not None and seconds[name] >= limit_s
            lines.append(f"{words:>42}  {seconds[name]:6.1f} s{judged}{' MISSED' * missed}")
    return lines


def hang_figures(hang: Hang, stall: Stall) -> dict[str, object]:
    """How the leader's disk hung, and the longest stretch without an acknowledgement meanwhile."""
    return {
        "node_id": hang.replica_id.node_id,
        "directory_id": hang.replica_id.directory_id,
        "from_s": round(hang.from_s, 3),
        "until_s": round(hang.until_s, 3),
        "caught_up_after_s": round(hang.caught_up_s, 3),
        "same_process": hang.same_process,
        "write_stall": _stall_figures(stall),
    }


def _stall_figures(stall: Stall) -> dict[str, float]:
    return {
        "from_s": round(stall.from_s, 3),
        "until_s": round(stall.until_s, 3),
        "seconds": round(stall.seconds, 3),
    }


def make_report(
    *,
    ok: bool,
    verdict: Verdict,
    seconds: Mapping[str, float],
    history: History,
    stall: Stall,
    controls: Sequence[Control],
    agreement: Agreement,
    facts: Mapping[str, object],
) -> dict[str, object]:
    """Put ``report.json`` together.

    Args:
        ok: Whether nothing is wrong: what the exit code says.
        verdict: Of the read-back.
        seconds: All measured times.
        history: For the steps.
        stall: The longest stretch without an acknowledgement, but for the hung disk's.
        controls: Control records of the log.
        agreement: Of the replicas' files.
        facts: Further facts for the report.
    """
    return {
        "ok": ok,
        **verdict_figures(verdict),
        "differences": [*verdict.differences, *agreement.differences],
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "targets": targets(seconds),
        "longest_write_stall": _stall_figures(stall),
        "steps": [
            {
                "title": step.title,
                "from_s": round(step.span.from_s, 3),
                "until_s": round(step.span.until_s or step.span.from_s, 3),
            }
            for step in history.steps
        ],
        "faults": [
            {"at_s": round(fault.at_s, 3), "what": fault.title, "violent": fault.violent}
            for fault in history.faults
        ],
        "control_records": [control.as_dict() for control in controls],
        "replicas": {
            "end_offsets": agreement.end_offsets,
            "agree_up_to_offset": agreement.common_end,
            "bytes_compared_each": agreement.bytes_compared,
            "agree": agreement.ok,
        },
        **facts,
        "machine": machine(),
    }


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "kraftquorum": version("kraftquorum"),
    }
