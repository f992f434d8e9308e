"""Whether the nodes' settings keep their logs smaller than their volumes. Pure.

Depends on the settings in the StatefulSet, not on the wanted ones: the pods run with the former.
"""

from __future__ import annotations

from kraftquorum_operator.judge.volume_growth import smallest_size
from kraftquorum_operator.model.config import default_of
from kraftquorum_operator.model.observation import Observation
from kraftquorum_operator.model.quantity import size_bytes

_MIB = 1 << 20


def why_log_outgrows(observation: Observation) -> tuple[str, str] | None:
    """Why the log may grow until its volume is full, as a condition's reason and message.

    None: it cannot, or there is no StatefulSet yet.
    """
    statefulset = observation.statefulset
    if statefulset is None or not statefulset.claim_size:
        return None
    size = smallest_size(observation, statefulset.claim_size)
    given = dict(statefulset.settings)

    def number(name: str) -> int:
        return int(given.get(name, str(default_of(name))))

    retention = number("log_retention_bytes")
    if retention < 0:
        why = (
            "log_retention_bytes is -1: the nodes never trim the log, and refuse writes when it "
            f"has filled its volume of {size}; set spec.config.log_retention_bytes unless every "
            "record must stay"
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
    listed = ", ".join(f"{name} {value // _MIB} MiB" for name, value in parts.items())
    why = (
        f"the log and the space that must stay free may need {needed // _MIB} MiB ({listed}), but "
        f"the volume has {size}; set a smaller spec.config.log_retention_bytes"
    )
    return "RetentionTooLarge", why
