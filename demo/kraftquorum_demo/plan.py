"""How much the demo writes, how long it lingers, and after how long it gives up.

Every wait of the demo has its deadline here; none is a target. The targets are in
`report`: they are judged at the end, since a slow machine is no reason to stop.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Figures of one run.

    Attributes:
        zones: How many zone files to load; None: all.
        loaders: How many clients load them.
        writers: How many clients write all through, one write at a time each.
        writes_per_s: Of all writers together.
        value_bytes: Size of the values that writers make up.
        linger_s: Pause after a step, so that a person can follow and the picture shows rest.
        hang_s: How long a disk goes on hanging once writes are acknowledged again.
        write_timeout_ms: Deadline of one write.
        start_s: Until the CRD is served and the operator is up.
        formation_s: From apply until the quorum takes writes.
        load_s: For the zones.
        scale_s: For one scale step.
        fault_s: Until a change to break into has begun, or a broken node has stopped.
        redundancy_s: From a wiped disk to full redundancy.
        settle_s: Until all voters have everything at the end.
        read_s: For the read-back.
    """

    zones: int | None = None
    loaders: int = 6
    writers: int = 6
    writes_per_s: float = 120.0
    value_bytes: int = 300
    linger_s: float = 4.0
    hang_s: float = 4.0
    write_timeout_ms: int = 15_000
    start_s: float = 60.0
    formation_s: float = 90.0
    load_s: float = 120.0
    scale_s: float = 120.0
    fault_s: float = 60.0
    redundancy_s: float = 120.0
    settle_s: float = 60.0
    read_s: float = 120.0


FULL = Plan()
SHORT = Plan(zones=120, linger_s=0.5, hang_s=1.0, writes_per_s=80.0)
