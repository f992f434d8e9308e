"""A report as a run makes it."""

import pytest

from kraftquorum_bench.loads import Sample
from kraftquorum_bench.report import Raw, Report, result_of
from kraftquorum_bench.workloads import all_workloads

MACHINE = {
    "kernel": "Linux 6.1 x86_64",
    "cores": "2",
    "memory": "8192 MiB",
    "load": "0.10",
    "file system": "ext4",
    "python": "3.11.9",
}


def report_of(figures, **more):
    """A report of workloads, from the rounds of ours and of the peer by name."""
    rows = {row.name: row for row in all_workloads()}
    workloads = {}
    for name, (ours, peer) in figures.items():
        row = rows[name]
        mine = [
            Sample(figures={"leader_us": 40.0, "per_s": value, row.figure: value}) for value in ours
        ]
        others = [Sample(figures={row.figure: value}) for value in peer]
        workloads[name] = result_of(row, mine, others, "etcd 3.6.8")
    return Report(
        **{
            "size": "whole",
            "made_at": "2026-01-02 03:04",
            "minutes": 41.5,
            "machine": MACHINE,
            "raw": Raw(
                fdatasync_p50_ms=0.2,
                fdatasync_p99_ms=0.9,
                round_trip_us=12,
                calibration_mib_per_s=1500,
            ),
            "settings": {"etcd": "default settings"},
            "workloads": workloads,
        }
        | more
    )


@pytest.fixture
def make_report():
    return report_of


@pytest.fixture
def report():
    return report_of(
        {
            "put_64": ([300.0, 100.0, 200.0], [100.0, 100.0, 50.0]),
            "put_1": ([0.8, 0.9, 1.0], [1.0, 1.0, 1.0]),
            "memory": ([60.0], []),
        },
        left_out=({"what": "kafka", "why": "no Java | here"},),
    )
