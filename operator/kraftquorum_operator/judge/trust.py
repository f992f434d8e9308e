"""Which voters count in a majority: those on copied or damaged storage do not. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import NewType

from kraftquorum_operator.judge.copies import copied_voters
from kraftquorum_operator.judge.disks import damaged_voters
from kraftquorum_operator.model.observation import Observation

Judged = NewType("Judged", Observation)
"""An observation in which such voters are marked; a decision takes nothing else."""


def judge(facts: Observation) -> Judged:
    """Mark the voters that count in no majority."""
    copied, damaged = copied_voters(facts), damaged_voters(facts)
    if facts.quorum is None or not (copied or damaged):
        return Judged(facts)
    voters = tuple(
        replace(voter, copied=voter.replica in copied, damaged=voter.replica in damaged)
        for voter in facts.quorum.voters
    )
    return Judged(replace(facts, quorum=replace(facts.quorum, voters=voters)))
