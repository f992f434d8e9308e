"""operator.json: what a run of `make bench-operator` measured, and its schema."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kraftquorum_bench.report_file import ReportFile, Strict

VERSION = 1


class Share(Strict):
    """Requests to the API server, of one verb and resource."""

    verb: str
    resource: str
    """With `/subresource` if the request is about that."""
    per_quorum_minute: float = Field(ge=0)


class Latency(Strict):
    """From the loss of a disk until the operator's first action: a request to a node."""

    samples: int = Field(ge=1)
    p50_ms: int = Field(ge=0)
    p99_ms: int = Field(ge=0)


class Rest(Strict):
    """The operator while nothing happens; clients write to every quorum meanwhile."""

    seconds: float = Field(gt=0)
    requests_per_quorum_minute: float = Field(ge=0)
    """All requests of the operator's user in the API server's audit log, its Lease's too. A watch
    counts when it begins."""
    by_verb_and_resource: tuple[Share, ...]
    refused: int = Field(ge=0)
    """How many of them had an answer of 400 or more."""
    status_writes_per_quorum_minute: float = Field(ge=0)
    """Statuses that a watch of the resources brought."""
    node_requests_per_quorum_minute: float = Field(ge=0)
    """Requests to the nodes."""
    cpu_cores: float = Field(ge=0)
    """The operator's processor time through the time."""
    memory_mib: float = Field(ge=0)
    """The operator's memory in RAM at the end."""


class CaseResult(Strict):
    """A case, on an API server of its own."""

    quorums: int = Field(ge=1)
    namespaces: int = Field(ge=1)
    formed_s: float = Field(ge=0)
    """From the creation of the first resource until all are reported as running."""
    rest: Rest
    single_loss: Latency | None
    """One disk after the other, with all other quorums at rest."""
    losses_at_once: int = Field(ge=0)
    loss_at_once: Latency | None
    """So many disks at the same time, of as many quorums."""
    repaired_at_once_s: float = Field(ge=0)
    """From these losses until all of the replicas are replaced."""
    first_evaluation_of_all_s: float = Field(ge=0)
    """From the start of a new operator until the leader of each quorum has described it."""
    start_requests: int = Field(ge=0)
    """The new operator's requests to the API server until then."""
    lease_gap_max_s: float = Field(ge=0)
    """The longest time between two renewals of the Lease, in all parts."""
    memory_peak_mib: float = Field(ge=0)
    """The operator's largest memory in RAM, in all parts."""
    false_alarms: int = Field(ge=0)
    """Healthy quorums that were reported as not available, lost, failing or with a silent
    replica."""
    false_alarm_example: str = ""


class Note(Strict):
    """A case that failed, and why."""

    what: str
    why: str


class OperatorReport(Strict):
    """A run."""

    version: Literal[1] = VERSION
    size: Literal["quick", "whole", "full", "chosen"]
    made_at: str
    minutes: float
    machine: dict[str, str]
    cases: tuple[CaseResult, ...]
    failures: tuple[Note, ...] = ()


FILE = ReportFile(OperatorReport, "make bench-operator", VERSION)
