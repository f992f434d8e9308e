"""Rot that a running node finds by itself, and a disk without room, as Kubernetes sees them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.extended,
    pytest.mark.timeout(900),
]


def events(krq, reason: str) -> list[str]:
    return [e["message"] for e in krq.list("events") if e["reason"] == reason]


def flip(path: Path, byte: int) -> None:
    """Rot a bit of a file under the process that has it open."""
    with path.open("r+b") as file:
        file.seek(byte)
        found = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([found ^ 1]))


def follower(krq) -> int:
    return (krq.leader() + 1) % 3


def test_rot_that_a_scrub_finds_costs_the_replica_its_disk_and_nothing_else(
    krq, operators, writing
) -> None:
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    writing.start()
    ordinal = follower(krq)
    voters = dict(krq.voters())
    folder = krq.cluster.volume_dir(krq.namespace, f"data-demo-{ordinal}")
    segment = next(folder.rglob("*.log"))
    flip(segment, 100)
    volume = krq.get("pvc", f"data-demo-{ordinal}")["spec"]["volumeName"]
    # The first pass is made a minute after the start.
    krq.until("the damage is told", lambda: bool(events(krq, "StorageDamaged")))
    [told, *_] = events(krq, "StorageDamaged")
    assert f"pod demo-{ordinal}" in told
    assert volume in told
    assert segment.name in told
    krq.replaced(ordinal, voters[ordinal])
    krq.until("well", lambda: krq.condition("StorageDamaged")["status"] == "False")
    now = dict(krq.voters())
    assert {n: d for n, d in now.items() if n != ordinal} == {
        n: d for n, d in voters.items() if n != ordinal
    }
    assert [a for a in operators.actions() if "DeleteClaim" in a and "damaged" in a]
    writing.finish()


def test_a_disk_without_room_is_told_by_pod_and_volume_until_there_is_some(krq, operators) -> None:
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    ordinal = follower(krq)
    old = dict(krq.voters())[ordinal]
    folder = krq.cluster.volume_dir(krq.namespace, f"data-demo-{ordinal}")
    small = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)]
    if subprocess.run(small, check=False, capture_output=True).returncode:
        pytest.skip("may not mount")
    try:
        # For the node its disk is another one now, an empty one with less than the reserve.
        krq.replaced(ordinal, old)
        krq.until("low", lambda: krq.condition("DiskLow")["status"] == "True")
        message = krq.condition("DiskLow")["message"]
        volume = krq.get("pvc", f"data-demo-{ordinal}")["spec"]["volumeName"]
        assert f"pod demo-{ordinal}, claim data-demo-{ordinal}, volume {volume}" in message
        assert "of 40 MiB are free" in message
        krq.until("an event", lambda: bool(events(krq, "DiskLow")))
        krq.available()
        voters = krq.voters()
        more = ["mount", "-o", "remount,size=400m", str(folder)]
        subprocess.run(more, check=True, capture_output=True)
        krq.until("room again", lambda: krq.condition("DiskLow")["status"] == "False")
        assert krq.voters() == voters, "a disk without room is not replaced"
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
