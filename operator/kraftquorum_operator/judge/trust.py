"""Which voters count in a majority: those on copied or damaged storage do not. Pure."""

from __future__ import annotations

from typing import NewType

from kraftquorum_operator.judge.copies import distrust
from kraftquorum_operator.judge.disks import distrust_damaged
from kraftquorum_operator.model.snapshot import Snapshot

Judged = NewType("Judged", Snapshot)
"""An observation in which such voters are marked; a decision takes nothing else."""


def judge(facts: Snapshot) -> Judged:
    """Mark the voters that count in no majority."""
    return Judged(distrust_damaged(distrust(facts)))
