"""Whether the nodes' settings keep their logs smaller than their volumes. Pure.

Judged by what the StatefulSet gives to the nodes, not by what is wanted: the pods run with that.
"""

from __future__ import annotations

from kraftquorum_operator.model.config import default_of
from kraftquorum_operator.model.quantity import size_bytes
from kraftquorum_operator.observe.snapshot import StatefulSet

_MIB = 1 << 20


def why_log_outgrows(statefulset: StatefulSet | None) -> tuple[str, str] | None:
    """Why the log may grow until its volume is full: a reason in one word, and a sentence.

    None: it cannot, or there is no StatefulSet yet.
    """
    if statefulset is None or not statefulset.claim_size:
        return None
    given = dict(statefulset.settings)

    def number(name: str) -> int:
        return int(given.get(name, str(default_of(name))))

    size, retention = statefulset.claim_size, number("log_retention_bytes")
    if retention < 0:
        why = (
            "log_retention_bytes is -1: the log is never trimmed, and when it has filled its "
            f"volume of {size} writes are refused; set spec.config.log_retention_bytes unless "
            "every record must stay"
        )
        return "RetentionOff", why
    parts = {
        "log_retention_bytes": retention,
        "segment_bytes": number("segment_bytes"),
        "max_record_bytes_between_snapshots": number("max_record_bytes_between_snapshots"),
        "twice disk_reserve_bytes": 2 * number("disk_reserve_bytes"),
    }
    needed = sum(parts.values())
    if needed < size_bytes(size):
        return None
    told = ", ".join(f"{name} {value // _MIB} MiB" for name, value in parts.items())
    why = (
        f"the log may grow until it needs {needed // _MIB} MiB with what must stay free ({told}), "
        f"and its volume has {size}; set a smaller spec.config.log_retention_bytes"
    )
    return "RetentionTooLarge", why
