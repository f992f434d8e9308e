"""The files that a run leaves behind: data, logs, the account of the writes."""

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from kraftquorum_devcluster.cluster import DevCluster
from kraftquorum_devcluster.errors import DevClusterError

from .environment import NAMESPACE
from .history import Fault
from .record import Write

_VALUE_SHOWN = 16
_DESCRIBED = ("krq", "statefulset", "pods", "pvc")


def keep_data(state: Path, data: Path) -> list[str]:
    """Move every volume that a claim has to ``data/<pod>``; returns the pods' names.

    The cluster must have stopped.
    """
    claims = state / "volumes" / "by-claim" / NAMESPACE
    kept: list[str] = []
    for link in sorted(claims.iterdir()) if claims.is_dir() else ():
        name = link.name.removeprefix("data-")
        volume = link.readlink()
        if volume.is_dir():
            data.mkdir(parents=True, exist_ok=True)
            shutil.move(volume, data / name)
            kept.append(name)
    return kept


def keep_logs(cluster: DevCluster, logs: Path) -> None:
    """Copy the logs of the control plane and of the pods."""
    for name in ("logs", "supervisor.log"):
        source = cluster.state_dir / name
        if source.is_dir():
            shutil.copytree(source, logs / "cluster", dirs_exist_ok=True)
        elif source.exists():
            (logs / "cluster").mkdir(parents=True, exist_ok=True)
            shutil.copy(source, logs / "cluster" / name)


def keep_description(cluster: DevCluster, logs: Path) -> str:
    """Write ``kubectl describe`` of all that matters to a file; returns the resource's part."""
    parts: list[str] = []
    for kind in _DESCRIBED:
        try:
            parts.append(cluster.kubectl("describe", kind, timeout_s=15))
        except (DevClusterError, OSError, ValueError) as error:
            parts.append(f"kubectl describe {kind}: {error}")
    (logs / "describe.txt").write_text("\n\n".join(parts), encoding="utf-8")
    return parts[0]


def keep_writes(writes: Iterable[Write], path: Path, zero_s: float) -> None:
    """Write the account down, a write a line; values by beginning, length and hash.

    Args:
        writes: The account.
        path: The file.
        zero_s: When the demo's time was 0, seconds since 1970.
    """
    with path.open("w", encoding="utf-8") as file:
        for write in writes:
            line = {
                "number": write.number,
                "writer": write.writer,
                "key": write.key,
                "value_begins": write.value[:_VALUE_SHOWN].decode("ascii", "replace"),
                "value_bytes": len(write.value),
                "started_s": round(write.started_s, 6),
                "ended_s": None if write.ended_s is None else round(write.ended_s, 6),
                "value_sha256": hashlib.sha256(write.value).hexdigest(),
                "started_ms": _unix_ms(write.started_s, zero_s),
                "ended_ms": None if write.ended_s is None else _unix_ms(write.ended_s, zero_s),
                "outcome": write.outcome,
                "offset": write.offset,
                "reason": write.reason,
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def keep_events(faults: Iterable[Fault], path: Path, zero_s: float) -> None:
    """Write down what was done to the quorum, for the pipeline's report."""
    events = [
        {
            "at_ms": round(_unix_ms(fault.at_s, zero_s)),
            "title": fault.title,
            "violent": fault.violent,
            "lost_replica": None if fault.lost is None else "-".join(map(str, fault.lost)),
        }
        for fault in faults
    ]
    path.write_text(json.dumps(events, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _unix_ms(at_s: float, zero_s: float) -> float:
    return round((zero_s + at_s) * 1000, 3)


def tail(path: Path, lines: int) -> str:
    """The last lines of a file, "" if there is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
